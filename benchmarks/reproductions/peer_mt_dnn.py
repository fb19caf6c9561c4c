"""Hugging Face's BERT learns the tasks of `mt_dnn` together and alone: what do tasks gain from each other at this budget elsewhere?

It begins with the weights of the same network, in the format of Hugging Face, and reads the same rows for as many passes; network,
derivatives and optimizer are Hugging Face's and PyTorch's. Every head is one linear layer on the mean of all states, or on what
BERT's pooler makes of the first one, as in Hugging Face's own classifiers; that of numbers begins at their mean, as ours does. Lists
of candidates are left out. `benchmarks.reproductions.mt_dnn --peer` calls this and puts the scores into its page.
"""

import dataclasses
import json
import os
import random

from benchmarks.reproductions.commands import fraction_of
from benchmarks.reproductions.peer_bert import optimizers_of, take_step, with_linear_rate

LENGTH, WARMUP, DROPOUT = 64, 0.1, 0.1
SCORED = 256  # rows at once
EVALUATIONS = 10  # at most, about: of few rows there are many passes


@dataclasses.dataclass(frozen=True)
class Rows:
    """A task in memory: rows of training, evaluation and test, with ids of labels, or numbers where `labels` is empty."""

    train: list
    eval: list
    test: list
    labels: list[str]
    score: str


def scores(flags, tasks: dict, target, rate: float, pooling: str, few: bool = True) -> dict[str, dict]:
    """{"together" and "alone": {task: test scores}, "few": {beginning: {share of the labels: test scores of the target}}}.

    Args:
        flags, tasks, target: of `mt_dnn`.
        rate: of all arms.
        pooling: what heads read: `mean`, or `published`, the pooler.
        few: False leaves out what needs few labels.
    """
    from xmodels.conversion import convert

    folder = os.path.join(flags.folder, "peer" if pooling == "mean" else f"peer_{pooling}")
    start = os.path.join(folder, "initial")
    if not os.path.isdir(start):
        os.makedirs(folder, exist_ok=True)
        convert.save(convert.load(flags.init_checkpoint), f"hf:{start}")
    known = {name: read(task) for name, task in tasks.items() if task.kind != "rank"}
    batch = tasks[flags.target].flags.get("train_batch_size", 32)
    others = {name: rows for name, rows in known.items() if name != flags.target}
    shares, pooler = {flags.target: read(target)}, pooling == "published"

    def done(label: str, seed: int, learnt: dict, origin: str, fraction: float = 1.0, epochs: float = flags.epochs):
        path = os.path.join(folder, f"{label}_{seed}")
        if not os.path.isfile(os.path.join(path, "scores.json")):
            train(learnt, origin, path, rate, seed, fraction, epochs, batch, flags.optimizer == "muon", pooler)
        with open(os.path.join(path, "scores.json"), encoding="utf-8") as file:
            return json.load(file)

    seeds = flags.peer_seeds
    joint = {seed: done("joint", seed, known, start) for seed in seeds}
    found = {
        "together": {name: [joint[seed][name] for seed in seeds] for name in known},
        "alone": {
            name: [done(f"alone_{name}", seed, {name: rows}, start)[name] for seed in seeds]
            for name, rows in known.items()
        },
    }
    if not few:
        return found
    for seed in seeds:
        done("others", seed, others, start)
    after = {"pretrained": {}, "after the other tasks": {}}
    for label, each in after.items():
        for fraction in flags.fractions:
            batches = max(1.0, fraction * target.count / batch)
            epochs = max(flags.epochs, flags.least_steps / batches)
            each[fraction] = [
                done(
                    f"few_{label.split()[0]}_{fraction:g}", seed, shares,
                    start if label == "pretrained" else os.path.join(folder, f"others_{seed}"), fraction, epochs,
                )[flags.target]
                for seed in seeds
            ]  # fmt: skip
    return {**found, "few": after}


def read(task) -> Rows:
    """The rows of a `Task` of `mt_dnn`."""
    parts = {}
    for part in ("train", "eval", "test"):
        with open(task.files[f"{part}_file"], encoding="utf-8") as file:
            parts[part] = [json.loads(line) for line in file]
    labels = [] if task.kind == "regress" else sorted({row["label"] for row in parts["train"]})
    values = {
        part: [
            (row["text"], row.get("text_pair"), labels.index(row["label"]) if labels else float(row["label"]))
            for row in rows
        ]
        for part, rows in parts.items()
    }
    return Rows(**values, labels=labels, score=task.score)


