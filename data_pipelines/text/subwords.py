"""The hashes of words, of their parts, and of runs of words, as fastText computes them (`dictionary.cc`)."""

import functools
from collections.abc import Sequence

import numpy as np

BUCKETS = 2_000_000
OFFSET, PRIME, BITS = 2_166_136_261, 16_777_619, 0xFFFFFFFF  # of FNV-1a with 32 bits
RUN_PRIME = 116_049_371  # of runs of words
SIGN = 0xFFFFFF00  # fastText reads bytes as signed numbers, so those from 128 on set all higher bits


@functools.lru_cache(1 << 16)
def bucket_ids(word: str, shortest: int, longest: int, buckets: int) -> tuple[int, ...]:
    """Returns the buckets of the parts of a word. `<` or `>` alone is no part."""
    letters = [letter.encode("utf-8", "replace") for letter in f"<{word}>"]
    found = []
    for start in range(len(letters)):
        value = OFFSET
        for end in range(start + 1, min(start + longest, len(letters)) + 1):
            for byte in letters[end - 1]:
                value = ((value ^ (byte | SIGN if byte > 127 else byte)) * PRIME) & BITS
            alone = end - start == 1 and (start == 0 or end == len(letters))
            if end - start >= shortest and not alone:
                found.append(value % buckets)
    return tuple(found)


def whole_hash(word: str) -> int:
    """Returns the hash of a word without marks, of 32 bits."""
    value = OFFSET
    for byte in word.encode("utf-8", "replace"):
        value = ((value ^ (byte | SIGN if byte > 127 else byte)) * PRIME) & BITS
    return value


def whole_hashes(words: Sequence[str], longest: int) -> np.ndarray:
    """Returns the hash of the first `longest` bytes of each word as a signed number of 32 bits, int64 (W,)."""
    spelled = [word.encode("utf-8", "replace")[:longest] for word in words]
    sizes = np.array(list(map(len, spelled)), np.int64)
    codes = np.frombuffer(b"".join(each.ljust(longest) for each in spelled), np.int8).reshape(-1, longest)
    codes = codes.astype(np.int32).view(np.uint32)
    values = np.full(len(words), OFFSET, np.uint32)
    for place in range(sizes.max(initial=0)):
        values = np.where(place < sizes, (values ^ codes[:, place]) * np.uint32(PRIME), values)
    return values.view(np.int32).astype(np.int64)


def word_table(
    words: Sequence[str], first: int, shortest: int, longest: int, buckets: int
) -> tuple[list[int], list[int]]:
    """Returns the rows of all words, one behind the other, and how many each has: the word itself, and its parts.

    Args:
        words: of a vocabulary, in the order of their ids.
        first: the row of the first bucket.
    """
    rows, sizes = [], []
    for place, word in enumerate(words):
        found = bucket_ids(word, shortest, longest, buckets) if longest else ()
        rows += [place, *(first + bucket for bucket in found)]
        sizes.append(1 + len(found))
    return rows, sizes
