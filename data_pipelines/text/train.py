"""Trains vocabularies of pieces of words with the `tokenizers` library: WordPiece, and BPE with an end of word."""

import collections
import dataclasses
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from data_pipelines.corpora.corpus import Corpus, read_documents
from data_pipelines.corpora.reading import Monitor
from data_pipelines.errors import UsageError
from data_pipelines.text import bert_words
from data_pipelines.text.byte_pairs import END_OF_WORD, BpeTokenizer, Merges
from data_pipelines.text.plain_units import stands_alone
from data_pipelines.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, UNKNOWN, Vocabulary

Progress = Callable[[int], None]
LONGEST_WORD = 1000  # characters without blanks and punctuation; the time to learn from a word grows with its square
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # no words before they are segmented
_PARTS_WORDS = rf"\s!-/:-@\[-`{{-~\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20{_HAN}"
_MANY_IDEOGRAPHS = re.compile(f"[{_HAN}]{{{LONGEST_WORD}}}(?=[{_HAN}])")
_ENDLESS_WORD = re.compile(f"(?<![^{_PARTS_WORDS}])[^{_PARTS_WORDS}]{{{LONGEST_WORD + 1},}}+")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How pieces of words are spelled.

    Attributes:
        special: the special tokens, which come first.
        model: makes the library's empty model.
        trainer: the library's class.
        spelling: what model and trainer are told of the marks of pieces.
        normalizer, pre_tokenizer: make the library's cleaning and parting of words.
        needs_bare: whether a word of one character is spelled bare, `字`, not `字</w>`.
    """

    special: tuple[str, ...]
    model: Callable
    trainer: Callable
    spelling: dict
    normalizer: Callable
    pre_tokenizer: Callable
    needs_bare: bool


WORDPIECE = Scheme(
    SPECIAL_TOKENS,
    models.WordPiece,
    trainers.WordPieceTrainer,
    {"continuing_subword_prefix": CONTINUATION},
    bert_words.normalizer,
    bert_words.pre_tokenizer,
    True,
)
BPE = Scheme(
    ("<unk>", "<pad>", "<s>", "</s>", "<mask>"),
    models.BPE,
    trainers.BpeTrainer,
    {"end_of_word_suffix": END_OF_WORD},
    lambda do_lower_case: normalizers.BertNormalizer(lowercase=do_lower_case),
    pre_tokenizers.BertPreTokenizer,
    False,
)


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
    return Vocabulary(_learn(WORDPIECE, corpus, vocabulary_size, do_lower_case, min_frequency, progress)[0])


def train_bpe(
    corpus: Corpus,
    vocabulary_size: int,
    do_lower_case: bool = True,
    min_frequency: int = 2,
    progress: Progress = lambda num_bytes: None,
) -> BpeTokenizer:
    """Learns BPE with an end of word as `train_wordpiece` learns word pieces."""
    tokens, merges = _learn(BPE, corpus, vocabulary_size, do_lower_case, min_frequency, progress)
    return BpeTokenizer(Vocabulary(tokens, required=(), spelled=True), merges, do_lower_case)


def _learn(scheme, corpus, vocabulary_size, do_lower_case, min_frequency, progress) -> tuple[list[str], Merges]:
    normalizer = scheme.normalizer(do_lower_case)
    capacity = vocabulary_size - len(scheme.special)
    if capacity < 50:
        raise UsageError(f"--vocab_size={vocabulary_size}: too small; choose at least {50 + len(scheme.special)}.")
    counts: collections.Counter = collections.Counter()
    for text in texts_of(corpus, progress):
        counts.update(normalizer.normalize_str(text))
    ranked = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    frequent = [c for c in ranked if counts[c] >= min_frequency or corpus.language == "zh"]
    kept = frequent or ranked
    while True:
        alphabet = _alphabet(scheme, corpus, normalizer, kept, progress)
        unused = set() if scheme.needs_bare else {c for c in alphabet if len(c) == 1 and stands_alone(c)}
        excess = len(alphabet) - len(unused) - capacity
        if excess <= 0:
            break
        # Marked forms (`##a`, `a</w>`) take places too; leave out the rarest characters until all fit.
        kept = kept[: len(kept) - (excess if scheme.needs_bare else -(-excess // 2))]
        if not kept:
            raise UsageError(f"--vocab_size={vocabulary_size}: too small for the characters of the corpus.")
    special = [*scheme.special, *alphabet]
    size = vocabulary_size + len(unused)
    tokens, merges = _train(scheme, corpus, normalizer, kept, special, size, min_frequency, progress)
    return [token for token in tokens if token not in unused], merges


def texts_of(corpus: Corpus, progress: Progress) -> Iterator[str]:
    """Yields the sentences of a corpus, without words so long that no vocabulary learns from them; the first of these is said.

    Very long runs of ideographs are parted by blanks.
    """
    warned = False
    for document in read_documents(corpus.whole(), Monitor(progress)):
        for sentence in document.sentences:
            if len(sentence) > LONGEST_WORD:
                sentence = _MANY_IDEOGRAPHS.sub(r"\g<0> ", sentence)
                if found := _ENDLESS_WORD.search(sentence):
                    warned = warned or _warn_of(document.source, len(found[0]))
                    sentence = _ENDLESS_WORD.sub(" ", sentence)
            yield sentence


@functools.cache  # the corpus is read several times
def _warn_of(source: str, length: int) -> bool:
    print(
        f"Warning: {source}: a word of {length:,} characters is left out, as are others of more than {LONGEST_WORD:,}. "
        "Is this text?",
        file=sys.stderr,
    )
    return True


def _alphabet(scheme, corpus, normalizer, kept, progress) -> list[str]:
    """Returns the characters, alone and with `##` where they continue words or `</w>` where they end them, sorted."""
    tokens, _ = _train(scheme, corpus, normalizer, kept, [], 1, 1, progress)  # too small for merges, so characters only
    return sorted(tokens, key=lambda token: (token.startswith(CONTINUATION) and len(token) > 2, token))


def _train(scheme, corpus, normalizer, kept, special, vocabulary_size, min_frequency, progress):
    """Returns the tokens in id order, and the merges."""
    allowed = set(kept)
    tokenizer = Tokenizer(scheme.model(unk_token=UNKNOWN, **scheme.spelling))
    tokenizer.pre_tokenizer = scheme.pre_tokenizer()
    trainer = scheme.trainer(
        vocab_size=vocabulary_size,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=special,
        **scheme.spelling,
    )

    def normalized():
        for text in texts_of(corpus, progress):
            text = normalizer.normalize_str(text)
            if not allowed.issuperset(text):
                text = "".join(c if c in allowed else " " for c in text)
            yield text

    tokenizer.train_from_iterator(normalized(), trainer)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(ids, key=ids.get), merges_of(tokenizer)


def merges_of(tokenizer: Tokenizer) -> Merges:
    """Returns the merges that a backend has learned; none where its model has no such thing."""
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"].get("merges", [])]
