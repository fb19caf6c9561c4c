"""Readers of tasks without a network."""

from xmodels.interfaces.reading import Reading
from xmodels.jobs.finetune.options import Options
from xmodels.tasks.base.find import load_part


def reader_of(task, reading=None, **flags):
    """The reader of a task with flags of `finetune`, for a network that reads as BERT does by default."""
    reader = load_part(task, "read").Reader(task, Options(task=task, init_checkpoint="none", model_dir="none", **flags))
    reader.reading = reading or Reading()
    return reader
