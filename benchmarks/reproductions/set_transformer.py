"""What attention between the elements of a set is worth: the largest of its numbers, and how many kinds it has (Lee et al., 2019).

    python -m benchmarks.reproductions.set_transformer --folder=work

The sets are drawn: of 1 to 10 numbers the largest is wanted (section 5.1), of 6 to 10 noisy vectors how many kinds stand among them
(section 5.2 asks that of characters, which are others in each set). Beside Set Transformers stand DeepSets with a mean and with a
maximum, networks that see each element alone before they pool; they learn in plain Keras from the same sets, in as many steps, with
the same optimizer. Each rate is chosen on development sets with the first seed. Interrupted, the same command goes on.
"""

import argparse
import os
import statistics

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, kept, tuned
from benchmarks.reproductions.pages import RESULTS, environment, mean_and_deviation, verdict, write_page
from data_pipelines.files import whole_file, write_json

NAME, LARGEST, KINDS = "set_transformer", "largest number", "how many kinds"
MOST, FEWEST_OF_KINDS, NUM_KINDS, WIDTH, NOISE = 10, 6, 7, 8, 0.3
SIZES = {"train": 8000, "dev": 1000, "test": 2000}
BATCH, HIDDEN = 64, 64
ALL_PAIRS, INDUCED, MEAN, MAXIMUM = (
    "Set Transformer",
    "Set Transformer, 4 points",
    "DeepSets, mean",
    "DeepSets, maximum",
)
NETWORKS = {ALL_PAIRS: {"num_inducing": 0}, INDUCED: {"num_inducing": 4}}
# Task -> the verb's name of it, the score that chooses, and whether less is better.
TASKS = {LARGEST: ("regress_sets", "loss", True), KINDS: ("classify_sets", "accuracy", False)}


def main() -> None:
    flags = parsed()
    os.makedirs(flags.folder, exist_ok=True)
    found, lines = {}, {}
    for task in TASKS:
        parts = {part: drawn(task, count, seed) for seed, (part, count) in enumerate(SIZES.items())}
        found[task] = {name: arm(flags, task, parts, name) for name in (*NETWORKS, MEAN, MAXIMUM)}
        lines[task] = without_network(task, parts)
    write_report(flags, found, lines)


