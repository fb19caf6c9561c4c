"""Trains vocabularies by the name of their kind. Equal text gives equal files, on any number of cores."""

import collections
import functools
import io
from collections.abc import Callable

import sentencepiece
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from data_pipelines.corpora.corpus import Corpus
from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.plain_units import SPACE, CharacterTokenizer, WordSplitter, WordTokenizer, character_normalizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.train import Progress, merges_of, texts_of, train_bpe, train_wordpiece
from data_pipelines.text.vocabulary import CLS, MASK, SEP, SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

ALBERT_SPECIAL = {"unk_id": 1, "eos_id": -1, "control_symbols": [CLS, SEP, MASK]}
T5_SPECIAL = {"unk_id": 2, "eos_id": 1}  # which transformers takes for granted
ROBERTA_SPECIAL, ROBERTA_MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"  # the first ids, and the last one
MOST_SENTENCES = 4_000_000  # that SentencePiece learns from; it holds them in memory
LONGEST_SENTENCE = 65_536  # bytes; SentencePiece leaves out longer ones


def wordpiece(corpus: Corpus, size: int, lower: bool, min_frequency: int, progress: Progress) -> WordPieceTokenizer:
    return WordPieceTokenizer(train_wordpiece(corpus, size, lower, min_frequency, progress), lower)


def byte_bpe(corpus: Corpus, size: int, lower: bool, min_frequency: int, progress: Progress) -> ByteBpeTokenizer:
    """Returns the special tokens of RoBERTa, the 256 bytes in order, the merges, and as fairseq has it `<mask>` behind all."""
    least = len(ROBERTA_SPECIAL) + 256 + 1
    if size < least:
        raise UsageError(f"--vocab_size={size}: too small; the bytes and special tokens alone are {least}.")
    backend = tokenizers.Tokenizer(models.BPE())
    if lower:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # Given as fixed tokens, the bytes are numbered in this order, not in that of a hash table, which would break ties.
    fixed = [*ROBERTA_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1, min_frequency=min_frequency, show_progress=False, special_tokens=fixed
    )
    backend.train_from_iterator(texts_of(corpus, progress), trainer)
    ids = backend.get_vocab(with_added_tokens=True)
    vocabulary = Vocabulary([*sorted(ids, key=ids.get), ROBERTA_MASK], required=(), spelled=True)
    return ByteBpeTokenizer(vocabulary, merges_of(backend), lower)


def sentence_pieces(
    corpus: Corpus, size: int, lower: bool, min_frequency: int, progress: Progress, num_sentinels: int = 0
) -> SentencePieceTokenizer:
    """Returns a unigram model with ALBERT's special tokens, or with sentinels T5's; `lower` folds case inside the model.

    It learns from at most MOST_SENTENCES sentences, drawn at random with a fixed seed, and leaves out those longer than
    LONGEST_SENTENCE. The threads are counted, not taken from the machine, since sums depend on them.
    """
    model, broken = io.BytesIO(), []

    def texts():
        try:
            yield from texts_of(corpus, progress)
        except ReportedError as error:  # which SentencePiece would pack into one of its own
            broken.append(error)
            raise

    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=texts(), model_writer=model, vocab_size=size, model_type="unigram",
            normalization_rule_name="nmt_nfkc_cf" if lower else "nmt_nfkc",
            character_coverage=0.9995 if corpus.language == "zh" else 1.0,
            pad_id=0, bos_id=-1, pad_piece="<pad>", unk_piece="<unk>", eos_piece="</s>",
            **(T5_SPECIAL if num_sentinels else ALBERT_SPECIAL), hard_vocab_limit=False, num_threads=16, minloglevel=2,
            input_sentence_size=MOST_SENTENCES, shuffle_input_sentence=True, max_sentence_length=LONGEST_SENTENCE,
        )  # fmt: skip
    except (RuntimeError, ValueError, OSError) as error:
        if broken:
            raise broken[0] from None
        if "required_chars" in str(error):
            raise UsageError(
                f"--vocab_size={size}: too small for SentencePiece; the characters alone are more than that."
            ) from None
        raise UsageError(
            f"--vocab_size={size}: SentencePiece cannot learn it from this text ({str(error).splitlines()[0]}). "
            "Give more text or another size."
        ) from None
    return SentencePieceTokenizer(model.getvalue(), num_sentinels=num_sentinels)


