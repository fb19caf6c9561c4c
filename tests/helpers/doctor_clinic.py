"""A healthy little training, to be broken: text, vocabulary, records, checkpoint, tables, all made in a second or two."""

import dataclasses
import itertools
import json
import pathlib
import shutil

from data_pipelines.pretraining.job import Settings, prepare
from data_pipelines.pretraining.parts import collect_part
from data_pipelines.records import folder as record_folder
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model

WORDS = ["".join(pair) for pair in itertools.product(("ba", "ke", "li", "mo", "su", "ta"), repeat=3)]  # 216
LETTERS = "abcdefghijklmnopqrstuvwxyz."
NETWORK = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 64}


def text(first: int, documents: int = 40) -> str:
    """Documents of four sentences of invented words; another `first` gives others."""
    sentences = (
        " ".join(WORDS[(first + 7 * i + j * j) % len(WORDS)] for j in range(6)) + "." for i in range(4 * documents)
    )
    return "\n\n".join("\n".join(group) for group in zip(*[sentences] * 4, strict=True)) + "\n"


def table(first: int, rows: int = 24) -> str:
    """Rows of two labels."""
    lines = [
        f"{('bad', 'good')[i % 2]}\t{WORDS[(first + i) % 216]} {WORDS[(first + 5 * i) % 216]}" for i in range(rows)
    ]
    return "\n".join(["label\ttext", *lines]) + "\n"


def write(path: pathlib.Path, contents: str | bytes) -> pathlib.Path:
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path


def vocabulary_text(change=lambda tokens: tokens) -> str:
    """A vocabulary of word pieces for that text; `change` maps its tokens."""
    tokens = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS[:200]]
    return "".join(f"{token}\n" for token in change(tokens))


def capitalised(tokens: list[str]) -> list[str]:
    """The same with a capital letter at the beginning of each word."""
    return [token.capitalize() if token in WORDS else token for token in tokens]


def swapped(tokens: list[str]) -> list[str]:
    """The same with the last two words exchanged."""
    return [*tokens[:-2], tokens[-1], tokens[-2]]


@dataclasses.dataclass(frozen=True)
class Clinic:
    """The folder of the healthy training, and the flags of its two commands."""

    folder: pathlib.Path

    def __getitem__(self, name: str) -> pathlib.Path:
        return self.folder / name

    def pretrain(self, **changed) -> dict:
        """The flags of `pretrain`; None leaves one out."""
        flags = {"system": "bert_wwm", "data_dir": self["records"], "eval_data_dir": self["held_out"]}
        flags |= {"model_config_file": self["config.json"], "train_batch_size": 4, "num_train_steps": 1}
        return _without_none(flags | changed)

    def finetune(self, **changed) -> dict:
        """The flags of `finetune`."""
        flags = {f"{name}_file": self[f"{part}.tsv"] for name, part in (("train", "train"), ("eval", "dev"))}
        flags |= {"init_checkpoint": self["checkpoint"], "max_seq_length": 32, "train_batch_size": 4}
        return _without_none(flags | changed)

    def copy(self, name: str, target: pathlib.Path) -> pathlib.Path:
        """A copy of a folder of the clinic, to be broken."""
        return shutil.copytree(self[name], target / name)

    def records(self, target: pathlib.Path, **settings) -> pathlib.Path:
        """Records made otherwise."""
        return make_records(self.folder, target / "records", **settings)


def _without_none(flags: dict) -> dict:
    return {name: value for name, value in flags.items() if value is not None}


def make_records(folder: pathlib.Path, output: pathlib.Path, **settings) -> pathlib.Path:
    values = {"input_file": folder / "corpus.txt", "vocab_file": folder / "vocab.txt"} | settings
    values = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in values.items()}
    numbers = {"max_seq_length": 32, "max_predictions_per_seq": 5, "num_shards": 2}
    job = prepare(Settings(**numbers | values), str(output))
    record_folder.claim(str(output), job.described, resume=False, overwrite=False)
    for arguments in job.collect_jobs(range(len(job.paths))).values():
        collect_part(*arguments)
    for arguments in job.shard_jobs(range(len(job.paths))).values():
        job.write_shard(*arguments)  # in this process: to start another costs a second
    job.finish()
    return output


def make_checkpoint(folder: pathlib.Path, tokenizer, **sizes) -> pathlib.Path:
    """A model folder with random weights."""
    folder.mkdir()
    config = BertConfig(vocabulary_size=len(tokenizer.vocabulary), **NETWORK | sizes)
    write_model(str(folder), Bert(config).initialize(), None, tokenizer.files(), tokenizer.describe())
    return folder


def make_clinic(folder: pathlib.Path) -> Clinic:
    """Fills an empty folder."""
    write(folder / "corpus.txt", text(0))
    write(folder / "other.txt", text(100, 12))
    write(folder / "vocab.txt", vocabulary_text())
    for name, first in (("train", 0), ("dev", 60), ("test", 120)):
        write(folder / f"{name}.tsv", table(first))
    make_records(folder, folder / "records", do_whole_word_mask=True)
    make_records(folder, folder / "held_out", do_whole_word_mask=True, input_file=folder / "other.txt")
    make_records(folder, folder / "static", do_whole_word_mask=True, masking="static")
    tokenizer = open_tokenizer(str(folder / "vocab.txt"))
    make_checkpoint(folder / "checkpoint", tokenizer)
    shutil.copyfile(folder / "checkpoint/config.json", folder / "config.json")
    return Clinic(folder)


def change_json(path: pathlib.Path, change) -> None:
    """Applies `change` to what a JSON file holds."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
