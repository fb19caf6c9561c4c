"""Does pretraining help a small classifier, and does language modelling beside it? (Radford et al., 2018, table 5)

    python -m benchmarks.reproductions.gpt_finetuning --text='wiki*.txt,books*.txt' --train_file=train.tsv \\
        --dev_file=dev.tsv --test_file=test.tsv --work_dir=work

A small GPT is pretrained on the texts and on those of the training file, without labels. Then the same network is fine-tuned
from it and from random weights, with and without the auxiliary loss, on subsets of the training rows that the seed draws, for
equally many steps. Of several `--learning_rates` each way gets the one that is best for it on the evaluation file with a seed of
its own. Runs that are finished in `work_dir` are not repeated.
"""

import argparse
import json
import os
import random
import shlex
import sys

from benchmarks.reproductions.common import (
    environment,
    is_finished,
    mean_and_deviation,
    results_of,
    run,
    table,
    verdict,
    write_page,
    write_picture,
)

NAME = "gpt_finetuning"
CHOOSING = 0  # the seed of the runs that choose a learning rate
CONDITIONS = {  # name -> (random weights, weight of the auxiliary loss)
    "random weights": (True, 0.0),
    "random weights, LM loss": (True, 0.5),
    "pretrained": (False, 0.0),
    "pretrained, LM loss": (False, 0.5),
}
SIZES = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 64}
COLOURS = {"random weights": "#999999", "random weights, LM loss": "#555555", "pretrained": "#1f77b4",
           "pretrained, LM loss": "#d62728"}  # fmt: skip


def main() -> None:
    flags = parse(sys.argv[1:])
    os.makedirs(flags.work_dir, exist_ok=True)
    from data_pipelines.corpora.tables import Columns, read_table

    columns = Columns(flags.text_column, None, flags.label_column)
    rows, dev, test = (read_table(path, columns) for path in (flags.train_file, flags.dev_file, flags.test_file))
    flags.held = {
        "eval_file": write_table(flags, "dev", dev[: flags.dev_rows]), "test_file": write_table(flags, "test", test),
    }  # fmt: skip
    model = pretrain(flags, rows)
    rates = {name: choose_rate(flags, model, rows, name) for name in CONDITIONS}
    found = {(size, name): [] for size in flags.rows for name in CONDITIONS}
    for seed in flags.seeds:  # outermost, so that a run that is cut short has whole seeds
        for (size, name), runs in found.items():
            runs.append(finetune(flags, model, rows, size, name, seed, rates[name]))
    report(flags, found, results_of(model), rates)


def write_table(flags, name: str, rows) -> str:
    """Rows as a table of the work folder, whatever file they come from. Returns its path."""
    path = os.path.join(flags.work_dir, f"{name}.tsv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join([*(" ".join(text.split()) for text in row.texts), row.label]) + "\n" for row in rows)
    return path


def choose_rate(flags, model: str, rows, name: str) -> float:
    """The learning rate that is best on the evaluation file, with as many labelled rows as there are at most."""
    if len(flags.learning_rates) == 1:
        return flags.learning_rates[0]
    found = {
        rate: max(finetune(flags, model, rows, max(flags.rows), name, CHOOSING, rate)["epochs"])
        for rate in flags.learning_rates
    }
    return max(found, key=found.get)


def parse(arguments) -> argparse.Namespace:
    numbers = lambda text: [float(p) if "e" in p or "." in p else int(p) for p in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "train_file", "dev_file", "test_file", "work_dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--text_column", default="0", help="name, or position in files without a header")
    parser.add_argument("--label_column", default="1")
    parser.add_argument("--rows", type=numbers, default=[1000], help="sizes of the labelled sets")
    parser.add_argument("--dev_rows", type=int, default=400, help="of the evaluation file, from its beginning")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=1500, help="of pretraining")
    parser.add_argument("--epochs", type=float, default=5, help="of fine-tuning")
    parser.add_argument("--learning_rates", type=numbers, default=[3e-4], help="of fine-tuning, to choose from")
    return parser.parse_args(arguments)


