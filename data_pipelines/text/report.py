"""How well a vocabulary fits a text: what it loses, what it never uses, how finely it cuts."""

import collections
import dataclasses
from collections.abc import Iterable

from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN

BATCH = 256


@dataclasses.dataclass(frozen=True)
class VocabularyReport:
    """Counts of one text.

    Attributes:
        tokens, words, unknown: how many pieces; how many that open a word; how many that are unknown.
        lost: what became unknown, the most frequent first: single characters that have no piece, or a whole stretch
            where each of its characters has one, or where words are not spelled.
        dead: entries that no text used, special tokens aside, in id order.
        size: entries in all.
    """

    tokens: int
    words: int
    unknown: int
    lost: list[tuple[str, int]]
    dead: list[str]
    size: int

    def __str__(self) -> str:
        lines = [
            f"  {self.tokens:,} tokens, {self.tokens / max(1, self.words):.2f} a word; "
            f"{self.unknown / max(1, self.tokens):.3%} of them unknown"
        ]
        if self.lost:
            lines.append("  most often lost: " + " ".join(f"{text} ({count:,})" for text, count in self.lost[:10]))
        dead = len(self.dead)
        some = f", such as {' '.join(self.dead[:8])}" if dead else ""
        lines.append(f"  entries never used: {dead:,} of {self.size:,} ({dead / self.size:.1%}){some}")
        return "\n".join(lines)


def vocabulary_report(tokenizer: Tokenizer, texts: Iterable[str]) -> VocabularyReport:
    """Tokenizes `texts` and counts."""
    vocabulary = tokenizer.vocabulary
    unknown = vocabulary.roles.get(UNKNOWN, -1)
    used: collections.Counter = collections.Counter()
    lost: collections.Counter = collections.Counter()
    words, has_piece, whole_words = 0, {}, isinstance(tokenizer, WordTokenizer)

    def known(character: str) -> bool:
        if character not in has_piece:
            has_piece[character] = unknown not in tokenizer.encode(character).ids
        return has_piece[character]

    for batch in _batches(texts):
        for text, pieces in zip(batch, tokenizer.encode_batch(batch), strict=True):
            used.update(pieces.ids)
            words += sum(pieces.word_start)
            for i, (first, end) in zip(pieces.ids, pieces.spans, strict=True):
                if i == unknown:
                    part = text[first:end]
                    missing = [] if whole_words else [c for c in part if not (c.isspace() or known(c))]
                    lost.update(missing or [part])
    sentinels = range(len(vocabulary) - getattr(tokenizer, "num_sentinels", 0), len(vocabulary))  # stand in no text
    special = {*vocabulary.special_ids, *sentinels}
    dead = [token for i, token in enumerate(vocabulary.tokens) if i not in used and i not in special]
    ranked = sorted(lost.items(), key=lambda item: (-item[1], item[0]))
    return VocabularyReport(used.total(), words, used[unknown], ranked, dead, len(vocabulary))


def _batches(texts: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
