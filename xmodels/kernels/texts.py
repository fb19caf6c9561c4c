"""The mean of the rows of a text and a linear classifier on it, compiled by Numba: what `FastTextClassifier` and `Classify` compute.

As those of words, steps read all weights before they change one, and their numbers do not depend on how many threads there are.
"""

import math

import numba
import numpy as np

from data_pipelines.units.characters import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD
from xmodels.kernels.fetching import AHEAD, fetch_ahead
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
def parts(characters, shortest, longest, buckets, first, found):
    """Writes the rows of the parts of a word into `found`. Returns how many."""
    width = count = 0
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
def spelled_words(characters, shortest, longest, buckets, first):
    """Returns what the rows of a text need of its words.

    Args:
        characters: (V, W), those of each word.
        shortest, longest: characters of a part; `longest` of 0 for none.
        first: how many rows stand before those of buckets.

    Returns:
        hashes: uint64 (V,).
        is_word: bool (V,), whether it has a row of its own where the vocabulary has it.
        starts: int64 (V + 1,), where the parts of each word begin.
        rows: int32, the rows of all parts.
    """
    count, words = 0, characters.shape[0]
    hashes, is_word, starts = np.empty(words, np.uint64), np.empty(words, np.bool_), np.zeros(words + 1, np.int64)
    most = characters.shape[1] * max(0, longest - shortest + 1) if longest else 0
    rows, found = np.empty(max(1, words), np.int32), np.empty(most, np.int32)
    for word in range(words):
        mark = mark_in(characters[word])
        hashes[word] = hash_of(characters[word], mark)
        is_word[word] = mark != BEGIN_SENTENCE and characters[word].any()
        if longest and not mark:
            own = parts(characters[word], shortest, longest, buckets, first, found)
            if count + own > rows.shape[0]:
                larger = np.empty(2 * (count + own), np.int32)
                larger[:count] = rows[:count]
                rows = larger
            rows[count : count + own] = found[:own]
            count += own
        starts[word + 1] = count
    return hashes, is_word, starts, rows[:count]


@jit
def rows_of(token_ids, codes, real, unknown, first, runs, buckets, hashes, is_word, starts, part_rows, found):
    """Writes the rows of a text: its words, their parts, and runs of words. Returns how many.

    Args:
        token_ids, codes, real: (L,); codes are places of words in what `spelled_words` gives.
        unknown: the id that has no row.
        first: how many rows stand before those of buckets.
        runs: the most words of a run.
        hashes, is_word, starts, part_rows: of `spelled_words`.
        found: room, int32.
    """
    count, length = 0, token_ids.shape[0]
    for i in range(length):
        if not real[i]:
            continue
        word = codes[i]
        if token_ids[i] != unknown and is_word[word]:
            found[count] = token_ids[i]
            count += 1
        for place in range(starts[word], starts[word + 1]):
            found[count] = part_rows[place]
            count += 1
    if runs > 1 and buckets:
        for i in range(length):
            if not real[i]:
                continue
            value = hashes[codes[i]]
            for j in range(i + 1, min(i + runs, length)):
                if not real[j]:
                    break
                value = np.uint64(value * MULTIPLIER + hashes[codes[j]])
                found[count] = first + np.int32(value % np.uint64(buckets))
                count += 1
    return count


@parallel
def gradients_of(
    table, head, token_ids, codes, real, labels, shares, unknown, runs, buckets, hashes, is_word, starts, part_rows, rows, counts,
    means, of_texts, of_logits, losses, right,
):  # fmt: skip
    """Writes the gradients of texts.

    Args:
        table: (V, D), rows of words and of buckets.
        head: (D, C).
        token_ids, codes, real: (B, L).
        labels: (B,).
        shares: float32 (B,), what the loss of each text is multiplied by.
        hashes, is_word, starts, part_rows: of `spelled_words`.
        rows, counts: int32 (B, M) and (B,), which rows a text has.
        means: (B, D), their means.
        of_texts, of_logits: (B, D) and (B, C), the gradient of each of its rows, and of its logits.
        losses, right: float64 (B,), its loss, and 1 where the first of the likeliest classes is its label.
    """
    words, classes = table.shape[0] - buckets, head.shape[1]
    for b in numba.prange(token_ids.shape[0]):
        own = rows[b]
        count = rows_of(
            token_ids[b], codes[b], real[b], unknown, words, runs, buckets, hashes, is_word, starts, part_rows, own
        )
        counts[b] = count
        mean = means[b]
        mean[:] = 0.0
        for m in range(count):
            fetch_ahead(table, own, m + AHEAD, count)
            add(mean, ONE, table[own[m]])
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
    keep_first, keep_second, epsilon = ONE - numbers[0], ONE - numbers[1], numbers[2]
    for d in range(weights.shape[0]):
        first[d] += keep_first * (gradient[d] - first[d])
        second[d] += keep_second * (gradient[d] * gradient[d] - second[d])
        weights[d] -= rate * first[d] / (math.sqrt(second[d]) + epsilon)


@parallel
def move(table, first, second, different, last, before, width, of_texts, rate, numbers, is_adam, threads):
    """Moves rows against their gradients, and makes `last` ready for the next step. Rows whose gradient is 0 stay as they are.

    Args:
        first, second: (V, D), the moments; without Adam they are not read.
        different: (U,), the rows.
        width: M.
        of_texts: (B, D), the gradient of each row of a text.
        threads: that share the rows.
    """
    count = different.shape[0]
    for thread in numba.prange(threads):
        gradient, end = np.empty(of_texts.shape[1], np.float32), (thread + 1) * count // threads
        for u in range(thread * count // threads, end):
            fetch_ahead(table, different, u + AHEAD, end)
            if is_adam:
                fetch_ahead(first, different, u + AHEAD, end)
                fetch_ahead(second, different, u + AHEAD, end)
            row = different[u]
            gradient[:] = 0.0
            place = last[row]
            while place >= 0:
                add(gradient, ONE, of_texts[place // width])
                place = before[place]
            last[row] = -1
            if gradient.any():
                if is_adam:
                    adam(table[row], first[row], second[row], gradient, rate, numbers)
                else:
                    add(table[row], -rate, gradient)
