"""Tokenizes no word twice, for tokenizers that part text at blanks but look at signs and letters together, or keep words whole."""

import numpy as np

from data_pipelines.text.tokenizer import Tokenizer

ENTRIES = 1 << 17  # about 25 MB; a full cache is emptied
LONGEST = 32  # characters; longer runs, such as Chinese sentences, hardly come back


class WordCache:
    """Turns texts into marked pieces.

    Args:
        tokenizer: one with `parts_at_blanks` or `drops_blanks`.
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
        parts = [self._joined(text) for text in words]
        if unknown := [i for i, part in enumerate(parts) if part is None]:
            missing = sorted(set().union(*(words[i] for i in unknown)).difference(self.known))
            found = zip(missing, self.tokenizer.encode_batch(missing), strict=True)
            self.known.update((word, self.mark(pieces.ids, pieces.word_start).tobytes()) for word, pieces in found)
            for i in unknown:
                parts[i] = self._joined(words[i])
            for word in missing:
                if len(word) > LONGEST:
                    del self.known[word]
        return np.frombuffer(b"".join(parts), np.int32), np.cumsum([0, *map(len, parts)]) // 4

    def _joined(self, words: list[str]) -> bytes | None:
        """Returns the pieces of a text; None where a word is not known."""
        try:
            return b"".join(map(self.known.__getitem__, words))
        except KeyError:
            return None

    def _words(self, text: str) -> list[str]:
        """Returns the words, where blanks have pieces each with the one before it; a text with others than single ones is one word."""
        if self.tokenizer.drops_blanks:
            return text.split(" ")
        words = text.split()
        if " ".join(words) != text:
            return [text]
        return [*words[:1], *[f" {word}" for word in words[1:]]]
