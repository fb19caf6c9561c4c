"""Texts and tables of the reproduction of pretraining, from files in public use."""

import json
import os
import random

from data_pipelines.corpora.tables import Columns, Row, read_table
from data_pipelines.corpora.text_files import open_text

DEV, TEST, HELD_OUT = 600, 2000, 0.04  # rows, and the share of the documents
EPOCHS = {100: 30, 1000: 10, 5000: 4}  # of fine-tunings: rows -> times


def path(flags, name: str) -> str:
    return os.path.join(flags.work_dir, name)


def prepare(flags) -> dict[str, dict]:
    """Writes corpus and tables, once; a task of the plan for each task and number of rows."""
    texts, tasks = [], {}
    for spec in flags.task:
        name, label, column, files = split_spec(spec)
        parts = parted([read_table(file, Columns(column, None, label), bad_rows=[]) for file in files])
        texts += [row.texts[0] for row in parts["train"]]
        held = {part: write_table(flags, f"{name}-{part}", parts[part]) for part in ("dev", "test")}
        for place, size in enumerate(flags.rows):
            rows = parts["train"][:size]
            epochs = (flags.epochs or [EPOCHS.get(each, 5) for each in flags.rows])[place]
            tasks[f"{name}-{size}"] = {
                "train": write_table(flags, f"{name}-{size}", rows), **held, "flags": {"num_train_epochs": epochs},
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


def split_spec(spec: str) -> tuple[str, str, str, list[str]]:
    head, found, files = spec.partition("=")
    names, files = head.split(":"), files.split(",")
    if not found or len(names) != 3 or len(files) not in (1, 3):
        raise SystemExit(f"--task={spec}: expected NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN or …=TRAIN,DEV,TEST.")
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
    write_once(file, [json.dumps({"label": r.label, "text": r.texts[0]}, ensure_ascii=False) for r in rows])
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
