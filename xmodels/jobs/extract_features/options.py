"""Writes the hidden states of any network: a vector for each token, or pooled to one for each text (docs/features.md).

xmodels extract_features --model_dir=run --input_file=texts.txt --output_file=tokens.jsonl
xmodels extract_features --model_dir=run --layers=-1 --pooling=mean --input_file=texts.txt --output_file=vectors.npy
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option

POOLINGS = ("first", "mean", "max", "last")
COMBINATIONS = ("none", "concat", "mix")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A network, which is not trained, the texts that it reads, and which of its states are written."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.extract_features.run:extract_features"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"
    NEEDS_TENSORFLOW: ClassVar = True

    model_dir: str = option(REQUIRED, "A run, a model folder, hf:FOLDER or tf1:PREFIX.", section="Model")
    layers: str = option("-1,-2,-3,-4", "Layers to write, computed in one pass: 0 is the embedding, -1 the last layer.", section="States")  # fmt: skip
    pooling: str | None = option(None, "One vector per text: the state of the first or last token, or the mean or max over all tokens, including special ones. Default: one vector per token.", choices=POOLINGS)  # fmt: skip
    combine: str = option("none", "none: each layer by itself. concat: concatenated in the order of layers. mix: their sum, weighted by layer_weights.", choices=COMBINATIONS)  # fmt: skip
    layer_weights: str | None = option(None, "Weights of the layers in --combine=mix, such as 0.5,0.3,0.2. Default: 1 each.")  # fmt: skip
    max_seq_length: int | None = option(None, "Maximum length in tokens; longer texts are truncated and counted. Default: 128, or less if the network reads less.", minimum=1)  # fmt: skip
    input_file: str = option(REQUIRED, "Plain text with one text a line, or TSV, CSV, JSON lines.", section="Texts")
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    output_file: str = option(REQUIRED, "NAME.jsonl: one line per text. NAME.npz, NAME.parquet: one array or column per layer. NAME.npy: one array of pooled states.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Batch size: texts at a time. Texts of similar length share a batch.", minimum=1)
