"""Similar words by the vectors of a file: `--similar_words`, for systems that replace words by others."""

import dataclasses
import functools

from data_pipelines.errors import UsageError
from data_pipelines.text.similar_words import MOST, SimilarWords, find_similar_words
from data_pipelines.text.tokenizer import Tokenizer
from xmodels import systems
from xmodels.conversion import word_vectors
from xmodels.training.recipe import Records
from xmodels.training.watching.progress import print_status


def add_similar_words(options, system, records: Records, tokenizer: Tokenizer) -> Records:
    """Returns the records with a function that finds similar words in the file of `--similar_words`; as they are without the flag.

    Raises:
        UsageError: the system replaces no words, or none of the file is made of tokens of the vocabulary.
        CheckpointError: the file cannot be read.
    """
    if not options.similar_words:
        return records
    if not vars(system).get("READS_SIMILAR_WORDS"):
        known = [name for name in systems.names() if vars(systems.load(name)).get("READS_SIMILAR_WORDS")]
        raise UsageError(
            f"--similar_words={options.similar_words}: --system={systems.name_of(system)} replaces no words by similar ones. Those "
            f"that do: {', '.join(known)}."
        )
    words, vectors = word_vectors.read_of_flag("similar_words", options.similar_words)

    @functools.cache
    def find(count: int, least: float) -> SimilarWords:
        print_status(f"Finding similar words among {min(len(words), MOST):,} of {options.similar_words}.")
        found = find_similar_words(tokenizer, words, vectors, count, least)
        if not len(found):
            raise UsageError(
                f"--similar_words={options.similar_words}: none of its {len(words):,} words is made of tokens of the vocabulary."
            )
        print_status(
            f"{len(found):,} words are made of tokens of the vocabulary; {(found.counts > 0).mean():.0%} of them have similar ones."
        )
        return found

    return dataclasses.replace(records, similar_words=find)