def pretrain(flags, rows) -> str:
    """The run of a small GPT on all texts."""
    paths = {name: os.path.join(flags.work_dir, name) for name in ("texts.txt", "vocabulary", "records", "pretrained")}
    with open(paths["texts.txt"], "w", encoding="utf-8") as file:
        file.writelines(f"{text}\n\n" for row in rows for text in row.texts)
    corpus = {"input_file": f"{flags.text},{paths['texts.txt']}", "language": "en"}
    if not os.path.isdir(paths["vocabulary"]):
        run("train_vocabulary", **corpus, tokenizer="bpe", vocab_size=4000, output_file=paths["vocabulary"])
    if not os.path.isfile(os.path.join(paths["records"], "manifest.json")):
        made = {"vocab_file": paths["vocabulary"], "output_dir": paths["records"], "packing": "stream"}
        run("create_pretraining_data", **corpus, **made, max_seq_length=64)
    config = os.path.join(flags.work_dir, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(SIZES | {"vocab_size": vocabulary_size(paths["records"])}, file)
    if not is_finished(paths["pretrained"]):
        run(
            "pretrain", system="gpt", model_config_file=config, data_dir=paths["records"], model_dir=paths["pretrained"],
            num_train_steps=flags.steps, train_batch_size=32, learning_rate=1e-3, num_warmup_steps=flags.steps // 20, log_steps=200,
        )  # fmt: skip
    return paths["pretrained"]


def vocabulary_size(records: str) -> int:
    with open(os.path.join(records, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)["settings"]["vocabulary_size"]


def finetune(flags, model: str, rows, size: int, name: str, seed: int, rate: float) -> dict:
    """Accuracy on the test file, and on the evaluation file after each epoch."""
    train = write_table(flags, f"train_{size}_{seed}", random.Random(seed).sample(rows, size))
    model_dir = os.path.join(flags.work_dir, f"{name.replace(', ', '_').replace(' ', '_')}_{size}_{seed}_{rate:g}")
    from_random, weight = CONDITIONS[name]
    columns = {"text_column": 0, "label_column": 1}
    if not is_finished(model_dir):
        run(
            "finetune", task="classify", init_checkpoint=model, model_dir=model_dir, random_init=from_random, seed=seed,
            auxiliary_lm_weight=weight, train_file=train, **flags.held, **columns,
            max_seq_length=64, num_train_epochs=flags.epochs, learning_rate=rate, log_steps=1000,
            keep_checkpoint_max=1, save_checkpoints_steps=10_000, length_buckets="auto",
        )  # fmt: skip
    return {"test": results_of(model_dir)["test accuracy"], "epochs": epochs_of(model_dir)}


def epochs_of(model_dir: str) -> list[float]:
    """Accuracy on the evaluation file after each epoch, from the log."""
    with open(os.path.join(model_dir, "log.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["accuracy"] for line in lines if line["kind"] == "evaluation"]


def report(flags, found: dict, pretrained: dict, rates: dict) -> None:
    """The page and the picture."""
    accuracy = {key: [each["test"] for each in runs] for key, runs in found.items()}
    mean = {key: sum(values) / len(values) for key, values in accuracy.items()}
    largest = max(flags.rows)
    plain, joined = (
        {size: mean[size, f"{kind}"] for size in flags.rows} for kind in ("pretrained", "pretrained, LM loss")
    )
    scratch = {size: mean[size, "random weights"] for size in flags.rows}
    claims = {
        "pretraining helps: the pretrained network is better than the same from random weights by more than two points, "
        "for every number of labelled rows": all(plain[size] > scratch[size] + 0.02 for size in flags.rows),
        f"beside pretraining the auxiliary loss makes little difference with {largest:,} labelled rows: less than two points "
        "either way": abs(joined[largest] - plain[largest]) < 0.02,
    }  # fmt: skip
    rows = [
        [name, f"{rates[name]:g}", *(mean_and_deviation(accuracy[size, name], scale=100) for size in flags.rows)]
        for name in CONDITIONS
    ]
    tokens = flags.steps * 32 * 64 / 1e6
    parts = [
        f"A GPT of {SIZES['n_layer']} layers of {SIZES['n_embd']} is pretrained on {tokens:.1f} million tokens and then fine-tuned, "
        f"all weights, {flags.epochs:g} epochs; the epoch that is best on the evaluation file is scored once on the test file. "
        "Every seed draws its own labelled rows, the same for all lines of the table."
        + f" The peak rate is chosen for each line on the evaluation file, with seed {CHOOSING}."
        * (len(flags.learning_rates) > 1),
        verdict(claims),
        "Accuracy on the test file in %, mean and standard deviation over seeds:",
        table(["", "rate", *(f"{size:,} labelled rows" for size in flags.rows)], rows),
        f"After one epoch of the {largest:,} rows the accuracy on the evaluation file is on average "
        + ", ".join(f"{100 * first_epoch(found[largest, name]):.1f} % ({name})" for name in CONDITIONS)
        + ".",
        f"![Accuracy by condition, and by epoch]({NAME}.png)",
        "The paper has an average of 74.7 with pretraining and auxiliary loss, 75.0 without the auxiliary loss, and 59.9 without "
        "pretraining, over its tasks (table 5), and says that the auxiliary loss helps larger sets and not smaller ones.",
        f"Pretraining ended with a loss of {pretrained['loss']:.2f} nats a token on its own records. The paper's network is some "
        "90 times as large, and read about a billion pieces a hundred times; so this page says what this little pretraining gives, "
        "not what much of it would.",
        environment(command(flags), flags.seeds),
    ]
    print(write_page(NAME, "GPT: fine-tuning with and without pretraining and auxiliary language modelling", parts))
    print(write_picture(NAME, lambda figure: draw(figure, flags, found, accuracy), width=9))


def first_epoch(runs) -> float:
    """The mean accuracy on the evaluation file after one epoch."""
    return sum(each["epochs"][0] for each in runs) / len(runs)


def command(flags) -> str:
    """The command without the places of the files."""
    numbers = {name: getattr(flags, name) for name in ("rows", "seeds", "learning_rates")}
    listed = [f"--{name}={','.join(map(str, values))}" for name, values in numbers.items()]
    listed += [f"--{name}={getattr(flags, name):g}" for name in ("steps", "epochs", "dev_rows")]
    files = [f"--{n}={os.path.basename(getattr(flags, n))}" for n in ("train_file", "dev_file", "test_file")]
    text = ",".join(os.path.basename(part) for part in flags.text.split(","))
    return shlex.join(
        ["python", "-m", f"benchmarks.reproductions.{NAME}", f"--text={text}", *files, "--work_dir=work", *listed]
    )


def draw(figure, flags, found: dict, accuracy: dict) -> None:
    left, right = figure.subplots(1, 2)
    for place, name in enumerate(CONDITIONS):
        for group, size in enumerate(flags.rows):
            values = [100 * value for value in accuracy[size, name]]
            x = group + 0.18 * (place - 1.5)
            left.plot([x] * len(values), values, "o", color=COLOURS[name], alpha=0.5, markersize=4)
            left.plot([x - 0.07, x + 0.07], [sum(values) / len(values)] * 2, color=COLOURS[name], linewidth=2)
        curves = [each["epochs"] for each in found[max(flags.rows), name]]
        means = [100 * sum(values) / len(values) for values in zip(*curves, strict=True)]
        right.plot(range(1, len(means) + 1), means, "o-", color=COLOURS[name], label=name, markersize=3)
    left.set_xticks(range(len(flags.rows)), [f"{size:,} rows" for size in flags.rows])
    left.set(title="test accuracy, %: seeds and their mean")
    right.set(title=f"evaluation accuracy by epoch, {max(flags.rows):,} rows, %", xlabel="epoch")
    right.legend()


if __name__ == "__main__":
    main()
