"""Answers of fastText's classifier by sums of rows: what a word gives to a text is found once, not once for each time it occurs.

The mean of rows and a matrix are linear, so the matrix can go first: each row of the table becomes its part of the logits, and a text
sums a few numbers for each word. Joulin et al. (2016) call the model "linear with a rank constraint" (section 2); what is computed is
the same to rounding. With more labels than dimensions, or a tree of labels, the head stays behind the mean.
"""

import importlib.util

import keras
import numpy as np

from data_pipelines.features import CHARACTERS
from data_pipelines.text import cuts
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.subwords import whole_hashes
from xmodels.interfaces.reading import pooled
from xmodels.layers.subwords import RUN_PRIME, word_hashes
from xmodels.models.fasttext_classifier import FastTextClassifier
from xmodels.tasks.base.answer import compile_answer
from xmodels.tasks.classify.task import Classify

FEWEST = 64  # texts for which sums of all rows pay
MANY = 1 << 13  # texts after which compiled loops pay for being loaded
AT_ONCE = 4096  # texts that are answered together
ROWS_AT_ONCE = 1024  # words whose rows are found together
MOST_KNOWN = 1 << 17  # words and parts of texts between blanks that are kept


def find(backbone, task: Classify, tokenizer, max_sequence_length: int) -> "RowSums | None":
    """Returns what finds the logits of texts by sums; None where the network, its head or its tokenizer is of another kind."""
    is_linear = (
        type(backbone) is FastTextClassifier
        and type(tokenizer) is OpenWordTokenizer
        and tokenizer.drops_blanks
        and type(task).forward is Classify.forward
        and type(task).answer is Classify.answer
        and (task.network, task.dense) == (None, None)
        and task.reading.summary is pooled
    )
    frame = task.reading.frame
    if not is_linear or task.orders is not None or frame.once or backbone.compute_dtype != "float32":
        return None
    return RowSums(backbone, task, tokenizer, max_sequence_length)


class Parts:
    """Numbers of what stands between two blanks."""

    def __init__(self):
        self.number_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.number_of)

    def add(self, parts: list[str]) -> None:
        """Gives numbers to parts that have none, in their order."""
        self.number_of |= {part: len(self) + place for place, part in enumerate(parts)}

    def find(self, text: str) -> tuple[np.ndarray | None, set[str]]:
        """Returns the numbers of the parts of a text, int64 (P,), where all have one, and the parts that have none."""
        parts = text.split(" ")
        try:
            return np.fromiter(map(self.number_of.__getitem__, parts), np.int64, len(parts)), set()
        except KeyError:
            return None, set(parts).difference(self.number_of)


