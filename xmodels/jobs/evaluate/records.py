"""Scores a run on records of `create_finetuning_data`, as the evaluation of its fine-tuning does: they hold ids and no texts."""

import dataclasses
import os

import numpy as np

from data_pipelines.errors import UsageError
from xmodels.conversion import names
from xmodels.jobs.evaluate import options as evaluate
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.finetune.decisive import stack_batches
from xmodels.models.folder import read_json
from xmodels.runs.fine_tuned import read_task
from xmodels.runs.folder import CONFIG
from xmodels.tasks.base import find
from xmodels.tasks.base.answer import compile_answer
from xmodels.tasks.base.score import print_pictures

TAKEN = ("task", "model_dir", "test_file", "batch_size", "plots", "output_file", "encoding", "delimiter")
BATCH_SIZE = 32


def evaluate_records(predictor, options: evaluate.Options, given: list[str]) -> dict:
    """Prints and returns the scores. With `plots`, pictures go to that folder.

    Args:
        given: the options that were named.

    Raises:
        UsageError: the task learns from no records that say what is right, or an option is of tables.
        DataError: the records are those of another network, or have other labels.
    """
    task, folder = predictor.task, options.test_file
    score = find.load_part(task.label, "score")
    for name in given:
        if name not in TAKEN:
            raise UsageError(f"--{name}: --test_file={folder} holds records, which have no such thing. Leave it out.")
    source = read_records(predictor, options)
    answer, size = compile_answer(lambda batch: predict_batch(predictor, batch)), options.batch_size or BATCH_SIZE
    starts = range(0, source.num_examples, size)
    batches = ({name: np.asarray(x[start : start + size]) for name, x in source.arrays.items()} for start in starts)
    outputs, examples = stack_batches((answer(batch), batch) for batch in batches)
    if score.READS_SOURCE:
        answers = score.from_source(outputs, source, task)
    else:
        answers = score.from_arrays(outputs, examples, list(predictor.labels))
    settings = dict(getattr(task, "settings", {}))
    if not names.is_foreign(options.model_dir):
        settings |= read_task(options.model_dir).settings
    taken = {name: settings[name] for name in (*score.CHOSEN, *score.SETTINGS) if name in settings}
    found = score.scores(*answers, **taken)
    summary = ", ".join(f"{name} {value:.4f}" for name, value in found.items() if isinstance(value, float))
    print(f"{folder}: {len(answers[1]):,} examples, {summary}")
    if options.plots:
        print_pictures(score.draw(options.plots, *answers, {**settings, "labels": list(predictor.labels)}))
    return found


def predict_batch(predictor, batch: dict) -> dict:
    """Returns what the network answers to a batch of examples, labels among them."""
    return predictor.task.predict(predictor.task.forward(predictor.backbone, batch, training=False))


def read_records(predictor, options: evaluate.Options):
    """Returns the records as the `Reader` of the task has them, with the flags of the fine-tuning."""
    reader_class = find.load_part(predictor.task.label, "read").Reader
    path = os.path.join(options.model_dir, CONFIG)
    stored = read_json(path).get("flags", {}) if os.path.isfile(path) else {}
    known = {field.name for field in dataclasses.fields(finetune.Options)}
    flags = {name: value for name, value in stored.items() if name in known}
    flags |= {
        "task": predictor.task.label, "init_checkpoint": options.model_dir, "model_dir": options.model_dir, "train_file": None,
        "data_dir": options.test_file, "eval_file": None, "test_file": None, "model_config_file": None,
        "max_seq_length": predictor.max_sequence_length,
    }  # fmt: skip
    reader = reader_class(predictor.task.label, finetune.Options(**flags))
    reader.reading = predictor.task.reading
    return reader.recorded_set(options.test_file, predictor.tokenizer, list(predictor.labels))
