"""Universal Transformer on bAbI 1 to 3, against Transformers of equal parameters and of equal compute.

    python -m benchmarks.reproductions.universal_transformer_babi --data=tasks_1-20_v1-2/en-10k

One network learns the three tasks jointly. A task whose training file is missing from the folder is not an error for
task 3 alone: `moved_things` then makes its stories. An interrupted run goes on where it stopped (`--work`). With `--jobs` networks
are trained side by side, in processes of their own.
"""

import argparse
import dataclasses
import json
import os

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import table
from benchmarks.reproductions import pages
from benchmarks.reproductions.babi_questions import DEV, SENTENCES, TASKS, WORDS, Data, read
from benchmarks.reproductions.commands import side_by_side
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import buckets
from data_pipelines.corpora.babi import StoryQuestion
from xmodels.models.folder import model_class
from xmodels.runs.folder import write_backbone
from xmodels.tasks.answer_story.task import AnswerStory
from xmodels.tasks.base.run import write_task
from xmodels.training.devices import distribution
from xmodels.training.loop import Loop
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

NAME = "universal_transformer_babi"
KEEP = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")
LOOKED_AT = 200  # held-out questions of each task that draw the curves
STEPS, MAX_STEPS = 4, 6
BUCKETS = "8,12,16,20,24,28,32,40,48,64,96"


@dataclasses.dataclass(frozen=True)
class Case:
    """A network to compare."""

    title: str
    model: str
    numbers: dict
    ponder_weight: float = 0.0


# Halting as in tensor2tensor.
ADAPTIVE = {"num_layers": STEPS, "max_steps": MAX_STEPS, "force_halt": False, "freeze_halted": False}
CASES = {
    "universal": Case(f"Universal Transformer, {STEPS} steps", "story_universal_transformer", {"num_layers": STEPS}),
    "adaptive": Case(
        f"Universal Transformer, adaptive, at most {MAX_STEPS} steps, ponder weight 0.01",
        "story_adaptive_universal_transformer", ADAPTIVE, 0.01,
    ),
    "frugal": Case(
        f"Universal Transformer, adaptive, at most {MAX_STEPS} steps, ponder weight 0.05",
        "story_adaptive_universal_transformer", ADAPTIVE, 0.05,
    ),
    "shallow": Case("Transformer, 1 layer (equal parameters)", "story_transformer", {"num_layers": 1}),
    "deep": Case(f"Transformer, {STEPS} layers (equal compute)", "story_transformer", {"num_layers": STEPS}),
}  # fmt: skip


def main() -> None:
    options = flags().parse_args()
    if options.jobs > 1:
        train_side_by_side(options)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    data = read(options.data, options.questions, options.questions_3)
    found: dict[str, list[dict]] = {}
    for seed in options.seeds:
        for name in options.networks.split(","):
            found.setdefault(name, []).append(trained(name, seed, options, data))
            print(f"{CASES[name].title}, seed {seed}: {json.dumps(found[name][-1]['scores'])}", flush=True)
    if set(found) == set(CASES):
        write(options, data, found)


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of bAbI with files qaN_*_train.txt and qaN_*_test.txt")
    parser.add_argument("--work", default="build/universal_transformer_babi", help="folder of the runs")
    parser.add_argument("--networks", default=",".join(CASES))
    parser.add_argument("--questions", type=int, default=10_000, help="of each task for training and choice")
    parser.add_argument("--questions_3", type=int, default=2_500, help="of task 3, which is dear and is hardly learnt")
    parser.add_argument("--hidden_dim", type=int, default=64)
    parser.add_argument("--num_steps", type=int, default=4_000, help="updates of each network")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--halting_bias", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of weights and batches")
    parser.add_argument("--jobs", type=int, default=1, help="networks that are trained side by side, a core for each")
    parser.add_argument("--results", default=pages.RESULTS)
    return parser


def train_side_by_side(options) -> None:
    """Each network and seed in a process of its own, which leaves what it has found in its folder. Raises where one fails."""
    parts = [(name, seed) for seed in options.seeds for name in options.networks.split(",")]
    given = [f"--{n}={v}" for n, v in vars(options).items() if n not in ("networks", "seeds", "jobs")]

    side_by_side(NAME, [[*given, f"--networks={name}", f"--seeds={seed}"] for name, seed in parts], options.jobs)


# --- training


def trained(name: str, seed: int, options, data: Data) -> dict:
    """Trains a network, or reads what an earlier run has found."""
    folder = os.path.join(options.work, f"{name}_{seed}")
    path = os.path.join(folder, "found.json")
    if not os.path.isfile(path):
        os.makedirs(folder, exist_ok=True)
        learner, batches = make(name, seed, options, data)
        train(learner, batches, folder, seed, options, data)
        hand_over(learner, folder, data)
        scores = {task: score(learner, data, questions, batches) for task, questions in data.test.items()}
        found = {"scores": scores, "parameters": learner.backbone.count_params(), "curve": curve(folder)}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def hand_over(learner: Learner, folder: str, data: Data) -> None:
    """Makes the folder one that `xmodels evaluate` and `predict` can ask."""
    write_backbone(folder, learner.backbone, learner.objective, data.encoder.tokenizer)
    write_task(folder, learner.objective, 2, SENTENCES + 1)


