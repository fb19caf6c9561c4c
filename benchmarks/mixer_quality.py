"""What each mixer costs in quality: one small network with every mixer, trained for equal processor time on three tasks.

    python -m benchmarks.mixer_quality --folder=work --texts='books/*.txt' --output=benchmarks/results/mixer_quality.md

1. `bytes`: a language model of bytes over 2,048 of them (causal mixers): bits a byte of held-out text.
2. `copy`: 8 letters, each a token of its place and letter, 1,088 blanks, 32 places in any order, each followed by its letter (causal
   mixers): letters that are right, more than 1,088 tokens away. Three quarters of the time go to texts with 32 blanks, since from far
   away alone nothing is learnt in that time: full attention stood at chance after 280 steps.
3. `books`: from which file a passage of 2,048 words is (two-sided mixers), of which the 4,000 commonest are told apart: accuracy on
   the last parts of the same files. Its head reads mean and maximum of the states.

Each run is a process of its own on one core: 2 layers of 128 with 2 heads (of 64 in `copy`), AdamW at a constant rate after 10 steps
of warm-up, float32 without XLA. Its time counts from the third step. Of two rates each arm takes the one that is better on
development rows with the first seed. Arms that copy less than half of the letters by then are not trained with the other seeds.
Runs that are done in the folder are not repeated.
"""

import functools
import json
import os
import statistics
import time

import numpy as np

from benchmarks import efficient_attention, measure
from benchmarks.mixer_tasks import (
    BOOKS,
    BYTES,
    CHOICES,
    COPY,
    FIRST,
    NEAR_GAP,
    PARTS,
    VOCABULARY,
    WORDS,
    bag_of_words,
    texts_of,
)
from benchmarks.reproductions.commands import kept
from benchmarks.reproductions.pages import mean_and_deviation

NAME = "benchmarks.mixer_quality"
BATCH = {BYTES: 1, COPY: 2, BOOKS: 2}  # rows of a step
PHASES = {COPY: (("near", 0.75, 8), ("train", 0.25, BATCH[COPY]))}  # part, share of the time, rows of a step
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 128, "intermediate_dim": 512}
SIZES_OF_COPY = {"num_layers": 2, "num_heads": 2, "hidden_dim": 64, "intermediate_dim": 256}
SHARE = {BYTES: 1.0, COPY: 1.875, BOOKS: 1.5}  # of `--seconds`
RATES = {BYTES: ("5e-4", "2e-3"), COPY: ("7e-4", "1.4e-3"), BOOKS: ("5e-4", "2e-3")}
SEEDS = {BYTES: (1, 2, 3), COPY: (1, 2, 3), BOOKS: (1, 2)}
NEAR, WHOLE = {BYTES: 0.05, BOOKS: 4.0}, 90.0  # what the verdict takes for equal, and for a copy
HALF = 50.0  # percent of the letters; an arm that stays below it with both rates is not trained with further seeds
UNIT = {BYTES: "bits a byte", COPY: "letters right, %", BOOKS: "passages right, %"}


def names_for(task: str) -> list[str]:
    """Returns the mixers that the network of a task can have, full attention first."""
    from xmodels.layers import mixers

    wanted = {"padding"} if task == BOOKS else {"padding", "causal"}
    kinds = {name: mixers.find(name) for name in mixers.names()}
    names = [n for n, kind in kinds.items() if wanted <= kind.supports and kind.requires <= wanted]
    return sorted(names, key=lambda name: (name != "multi_head", name))


