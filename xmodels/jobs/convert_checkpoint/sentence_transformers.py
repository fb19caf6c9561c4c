"""Folders of sentence-transformers become runs that encode texts, and such runs become folders of it."""

import os
import tempfile

import numpy as np

from data_pipelines.errors import CheckpointError, UsageError, name_source
from data_pipelines.text.frames import BERT, ROBERTA
from xmodels import systems
from xmodels.conversion import convert
from xmodels.conversion import sentence_transformers as theirs
from xmodels.export.exporter import new_folder
from xmodels.interfaces.reading import SAME
from xmodels.layers.poolings import PUBLISHED
from xmodels.models.folder import BACKBONE_FOLDER
from xmodels.runs import fine_tuned
from xmodels.runs.fine_tuned import read_task, write_description
from xmodels.runs.loaded import identify
from xmodels.tasks.base import find

FRAMES = (BERT, ROBERTA)  # of which the tokenizers of Hugging Face put the same special tokens around a text
TEXTS = ("A man plays the guitar.", "他在弹吉他。", "", "Many words, " * 200)  # that `verify` compares


def convert_sentences(source: str, target: str, allow_pickle: bool, verify: bool) -> None:
    """Converts a folder of sentence-transformers into a run, or a run into such a folder.

    Raises:
        UsageError: the target exists, or both are of one kind.
        CheckpointError: the source is damaged, or cannot be expressed in the other kind.
    """
    if theirs.is_named(source) == theirs.is_named(target):
        raise UsageError(
            f"--to={target}: a folder of sentence-transformers becomes a run of ours, which has no prefix."
        )
    if theirs.is_named(source):
        if ":" in target:
            raise UsageError(
                f"--to={target}: a folder of sentence-transformers becomes a run of ours, which has no prefix."
            )
        to_run(source.removeprefix(theirs.PREFIX), target, allow_pickle)
        run, written = target, None
    else:
        run, written = source, target.removeprefix(theirs.PREFIX)
        from_run(run, written)
    width = fine_tuned.load_predictor(run).encode(["a"]).shape[1]
    print(f"{source} → {target}: a network that encodes texts as {width} numbers.")
    if verify:
        print(f"  largest difference of the vectors: {largest_difference(run, written):.3g}")


def to_run(path: str, run: str, allow_pickle: bool = False) -> None:
    """Converts a folder of sentence-transformers to a run folder, which appears when it is whole."""
    _check_free(run)
    made = theirs.read(path, allow_pickle)
    system = systems.of_model(None, made.encoder.model, path)
    if system is None or system.READING is None or system.READING.frame not in FRAMES:
        raise CheckpointError(
            f"{path}: how a {made.encoder.model} reads texts in sentence-transformers is not known here."
        )
    pooling = system.READING.with_pooling(made.pooling).pooling
    task = find.own(theirs.task(), "convert")
    checkpoint, description = task.from_encoder(
        made, None if pooling == PUBLISHED else pooling, systems.name_of(system)
    )
    with new_folder(os.path.realpath(run)) as unfinished:
        convert.save(checkpoint, os.path.join(unfinished, BACKBONE_FOLDER))
        write_description(unfinished, description)


def from_run(run: str, path: str) -> None:
    """Converts a run to a folder of sentence-transformers, which appears when it is whole."""
    _check_free(path)
    description, found = read_task(run), identify(run)
    if description.task != theirs.task():
        raise CheckpointError(
            f"{run}: was fine-tuned with --task={description.task}, which gives texts no vectors; sentence-transformers takes "
            f"runs of --task={theirs.task()}."
        )
    if found.reading is None or found.reading.frame not in FRAMES:
        raise CheckpointError(
            f"{run}: this network puts special tokens around texts that its tokenizer in Hugging Face's library does not, so "
            "sentence-transformers would get other vectors. Serve it with `xmodels export_model`."
        )
    pooling = (
        SAME.get(found.reading.summary, PUBLISHED) if found.reading.pooling == PUBLISHED else found.reading.pooling
    )
    task = find.own(theirs.task(), "convert")
    made = task.to_encoder(convert.load(run), description.settings, pooling, description.max_sequence_length)
    with new_folder(os.path.realpath(path)) as unfinished:
        theirs.write(unfinished, made)


def largest_difference(run: str, written: str | None) -> float:
    """Returns the largest difference between the vectors of a run and of the folder written of it, read again, on a few texts.

    Args:
        written: None where there is none yet: one is written for this.
    """
    with tempfile.TemporaryDirectory() as folder, name_source(os.path.join(folder, "run"), written or run):
        again, path = os.path.join(folder, "run"), written or os.path.join(folder, "written")
        if written is None:
            from_run(run, path)
        to_run(path, again)
        both = [fine_tuned.load_predictor(each).encode(TEXTS) for each in (run, again)]
    return float(np.max(np.abs(both[0] - both[1])))


def _check_free(path: str) -> None:
    if os.path.lexists(path):
        raise UsageError(f"--to={path}: exists already; a checkpoint is written into a new folder only. Name another.")