class RowSums:
    """Finds the logits of texts, each for itself; by compiled loops when there have been many and Numba is installed.

    Args:
        backbone: whole or with the buckets that are left of it.
        task: with its head built; its frame says where special tokens stand.
        max_sequence_length: counts them; longer texts lose their end.
    """

    def __init__(
        self, backbone: FastTextClassifier, task: Classify, tokenizer: OpenWordTokenizer, max_sequence_length: int
    ):
        self.tokenizer, self.vocabulary, self.config = tokenizer, tokenizer.vocabulary, backbone.config
        frame, head = task.reading.frame, task.head
        self.most = max_text_tokens(1, max_sequence_length, frame)
        parts = frame.of_texts(1)
        place = next(place for place, part in enumerate(parts) if part.text is not None)
        self.around = [[self.vocabulary[part.role] for part in some] for some in (parts[:place], parts[place + 1 :])]
        self.goes_first = type(head) is keras.layers.Dense and head.units <= self.config.hidden_dim
        if self.goes_first:
            self.kernel = keras.ops.convert_to_numpy(head.kernel)  # (D, C)
            self.bias = keras.ops.convert_to_numpy(head.bias) if head.use_bias else np.float32(0)
        self._logits_of = compile_answer(lambda states: {"logits": task.logits_of(states["state"])})
        self.buckets, self.kept = np.zeros((0, 0), np.float32), None
        if self.config.word_ngrams > 1 and self.config.buckets:
            table = keras.ops.convert_to_numpy(backbone.rows.table.embeddings)
            self.buckets = self._weighed(table[self.config.vocabulary_size :])
            if self.config.kept_buckets:
                self.kept = keras.ops.convert_to_numpy(backbone.rows.kept).astype(np.int64)
        self._rows_of = compile_answer(lambda words: _rows_of(backbone.rows, words))
        self.new_parts, self.num_answered = Parts, 0
        self.forget()

    def forget(self) -> None:
        """Forgets all words."""
        self.parts = self.new_parts()
        self.sizes, self.words = np.zeros(0, np.int64), np.zeros(0, np.int64)  # how many words each has, and which
        self.number_of: dict[int | str, int] = {}  # a word -> its number; 0 is none at all
        width = self.kernel.shape[1] if self.goes_first else self.config.hidden_dim
        self.sums, self.counts = np.zeros((1, width), np.float32), np.zeros(1, np.float32)
        self.hashes = np.zeros(1, np.int64)
        self.ends = [self.numbers_of(ids) for ids in self.around]

    def logits(self, texts: list[str]) -> np.ndarray:
        """Returns float32 (N, C). All their words are in memory together."""
        self.num_answered += len(texts)
        if self.num_answered > MANY and self.new_parts is Parts and importlib.util.find_spec("numba"):
            from xmodels.kernels.row_sums import CompiledParts

            self.new_parts = CompiledParts
            self.forget()
        if len(self.parts) > MOST_KNOWN or len(self.counts) > MOST_KNOWN:
            self.forget()
        together = " ".join(texts)  # tokenizers part texts at blanks in any case
        numbers, new = self.parts.find(together)
        if new:
            self.learn(new)
            numbers, _ = self.parts.find(together)
        in_text = np.array([text.count(" ") + 1 for text in texts])
        mean, lost = (self._sum_up if self.new_parts is Parts else self._sum_up_compiled)(numbers, in_text)
        cuts.add(lost.tolist())
        return mean + self.bias if self.goes_first else self._logits_of({"state": mean})["logits"]

    def learn(self, parts: set[str]) -> None:
        """Learns the words of what stands between blanks."""
        new, ids = sorted(parts), self.vocabulary.ids
        words = self.tokenizer.splitter.words(new)
        self.parts.add(new)
        self.sizes = np.concatenate([self.sizes, list(map(len, words))])
        self.words = np.concatenate(
            [self.words, self.numbers_of([ids.get(word, word) for own in words for word in own])]
        )

    def _sum_up_compiled(self, numbers: np.ndarray, in_text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Does what `_sum_up` does."""
        from xmodels.kernels.row_sums import sum_texts

        before, behind = (np.array(each, np.int64) for each in self.ends)
        kept = np.zeros(0, np.int64) if self.kept is None else self.kept
        longest = self.config.word_ngrams if self.config.buckets else 1
        return sum_texts(
            numbers, in_text, np.concatenate([[0], np.cumsum(self.sizes)]), self.words, before, behind, self.most, longest,
            self.sums, self.counts, self.hashes, self.buckets, kept, self.config.buckets,
        )  # fmt: skip

    def _sum_up(self, numbers: np.ndarray, in_text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean of what the words of each text give, (N, C), and how many words each has lost, (N,).

        Args:
            numbers: int (P,), of the parts of all texts.
            in_text: (N,), how many belong to each.
        """
        words, sizes, lost = self._framed(numbers, in_text)
        sums, counts, hashes = self.sums[words], self.counts[words], self.hashes[words]
        value, text = hashes, np.repeat(np.arange(len(sizes)), sizes)
        for step in range(1, self.config.word_ngrams if self.config.buckets else 1):
            with np.errstate(over="ignore"):  # of 64 bits, as in fastText
                value = value[:-1] * RUN_PRIME + hashes[step:]
            rows = value.view(np.uint64) % np.uint64(self.config.buckets)
            there = text[:-step] == text[step:]
            if self.kept is not None:
                wanted = rows.astype(np.int64)
                rows = np.minimum(np.searchsorted(self.kept, wanted), len(self.kept) - 1)
                there &= self.kept[rows] == wanted
            sums[: len(rows)] += self.buckets[rows] * there[:, None]
            counts[: len(rows)] += there
        starts = np.cumsum(sizes) - sizes
        return np.add.reduceat(sums, starts) / np.maximum(np.add.reduceat(counts, starts), 1)[:, None], lost

    def _framed(self, numbers: np.ndarray, in_text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the words of texts, (T,), cut and with special tokens around them, how many each has, and has lost, (N,)."""
        in_part, ends = self.sizes[numbers], np.cumsum(self.sizes)
        words = self.words[_ranges(ends[numbers] - in_part, in_part)]
        sizes = np.add.reduceat(in_part, np.cumsum(in_text) - in_text)
        starts, kept = np.cumsum(sizes) - sizes, np.minimum(sizes, self.most)
        before, behind = self.ends
        whole = kept + len(before) + len(behind)
        whole += whole == 0  # the number 0 stands for no word
        found, begins = np.zeros(whole.sum(), np.int64), np.cumsum(whole) - whole
        found[_ranges(begins + len(before), kept)] = words[_ranges(starts, kept)]
        for place, number in enumerate(before):
            found[begins + place] = number
        for place, number in enumerate(reversed(behind)):
            found[begins + whole - 1 - place] = number
        return found, whole, sizes - kept

    def numbers_of(self, keys: list[int | str]) -> list[int]:
        """Returns the numbers of words, given by their ids, or as they are where the vocabulary lacks them. What is new is learnt."""
        new = [key for key in dict.fromkeys(keys) if key not in self.number_of]
        if not self.config.longest_ngram:  # unknown words have no row, and matter in runs alone
            unknown = [key for key in new if isinstance(key, str)]
            new = [key for key in new if not isinstance(key, str)]
            nothing = np.zeros((len(unknown), self.sums.shape[1]), np.float32)
            self._add(unknown, nothing, nothing[:, 0], whole_hashes(unknown, CHARACTERS - 2))
        for first in range(0, len(new), ROWS_AT_ONCE):
            part = new[first : first + ROWS_AT_ONCE]
            ids = [self.tokenizer.unknown if isinstance(key, str) else key for key in part]
            found = self._rows_of(
                {"token_ids": np.array([ids], np.int32), "character_ids": self.vocabulary.spelled(part)[None]}
            )
            self._add(part, self._weighed(found["sums"][0]), found["counts"][0], found["hashes"][0])
        return [self.number_of[key] for key in keys]

    def _add(self, keys: list[int | str], sums: np.ndarray, counts: np.ndarray, hashes: np.ndarray) -> None:
        """Gives numbers to words that have none: what they add to a text, (W, C), how many rows that is, and their hashes, (W,)."""
        self.number_of |= {key: len(self.counts) + place for place, key in enumerate(keys)}
        self.sums = np.concatenate([self.sums, sums])
        self.counts = np.concatenate([self.counts, counts])
        self.hashes = np.concatenate([self.hashes, hashes])

    def _weighed(self, rows: np.ndarray) -> np.ndarray:
        return rows @ self.kernel if self.goes_first else rows


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the numbers of all ranges that begin somewhere and have some size, side by side."""
    return np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _rows_of(rows, words) -> dict:
    """Returns the sums of the rows of words (1, W), how many these are, and the hashes of the words."""
    sums, counts = rows(words["token_ids"], words["character_ids"])
    return {"sums": sums, "counts": counts, "hashes": word_hashes(words["character_ids"])}
