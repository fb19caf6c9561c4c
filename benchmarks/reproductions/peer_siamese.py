"""Hugging Face's BERT learns what the arms of `siamese` learn: what do they gain elsewhere, at the same budget?

It begins with the weights of the same network, in the format of Hugging Face, and reads the same rows for as many passes, at the
rates that were best for ours; network, tokenizer, derivatives and optimizer are Hugging Face's and PyTorch's.
`benchmarks.reproductions.siamese --peer` calls this and puts the scores into its page.
"""

import dataclasses
import json
import math
import os
import random

from benchmarks.reproductions.peer_bert import optimizers_of, pooled, take_step, with_linear_rate
from xmodels.tasks.siamese.settings import SCALE

SCORED, WARMUP = 256, 0.1  # rows at once; share of the steps


@dataclasses.dataclass(frozen=True)
class Arm:
    """What is learnt.

    Attributes:
        kind: `pair`, both texts in one sequence; `siamese`, a label from both vectors and the size of their difference;
            `matches`, the right text among those of the batch.
        length: most tokens of a text, or of a pair.
    """

    kind: str
    pooling: str
    batch: int
    length: int


def scores(options, parts: dict[str, list], arms: dict[str, Arm], rates: dict[str, str]) -> dict[str, list[float]]:
    """Arm -> test scores by seed: accuracies, or how often the right text stands first.

    Args:
        options: of `siamese`.
        parts: rows `train`, `eval` and `test`.
        rates: arm -> learning rate.
    """
    from xmodels.conversion import convert

    folder = os.path.join(options.folder, "peer")
    start = os.path.join(folder, "initial")
    if not os.path.isdir(start):
        os.makedirs(folder, exist_ok=True)
        convert.save(convert.load(options.checkpoint), f"hf:{start}")
    found: dict[str, list[float]] = {}
    for name, arm in arms.items():
        for seed in options.seeds:
            path = os.path.join(folder, f"{name.replace(', ', '-').replace(' ', '-')}-{rates[name]}-{seed}.json")
            if not os.path.isfile(path):
                score = train(start, parts, arm, float(rates[name]), seed, options.epochs)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(score, file)
            with open(path, encoding="utf-8") as file:
                found.setdefault(name, []).append(json.load(file))
            print(f"Hugging Face: {name}, seed {seed}: {found[name][-1]:.3f}", flush=True)
    return found


def train(start: str, parts: dict[str, list], arm: Arm, rate: float, seed: int, epochs: float) -> float:
    """The test score of the epoch that is best on the evaluation rows. Muon updates the matrices."""
    import torch

    torch.manual_seed(seed)
    parts = {name: [row for row in rows if arm.kind != "matches" or row.label == "1"] for name, rows in parts.items()}
    network = network_of(start, arm)

    def loss(rows):
        return torch.nn.functional.cross_entropy(*network(rows))

    return learn(network, parts, loss, measured, arm.batch, rate, seed, epochs, muon=True)


def learn(
    network, parts: dict[str, list], loss, score, batch: int, rate: float, seed: int, epochs: float, muon: bool
) -> float:
    """Trains a network on the rows `train`. Returns its score on `test` after the epoch that is best on `eval`.

    Args:
        loss: (rows) -> what is minimised.
        score: (network, rows) -> a number, larger where it is better.
    """
    rows, best, found = list(parts["train"]), -1.0, 0.0
    steps = int(epochs * -(-len(rows) // batch))
    optimizers = optimizers_of(network, rate, muon=muon)
    schedules = [with_linear_rate(each, round(WARMUP * steps), steps) for each in optimizers]
    for epoch in range(math.ceil(epochs)):
        random.Random(f"{seed} {epoch}").shuffle(rows)
        network.train()
        for first in range(0, len(rows), batch):
            take_step(loss(rows[first : first + batch]), network, optimizers, schedules)
        network.eval()
        held = score(network, parts["eval"])
        if held > best:
            best, found = held, score(network, parts["test"])
    return found


def network_of(start: str, arm: Arm):
    """A module that gives logits and their labels for rows."""
    import torch
    import transformers

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.arm, self.bert = arm, transformers.AutoModel.from_pretrained(start, add_pooling_layer=False)
            self.tokenizer = transformers.BertTokenizerFast.from_pretrained(start)
            width = self.bert.config.hidden_size * len(arm.pooling.split("+")) * (3 if arm.kind == "siamese" else 1)
            self.head = torch.nn.Linear(width, 2)

        def vectors(self, *texts):
            held = self.tokenizer(*texts, truncation=True, max_length=arm.length, padding=True, return_tensors="pt")
            return pooled(self.bert(**held).last_hidden_state, held["attention_mask"], arm.pooling)

        def forward(self, rows):
            sides = [[row.texts[side] for row in rows] for side in (0, 1)]
            labels = torch.tensor([int(row.label) for row in rows])
            if arm.kind == "pair":
                return self.head(self.vectors(*sides)), labels
            first, second = map(self.vectors, sides)
            if arm.kind == "siamese":
                return self.head(torch.cat([first, second, (first - second).abs()], dim=-1)), labels
            return SCALE * cosines(first, second), torch.arange(len(rows))

    return Network()


def cosines(first, second):
    """(A, D) and (B, D) -> (A, B)."""
    import torch

    return torch.nn.functional.normalize(first, dim=-1) @ torch.nn.functional.normalize(second, dim=-1).T


def measured(network, rows: list) -> float:
    """The accuracy; of matches, how often the right text is nearer than all other texts."""
    import torch

    groups = [rows[first : first + SCORED] for first in range(0, len(rows), SCORED)]
    with torch.no_grad():
        if network.arm.kind != "matches":
            right = 0
            for group in groups:
                given, truth = network(group)
                right += int((given.argmax(-1) == truth).sum())
            return right / len(rows)
        first, second = (
            torch.cat([network.vectors([row.texts[side] for row in group]) for group in groups]) for side in (0, 1)
        )
        return float((cosines(first, second).argmax(-1) == torch.arange(len(rows))).float().mean())