def characters(corpus: Corpus, size: int, lower: bool, min_frequency: int, progress: Progress) -> CharacterTokenizer:
    """Returns the special tokens, the blank `▁`, then the characters, the most frequent first."""
    normalize = character_normalizer(lower).normalize_str
    counts = _count(corpus, normalize, progress)
    del counts[SPACE]
    if corpus.language == "zh":
        min_frequency = 1  # each character is a word of its own
    return CharacterTokenizer(_most_frequent(counts, [*SPECIAL_TOKENS, SPACE], size, min_frequency), lower)


def whole_words(
    corpus: Corpus, size: int, lower: bool, min_frequency: int, progress: Progress, segmenter: str | None = None
) -> WordTokenizer:
    """Returns the special tokens, then the words, the most frequent first; jieba finds the Chinese ones unless told otherwise."""
    segmenter = segmenter or ("jieba" if corpus.language == "zh" else "none")
    split = WordSplitter(lower, segmenter)
    counts = _count(corpus, lambda text: [word for word, _ in split(text)], progress)
    # Prepared corpora, such as WikiText, write it for what is unknown, and so it shall be read.
    counts.pop("<unk>", None)
    return WordTokenizer(_most_frequent(counts, list(SPECIAL_TOKENS), size, min_frequency), lower, segmenter)


def word_characters(*arguments, **more) -> OpenWordTokenizer:
    """Works as `whole_words`."""
    found = whole_words(*arguments, **more)
    return OpenWordTokenizer(found.vocabulary, found.do_lower_case, found.segmenter)


def _count(corpus: Corpus, units: Callable, progress: Progress) -> collections.Counter:
    counts: collections.Counter = collections.Counter()
    for text in texts_of(corpus, progress):
        counts.update(units(text))
    return counts


def _most_frequent(counts: collections.Counter, special: list[str], size: int, min_frequency: int) -> Vocabulary:
    if size <= len(special):
        raise UsageError(f"--vocab_size={size}: too small; the special tokens alone are {len(special)}.")
    ranked = sorted((unit for unit in counts if counts[unit] >= min_frequency), key=lambda u: (-counts[u], u))
    return Vocabulary([*special, *(unit for unit in ranked if unit not in special)][:size])


WORDS = "words", "word_characters"

# Kind -> (trainer, times it reads the corpus, whether it lower-cases unless told).
TRAINERS = {
    "wordpiece": (wordpiece, 3, True),
    "byte_bpe": (byte_bpe, 1, False),
    "bpe": (train_bpe, 3, True),
    "sentencepiece": (sentence_pieces, 1, False),
    "characters": (characters, 1, True),
    "words": (whole_words, 1, True),
    "word_characters": (word_characters, 1, False),
}


def train_tokenizer(
    kind: str,
    corpus: Corpus,
    size: int,
    do_lower_case: bool | None = None,
    min_frequency: int | None = None,
    progress: Progress = lambda num_bytes: None,
    segmenter: str | None = None,
    num_sentinels: int = 0,
) -> Tokenizer:
    """Learns a vocabulary of `kind`.

    Args:
        size: entries, special tokens included; fewer where the corpus does not yield as many.
        do_lower_case: None as is usual for the kind.
        min_frequency: leave out what occurs less often; None is 2.
        segmenter: what parts `words`, of those that a vocabulary folder may name; None is jieba for Chinese, else "none".
        num_sentinels: of `sentencepiece`, behind the pieces.

    Raises:
        UsageError: the kind is unknown, or a number does not fit the kind or the text.
    """
    if kind not in TRAINERS:
        raise UsageError(f"--tokenizer={kind}: unknown. Known: {', '.join(TRAINERS)}.")
    if kind == "sentencepiece" and min_frequency is not None:
        raise UsageError("--min_frequency: SentencePiece chooses its pieces by their likelihood. Leave the flag out.")
    if segmenter and kind not in WORDS:
        raise UsageError(
            f"--segmenter={segmenter}: parts the words of --tokenizer={' and --tokenizer='.join(WORDS)} only. Leave the flag out."
        )
    train, _, lower = TRAINERS[kind]
    if num_sentinels:
        train = functools.partial(train, num_sentinels=num_sentinels)
    if segmenter:
        train = functools.partial(train, segmenter=segmenter)
    lower = lower if do_lower_case is None else do_lower_case
    return train(corpus, size, lower, 2 if min_frequency is None else min_frequency, progress)
