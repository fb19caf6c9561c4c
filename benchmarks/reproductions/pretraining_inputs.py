"""What the reproductions of pretraining share: flags, texts and tables from files in public use, and a plan of `xmodels compare`."""

import argparse
import glob
import json
import math
import os
import random

import yaml

from benchmarks.reproductions.commands import results_of, run
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.corpora.text_files import open_text

VOCABULARY = {"en": 4000, "zh": 4000}
WORDS = {"do_whole_word_mask": True}
DEV, TEST, HELD_OUT = 600, 2000, 0.04  # rows, and the share of the documents
RATES = [1e-3, 4e-3]  # of Muon, which trained the networks (docs/small_networks.md)
EPOCHS = {100: 30, 1000: 10, 5000: 4}  # of fine-tunings: rows -> times
SCORED = 10  # states of a fine-tuning, about, that are scored on the development rows at most
BATCH = 32  # rows of fine-tunings


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser_of(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--language", choices=tuple(VOCABULARY), required=True)
    add("--text", required=True, help="files, parted by commas")
    add("--task", action="append", required=True, help="NAME:LABEL_COLUMN:TEXT_COLUMN[+PAIR_COLUMN]=TRAIN[,DEV,TEST]")
    add("--work_dir", required=True)
    add("--paragraphs", type=int, default=1, help="of --text that are one document, parted by blank lines")
    add("--rows", type=numbers, default=list(EPOCHS), help="sizes of the labelled sets")
    add("--seeds", type=numbers, default=[1, 2, 3])
    add("--million_tokens", type=float, default=8, help="of each pretraining")
    add("--train_batch_size", type=int, default=32, help="of each pretraining: rows of 128 tokens, or as many tokens")
    add("--epochs", type=numbers, help="of fine-tuning, one for each of --rows")
    add("--jobs", type=int, default=2)
    add(
        "--mixed_precision",
        help="of pretrainings, such as bfloat16: faster where the processor has instructions for it",
    )
    return parser


def path(flags, name: str) -> str:
    return os.path.join(flags.work_dir, name)


def prepare(flags) -> dict[str, dict]:
    """Writes corpus and tables, once; a task of the plan for each task and number of rows."""
    texts, tasks = [], {}
    for spec in flags.task:
        name, label, column, files = split_spec(spec)
        text, _, pair = column.partition("+")
        parts = parted([read_table(file, Columns(text, pair or None, label), bad_rows=[]) for file in files])
        texts += [] if pair else [row.texts[0] for row in parts["train"]]
        held = {part: write_table(flags, f"{name}-{part}", parts[part]) for part in ("dev", "test")}
        for place, size in enumerate(flags.rows):
            rows = parts["train"][:size]
            epochs = (flags.epochs or [EPOCHS.get(each, 5) for each in flags.rows])[place]
            tasks[f"{name}-{size}"] = {
                "train": write_table(flags, f"{name}-{size}", rows), **held, "flags": epochs_of(epochs, size),
            }  # fmt: skip
    for file in flags.text.split(","):
        with open_text(file) as lines:
            paragraphs = [part for part in "".join(lines).split("\n\n") if part.strip()]
        starts = range(0, len(paragraphs), flags.paragraphs)
        texts += ["\n".join(paragraphs[start : start + flags.paragraphs]) for start in starts]
    random.Random(0).shuffle(texts)
    held_out = round(HELD_OUT * len(texts))
    for name, part in (("heldout", texts[:held_out]), ("train", texts[held_out:])):
        write_once(path(flags, f"{name}.jsonl"), [json.dumps({"text": text}, ensure_ascii=False) for text in part])
    return tasks


def epochs_of(epochs: int, rows: int) -> dict[str, int]:
    """Flags of a fine-tuning: its epochs, and how often it is scored where that would cost more than to learn."""
    seldom = epochs // SCORED
    return {"num_train_epochs": epochs, **({"eval_every": seldom * math.ceil(rows / BATCH)} if seldom > 1 else {})}


def split_spec(spec: str) -> tuple[str, str, str, list[str]]:
    head, found, files = spec.partition("=")
    names, files = head.split(":"), files.split(",")
    if not found or len(names) != 3 or len(files) not in (1, 3):
        raise SystemExit(
            f"--task={spec}: expected NAME:LABEL_COLUMN:TEXT_COLUMN[+PAIR_COLUMN]=TRAIN or …=TRAIN,DEV,TEST."
        )
    return *names, files


def parted(files: list[list[Row]]) -> dict[str, list[Row]]:
    """Rows by part, in a drawn order; what stands in the test or development rows is not trained on, and nothing stands twice."""
    for rows in files:
        random.Random(0).shuffle(rows)
    if len(files) == 1:
        rows = files[0]
        files = [rows[DEV + TEST :], rows[:DEV], rows[DEV : DEV + TEST]]
    train, dev, test = files
    known, unseen = {row.texts for row in dev + test}, []
    for row in train:
        if row.texts not in known:
            known.add(row.texts)
            unseen.append(row)
    return {"train": unseen, "dev": dev[:DEV], "test": test[:TEST]}


def write_table(flags, name: str, rows: list[Row]) -> str:
    file = path(flags, f"{name}.jsonl")
    named = [{"label": row.label, **dict(zip(("text", "text_pair"), row.texts, strict=False))} for row in rows]
    write_once(file, [json.dumps(row, ensure_ascii=False) for row in named])
    return file


def write_once(file: str, lines: list[str]) -> None:
    """Leaves a file alone that holds the same already, since its time is part of what `compare` knows."""
    text = "\n".join(lines) + "\n"
    if os.path.isfile(file):
        with open(file, encoding="utf-8") as stream:
            if stream.read() == text:
                return
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)