def drawn(task: str, count: int, seed: int) -> dict[str, np.ndarray]:
    """Sets: `points` float32 (N, 10, K), zeros behind the last element; `sizes` and `labels`, (N,)."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1 if task == LARGEST else FEWEST_OF_KINDS, MOST + 1, count)
    there = np.arange(MOST) < sizes[:, None]
    if task == LARGEST:
        points = draw.uniform(0, 1, (count, MOST, 1))
        labels = np.where(there, points[..., 0], 0).max(axis=1).astype("float32")
    else:
        centres = draw.normal(size=(count, NUM_KINDS, WIDTH))  # of each set its own
        # Few kinds to draw from make sets of few kinds as common as sets of many.
        choices = draw.integers(1, NUM_KINDS + 1, (count, 1))
        kinds = draw.integers(0, choices, (count, MOST))
        points = np.take_along_axis(centres, kinds[..., None], axis=1) + NOISE * draw.normal(size=(count, MOST, WIDTH))
        labels = np.array([len(set(row[:size])) for row, size in zip(kinds, sizes, strict=True)])
    return {"points": (points * there[..., None]).astype("float32"), "sizes": sizes, "labels": labels}


def arm(flags, task: str, parts: dict, name: str) -> tuple[str, list[float]]:
    """The rate of a network, which the first seed chose, and by seed its accuracies or root mean square errors on the test sets."""
    _, decisive, lowest = TASKS[task]
    scored = (
        scorer_of_ours(flags, task, parts, name) if name in NETWORKS else scorer_of_deep_sets(flags, task, parts, name)
    )
    rate, runs = tuned(scored, flags.rates, flags.seeds, f"evaluation {decisive}", lowest)
    scores = [run[f"test {decisive}"] for run in runs]
    if task == LARGEST:
        scores = [score**0.5 for score in scores]
    print(f"{task}, {name}: {rate}, {scores}", flush=True)
    return rate, scores


def scorer_of_ours(flags, task: str, parts: dict, name: str):
    """A function of rate and seed that gives the scores of a fine-tuning."""
    verb, label = TASKS[task][0], f"{task}-{name}".replace(" ", "_").replace(",", "")
    files = {
        f"{'eval' if part == 'dev' else part}_file": written(flags, task, part, each) for part, each in parts.items()
    }
    sizes = os.path.join(flags.folder, f"{label}.json")
    write_json(sizes, {"hidden_dim": HIDDEN, "num_layers": 2, "num_decoder_layers": 1, **NETWORKS[name]})

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            os.path.join(flags.folder, "runs", f"{label}-{rate}-{seed}"), task=verb, init_checkpoint=f"new:{NAME}",
            model_config_file=sizes, **files, max_seq_length=MOST, train_batch_size=BATCH, num_train_epochs=flags.epochs,
            learning_rate=rate, seed=seed,
        )  # fmt: skip

    return scored


def written(flags, task: str, part: str, sets: dict) -> str:
    """The file of some sets, elements one behind the other."""
    path = os.path.join(flags.folder, f"{task}-{part}.npz".replace(" ", "_"))
    if not os.path.exists(path):
        there = np.arange(MOST) < sets["sizes"][:, None]
        with whole_file(path, "wb") as file:
            np.savez(file, points=sets["points"][there], sizes=sets["sizes"], labels=sets["labels"])
    return path


def scorer_of_deep_sets(flags, task: str, parts: dict, name: str):
    """The same of networks that look at each element alone before they pool (Zaheer et al., 2017)."""

    def learnt(rate: str, seed: int) -> dict[str, float]:
        import keras
        from keras import layers, ops

        keras.utils.set_random_seed(seed)
        counts = task == KINDS
        points = keras.Input(parts["train"]["points"].shape[1:])
        there = keras.Input((MOST,))
        x = points
        for _ in range(3):
            x = layers.Dense(2 * HIDDEN, "relu")(x)
        mask = layers.Lambda(lambda there: ops.expand_dims(there, -1))(there)
        if name == MEAN:
            x = layers.Lambda(lambda both: ops.sum(both[0] * both[1], axis=1) / ops.sum(both[1], axis=1))([x, mask])
        else:  # what comes out of a ReLU is not below zero, so that zeros are no elements
            x = layers.Lambda(lambda both: ops.max(both[0] * both[1], axis=1))([x, mask])
        for _ in range(2):
            x = layers.Dense(2 * HIDDEN, "relu")(x)
        model = keras.Model([points, there], layers.Dense(MOST + 1 if counts else 1)(x))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if counts else "mse"
        model.compile(keras.optimizers.Adam(float(rate)), loss)
        given = {
            part: [each["points"], (np.arange(MOST) < each["sizes"][:, None]).astype("float32")]
            for part, each in parts.items()
        }
        train = given["train"], parts["train"]["labels"]
        model.fit(*train, batch_size=BATCH, epochs=int(flags.epochs), verbose=0)
        found = {}
        for part, title in (("dev", "evaluation"), ("test", "test")):
            outputs, truth = model.predict(given[part], batch_size=500, verbose=0), parts[part]["labels"]
            if counts:
                found[f"{title} accuracy"] = float(np.mean(outputs.argmax(axis=1) == truth))
            else:
                found[f"{title} loss"] = float(np.mean((outputs[:, 0] - truth) ** 2))
        return found

    def scored(rate: str, seed: int) -> dict[str, float]:
        label = f"{task}-{name}-{rate}-{seed}.json".replace(" ", "_").replace(",", "")
        return kept(os.path.join(flags.folder, "deep_sets", label), learnt, rate, seed)

    return scored


def without_network(task: str, parts: dict) -> float:
    """What always the same answer scores."""
    truth, labels = parts["test"]["labels"], parts["train"]["labels"]
    if task == LARGEST:
        return float(np.mean((truth - labels.mean()) ** 2)) ** 0.5
    return float(np.mean(truth == np.bincount(labels).argmax()))


def claims_of(found: dict) -> dict[str, bool]:
    """What the paper says -> whether it came out here."""
    error = {name: statistics.mean(values) for name, (_, values) in found[LARGEST].items()}
    right = {name: 100 * statistics.mean(values) for name, (_, values) in found[KINDS].items()}
    return {
        "the largest number: the error is less than a fifth of that of a mean of elements": error[ALL_PAIRS] < 0.2 * error[MEAN],
        "the largest number: as good as a maximum of elements, within a hundredth of the range": (
            error[ALL_PAIRS] < error[MAXIMUM] + 0.01
        ),
        "kinds: five points better than a mean of elements": right[ALL_PAIRS] > right[MEAN] + 5,
        "kinds: five points better than a maximum of elements": right[ALL_PAIRS] > right[MAXIMUM] + 5,
        "kinds: inducing points cost less than three points": right[INDUCED] > right[ALL_PAIRS] - 3,
    }  # fmt: skip


def write_report(flags, found: dict, lines: dict) -> None:
    rows = [["always the same", f"{lines[LARGEST]:.3f}", "", f"{100 * lines[KINDS]:.1f}", ""]]
    for name in found[LARGEST]:
        (rate, errors), (rate_of_kinds, right) = found[LARGEST][name], found[KINDS][name]
        rows.append(
            [name, mean_and_deviation(errors, ".4f"), rate, mean_and_deviation(right, scale=100), rate_of_kinds]
        )
    head = [
        "network",
        "largest of 1 to 10 numbers, root mean square error",
        "rate",
        "kinds in 6 to 10 vectors, % right",
        "rate",
    ]
    parts = [
        verdict(claims_of(found)),
        table(head, rows),
        f"{SIZES['train']:,} sets to learn from, {SIZES['dev']:,} that choose rate and epoch (of DeepSets the rate alone), "
        f"{SIZES['test']:,} that are scored. Numbers lie between 0 and 1; a kind is a vector of {WIDTH} that each set draws anew, "
        f"seen with noise of {NOISE}. {flags.epochs:g} passes in batches of {BATCH} by Adam, rates of {', '.join(flags.rates)}. Set "
        f"Transformers of 2 blocks of {HIDDEN} and one behind the pooling; DeepSets of 3 + 2 layers of {2 * HIDDEN}.",
        environment(f"python -m benchmarks.reproductions.from_shared_data {NAME} --work_dir=work", flags.seeds),
    ]
    print(write_page(NAME, "Sets: their largest number, and how many kinds they have", parts, folder=flags.results))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["3e-4", "1e-3", "3e-3"])
    parser.add_argument("--epochs", type=float, default=30)
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
