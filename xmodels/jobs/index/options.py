"""Builds a search index from the vectors that encode wrote.

xmodels index --vectors_file=vectors.npy --input_file=texts.txt --output_dir=index
xmodels index --vectors_file=vectors.parquet --kind=hnsw --output_dir=index
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Vectors, and the index that is built from them."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.index.run:make_index"
    EARLY: ClassVar = "xmodels.jobs.early:check_indexing"

    vectors_file: str = option(REQUIRED, "File that encode wrote: NAME.npy or NAME.parquet.", section="Vectors")
    input_file: str | None = option(None, "The encoded texts, which are stored in the index. Not needed with Parquet, which contains them.")  # fmt: skip
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    output_dir: str = option(REQUIRED, "New folder for the index.", section="Output")
    overwrite: bool = option(False, "Replace an existing index in output_dir.")
    kind: str = option("exact", "exact: compares with every vector. hnsw: a graph that finds most of the nearest vectors faster, for 100,000 vectors and more; needs the extra `search`.", choices=("exact", "hnsw"))  # fmt: skip
    neighbours: int = option(32, "Neighbours of each vector in the graph. More of them find more of the nearest vectors, and take more memory.", minimum=2, maximum=256)  # fmt: skip
