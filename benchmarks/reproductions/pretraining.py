"""Does pretraining help a small BERT, BERT-wwm and GPT, and how many labels is it worth? (Devlin et al., 2018; Cui et al.,
2019; Radford et al., 2018)

    python -m benchmarks.reproductions.pretraining --language=zh --text=web.txt --work_dir=work \\
        --task=reviews:label:text_a=train.tsv,dev.tsv,test.tsv --task=moods:label:text_a=train2.tsv,dev2.tsv,test2.tsv

A task is NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN[,DEV,TEST]; of one file alone, development and test rows are drawn. What is
pretrained on is `--text`, whose documents are parted by blank lines, and the training texts of the tasks without their labels. All
of it is a plan of `xmodels compare`, which this command writes: each network is pretrained on equally many tokens and
fine-tuned on so many rows as `--rows` names, from there and from random weights, with rates that the development file chooses for
each. A second plan compares two lengths in one run with one length. Then the pretrained networks of Chinese fill gaps of
held-out text: whole words and single characters. Interrupted, the same command goes on.
"""

import argparse
import glob
import json
import os
import random
import shlex
import sys

import yaml

from benchmarks.reproductions import cloze
from benchmarks.reproductions.common import (
    environment,
    mean_and_deviation,
    run,
    table,
    verdict,
    write_page,
    write_picture,
)
from data_pipelines.corpora.tables import Columns, Row, read_table
from data_pipelines.corpora.text_files import open_text

VOCABULARY = {"en": 4000, "zh": 4000}
DEV, TEST, HELD_OUT = 600, 2000, 0.04  # rows, and the share of the documents
EPOCHS = {100: 30, 1000: 10, 5000: 4}  # of fine-tunings: rows -> times
WORDS = {"do_whole_word_mask": True}
SYSTEMS = {
    "en": {
        "bert": {},
        "gpt": {"finetune": {"auxiliary_lm_weight": 0.0}},
        "gpt_lm": {"system": "gpt", "finetune": {"auxiliary_lm_weight": 0.5}},
    },
    "zh": {"bert": {}, "bert_wwm": {}},
}
RANDOM = {"en": ["bert", "gpt"], "zh": ["bert"]}
TITLES = {
    "en": "BERT and GPT: pretraining against random weights, English",
    "zh": "BERT and BERT-wwm: pretraining against random weights, Chinese",
}
GAIN = 0.02  # two points: what counts as a difference


def main() -> None:
    flags = parse(sys.argv[1:])
    os.makedirs(flags.work_dir, exist_ok=True)
    tasks = prepare(flags)
    plan = plan_of(flags, tasks)
    lengths = {**plan, "name": "Two lengths against one", "baselines": {"majority": True, "bag_of_words": True}}
    lengths["systems"] = {"bert": {}, "one_length": {"system": "bert", "flags": {"length_schedule": "none"}}}
    lengths["tasks"] = dict(list(plan["tasks"].items())[:1])
    found = [compare(flags, name, each) for name, each in (("plan", plan), ("lengths", lengths))]
    cloze_arms = plan["systems"] if flags.language == "zh" else ()
    gaps = {name: cloze.score(pretrained(flags, name), path(flags, "heldout.jsonl")) for name in cloze_arms}
    report(flags, *found, gaps)


