"""The options of `xmodels index`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Vectors, and the index that is made of them."""

    JOB: ClassVar = "xmodels.jobs.index:make_index"

    vectors_file: str = option(REQUIRED, "What encode wrote: NAME.npy or NAME.parquet.", section="Vectors")
    input_file: str | None = option(None, "The texts that were encoded, which the index then holds. A Parquet file has them.")  # fmt: skip
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without header. Default: text, sentence, …")  # fmt: skip
    output_dir: str = option(REQUIRED, "New folder for the index.", section="Output")
    overwrite: bool = option(False, "Replace an index there.")
    kind: str = option("exact", "exact: compares with every vector. hnsw: a graph, which finds most of the nearest sooner; for 100,000 vectors and more; needs the extra `search`.", choices=("exact", "hnsw"))  # fmt: skip
    neighbours: int = option(32, "Of each vector in the graph; more find more, and take more memory.", minimum=2, maximum=256)  # fmt: skip