def network(task: str, mixer: str, length: int, num_labels: int = 0, sizes: dict = SIZES):
    """Returns the backbone and the objective."""
    from xmodels.interfaces.reading import Reading
    from xmodels.models.bert import Bert, BertConfig
    from xmodels.models.gpt2 import Gpt2, Gpt2Config
    from xmodels.objectives.causal_lm import CausalLM
    from xmodels.tasks.classify.task import Classify

    kind, vocabulary_size = (BertConfig, FIRST + 1 + WORDS) if task == BOOKS else (Gpt2Config, VOCABULARY)
    config = kind(
        vocabulary_size, **sizes, max_sequence_length=length, dropout=0.0, attention_dropout=0.0, mixer=mixer,
        mixer_numbers=efficient_attention.numbers_of(mixer, length),
    )  # fmt: skip
    if task == BOOKS:
        return Bert(config).initialize(), Classify(config, range(num_labels), Reading(pooling="mean+max"))
    return Gpt2(config).initialize(), CausalLM()


def learner_of(made, arrays: dict, batch: int, rate: float = 1e-3, seed: int = 0, jit_compile: bool = False):
    """Returns what trains the backbone and objective that `made` gives on arrays, and an iterator over their batches."""
    from xmodels.training.devices import distribution
    from xmodels.training.optimizers.optimization import Optimization
    from xmodels.training.step.learner import Learner
    from xmodels.training.step.streams import single

    strategy = distribution.choose("one_device")
    with strategy.scope():
        backbone, objective = made()
        batches = batches_of(arrays, batch, seed)
        numbers = Optimization(
            optimizer="adamw", learning_rate=rate, num_warmup_steps=10, num_steps=1_000_000, schedule="constant", weight_decay=0.01
        )  # fmt: skip
        learner = Learner(
            strategy, backbone, single(objective, batches), numbers.make_optimizer(), jit_compile=jit_compile
        )
    return learner, iterator_of(learner, batches)


def batches_of(arrays: dict, batch: int, seed: int):
    """Returns the batches of arrays."""
    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches

    return Batches(ArraySource(arrays, NAME), lambda features: features, batch, seed=seed)


def iterator_of(learner, batches):
    """Returns what the learner's steps read."""
    return iter(learner.strategy.distribute_datasets_from_function(lambda context: batches.training()))


def run(task: str, mixer: str, rate: float, seed: int, seconds: float, texts: list[bytes]) -> dict:
    """Returns the scores on development and test rows after so many processor seconds of training, and the steps in them."""
    import keras
    import tensorflow as tf

    from xmodels.training.devices import allocator

    allocator.keep_memory()
    keras.utils.set_random_seed(seed)
    parts = PARTS[task](texts)
    length = parts["train"]["token_ids"].shape[1]
    made = functools.partial(network, task, mixer, length, len(texts), SIZES_OF_COPY if task == COPY else SIZES)
    phases = PHASES.get(task, (("train", 1.0, BATCH[task]),))
    learner, iterator = learner_of(made, parts[phases[0][0]], phases[0][2], rate, seed)
    found: dict[str, float] = {"steps": 0}
    for part, share, batch in phases:
        if part != phases[0][0]:
            iterator = iterator_of(learner, batches_of(parts[part], batch, seed))
        steps, found["seconds_a_step"] = trained(learner, iterator, share * seconds)
        found["steps"] += steps
    for part in parts.keys() - {phase[0] for phase in phases}:
        rows = {**parts[part], "example_weights": np.ones(len(parts[part]["token_ids"]), "float32")}
        pieces = range(0, len(rows["token_ids"]), BATCH[task])
        scores = [
            learner.evaluate([{name: tf.constant(x[at : at + BATCH[task]]) for name, x in rows.items()}])
            for at in pieces
        ]
        sizes = [len(rows["token_ids"][at : at + BATCH[task]]) for at in pieces]
        found[part] = float(np.average([score_of(task, each) for each in scores], weights=sizes))
    return {**found, "memory": measure.peak_megabytes()}


def trained(learner, iterator, seconds: float) -> tuple[int, float]:
    """Takes steps for so many processor seconds after the first two, and returns how many, and the seconds of each."""
    import tensorflow as tf

    one, steps = tf.constant(1), 2
    for _ in range(steps):  # the first one traces
        learner.train(iterator, one)
    begun = time.process_time()
    while (spent := time.process_time() - begun) < seconds:
        learner.train(iterator, one)
        steps += 1
    return steps, spent / max(1, steps - 2)


