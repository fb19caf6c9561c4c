"""The mean of the rows of a text and a linear classifier on it, compiled by Numba: what `FastTextClassifier` and `Classify` compute.

As those of words, steps read all weights before they change one, and their numbers do not depend on how many threads there are.
"""

import math

import numba
import numpy as np

from data_pipelines.units.characters import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD
from xmodels.kernels.vectors import ONE, add, jit, parallel
from xmodels.layers.subwords import END_OF_LINE, OFFSET, PRIME, RUN_PRIME, SIGN

HASH_OF_MARK, MULTIPLIER = np.uint32(END_OF_LINE), np.uint64(RUN_PRIME)
START, FACTOR, ABOVE = np.uint32(OFFSET), np.uint32(PRIME), np.uint32(SIGN)


@jit
def mix(value, code):
    """Returns the next value of a hash of 32 bits (FNV-1a with bytes that have a sign, as fastText reads them)."""
    code = np.uint32(code)
    return np.uint32((value ^ (code | ABOVE if code > 127 else code)) * FACTOR)


@jit
def mark_in(characters):
    """Returns the mark of a sentence among the characters of a word, (W,), or 0."""
    for character in characters:
        if character in (BEGIN_SENTENCE, END_SENTENCE):
            return character
    return 0


@jit
def hash_of(characters, mark):
    """Returns the hash of a word as a number of 64 bits."""
    value = START
    for character in characters:
        if 0 < character < BEGIN_SENTENCE and not mark:
            value = mix(value, character - 1)
    return np.uint64(np.int64(np.int32(HASH_OF_MARK if mark == END_SENTENCE else value)))


@jit
def parts(characters, shortest, longest, buckets, first, found, count):
    """Writes the rows of the parts of a word behind the `count` first of `found`. Returns how many are there then."""
    width = 0
    codes = np.empty(characters.shape[0], np.uint32)
    for character in characters:
        if 0 < character <= END_WORD:
            codes[width] = (
                ord("<") if character == BEGIN_WORD else ord(">") if character == END_WORD else np.uint32(character - 1)
            )
            width += 1
    for begin in range(width):
        if codes[begin] & np.uint32(0xC0) == 0x80:
            continue  # inside of a character of several bytes
        value, letters = START, 0
        for end in range(begin, width):
            if codes[end] & np.uint32(0xC0) != 0x80:
                letters += 1
                if letters > longest:
                    break
            value = mix(value, codes[end])
            is_whole = end + 1 == width or codes[end + 1] & np.uint32(0xC0) != 0x80
            is_mark = letters == 1 and (begin == 0 or end + 1 == width)
            if is_whole and letters >= shortest and not is_mark:
                found[count] = first + np.int32(value % np.uint32(buckets))
                count += 1
    return count


@jit
def rows_of(token_ids, characters, real, unknown, words, shortest, longest, runs, buckets, found):
    """Writes the rows of a text: its words, their parts, and runs of words. Returns how many.

    Args:
        token_ids, real: (L,).
        characters: (L, W).
        unknown: the id that has no row.
        words: how many rows stand before those of buckets.
        shortest, longest: characters of a part; `longest` of 0 for none.
        runs: the most words of a run.
        found: room, int32.
    """
    count, hashes = 0, np.empty(token_ids.shape[0], np.uint64)
    for i in range(token_ids.shape[0]):
        if not real[i]:
            continue
        mark = mark_in(characters[i])
        if runs > 1 and buckets:
            hashes[i] = hash_of(characters[i], mark)
        if token_ids[i] != unknown and mark != BEGIN_SENTENCE and characters[i].any():
            found[count] = token_ids[i]
            count += 1
        if longest and not mark:
            count = parts(characters[i], shortest, longest, buckets, words, found, count)
    if runs > 1 and buckets:
        for i in range(token_ids.shape[0]):
            value = hashes[i]
            for j in range(i + 1, min(i + runs, token_ids.shape[0])):
                if not (real[i] and real[j]):
                    break
                value = np.uint64(value * MULTIPLIER + hashes[j])
                found[count] = words + np.int32(value % np.uint64(buckets))
                count += 1
    return count