def parse(arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--language", choices=tuple(SYSTEMS), required=True)
    parser.add_argument("--text", required=True, help="files, parted by commas")
    parser.add_argument("--task", action="append", required=True, help="NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN[,DEV,TEST]")
    parser.add_argument("--work_dir", required=True)
    parser.add_argument(
        "--paragraphs", type=int, default=1, help="of --text that are one document, parted by blank lines"
    )
    parser.add_argument("--rows", type=numbers, default=list(EPOCHS), help="sizes of the labelled sets")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--million_tokens", type=float, default=8, help="of each pretraining")
    parser.add_argument("--epochs", type=numbers, help="of fine-tuning, one for each of --rows")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def path(flags, name: str) -> str:
    return os.path.join(flags.work_dir, name)


def prepare(flags) -> dict[str, dict]:
    """Writes corpus and tables, once; a task of the plan for each task and number of rows."""
    texts, tasks = [], {}
    for spec in flags.task:
        name, label, column, files = split_spec(spec)
        parts = parted([read_table(file, Columns(column, None, label), bad_rows=[]) for file in files])
        texts += [row.texts[0] for row in parts["train"]]
        held = {part: write_table(flags, f"{name}-{part}", parts[part]) for part in ("dev", "test")}
        for place, size in enumerate(flags.rows):
            rows = parts["train"][:size]
            epochs = (flags.epochs or [EPOCHS.get(each, 5) for each in flags.rows])[place]
            tasks[f"{name}-{size}"] = {
                "train": write_table(flags, f"{name}-{size}", rows), **held, "flags": {"num_train_epochs": epochs},
            }  # fmt: skip
    for file in flags.text.split(","):
        with open_text(file) as lines:
            paragraphs = [part for part in "".join(lines).split("\n\n") if part.strip()]
        starts = range(0, len(paragraphs), flags.paragraphs)
        texts += ["\n".join(paragraphs[start : start + flags.paragraphs]) for start in starts]
    random.Random(0).shuffle(texts)
    held_out = round(HELD_OUT * len(texts))
    for name, part in (("heldout", texts[:held_out]), ("train", texts[held_out:])):
        write_once(path(flags, f"{name}.jsonl"), [json.dumps({"text": text}, ensure_ascii=False) for text in part])
    return tasks


def split_spec(spec: str) -> tuple[str, str, str, list[str]]:
    head, found, files = spec.partition("=")
    names, files = head.split(":"), files.split(",")
    if not found or len(names) != 3 or len(files) not in (1, 3):
        raise SystemExit(f"--task={spec}: expected NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN or …=TRAIN,DEV,TEST.")
    return *names, files


def parted(files: list[list[Row]]) -> dict[str, list[Row]]:
    """Rows by part, in a drawn order; what stands in the test or development rows is not trained on, and nothing stands twice."""
    for rows in files:
        random.Random(0).shuffle(rows)
    if len(files) == 1:
        rows = files[0]
        files = [rows[DEV + TEST :], rows[:DEV], rows[DEV : DEV + TEST]]
    train, dev, test = files
    known, unseen = {row.texts for row in dev + test}, []
    for row in train:
        if row.texts not in known:
            known.add(row.texts)
            unseen.append(row)
    return {"train": unseen, "dev": dev[:DEV], "test": test[:TEST]}


def write_table(flags, name: str, rows: list[Row]) -> str:
    file = path(flags, f"{name}.jsonl")
    write_once(file, [json.dumps({"label": r.label, "text": r.texts[0]}, ensure_ascii=False) for r in rows])
    return file


def write_once(file: str, lines: list[str]) -> None:
    """Leaves a file alone that holds the same already, since its time is part of what `compare` knows."""
    text = "\n".join(lines) + "\n"
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as stream:
            if stream.read() == text:
                return
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)


def plan_of(flags, tasks: dict) -> dict:
    return {
        "name": TITLES[flags.language], "language": flags.language, "budget": {"tokens": int(flags.million_tokens * 1e6)},
        "corpus": {name: path(flags, f"{name}.jsonl") for name in ("train", "heldout")}
        | {"flags": {"input_format": "jsonl"}},
        "vocabulary": {"size": VOCABULARY[flags.language]},
        "records": {**WORDS, **({"segmenter": "jieba"} if flags.language == "zh" else {})},
        "pretraining": {"max_seq_length": 128, "train_batch_size": 32, "flags": {"recipe": "small"}},
        "systems": SYSTEMS[flags.language],
        "baselines": {"random": RANDOM[flags.language]},
        "finetuning": {
            "seeds": flags.seeds, "tune": {"learning_rate": [3e-4, 1e-3]},
            "flags": {"train_batch_size": 32, "max_seq_length": 64, "pooling": "mean", "length_buckets": "auto"},
        },
        "tasks": tasks,
    }  # fmt: skip


