"""Finds the texts in an index that are nearest to each query.

xmodels search --index=index --model_dir=siamese --text='How do I reset my password?' --top_k=5
xmodels search --index=index --model_dir=siamese --input_file=queries.txt --output_file=found.jsonl
xmodels search --index=index --model_dir=siamese --input_file=queries.txt --rerank_model_dir=ranker
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """An index, the network that encoded its vectors, and queries."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.search.run:search"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"
    NEEDS_TENSORFLOW: ClassVar = True

    index: str = option(REQUIRED, "Folder that index wrote.", section="Index and model")
    model_dir: str = option(REQUIRED, "Run folder of the network that encoded its vectors; any other network is refused.")  # fmt: skip
    text: str | None = option(None, "A query.", section="Queries: one of these")
    input_file: str | None = option(None, "Plain text with one query a line, or TSV, CSV, JSON lines.")
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the query: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    top_k: int = option(10, "Number of texts to find per query.", section="Results", minimum=1)
    rerank_model_dir: str | None = option(None, "Reranker, which reads a query and a text together: run of finetune --task=rank or regress, or a classifier of pairs (classify, similarity, san).")  # fmt: skip
    rerank_label: str | None = option(None, "For a classifier as reranker: the label whose probability orders the texts. Default: of two labels, the one called 1, yes, true, match, relevant or entailment.")  # fmt: skip
    rerank_depth: int = option(100, "Number of nearest texts to rerank.", minimum=1)
    output_file: str | None = option(None, "File for the results: JSON lines, one per query. Default: print.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Batch size: texts at a time.", minimum=1)
