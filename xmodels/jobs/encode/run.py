"""Writes the vectors of texts."""

from data_pipelines.paths import check_output
from data_pipelines.text import cuts
from xmodels.jobs.encode.options import Options
from xmodels.jobs.predict.run import load_predictor
from xmodels.jobs.predict.texts_of_files import encode_in_windows, texts_of
from xmodels.retrieval import vectors
from xmodels.retrieval.encoder import Encoder
from xmodels.tasks.base.score import print_cuts


def encode(options: Options) -> int:
    """Encodes a file; returns the number of its texts."""
    path = options.output_file
    check_output(path, overwrite=options.overwrite)
    vectors.check_kind(path, "output_file")
    predictor = load_predictor(options.model_dir)
    encoder = Encoder.of(predictor, options.model_dir)
    with cuts.count_cuts() as cut:
        parts = encode_in_windows(
            texts_of(options.input_file, options.text_column),
            lambda texts: predictor.encode(texts, options.batch_size),
            options.batch_size,
        )
        count = vectors.write(path, encoder, parts)
    print_cuts(options.input_file, cut, predictor)
    beside = f"; {path}{vectors.BESIDE} says which network made them" if path.endswith(vectors.NPY) else ""
    print(f"{path}: {count:,} vectors{beside}.")
    return count
