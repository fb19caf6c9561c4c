"""What `xmodels.tasks.classify.row_sums` does for each word of a text, compiled by Numba."""

import numpy as np

from xmodels.kernels.vectors import exact
from xmodels.layers.subwords import OFFSET, PRIME, RUN_PRIME

BLANK, FREE, NONE = np.uint8(ord(" ")), np.int64(-1), np.int64(-1)
START, FACTOR, MULTIPLIER = np.uint64(OFFSET), np.uint64(PRIME), np.uint64(RUN_PRIME)
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 by the golden ratio: its products have all bits in their upper ones


class CompiledParts:
    """`Parts` of `xmodels.tasks.classify.row_sums`, as bytes in a table of hashes.

    Attributes:
        text: uint8, all parts side by side; part i is `text[bounds[i] : bounds[i + 1]]`.
        slots: the number of a part, or -1: a power of two of them.
    """

    def __init__(self):
        self.text, self.bounds = np.zeros(0, np.uint8), np.zeros(1, np.int64)
        self.slots = np.full(1 << 10, FREE)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def add(self, parts: list[str]) -> None:
        """Gives numbers to parts that have none, in their order."""
        first, encoded = len(self), [part.encode("utf-8", "surrogatepass") for part in parts]
        self.text = np.concatenate([self.text, np.frombuffer(b"".join(encoded), np.uint8)])
        self.bounds = np.concatenate(
            [self.bounds, self.bounds[-1] + np.cumsum(list(map(len, encoded)), dtype=np.int64)]
        )
        if 2 * len(self) > len(self.slots):
            first, self.slots = 0, np.full(1 << (4 * len(self)).bit_length(), FREE)
        place_parts(self.text, self.bounds, first, self.slots)

    def find(self, text: str) -> tuple[np.ndarray, set[str]]:
        """Returns the numbers of the parts of a text, int64 (P,), and the parts that have none."""
        data = text.encode("utf-8", "surrogatepass")
        numbers, ends = find_parts(np.frombuffer(data, np.uint8), self.text, self.bounds, self.slots)
        unknown = np.flatnonzero(numbers == NONE)
        begins = np.where(unknown > 0, ends[unknown - 1] + 1, 0)
        spans = zip(begins.tolist(), ends[unknown].tolist(), strict=True)
        return numbers, {data[begin:end].decode("utf-8", "surrogatepass") for begin, end in spans}


@exact
def mix(value, byte):
    """Returns the next value of the hash of a part, which begins with `START`."""
    return (value ^ np.uint64(byte)) * FACTOR


@exact
def slot_of(value, slots):
    """Returns the first slot of a part by its hash."""
    return np.int64((value * SPREAD >> np.uint64(32)) & np.uint64(slots - 1))


@exact
def place_parts(text, bounds, first, slots):
    """Writes the numbers of parts, from `first` on, into free slots."""
    for number in range(first, bounds.shape[0] - 1):
        value = START
        for byte in text[bounds[number] : bounds[number + 1]]:
            value = mix(value, byte)
        slot = slot_of(value, slots.shape[0])
        while slots[slot] != FREE:
            slot = (slot + 1) & (slots.shape[0] - 1)
        slots[slot] = number


@exact
def find_parts(data, text, bounds, slots):
    """Returns the number of what stands between each two blanks of `data`, -1 if it is none of the parts, and where it ends."""
    count = 1
    for byte in data:
        count += byte == BLANK
    numbers, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    begin = 0
    for place in range(count):
        end, value = begin, START
        while end < data.shape[0] and data[end] != BLANK:
            value = mix(value, data[end])
            end += 1
        slot, found = slot_of(value, slots.shape[0]), NONE
        while slots[slot] != FREE:
            number = slots[slot]
            first = bounds[number]
            if bounds[number + 1] - first == end - begin:
                same = 0
                while same < end - begin and text[first + same] == data[begin + same]:
                    same += 1
                if same == end - begin:
                    found = number
                    break
            slot = (slot + 1) & (slots.shape[0] - 1)
        numbers[place], ends[place] = found, end
        begin = end + 1
    return numbers, ends


@exact
def sum_texts(
    parts, in_text, starts, words, before, behind, most, longest_run, sums, counts, hashes, buckets, kept, num_buckets
):
    """Returns the mean of what the words of texts give, float32 (N, C), and how many words each has lost, (N,).

    Args:
        parts: (P,), the parts of all texts.
        in_text: (N,), how many belong to each.
        starts: where the words of each part begin in `words`, and where the last ones end.
        before, behind: words around each text.
        most: words of a text that are read.
        longest_run: words; 1 for none.
        sums, counts, hashes: (W, C), (W,), int64 (W,), by word; word 0 is none.
        buckets: (B, C), of runs, or of those of `kept`.
        kept: (B,), ascending, the buckets that are left; or (0,), all are.
        num_buckets: of all.
    """
    means, lost = np.zeros((in_text.shape[0], sums.shape[1]), np.float32), np.empty(in_text.shape[0], np.int64)
    room = np.empty(before.shape[0] + behind.shape[0] + 1, np.int64)
    first = 0
    for text in range(in_text.shape[0]):
        last, count = first + in_text[text], before.shape[0]
        most_here = before.shape[0] + behind.shape[0] + 1
        for part in parts[first:last]:
            most_here += starts[part + 1] - starts[part]
        if room.shape[0] < most_here:
            room = np.empty(2 * most_here, np.int64)
        room[:count] = before
        for part in parts[first:last]:
            for word in words[starts[part] : starts[part + 1]]:
                room[count] = word
                count += 1
        lost[text] = max(0, count - before.shape[0] - most)
        count -= lost[text]
        room[count : count + behind.shape[0]] = behind
        count += behind.shape[0]
        mean, rows = means[text], np.float32(0)
        for place in range(count):
            word = room[place]
            rows += counts[word]
            for column in range(mean.shape[0]):
                mean[column] += sums[word, column]
            value = np.uint64(hashes[word])
            for other in range(place + 1, min(place + longest_run, count)):
                value = value * MULTIPLIER + np.uint64(hashes[room[other]])
                row = np.int64(value % np.uint64(num_buckets))
                if kept.shape[0]:
                    wanted, row = row, min(np.searchsorted(kept, row), kept.shape[0] - 1)
                    if kept[row] != wanted:
                        continue
                rows += np.float32(1)
                for column in range(mean.shape[0]):
                    mean[column] += buckets[row, column]
        for column in range(mean.shape[0]):
            mean[column] /= max(rows, np.float32(1))
        first = last
    return means, lost
