"""Tokenizes no word twice, for tokenizers that part text at blanks but look at signs and letters together."""

import numpy as np

from data_pipelines.text.tokenizer import Tokenizer

ENTRIES = 1 << 17  # about 25 MB; a full cache is emptied
LONGEST = 32  # characters; longer runs, such as Chinese sentences, hardly come back


class WordCache:
    """Turns texts into marked pieces.

    Args:
        tokenizer: one with `parts_at_blanks`.
        mark: joins ids and word starts.
    """

    def __init__(self, tokenizer: Tokenizer, mark):
        self.tokenizer, self.mark = tokenizer, mark
        self.known: dict[str, bytes] = {}

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pieces of all texts side by side, int32 (T,), and where each text begins among them, with the end."""
        words = [self._words(text) for text in texts]
        if len(self.known) > ENTRIES:
            self.known.clear()
        missing = sorted({word for text in words for word in text} - self.known.keys())
        found = zip(missing, self.tokenizer.encode_batch(missing), strict=True)
        fresh = {word: self.mark(pieces.ids, pieces.word_start).tobytes() for word, pieces in found}
        known = self.known
        known.update(fresh)
        parts = [b"".join([known[word] for word in text]) for text in words]
        for word in fresh:
            if len(word) > LONGEST:
                del known[word]
        return np.frombuffer(b"".join(parts), np.int32), np.cumsum([0, *map(len, parts)]) // 4

    def _words(self, text: str) -> list[str]:
        """Returns the words, each with the blank before it; the whole text where it holds other blanks than single ones."""
        words = text.split()
        if " ".join(words) != text:
            return [text]
        return [*words[:1], *[f" {word}" for word in words[1:]]]
