"""Converts checkpoints between Hugging Face folders, Google's TensorFlow 1 files, folders of xmodels, and more
formats. Nothing is overwritten.

    xmodels convert_checkpoint --from=hf:bert-base-chinese --to=model --verify
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, modules_of, option
from xmodels.conversion import find as formats
from xmodels.tasks.base import find

FURTHER = "".join(f"{name}:FOLDER ({title}), " for name, title in formats.titles().items())
VECTORS = ", ".join(f"{name}:FILE" for name in modules_of("xmodels.conversion.vectors"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The checkpoint to read and the one to write."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.convert_checkpoint.run:convert_checkpoint"
    EARLY: ClassVar = "xmodels.jobs.early:check_conversion"

    source: str = option(REQUIRED, "Checkpoint to read: hf:FOLDER (safetensors), tf1:PREFIX or tf1:FOLDER, fairseq:FOLDER (RoBERTa's model.pt, with --allow_pickle), paddle:FOLDER (ERNIE), keras_hub:FOLDER (a preset), " + FURTHER + "sentence_transformers:FOLDER, or a run or model folder of xmodels.", section="Checkpoints", flag="from")  # fmt: skip
    target: str = option(REQUIRED, f"Checkpoint to write: hf:FOLDER, tf1:FOLDER or tf1:FOLDER/bert_model.ckpt, paddle:FOLDER (ERNIE), keras_hub:FOLDER, {VECTORS} (word vectors; word2vec's are binary if the name ends in .bin), sentence_transformers:FOLDER (from a run of finetune --task=siamese), or a new model folder of xmodels (from sentence_transformers: a run folder).", flag="to")  # fmt: skip
    task: str | None = option(None, "What a head with one output was trained for, if the source does not say. regress: a number for a text or a pair. rank: the order of candidates. Default: regress.", choices=find.able("HAS_ONE_OUTPUT"))  # fmt: skip
    to_mixer: str | None = option(None, "Another mixer for all blocks (docs/mixers.md), such as longformer for long texts. Only to a new model folder of xmodels; go on with pretrain --init_checkpoint, or finetune.")  # fmt: skip
    max_sequence_length: int | None = option(None, "Positions of the network, with to_mixer; further ones begin as copies of the first. Default: those of the checkpoint.", minimum=1)  # fmt: skip
    set: str | None = option(None, "Numbers of the mixer, with to_mixer: NAME=VALUE,..., such as mixer.window=128.")
    verify: bool = option(False, "Run both networks on one batch and print the largest difference of each output.")
    allow_pickle: bool = option(False, "Allow reading model.pt, .pdparams, or pytorch_model.bin if there are no safetensors. Only for files you trust.")  # fmt: skip