def compare(flags, name: str, plan: dict) -> dict:
    """Runs a plan in the common folder, where what the other one made is used. Returns its numbers."""
    file, folder = path(flags, f"{name}.yaml"), path(flags, "comparison")
    write_once(file, [yaml.safe_dump(plan, allow_unicode=True, sort_keys=False)])
    run("compare", plan=file, output_dir=folder, jobs=flags.jobs)
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as stream:
        return json.load(stream)


def pretrained(flags, arm: str) -> str:
    """The folder of a pretraining that is done."""
    (mark,) = glob.glob(path(flags, f"comparison/done/pretrain-pretrain-{arm}-????????.json"))
    return path(flags, f"comparison/pretrain/{os.path.basename(mark)[len('pretrain-') : -len('.json')]}")


def report(flags, found: dict, lengths: dict, gaps: dict[str, dict]) -> None:
    """The page and the picture."""
    name = f"pretraining_{flags.language}"
    parts = [
        f"Networks of 2 layers of 128, pretrained on {flags.million_tokens:g} million tokens each, of {corpus(flags)}. Fine-tuning in "
        f"{len(flags.seeds)} seeds, each the epoch that is best on the development file, at the rate of 3e-4 and 1e-3 that is best "
        "there for the arm and the task. Random weights get the same. The test file is read once. Counting names hidden tokens by "
        "their neighbours in the training text.",
        verdict(claims(flags, found, lengths, gaps)),
        "## Tasks\n\nAccuracy on the test file in %, mean and standard deviation over seeds. The name of a task ends with its number "
        "of labelled rows.",
        accuracies(found),
        "## Own objectives, on held-out text",
        objectives(found),
        "## Rows of 32 tokens and then of 128, against rows of 128 alone, at equally many tokens",
        objectives(lengths) + "\n\n" + accuracies(lengths),
    ]
    if gaps:
        parts += [
            "## Gaps in held-out text\n\nOne word of two to four characters is hidden, or one character of it. Right, in %:",
            table(["", *KINDS], [[arm, *(f"{100 * each[kind]:.1f}" for kind in KINDS)] for arm, each in gaps.items()]),
            f"{next(iter(gaps.values()))['gaps']:,} words, the same for both.",
        ]
    parts += [f"![Test accuracy by labelled rows]({name}.png)", environment(command(flags), flags.seeds, flags.jobs)]
    print(write_page(name, TITLES[flags.language], parts))
    print(write_picture(name, lambda figure: draw(figure, flags, found), width=4.5 * len(flags.task)))


KINDS = ("whole words", "characters of whole words", "single characters")


def claims(flags, found: dict, lengths: dict, gaps: dict) -> dict[str, bool]:
    """What the papers say -> whether it came out here."""
    mean = {
        (arm, task): sum(score["test_accuracy"]) / len(score["test_accuracy"])
        for task, scores in found["scores"].items()
        for arm, score in scores.items()
    }
    tasks = list(found["scores"])
    counted = {
        arm: each["accuracies"][0] > each["baselines"]["neighbour_baseline"]
        for arm, each in found["objectives"].items()
    }
    answers = {}
    for arm in RANDOM[flags.language]:
        answers[
            f"{arm}: pretrained is better than random weights by more than two points, on every task and number of rows"
        ] = all(mean[arm, task] > mean[f"random-{arm}", task] + GAIN for task in tasks)
        answers[f"{arm}: pretrained is better than a bag of words on every task and number of rows"] = all(
            mean[arm, task] > mean["bag_of_words", task] for task in tasks
        )
        answers[f"{arm}: names more tokens of held-out text than counting the neighbours does"] = counted[arm]
    if flags.language == "en":
        largest = [task for task in tasks if task.endswith(f"-{max(flags.rows)}")]
        answers["gpt: language modelling beside the task makes less than two points of difference with most rows"] = (
            all(abs(mean["gpt", task] - mean["gpt_lm", task]) < GAIN for task in largest)
        )
    else:
        answers["hiding whole words names more hidden whole words of held-out text than hiding characters"] = (
            gaps["bert_wwm"]["whole words"] > gaps["bert"]["whole words"]
        )
        answers["hiding whole words is as good or better in the tasks, on average over them"] = (
            sum(mean["bert_wwm", task] - mean["bert", task] for task in tasks) >= 0
        )
    own = lengths["objectives"]
    answers["short rows first, then long ones: a smaller loss at full length than with long rows alone"] = (
        own["bert"]["losses"][0] < own["one_length"]["losses"][0]
    )
    return answers


