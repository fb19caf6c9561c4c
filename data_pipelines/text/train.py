"""Trains a WordPiece vocabulary with the `tokenizers` library."""

import collections
from collections.abc import Callable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from data_pipelines.corpora.plain_text import Corpus, read_documents
from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, UNKNOWN, Vocabulary

Progress = Callable[[int], None]


def train_wordpiece(
    corpus: Corpus,
    vocabulary_size: int,
    do_lower_case: bool = True,
    min_frequency: int = 2,
    progress: Progress = lambda num_bytes: None,
) -> Vocabulary:
    """Learns the pieces that compress the corpus best. Equal text gives an equal vocabulary.

    CJK characters stand alone, as in BERT, so that no `##字` arises. The library numbers the characters in the order
    of a hash table and breaks ties by these numbers; so they are collected first, sorted, and given to it as fixed
    tokens. The corpus is read three times; memory grows with its different words only.

    Args:
        vocabulary_size: entries, with the five special tokens. Fewer where the corpus does not yield as many.
        min_frequency: pieces that occur less often are left out; so are characters, unless the language is Chinese,
            where each character is a word of its own.
        progress: called with the number of bytes read; the total is three times the corpus.

    Raises:
        UsageError: `vocabulary_size` leaves no room for the special tokens and some characters.
    """
    normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
    room = vocabulary_size - len(SPECIAL_TOKENS)
    if room < 50:
        raise UsageError(f"--vocab_size={vocabulary_size}: too small; choose at least {50 + len(SPECIAL_TOKENS)}.")
    counts: collections.Counter = collections.Counter()
    for text in _texts(corpus, progress):
        counts.update(normalizer.normalize_str(text))
    ranked = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    frequent = [c for c in ranked if counts[c] >= min_frequency or corpus.language == "zh"]
    kept = frequent or ranked
    while len(alphabet := _alphabet(corpus, normalizer, kept, progress)) > room:
        # Continuing forms (`##a`) take places too; leave out the rarest characters until all fit.
        kept = kept[: len(kept) - (len(alphabet) - room)]
        if not kept:
            raise UsageError(f"--vocab_size={vocabulary_size}: too small for the characters of the corpus.")
    special = [*SPECIAL_TOKENS, *alphabet]
    vocabulary = _train(corpus, normalizer, kept, special, vocabulary_size, min_frequency, progress)
    return Vocabulary(vocabulary)


def _texts(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for document in read_documents(corpus, 0, corpus.num_bytes, progress):
        yield from document.sentences


def _alphabet(corpus, normalizer, kept, progress) -> list[str]:
    """The characters, alone and with `##` where they continue words, sorted."""
    tokens = _train(corpus, normalizer, kept, [], 1, 1, progress)  # too small for merges, so characters only
    return sorted(tokens, key=lambda token: (token.startswith(CONTINUATION) and len(token) > 2, token))


def _train(corpus, normalizer, kept, special, vocabulary_size, min_frequency, progress) -> list[str]:
    allowed = set(kept)
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN, continuing_subword_prefix=CONTINUATION))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=special,
        continuing_subword_prefix=CONTINUATION,
    )

    def normalized():
        for text in _texts(corpus, progress):
            text = normalizer.normalize_str(text)
            if not allowed.issuperset(text):
                text = "".join(c if c in allowed else " " for c in text)
            yield text

    tokenizer.train_from_iterator(normalized(), trainer)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(ids, key=ids.get)
