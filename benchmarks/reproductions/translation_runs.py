"""What the reproductions of the Transformer share: flags, a vocabulary and records of parallel text, and runs on them."""

import argparse
import os

from benchmarks.reproductions import commands, pages
from data_pipelines.text.kinds import open_tokenizer

LENGTH = 64
PRECISION = {"mixed_precision": "bfloat16"}


def parser_of(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ("train", "valid", "test"):
        parser.add_argument(f"--{part}", required=True, metavar="SOURCE,TARGET")
    parser.add_argument("--work_dir", required=True, help="runs and scores; kept, so that the same command goes on")
    parser.add_argument("--vocab_size", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--no_page", action="store_true", help="train and score only")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output_dir", default=pages.RESULTS, help="for the page and the picture")
    return parser


def prepare(flags) -> int:
    """Makes a joint vocabulary, and records. Returns the size of the vocabulary."""
    folder = flags.work_dir
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(f"{folder}/vocabulary"):
        commands.run(
            "train_vocabulary", input_file=flags.train, input_format="documents", tokenizer="sentencepiece",
            vocab_size=flags.vocab_size, output_file=f"{folder}/vocabulary",
        )  # fmt: skip
    for part in ("train", "valid"):
        source, target = getattr(flags, part).split(",")
        commands.make_records(
            f"{folder}/{part}", input_file=source, target_file=target, vocab_file=f"{folder}/vocabulary",
            packing="parallel", max_seq_length=LENGTH,
        )  # fmt: skip
    return len(open_tokenizer(f"{folder}/vocabulary").vocabulary)


def train(folder: str, name: str, steps: int, seed: int, **flags) -> str:
    """The folder of a run on the records, which is made unless it is finished."""
    path = f"{folder}/{name}_{seed}"
    if not commands.is_finished(path):
        commands.run(
            "pretrain", data_dir=f"{folder}/train", eval_data_dir=f"{folder}/valid", model_dir=path, num_train_steps=steps,
            log_steps=20, seed=seed, **PRECISION, **flags,
        )  # fmt: skip
    return path


def nats_of(run: str) -> float:
    """Held-out nats of a token of the targets."""
    return commands.results_of(run)["negative_log_likelihood"]


def command(module: str) -> str:
    """The command of a page, without the places of files."""
    return f"python -m benchmarks.reproductions.{module} --train=… --valid=… --test=… --work_dir=work"