def train(
    tasks: dict[str, Rows], origin: str, path: str, rate: float, seed: int, fraction: float, epochs: float, batch: int, muon: bool,
    pooler: bool,
):  # fmt: skip
    """Learns tasks together, and writes the network and the test scores of the epoch that is best on evaluation rows."""
    import torch
    import transformers

    torch.manual_seed(seed)
    bert = transformers.BertModel.from_pretrained(origin, add_pooling_layer=pooler)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(origin)
    heads = {name: torch.nn.Linear(bert.config.hidden_size, max(1, len(rows.labels))) for name, rows in tasks.items()}
    for name, rows in tasks.items():
        if not rows.labels:
            torch.nn.init.constant_(heads[name].bias, sum(row[2] for row in rows.train) / len(rows.train))
    model = torch.nn.ModuleDict({"bert": bert, "heads": torch.nn.ModuleDict(heads)})
    batches = []
    for name, rows in tasks.items():
        chosen = fraction_of(rows.train, fraction, seed) if fraction < 1 else rows.train
        batches += [(name, chosen[first : first + batch]) for first in range(0, len(chosen), batch)]
    steps, done, best, found = max(1, int(epochs * len(batches))), 0, -2.0, {}
    optimizers = optimizers_of(model, rate, muon=muon)
    schedules = [with_linear_rate(each, round(WARMUP * steps), steps) for each in optimizers]
    passes, every = 0, max(1, round(epochs / EVALUATIONS))
    while done < steps:
        random.Random(f"{seed} {done}").shuffle(batches)
        model.train()
        for name, rows in batches[: steps - done]:
            take_step(loss_of(model, tokenizer, name, rows, tasks[name]), model, optimizers, schedules)
        done += len(batches)
        passes += 1
        if passes % every and done < steps:
            continue
        model.eval()
        held = [measured(model, tokenizer, name, rows.eval, rows) for name, rows in tasks.items()]
        if sum(held) / len(held) > best:
            best = sum(held) / len(held)
            found = {name: measured(model, tokenizer, name, rows.test, rows) for name, rows in tasks.items()}
            bert.save_pretrained(path)
            tokenizer.save_pretrained(path)
    with open(os.path.join(path, "scores.json"), "w", encoding="utf-8") as file:
        json.dump(found, file)
    print(path, found, flush=True)


def answers(model, tokenizer, name: str, rows: list):
    """(N, C) of rows; the pooler answers where there is one, else the mean of all states."""
    import torch

    texts = [row[0] for row in rows], None if rows[0][1] is None else [row[1] for row in rows]
    batch = tokenizer(*texts, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
    found, mask = model["bert"](**batch), batch["attention_mask"][..., None]
    read = found.pooler_output
    if read is None:
        read = (found.last_hidden_state * mask).sum(1) / mask.sum(1)
    return model["heads"][name](torch.nn.functional.dropout(read, DROPOUT, model.training))


def loss_of(model, tokenizer, name: str, rows: list, task: Rows):
    import torch

    given, truth = answers(model, tokenizer, name, rows), torch.tensor([row[2] for row in rows])
    if task.labels:
        return torch.nn.functional.cross_entropy(given, truth)
    return torch.nn.functional.mse_loss(given[:, 0], truth)


def measured(model, tokenizer, name: str, rows: list, task: Rows) -> float:
    """The score that the task names: accuracy, Matthews' correlation, or Spearman's."""
    import scipy.stats
    import torch
    from sklearn.metrics import matthews_corrcoef

    with torch.no_grad():
        parts = [rows[first : first + SCORED] for first in range(0, len(rows), SCORED)]
        given = torch.cat([answers(model, tokenizer, name, part) for part in parts])
    truth = [row[2] for row in rows]
    if not task.labels:
        found = scipy.stats.spearmanr(given[:, 0].numpy(), truth).statistic
        return float(found) if found == found else 0.0  # of a constant there is none
    labels = given.argmax(-1).tolist()
    if task.score == "mcc":
        return float(matthews_corrcoef(truth, labels))
    return sum(a == b for a, b in zip(labels, truth, strict=True)) / len(truth)
