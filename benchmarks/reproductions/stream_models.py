"""A Transformer-XL and a vanilla Transformer of equal size, trained by `xmodels pretrain` on the same records."""

import dataclasses
import gzip
import itertools
import json
import os

from benchmarks.reproductions.commands import is_finished
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.text.tokenizer import CONFIG
from data_pipelines.text.train_kinds import train_tokenizer
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.gpt import GptConfig
from xmodels.models.transformer_xl import TransformerXLConfig

REMEMBERED = 4  # segments that the memory of training holds
DEV = 20  # one line of so many is held out of training, those at its end: they choose the rate
TESTED = 100_000  # words or characters at most
SHAPE = {"hidden_dim": 128, "num_layers": 4, "num_heads": 4, "intermediate_dim": 512, "dropout": 0.1}
TRAINING = {
    "lr_schedule": "cosine", "weight_decay": 0.0, "clip_norm": 0.25, "optimizer": "adamw", "adam_epsilon": 1e-8,
    "mixed_precision": "bfloat16",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Text:
    """What a pair of networks learns from and is scored on.

    Attributes:
        name: of its folder and in tables.
        units: `words` or `characters`.
        train, test: files, plain or *.gz. Without `test` the last tenth of `train` is kept for it.
        segmenter: of words; see `train_vocabulary --segmenter`.
    """

    name: str
    units: str
    train: str
    test: str | None = None
    segmenter: str | None = None

    def lines(self) -> dict[str, list[str]]:
        """The lines with text of each part: to learn from, to choose by, and to be scored on."""
        train = _lines(self.train)
        cut = len(train) if self.test else len(train) * 9 // 10
        test = _lines(self.test) if self.test else train[cut:]
        kept = cut - cut // DEV
        return {"train": train[:kept], "dev": train[kept:cut], "test": self._first(test, TESTED)}

    def _first(self, lines: list[str], units: int) -> list[str]:
        sizes = (len(line.split() if self.units == "words" else line) for line in lines)
        return [
            line for line, before in zip(lines, itertools.accumulate(sizes, initial=0), strict=False) if before < units
        ]


def _lines(path: str) -> list[str]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


def make_records(text: Text, length: int, folder: str) -> dict[str, str]:
    """The folder of the records of each part. Every line of the text ends with the end token."""
    vocabulary = os.path.join(folder, "vocabulary")
    found = {}
    for part, lines in text.lines().items():
        path, records = os.path.join(folder, f"{part}.txt"), os.path.join(folder, f"{part}_{length}")
        if not os.path.isdir(records):
            os.makedirs(folder, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n\n".join(lines) + "\n")
            if part == "train" and not os.path.isdir(vocabulary):
                _write_vocabulary(text, path, vocabulary)
            settings = Settings(
                input_file=path,
                vocab_file=vocabulary,
                input_format="sentences",
                packing="stream",
                max_seq_length=length,
                num_shards=1,
            )
            create(settings, records)
        found[part] = records
    return found


def _write_vocabulary(text: Text, path: str, folder: str) -> None:
    corpus = open_corpus(path, "en", "sentences")
    tokenizer = train_tokenizer(text.units, corpus, 100_000, do_lower_case=False, segmenter=text.segmenter)
    os.makedirs(folder, exist_ok=True)
    for name, contents in {**tokenizer.files(), CONFIG: json.dumps(tokenizer.describe()).encode()}.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(contents)


def configs(vocabulary_size: int, length: int) -> dict[str, TransformerXLConfig | GptConfig]:
    """By the name of their system: a memory of `REMEMBERED` segments; and no memory, but an inner layer so much wider that
    both have equally many parameters."""
    recurrent = TransformerXLConfig(vocabulary_size, memory_length=REMEMBERED * length, **SHAPE)
    width, layers = SHAPE["hidden_dim"], SHAPE["num_layers"]
    # More: the positions' projection, u and v, the bias of the softmax. Less: other biases, the table of positions.
    more = layers * (width * width - 4 * width) + 2 * width + vocabulary_size - length * width
    inner = SHAPE["intermediate_dim"] + round(more / (layers * (2 * width + 1)))
    vanilla = GptConfig(
        vocabulary_size, max_sequence_length=length, activation="relu", attention_dropout=0.0,
        **{**SHAPE, "intermediate_dim": inner},
    )  # fmt: skip
    return {"transformer_xl": recurrent, "gpt": vanilla}


def train(system: str, config, records: dict[str, str], steps: int, rows: int, rate: float, seed: int, run: str) -> str:
    """The folder of a finished run; one that is there already is taken as it is, and one that was interrupted goes on."""
    if is_finished(run):
        return run
    os.makedirs(run, exist_ok=True)
    path = f"{run}.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"model": system, "config": config.to_json()}, file)
    pretrain(
        Options(
            system=system, model_dir=run, data_dir=records["train"], eval_data_dir=records["dev"], model_config_file=path,
            num_train_steps=steps, num_warmup_steps=steps // 20, train_batch_size=rows, learning_rate=rate, seed=seed,
            log_steps=200, eval_every=steps, eval_steps=20, save_checkpoints_steps=500,
            distribution_strategy="one_device", **TRAINING,
        )
    )  # fmt: skip
    return run