def make(name: str, seed: int, options, data: Data) -> tuple[Learner, Batches]:
    case, strategy = CASES[name], distribution.choose("one_device")
    network, width = model_class(case.model), options.hidden_dim
    numbers = dict(case.numbers, halting_bias=options.halting_bias) if case.ponder_weight else case.numbers
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        config = network.config_class(
            vocabulary_size=len(data.encoder.tokenizer.vocabulary), hidden_dim=width, num_heads=4,
            intermediate_dim=4 * width, max_sequence_length=SENTENCES + 1, max_sentence_length=WORDS, dropout=0.1,
            attention_dropout=0.0, **numbers,
        )  # fmt: skip
        backbone = network(config).initialize()
        task, source = AnswerStory(config, data.labels, case.ponder_weight), data.source(data.train)
        lengths = source.arrays["padding_mask"].sum(axis=1)
        grouping = buckets(BUCKETS, lengths, int(lengths.max()))
        batches = Batches(source, task.transform(), options.batch_size, seed, KEEP, grouping)
        numbers = Optimization(
            num_steps=options.num_steps, learning_rate=options.learning_rate, num_warmup_steps=200, optimizer="adam"
        )
        learner = Learner(strategy, backbone, single(task, batches), numbers.make_optimizer(), seed=seed)
    return learner, batches


def train(learner: Learner, batches: Batches, folder: str, seed: int, options, data: Data) -> None:
    looked_at = {task: questions[:LOOKED_AT] for task, questions in data.dev.items()}

    def evaluate():
        scores = {task: score(learner, data, questions, batches) for task, questions in looked_at.items()}
        return {f"{task} {n}": value for task, found in scores.items() for n, value in found.items()}

    saved = checkpoints.complete(os.path.join(folder, "checkpoints"))
    state = checkpoints.restore(saved[-1], learner) if saved else checkpoints.State(0, seed)
    every = max(1, options.num_steps // 20)
    Loop(
        learner, folder, options.num_steps, seed, save_every=2 * every, log_every=every,
        evaluate_every=every, evaluate=evaluate,
    ).run(state)  # fmt: skip


def curve(folder: str) -> list[dict]:
    """Step and scores of each evaluation of a run."""
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line.get("kind") == "evaluation"]


def score(learner: Learner, data: Data, questions: list[StoryQuestion], batches: Batches) -> dict[str, float]:
    """The error in percent, and of a network that ponders the mean and deviation of its steps at the facts that answers follow
    from, and the mean over all sentences and questions."""
    wrong, at_facts, all_times = [], [], []
    asked = iter(questions)
    for batch in dataclasses.replace(batches, source=data.source(questions), batch_size=100, grouping=None).once():
        outputs = answers(learner, batch)
        counted = batch["example_weights"].numpy() > 0
        wrong.extend((outputs["labels"] != batch["labels"]).numpy()[counted])
        if "ponder_times" in outputs:
            times, real = outputs["ponder_times"].numpy()[counted], batch["padding_mask"].numpy()[counted]
            all_times.extend(times[real])
            for row, question in zip(times, asked, strict=False):  # batches come in the order of the questions
                at_facts.extend(row[fact_places(question)])
    found = {"error": 100 * float(np.mean(wrong))}
    if all_times:
        found["all"] = float(np.mean(all_times))
    if at_facts:  # made-up stories do not name their facts
        found |= {"steps": float(np.mean(at_facts)), "deviation": float(np.std(at_facts))}
    return found


def fact_places(question: StoryQuestion) -> list[int]:
    """Where the facts stand among the sentences that the network reads: the last ones of a long story."""
    left_out = max(0, len(question.sentences) - SENTENCES)
    return [fact - left_out for fact in question.facts if fact >= left_out]


_GRAPHS: dict[int, object] = {}


def answers(learner: Learner, batch) -> dict:
    def call(batch):
        outputs = learner.objective.forward(learner.backbone, batch, training=False)
        labels = tf.cast(tf.argmax(outputs["logits"], axis=-1), batch["labels"].dtype)
        return {"labels": labels} | ({"ponder_times": outputs["ponder_times"]} if "ponder_times" in outputs else {})

    graph = _GRAPHS.setdefault(id(learner), tf.function(call, reduce_retracing=True))
    return graph(batch)


# --- the page


def mean_of(runs: list[dict], task: str, score: str) -> float:
    """Over seeds."""
    return float(np.mean([each["scores"][task][score] for each in runs]))