def accuracies(found: dict) -> str:
    tasks = list(found["scores"])
    arms = list(dict.fromkeys(arm for scores in found["scores"].values() for arm in scores))
    rows = [
        [arm, *(mean_and_deviation(found["scores"][task][arm]["test_accuracy"], scale=100) for task in tasks)]
        for arm in arms
    ]
    return table(["", *tasks], rows)


def objectives(found: dict) -> str:
    rows = []
    for arm, each in found["objectives"].items():
        base, cost = each["baselines"], found["costs"][arm]
        rows.append([
            arm, f"{each['losses'][0]:.2f}", f"{100 * each['accuracies'][0]:.1f}", f"{100 * base['neighbour_baseline']:.1f}",
            f"{100 * base['unigram_baseline']:.1f}", f"{cost['num_steps']:,}",
            f"{cost['num_steps'] * cost['step']['processor_seconds'] / 60:.1f}",
        ])  # fmt: skip
    head = [
        "",
        "loss, nats",
        "tokens right, %",
        "counting neighbours, %",
        "commonest token, %",
        "steps",
        "processor minutes",
    ]
    return table(head, rows)


def corpus(flags) -> str:
    characters = os.path.getsize(path(flags, "train.jsonl"))
    return f"{characters / 1e6:.1f} MB of text, that of the training rows without labels among it"


def command(flags) -> str:
    """The command without the places of the files."""
    tasks = []
    for spec in flags.task:
        *names, files = split_spec(spec)
        tasks.append(f"--task={':'.join(names)}={','.join(map(os.path.basename, files))}")
    text = ",".join(map(os.path.basename, flags.text.split(",")))
    numbers = [f"--{name}={','.join(map(str, getattr(flags, name)))}" for name in ("rows", "seeds")]
    return shlex.join([
        "python", "-m", "benchmarks.reproductions.pretraining", f"--language={flags.language}", f"--text={text}",
        f"--paragraphs={flags.paragraphs}",
        "--work_dir=work", *tasks, *numbers, f"--million_tokens={flags.million_tokens:g}",
    ])  # fmt: skip


def draw(figure, flags, found: dict) -> None:
    names = [split_spec(spec)[0] for spec in flags.task]
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    arms = list(dict.fromkeys(arm for scores in found["scores"].values() for arm in scores))
    for panel, name in zip(axes, names, strict=True):
        for arm in arms:
            values = [found["scores"][f"{name}-{size}"][arm]["test_accuracy"] for size in flags.rows]
            means = [100 * sum(each) / len(each) for each in values]
            dashed = "--" if arm in ("majority", "bag_of_words") or "random" in arm else "-"
            panel.plot(flags.rows, means, dashed, marker="o", markersize=3, label=arm, linewidth=1.2)
        panel.set_xscale("log")
        panel.set_xticks(flags.rows, [f"{size:,}" for size in flags.rows])
        panel.set(title=f"{name}: test accuracy, %", xlabel="labelled rows")
    axes[0].legend(frameon=False, fontsize=7)


if __name__ == "__main__":
    main()
