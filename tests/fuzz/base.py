"""The files that cases begin with: the seeds beside this file, and small vocabularies, records, networks and runs made of them."""

import json
import os
import shutil
from pathlib import Path

from tests.fuzz.sandbox import forked
from tests.helpers.doctor_clinic import NETWORK, make_checkpoint, make_records, text, vocabulary_text, write
from tests.helpers.invocation import invoke

SEEDS = Path(__file__).parent / "seeds"
RUN = {"train_batch_size": 4, "num_train_steps": 1, "num_warmup_steps": 0}


def make(folder: Path) -> None:
    """Fills an empty folder: two processes beside each other do what needs a network, in some 20 s."""
    shutil.copytree(SEEDS, folder, dirs_exist_ok=True)
    write(folder / "corpus.txt", text(0, 12))
    write(folder / "vocab.txt", vocabulary_text())
    log = folder.parent / "base.log"
    children = [forked(half, folder, log) for half in (readers, writers)]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    if any(statuses):
        raise SystemExit(f"The files to begin with cannot be made:\n{log.read_text()}")


def readers() -> None:
    """Records and vocabularies without TensorFlow, then what a BERT makes of them."""
    from data_pipelines.text.kinds import open_tokenizer
    from tests.helpers import small_served

    here = Path()
    for kind, name in (("bpe", "merges"), ("sentencepiece", "pieces"), ("words", "words")):
        command("train_vocabulary", tokenizer=kind, vocab_size=80, output_file=name, input_file="prose.txt")
    for name, flags in (("records", {}), ("static", {"masking": "static"})):
        make_records(here, here / name, do_whole_word_mask=True, **flags)
    labelled = {"task": "classify", "input_file": "train.tsv", "vocab_file": "vocab.txt", "max_seq_length": 32}
    command("create_finetuning_data", output_dir="labelled", num_shards=1, **labelled)
    make_checkpoint(here / "checkpoint", open_tokenizer("vocab.txt"))
    shutil.copyfile("checkpoint/config.json", "config.json")
    command("convert_checkpoint", **{"from": "checkpoint", "to": "hf:hf"})
    command("convert_checkpoint", **{"from": "checkpoint", "to": "tf1:tf1"})
    command("convert_checkpoint", **{"from": "checkpoint", "to": "keras_hub:preset"})
    ernie_of(here / "checkpoint", here / "ernie")
    command("convert_checkpoint", **{"from": "ernie", "to": "paddle:paddle"})
    tables = {"train_file": "train.tsv", "eval_file": "dev.tsv", "max_seq_length": 32, "train_batch_size": 12}
    start = {"init_checkpoint": "checkpoint", "num_train_epochs": 1}
    command("finetune", model_dir="classifier", **tables | start)
    command(
        "finetune",
        model_dir="tagger",
        **tables | start | {"task": "tag", "train_file": "entities.conll", "eval_file": "entities.conll"},
    )
    pairs = {
        "train_file": "pairs.tsv",
        "text_pair_column": "text_b",
        "siamese_loss": "classification",
        "max_seq_length": 32,
    }
    command("finetune", model_dir="siamese", task="siamese", train_batch_size=4, **start | pairs)
    command("encode", model_dir="siamese", input_file="passages.txt", output_file="vectors.npy")
    command("encode", model_dir="siamese", input_file="passages.txt", output_file="vectors.parquet")
    command("index", vectors_file="vectors.parquet", output_dir="index")
    small_served.echo(here / "served")


def writers() -> None:
    """A GPT-2 and a Transformer after one step."""
    command("train_vocabulary", tokenizer="byte_bpe", vocab_size=270, output_file="bytes", input_file="prose.txt")
    small = {"max_seq_length": 32, "num_shards": 1}
    command(
        "create_pretraining_data",
        input_file="prose.txt",
        packing="stream",
        vocab_file="bytes",
        output_dir="stream",
        **small,
    )
    command(
        "create_pretraining_data",
        input_file="parallel.tsv",
        packing="parallel",
        vocab_file="bytes",
        output_dir="pairs",
        **small,
    )
    for system, records, run in (("gpt2", "stream", "gpt2"), ("transformer", "pairs", "translator")):
        size = json.loads(Path(records, "manifest.json").read_text())["settings"]["vocabulary_size"]
        config = {"model": system, "config": NETWORK | {"vocabulary_size": size}}
        Path(f"{system}.json").write_text(json.dumps(config))
        command("pretrain", system=system, data_dir=records, model_dir=run, model_config_file=f"{system}.json", **RUN)


def ernie_of(checkpoint: Path, folder: Path) -> None:
    """The folder of a BERT as one of ERNIE, whose weights have the same names."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("SHA256SUMS"))
    stored = json.loads((folder / "config.json").read_text())
    numbers = stored["config"] | {"activation": "relu", "layer_norm_epsilon": 1e-5}
    (folder / "config.json").write_text(json.dumps(stored | {"model": "ernie", "system": "ernie", "config": numbers}))


def command(verb: str, **flags) -> None:
    """Runs a verb, which must end well."""
    if code := invoke(verb, **flags):
        raise SystemExit(f"xmodels {verb} {flags}: exit code {code}")
