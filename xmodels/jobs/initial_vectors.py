"""Word vectors of a file as the first table of a network: `--init_vectors` and `--freeze_vectors`."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion import word_vectors
from xmodels.models.backbone import Backbone, named_weights
from xmodels.models.folder import name_of
from xmodels.training.watching.progress import print_status

AT_ONCE = 1024  # words that are cut into pieces together


def begin_vectors(options, backbone: Backbone, tokenizer: Tokenizer) -> None:
    """Gives the table of tokens of a built network the vectors of `--init_vectors`, and says how many tokens have one.

    Call it before the learner is made, also of a run that goes on: a table that does not learn is in none of its states.

    Raises:
        UsageError: the table has another width, no token has a vector, or `--freeze_vectors` stands alone.
        CheckpointError: the file cannot be read.
    """
    if not options.init_vectors:
        if options.freeze_vectors:
            raise UsageError("--freeze_vectors: keeps the table of --init_vectors, which is not given.")
        return
    is_new = (options.init_checkpoint or "new:").startswith("new:") or getattr(options, "random_init", False)
    if not is_new:
        raise UsageError(
            f"--init_vectors={options.init_vectors}: the table of --init_checkpoint={options.init_checkpoint} is trained already. "
            "Give one of the two."
        )
    words, vectors = word_vectors.read_of_flag("init_vectors", options.init_vectors)
    table = table_of(backbone, vectors.shape[1], options.init_vectors)
    values = np.array(table.numpy())
    before = values.copy()
    by_word, by_pieces = fill(values, tokenizer, words, vectors)
    known = (values != before).any(axis=1)
    if not by_word + by_pieces:
        raise UsageError(
            f"--init_vectors={options.init_vectors}: none of its {len(words):,} words is made of tokens of the vocabulary."
        )
    if others_are_zeros := options.freeze_vectors and backbone.unknown_words_are_zeros:
        values[~known] = 0.0
    table.assign(values)
    table.trainable = not options.freeze_vectors
    others = "are zeros" if others_are_zeros else "keep random ones"
    print_status(
        f"Initial vectors from {options.init_vectors}: {by_word:,} of {len(values):,} tokens are words of it, {by_pieces:,} are "
        f"pieces of its words; the others {others}.{' The table does not learn.' if options.freeze_vectors else ''}"
    )


def table_of(backbone: Backbone, width: int, source: str):
    """Returns the first table of a network that has a row of this width for each token.

    Raises:
        UsageError: names the widths that there are.
    """
    rows = backbone.config.vocabulary_size
    named = named_weights(backbone).items()
    tables = [v for name, v in named if len(v.shape) == 2 and v.shape[0] == rows and name.endswith("embeddings")]
    for table in tables:
        if table.shape[1] == width:
            return table
    known = ", ".join(str(table.shape[1]) for table in tables) or "none"
    raise UsageError(
        f"--init_vectors={source}: has vectors of {width} numbers; the tables of tokens of this {name_of(type(backbone))} have "
        f"{known}. Give vectors or a network of the same width, for instance by --model_config_file."
    )


def fill(values: np.ndarray, tokenizer: Tokenizer, words: Sequence[str], vectors: np.ndarray) -> tuple[int, int]:
    """Replaces the rows of tokens: of a token that is a whole word by its vector, of another one by the mean of those of the words
    that it is a piece of.

    Args:
        values: (V, D), changed in place.
        words, vectors: of the file, (N, D). Of words that are the same to the tokenizer, such as `The` and `the`, the first counts.

    Returns:
        How many rows are those of words, and how many those of pieces.
    """
    special = tokenizer.vocabulary.special_ids
    whole: dict[int, int] = {}
    sums, counts = np.zeros_like(values), np.zeros(len(values))
    for begin in range(0, len(words), AT_ONCE):
        for place, pieces in enumerate(tokenizer.encode_batch(words[begin : begin + AT_ONCE]), begin):
            ids = [int(i) for i in pieces.ids]
            if not ids or any(i in special for i in ids):  # not all of the word is known
                continue
            if len(ids) == 1:
                whole.setdefault(ids[0], place)
            else:
                np.add.at(sums, ids, vectors[place])
                np.add.at(counts, ids, 1.0)
    values[list(whole)] = vectors[list(whole.values())]
    parts = [i for i in np.flatnonzero(counts) if i not in whole]
    values[parts] = sums[parts] / counts[parts, None]
    return len(whole), len(parts)
