"""The biattentive classification network in PyTorch, over the features of one of our CoVe encoders: does ours learn as fast?

    python -m benchmarks.reproductions.peer_cove --encoder=RUN --train=5000.tsv --dev=dev.tsv

The encoder is `torch.nn.LSTM` with the weights of the run, and stays as it is. The tables have columns `label` and `text`. Prints loss
and accuracy of the training, and the accuracy on the development rows after each epoch, as the log of `finetune` has them.
"""

import argparse
import os
import random
import statistics
import tempfile

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import rnn

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from xmodels.conversion import convert
from xmodels.conversion.sources import cove
from xmodels.conversion.vectors import glove
from xmodels.runs.loaded import read_tokenizer

LENGTH, BATCH, EPOCHS, RATE, CLIP, DROPOUT, REPORT = 64, 16, 3, 1e-3, 5.0, 0.2, 92
HIDDEN = -1e9  # replaces the scores and states of what does not count


class Maxout(nn.Module):
    """The largest of four linear functions, in batch norm."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear, self.norm, self.outputs = nn.Linear(inputs, 4 * outputs), nn.BatchNorm1d(outputs), outputs

    def forward(self, x):
        return self.norm(self.linear(x).view(len(x), self.outputs, 4).amax(-1))


class Biattentive(nn.Module):
    """McCann et al. (2017), section 5, for single texts, which attend to themselves."""

    def __init__(self, inputs: int, width: int, labels: int):
        super().__init__()
        self.read, self.score = nn.Linear(inputs, width), nn.Linear(2 * width, 1)
        self.encoder = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.integrator = nn.LSTM(6 * width, width, bidirectional=True, batch_first=True)
        wide, self.dropout = 16 * width, nn.Dropout(DROPOUT)
        sizes = [wide, wide // 4, wide // 16, wide // 64]
        self.maxouts = nn.ModuleList(Maxout(*pair) for pair in zip(sizes, sizes[1:], strict=False))
        self.answer = nn.Linear(sizes[-1], labels)

    def forward(self, x, lengths):
        real = torch.arange(x.shape[1]) < lengths[:, None]  # (B, L)
        x = over(self.encoder, torch.relu(self.read(self.dropout(x))), lengths)
        other = (x @ x.transpose(1, 2)).masked_fill(~real[:, None], HIDDEN).softmax(-1) @ x
        x = over(self.integrator, torch.cat([x, x - other, x * other], -1), lengths)
        there = real[..., None]
        shares = self.score(x).masked_fill(~there, HIDDEN).softmax(1)
        mean = (x * there).sum(1) / lengths[:, None]
        pools = x.masked_fill(~there, HIDDEN).amax(1), mean, x.masked_fill(~there, -HIDDEN).amin(1), (x * shares).sum(1)
        x = torch.cat(2 * pools, -1)
        for maxout in self.maxouts:
            x = maxout(self.dropout(x))
        return self.answer(self.dropout(x))


def over(lstm, x, lengths):
    """Returns the states of an LSTM over texts of several lengths, zeros behind them."""
    states, _ = lstm(rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    return rnn.pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("encoder", "train", "dev"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "encoder")
        convert.save(convert.load(options.encoder), f"cove:{folder}")
        words, table = glove.read(os.path.join(folder, cove.OWN[1]))
        weights = load_file(os.path.join(folder, cove.OWN[0]))
    tokenizer = read_tokenizer(options.encoder)
    names = {label: i for i, label in enumerate(sorted({row.label for row in rows_of(options.train)}))}
    place = {word: i for i, word in enumerate(words, 1)}
    train, dev = (
        [(words_of(row.texts[0], tokenizer, place), names[row.label]) for row in rows_of(path)]
        for path in (options.train, options.dev)
    )
    features = Features(torch.tensor(table), weights)
    learn(Biattentive(3 * table.shape[1], table.shape[1], len(names)), features, train, dev, options.seed)


def rows_of(path: str) -> list:
    return list(read_table(path, Columns("text", None, "label")))


def words_of(text: str, tokenizer, place: dict[str, int]) -> list[int]:
    """Returns the rows of the first words of a text in the table, 0 for unknown ones; an empty text is one of these."""
    pieces = tokenizer.encode(text).ids[:LENGTH]
    return [place.get(tokenizer.vocabulary.tokens[i], 0) for i in pieces] or [0]


class Features:
    """[word vector; states of the encoder] of texts, which do not learn."""

    def __init__(self, table, weights: dict):
        width = table.shape[1]
        self.table = torch.cat([torch.zeros(1, width), table])
        self.lstm = nn.LSTM(width, width, 2, bidirectional=True, batch_first=True)
        self.lstm.load_state_dict(weights)

    def __call__(self, texts: list[list[int]]):
        lengths = torch.tensor([len(text) for text in texts])
        ids = rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
        with torch.no_grad():
            vectors = self.table[ids]
            return torch.cat([vectors, over(self.lstm, vectors, lengths)], -1), lengths


def learn(net, features: Features, train: list, dev: list, seed: int) -> None:
    """Trains the network on rows (ids, label), and prints what it learns."""
    optimizer, draws = torch.optim.Adam(net.parameters(), RATE), random.Random(seed)
    seen: list[tuple[float, float]] = []  # loss and accuracy of steps
    for epoch in range(1, EPOCHS + 1):
        net.train()
        draws.shuffle(train)
        for i in range(0, len(train) - BATCH + 1, BATCH):
            texts, labels = zip(*train[i : i + BATCH], strict=True)
            answers, wanted = net(*features(texts)), torch.tensor(labels)
            loss = nn.functional.cross_entropy(answers, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            optimizer.step()
            seen.append((loss.item(), (answers.argmax(-1) == wanted).float().mean().item()))
            if len(seen) % REPORT == 0:
                mean = [statistics.mean(numbers) for numbers in zip(*seen[-REPORT:], strict=True)]
                print(f"step {len(seen)} · loss {mean[0]:.2f} · accuracy {mean[1]:.2f}", flush=True)
        net.eval()
        texts, labels = zip(*dev, strict=True)
        with torch.no_grad():
            right = net(*features(texts)).argmax(-1) == torch.tensor(labels)
        print(f"evaluation of epoch {epoch} · accuracy {right.float().mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