@parallel
def gradients_of(
    table, head, token_ids, characters, real, labels, shares, unknown, shortest, longest, runs, buckets, rows, counts, means, of_texts,
    of_logits, losses, right,
):  # fmt: skip
    """Writes the gradients of texts.

    Args:
        table: (V, D), rows of words and of buckets.
        head: (D, C).
        token_ids, real: (B, L).
        characters: (B, L, W).
        labels: (B,).
        shares: float32 (B,), what the loss of each text is multiplied by.
        rows, counts: int32 (B, M) and (B,), which rows a text has.
        means: (B, D), their means.
        of_texts, of_logits: (B, D) and (B, C), the gradient of each of its rows, and of its logits.
        losses, right: float64 (B,), its loss, and 1 where the first of the likeliest classes is its label.
    """
    words, classes = table.shape[0] - buckets, head.shape[1]
    for b in numba.prange(token_ids.shape[0]):
        count = rows_of(token_ids[b], characters[b], real[b], unknown, words, shortest, longest, runs, buckets, rows[b])
        counts[b] = count
        mean = means[b]
        mean[:] = 0.0
        for m in range(count):
            add(mean, ONE, table[rows[b, m]])
        share = ONE / np.float32(max(count, 1))
        for d in range(mean.shape[0]):
            mean[d] *= share
        logits = of_logits[b]
        logits[:] = 0.0
        for d in range(mean.shape[0]):
            add(logits, mean[d], head[d])
        best, total = 0, 0.0
        for c in range(1, classes):
            if logits[c] > logits[best]:
                best = c
        top = logits[best]
        losses[b] = top - logits[labels[b]]
        for c in range(classes):
            logits[c] = math.exp(logits[c] - top)
            total += logits[c]
        losses[b] += math.log(total)
        right[b] = best == labels[b]
        for c in range(classes):
            logits[c] *= shares[b] / np.float32(total)
        logits[labels[b]] -= shares[b]
        for d in range(mean.shape[0]):
            slope = np.float32(0.0)
            for c in range(classes):
                slope += head[d, c] * logits[c]
            of_texts[b, d] = slope * share


@jit
def chain(rows, counts, shares, last, before, different):
    """Links the places of each row with one another: each place with the one before. Returns how many different rows there are.

    Args:
        rows, counts: (B, M) and (B,), of `gradients_of`.
        shares: (B,); texts of 0 do not count.
        last: int32 (V,), -1 each; the last place of each row.
        before: int32 (B M,), the place before each, or -1.
        different: int32 (B M,), the rows.
    """
    count = 0
    for b in range(rows.shape[0]):
        if shares[b] == 0:
            continue
        for m in range(counts[b]):
            row, place = rows[b, m], np.int32(b * rows.shape[1] + m)
            before[place] = last[row]
            if last[row] < 0:
                different[count] = row
                count += 1
            last[row] = place
    return count


@jit
def adam(weights, first, second, gradient, rate, numbers):
    """Moves a vector by Adam. `numbers` are beta_1, beta_2 and epsilon; `rate` holds the correction of the bias."""
    for d in range(weights.shape[0]):
        first[d] += (ONE - numbers[0]) * (gradient[d] - first[d])
        second[d] += (ONE - numbers[1]) * (gradient[d] * gradient[d] - second[d])
        weights[d] -= rate * first[d] / (math.sqrt(second[d]) + numbers[2])


@parallel
def move(table, first, second, different, last, before, width, of_texts, rate, numbers, is_adam):
    """Moves rows against their gradients, and makes `last` ready for the next step. Rows whose gradient is 0 stay as they are.

    Args:
        first, second: (V, D), the moments; without Adam they are not read.
        different: (U,), the rows.
        width: M.
        of_texts: (B, D), the gradient of each row of a text.
    """
    for u in numba.prange(different.shape[0]):
        row = different[u]
        gradient, place = np.zeros(of_texts.shape[1], np.float32), last[row]
        while place >= 0:
            add(gradient, ONE, of_texts[place // width])
            place = before[place]
        last[row] = -1
        if gradient.any():
            if is_adam:
                adam(table[row], first[row], second[row], gradient, rate, numbers)
            else:
                add(table[row], -rate, gradient)