def write(options, data: Data, found: dict[str, list[dict]]) -> None:
    steps = {name: {task: mean_of(found[name], task, "steps") for task in data.test} for name in ("adaptive", "frugal")}
    error = {name: {task: mean_of(found[name], task, "error") for task in data.test} for name in CASES}
    claims = {
        "the Universal Transformer errs less than half as often on task 2 as the Transformer of equal parameters": (
            2 * error["universal"]["qa2"] < error["shallow"]["qa2"]
        ),
        "it is at least as good as the Transformer of equal compute, over the three tasks together": (
            sum(error["universal"].values()) <= sum(error["deep"].values())
        ),
        "it fails no task: errors of 5 % or less": max(error["universal"].values()) <= 5,
        "adaptive computation keeps the mean error within 2 points of the fixed number of steps or below it": (
            sum(error["adaptive"].values()) <= sum(error["universal"].values()) + 6
        ),
        "the mean ponder time of a fact grows with the number of supporting facts, at one of the two ponder weights": any(
            each["qa1"] < each["qa2"] < each["qa3"] for each in steps.values()
        ),
    }
    rows = [
        [
            CASES[name].title,
            f"{found[name][0]['parameters']:,}",
            *(pages.mean_and_deviation([e["scores"][task]["error"] for e in found[name]]) for task in data.test),
        ]
        for name in CASES
    ]
    pondered = [
        [
            CASES[name].title,
            *(
                "{:.2f} ± {:.2f} ({:.2f})".format(*(mean_of(found[name], t, n) for n in ("steps", "deviation", "all")))
                for t in data.test
            ),
        ]
        for name in steps
    ]
    pages.write_page(
        NAME,
        "Universal Transformer on bAbI 1, 2 and 3",
        [
            pages.verdict(claims),
            "Test error in percent, mean and standard deviation over seeds; 1,000 questions of each task. One network learns all "
            "three tasks.",
            table(["network", "parameters", *data.test], rows),
            "Ponder time: steps at the sentences that the answer follows from, in the test data, mean and standard deviation over "
            "all of them, averaged over seeds; in brackets the mean over all sentences and questions.",
            table(
                ["network", *data.test],
                [*pondered, ["paper, all tasks of as many facts", "2.3 ± 0.8", "3.1 ± 1.1", "3.8 ± 2.2"]],
            ),
            f"![curves]({NAME}.png)",
            about(options, data),
            pages.environment(command(options), options.seeds),
        ],
        options.results,
    )
    pages.write_picture(NAME, lambda figure: draw(figure, found), 10.0, 3.2, options.results)


def about(options, data: Data) -> str:
    made_up = (
        " Its folder had no training file of task 3, so its training stories were made up by "
        "`benchmarks/reproductions/moved_things.py` in the manner of the task and about as long; the test stories are bAbI's own. "
        "So errors on task 3 are not comparable with published ones."
    )
    return (
        f"{options.questions:,} training questions of each task, of task 3 {options.questions_3:,}, of which one in {DEV} is "
        "held out for the curves; the last weights are tested, nothing is chosen. Sentences are places, the question is the "
        f"last one; at most {SENTENCES} sentences. Width {options.hidden_dim}, 4 heads, {options.num_steps:,} updates of "
        f"{options.batch_size} questions, Adam with peak {options.learning_rate:g} after 200 steps, falling to 0; halting "
        f"bias {options.halting_bias:g}, halting as in tensor2tensor, whose ponder weight is 0.01."
        + (made_up if data.made_up else "")
    )


def command(options) -> str:
    given = vars(flags().parse_args(["--data=FOLDER"]))
    changed = [
        f"--{n}={v}"
        for n, v in vars(options).items()
        if v != given[n] and n not in ("data", "work", "results", "seeds", "jobs")
    ]
    return " ".join([f"python -m benchmarks.reproductions.{NAME} --data=FOLDER", *changed])


def draw(figure, found: dict) -> None:
    axes = figure.subplots(1, 3)
    for axis, task in zip(axes, ("qa2", "qa3"), strict=False):
        for name, case in CASES.items():
            points = [(line["step"], line[f"{task} error"]) for line in found[name][0]["curve"]]
            axis.plot(
                *zip(*points, strict=True),
                label=case.title.replace("Universal Transformer", "UT").replace(", at most", ","),
            )
        axis.set(title=f"{task}: error on held-out questions, %", xlabel="updates", ylim=(0, 90))
    axes[1].legend(loc="lower center", fontsize=7)
    for place, name in enumerate(("adaptive", "frugal")):
        means, deviations = (
            [mean_of(found[name], task, part) for task in found[name][0]["scores"]] for part in ("steps", "deviation")
        )
        places, label = [i + 0.4 * place for i in range(len(means))], f"ponder weight {CASES[name].ponder_weight:g}"
        axes[2].bar(places, means, 0.35, yerr=deviations, capsize=4, label=label)
    axes[2].set_xticks([i + 0.2 for i in range(len(TASKS))], [f"qa{task}" for task in TASKS])
    axes[2].set(title="adaptive: steps of a fact")
    axes[2].legend(fontsize=7)


if __name__ == "__main__":
    main()