def score_of(task: str, scores: dict[str, float]) -> float:
    """Returns the number of a task in the scores of a batch."""
    if task == BYTES:
        return scores["causal_lm"] / float(np.log(2))
    return 100 * scores["causal_lm_accuracy" if task == COPY else "accuracy"]


class Failed(Exception):
    """A run that ended with an error, which is made again another time."""


def arm(given, task: str, mixer: str) -> dict:
    """Returns the rate that was chosen and the runs of all seeds; or the error of the first run that failed."""

    def made(rate: str, seed: int, seconds: float) -> dict:
        flags = {"task": task, "mixer": mixer, "rate": rate, "seed": seed, "seconds": seconds, "texts": given.texts}

        def alone() -> dict:
            found = measure.alone(NAME, ["run", *(f"--{name}={value}" for name, value in flags.items())], limit=3600)
            if "error" in found:
                raise Failed(found["error"])
            return found

        return kept(os.path.join(given.folder, task, f"{mixer}-{rate}-{seed}-{seconds:g}.json"), alone)

    seconds, seeds = SHARE[task] * given.seconds, given.seeds or SEEDS[task]
    try:
        rates = given.rates or RATES[task]
        tried = {rate: made(rate, seeds[0], seconds)["dev"] for rate in rates}
        rate = (min if task == BYTES else max)(tried, key=tried.__getitem__)
        seeds = seeds[:1] if task == COPY and tried[rate] < HALF else seeds
        return {"rate": rate, "runs": [made(rate, seed, seconds) for seed in seeds]}
    except Failed as error:
        return {"error": str(error)}


def page(found: dict[str, dict[str, dict]], given, lines: dict[str, str]) -> str:
    """Returns the tables, as Markdown."""
    parts = [
        "# What mixers cost in quality",
        "",
        f"`python -m {NAME}`; its head says what is measured. {given.seconds:g} processor seconds of training a run on `{BYTES}`, "
        f"{SHARE[COPY]:.0%} of that on `{COPY}` and {SHARE[BOOKS]:.0%} on `{BOOKS}`, two runs at a time. {measure.machine(1)}",
        "",
        "![Quality over time](mixer_quality.png)",
        "",
    ]
    for task, arms in found.items():
        rows = []
        for name, each in arms.items():
            if "error" in each:
                rows.append([f"`{name}`", each["error"], *[""] * (5 if task == COPY else 4)])
                continue
            runs = each["runs"]
            middle = {key: statistics.median(run[key] for run in runs) for key in ("steps", "seconds_a_step", "memory")}
            rows.append([
                f"`{name}`", mean_and_deviation([run["test"] for run in runs], ".2f" if task == BYTES else ".1f"),
                f"{1000 * middle['seconds_a_step']:,.0f}",
                f"{middle['steps']:,.0f}", f"{middle['memory']:,.0f}", each["rate"],
                *([mean_and_deviation([run["near_test"] for run in runs])] if task == COPY else ()),
            ])  # fmt: skip
        head = [
            "mixer",
            UNIT[task],
            "ms a step",
            "steps",
            "peak MB",
            "rate",
            *([f"with {NEAR_GAP} blanks, %"] if task == COPY else ()),
        ]
        seeds = f" Seeds {', '.join(map(str, given.seeds or SEEDS[task]))}."
        parts += [f"## `{task}`", "", lines[task] + seeds, "", measure.table(head, rows)]
    parts[6:6] = [*verdict(found), ""]  # below the picture
    return "\n".join(parts)


