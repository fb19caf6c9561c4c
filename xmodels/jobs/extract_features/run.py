"""Writes the states of a network that does not learn."""

from collections.abc import Iterator

from data_pipelines.errors import UsageError
from data_pipelines.paths import check_output
from xmodels.jobs.extract_features import files
from xmodels.jobs.extract_features.options import Options
from xmodels.jobs.extract_features.texts import FrozenNetwork, TextStates, Wanted
from xmodels.jobs.predict.texts_of_files import texts_of
from xmodels.runs.loaded import load

LENGTH = 128  # tokens of a text, as `finetune` reads


def extract_features(options: Options) -> int:
    """Reads a file and writes the states of its texts; returns the number of texts."""
    path, is_pooled = options.output_file, options.pooling is not None
    check_output(path, overwrite=options.overwrite)
    files.check_kind(path, is_pooled)
    wanted = Wanted(options.layers, options.pooling, options.combine, options.layer_weights)
    wanted.factors()  # raises what is wrong with it
    loaded = load(options.model_dir)
    config, unbounded = loaded.backbone.config, loaded.network.any_length
    if not (unbounded or config.reads(options.max_seq_length or 0)):
        raise UsageError(
            f"--max_seq_length={options.max_seq_length}: the network reads at most {config.longest} tokens."
        )
    length = options.max_seq_length or (LENGTH if unbounded else config.cut(LENGTH))
    network, counted = FrozenNetwork(loaded, wanted, length), Counted()
    texts = texts_of(options.input_file, options.text_column)
    count = files.write(path, counted.of(network.read(texts, options.batch_size)), is_pooled)
    cut = (
        f"; {counted.cut:,} were longer than --max_seq_length={length} and lost {counted.pieces:,} pieces"
        if counted.cut
        else ""
    )
    print(f"{path}: {count:,} texts, {', '.join(wanted.names)} of {type(loaded.backbone).__name__}{cut}.")
    return count


class Counted:
    """Counts the texts that were cut as they pass.

    Attributes:
        cut: texts.
        pieces: that they lost.
    """

    def __init__(self):
        self.cut = self.pieces = 0

    def of(self, found: Iterator[TextStates]) -> Iterator[TextStates]:
        for each in found:
            self.cut, self.pieces = self.cut + (each.cut > 0), self.pieces + each.cut
            yield each