def plan_of(flags, tasks: dict, title: str, systems: dict, random_starts=()) -> dict:
    """A plan of `xmodels compare`: networks of two layers of 128 with the numbers of small networks."""
    precision = {"mixed_precision": flags.mixed_precision} if flags.mixed_precision else {}
    return {
        "name": title, "language": flags.language, "budget": {"tokens": int(flags.million_tokens * 1e6)},
        "corpus": {name: path(flags, f"{name}.jsonl") for name in ("train", "heldout")}
        | {"flags": {"input_format": "jsonl"}},
        "vocabulary": {"size": VOCABULARY[flags.language]},
        "records": {**WORDS, **({"segmenter": "jieba"} if flags.language == "zh" else {})},
        "pretraining": {
            "max_seq_length": 128, "train_batch_size": flags.train_batch_size, "flags": {"recipe": "small"} | precision,
        },
        "systems": systems,
        "baselines": {"random": list(random_starts)},
        "finetuning": {
            "seeds": flags.seeds, "tune": {"learning_rate": RATES},
            "flags": {
                "train_batch_size": BATCH, "max_seq_length": 64, "pooling": "mean+max", "optimizer": "muon",
                "length_buckets": "auto",
            },
        },
        "tasks": tasks,
    }  # fmt: skip


def compare(flags, name: str, plan: dict) -> dict:
    """Runs a plan in the common folder, where what the other one made is used. Returns its numbers."""
    file, folder = path(flags, f"{name}.yaml"), path(flags, "comparison")
    write_once(file, [yaml.safe_dump(plan, allow_unicode=True, sort_keys=False)])
    run("compare", plan=file, output_dir=folder, jobs=flags.jobs)
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as stream:
        return json.load(stream)


def pretrained(flags, found: dict, arm: str) -> list[str]:
    """The folders of the pretrainings of an arm whose numbers were found, by seed; plans of other budgets leave theirs beside them."""
    folders = {}
    for mark in glob.glob(path(flags, f"comparison/done/pretrain-pretrain-{arm}-*.json")):
        folder = path(flags, f"comparison/pretrain/{os.path.basename(mark)[len('pretrain-') : -len('.json')]}")
        folders[results_of(folder)["loss"]] = folder
    if missing := [loss for loss in found["objectives"][arm]["losses"] if loss not in folders]:
        raise SystemExit(
            f"{path(flags, 'comparison')}: no pretraining of {arm} has the losses {missing} of results.json."
        )
    return [folders[loss] for loss in found["objectives"][arm]["losses"]]