def verdict(found: dict[str, dict[str, dict]]) -> list[str]:
    """Returns what the tables say: a line for each task."""
    told = []
    for task, arms in found.items():
        mean = {
            n: statistics.mean(run["test"] for run in each["runs"]) for n, each in arms.items() if "error" not in each
        }
        if task == COPY:
            whole = [name for name, value in mean.items() if value >= WHOLE]
            told.append(f"- `{task}`: {WHOLE:g} % of the letters or more are copied by {named(whole)}.")
            some = [name for name, value in mean.items() if HALF <= value < WHOLE]
            told += [f"- `{task}`: half of them or more by {named(some)}."] if some else []
            continue
        sign = -1 if task == BYTES else 1
        order = sorted(mean, key=lambda name: -sign * mean[name])
        near = [name for name in order if sign * (mean[order[0]] - mean[name]) <= NEAR[task]]
        last = order[-3:]
        told.append(
            f"- `{task}`: best by {UNIT[task]}: {named(near)}, within {NEAR[task]:g} of the best; last {named(last)}. "
            f"`multi_head` is number {order.index('multi_head') + 1} of {len(order)}."
        )
    return told


def named(names) -> str:
    """Returns names as prose has them."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def draw(found: dict[str, dict[str, dict]], path: str) -> None:
    """Draws the quality of each mixer over the time of its step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(found), 4.5), layout="constrained")
    for axes, (task, arms) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
        for name, each in arms.items():
            if "error" not in each:
                x = 1000 * statistics.median(run["seconds_a_step"] for run in each["runs"])
                y = statistics.mean(run["test"] for run in each["runs"])
                axes.plot(x, y, "o", color="black" if name == "multi_head" else "tab:blue", markersize=4)
                axes.annotate(name, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
        axes.set(xscale="log", xlabel="processor ms a step", ylabel=UNIT[task], title=task)
        axes.grid(alpha=0.3)
        if task == BYTES:
            axes.invert_yaxis()  # better is above, as elsewhere
    figure.savefig(path, dpi=110)


def main() -> None:
    numbers = functools.partial(str.split, sep=",")
    parser = measure.parser_of(__doc__)
    for name in ("task", "mixer", "rate"):
        parser.add_argument(f"--{name}", help="of one run")
    parser.add_argument("--seed", type=int, help="of one run")
    parser.add_argument("--texts", required=True, help="plain files, such as 'books/*.txt'")
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="of the processor, for a training on bytes; 1.9 times as many on copy, 1.5 on books",
    )
    parser.add_argument("--tasks", type=numbers, default=list(PARTS))
    parser.add_argument("--mixers", type=numbers, help="by default all")
    parser.add_argument("--rates", type=numbers, help="by default two of each task")
    parser.add_argument(
        "--seeds", type=lambda text: [int(part) for part in text.split(",")], help="by default two or three"
    )
    given = parser.parse_args()
    texts = texts_of(given.texts)
    if given.method == "run":
        print(json.dumps(run(given.task, given.mixer, float(given.rate), given.seed, given.seconds, texts)))
        return
    if not given.folder:
        parser.error("--folder: missing. It keeps the runs that are done.")
    found: dict[str, dict[str, dict]] = {}
    for task in given.tasks:
        found[task] = {}
        for name in names_for(task):
            if given.mixers is None or name in given.mixers:
                found[task][name] = arm(given, task, name)
                print(f"{task}, {name}: {found[task][name]}", flush=True)
    lines = {
        BYTES: f"{sum(map(len, texts)):,} bytes in {len(texts)} files; of each the last 20 windows are held out.",
        COPY: f"One of {CHOICES} letters by chance: {100 / CHOICES:.1f} %. Both columns of letters are asked after the whole "
              "training, whose last quarter may undo what was learnt from near.",
        BOOKS: f"One of {len(texts)} files by chance: {100 / len(texts):.1f} %; a bag of words: "
               f"{bag_of_words(texts):.1f} %.",
    }  # fmt: skip
    if given.output:
        draw(found, os.path.splitext(given.output)[0] + ".png")
    measure.publish(page(found, given, lines), given.output)


if __name__ == "__main__":
    main()
