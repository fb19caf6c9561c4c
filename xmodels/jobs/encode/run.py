"""Writes the vectors of texts."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from data_pipelines.paths import check_output
from data_pipelines.text import cuts
from xmodels.jobs.device_options import answer_scope
from xmodels.jobs.encode.options import Options
from xmodels.jobs.predict.run import load_predictor
from xmodels.jobs.predict.texts_of_files import encode_in_windows, texts_of
from xmodels.jobs.shares import count_rows, share_of
from xmodels.retrieval import vectors
from xmodels.retrieval.encoder import Encoder
from xmodels.tasks.base.score import print_cuts


def encode(options: Options) -> int:
    """Encodes a file, or a share of it; returns the number of texts."""
    path = options.output_file
    check_output(path, overwrite=options.overwrite)
    vectors.check_kind(path, "output_file")
    share = share_of(options)
    with answer_scope(options):
        predictor = load_predictor(options.model_dir)
    encoder = Encoder.of(predictor, options.model_dir)

    def encode_to(path: str, rows: slice) -> int:
        texts = itertools.islice(texts_of(options.input_file, options.text_column), rows.start, rows.stop)
        with cuts.count_cuts() as cut:
            encoded = encode_in_windows(
                texts, lambda found: predictor.encode(found, options.batch_size), options.batch_size
            )
            count = vectors.write(path, encoder, encoded)
        print_cuts(options.input_file, cut, predictor)
        beside = f"; {path}{vectors.BESIDE} says which network made them" if path.endswith(vectors.NPY) else ""
        print(f"{path}: {count:,} vectors{beside}.")
        return count

    if share is None:
        return encode_to(path, slice(None))
    rows = share.rows(count_rows(texts_of(options.input_file, options.text_column)))
    share.work(
        lambda part: encode_to(part, rows),
        lambda paths: vectors.write(path, encoder, joined(paths, texts_of(options.input_file, options.text_column))),
    )
    return rows.stop - rows.start


def joined(paths: Sequence[str], texts: Iterator[str]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields the texts and vectors of files, one behind the other.

    Args:
        texts: of all files, since some hold none.
    """
    for path in paths:
        for _, found in vectors.read(path).parts():
            yield list(itertools.islice(texts, len(found))), found
