"""Queries with candidates and their relevance: tables, JSON lines, or records made of them."""

import os
from collections.abc import Iterator

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.labelled import as_text, as_texts, first_of, name_of, read_json_lines
from data_pipelines.corpora.rankings import RankedList, by_query, read_rankings
from data_pipelines.corpora.tables import BadRow
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.lists import parts
from data_pipelines.ops.candidates import draw_candidates
from data_pipelines.ops.compose import Op
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import pack_ids
from xmodels.tasks.base.answer import at_least_one, each_row
from xmodels.tasks.base.read import Data, Survey, drop_unusable, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_batches
from xmodels.tasks.base.texts import TextReader
from xmodels.tasks.choose.packing import spread_rows
from xmodels.tasks.rank.task import LOSSES
from xmodels.training.watching.progress import print_status

TASK = "rank"  # of the records
LIST_SIZE = 8
MOST_RELEVANT = 100  # nDCG counts 2 to this power, which must not overflow
SAMPLE = 200  # lists of a survey whose texts are kept


class RankSource(ArraySource):
    """Lists as arrays; a long one may take several rows.

    Attributes:
        lists: int (N,), the list to which each row belongs.
    """

    def __init__(self, arrays, name: str, lists: np.ndarray):
        super().__init__(arrays, name)
        self.lists = lists


def read_lists(
    path: str, columns: Columns, bad_rows: list[BadRow] | None = None, relevant_label: str | None = None
) -> list[RankedList]:
    """Returns all lists of a file, with relevances that are numbers from 0.

    Args:
        bad_rows: where lists go that cannot be used; None where such a list is an error.
        relevant_label: as in `read_rankings`.

    Raises:
        DataError: names file and line.
    """
    found = drop_unusable(read_rankings(path, columns, bad_rows, relevant_label), bad_rows, problem)
    if not found:
        raise DataError(f"{path}: holds no list of candidates.")
    return found


def problem(ranked: RankedList) -> str | None:
    """Returns why a list cannot be used, and what to do about it."""
    if not ranked.candidates:
        return "no candidates: give at least one"
    if not ranked.query.strip() or any(not text.strip() for text in ranked.candidates):
        return "empty text: the query or a candidate says nothing"
    for label in ranked.labels:
        if not label.replace(".", "", 1).isdecimal():
            return (
                f"no relevance: {label!r:.40}, expected a number from 0 (not relevant). Name its column with --label_column, or "
                "where labels are names the one that means relevant, such as --relevant_label=entailment"
            )
        if float(label) > MOST_RELEVANT:
            return (
                f"relevance {label}: nDCG counts 2 to this power. Give grades from 0 to {MOST_RELEVANT}, such as 0 to 4"
            )
    return None


def unlabelled(path: str, columns: Columns) -> Iterator[RankedList]:
    """Lists whose relevance nobody knows. JSON lines are read one by one, the rows of a table all at once.

    Raises:
        DataError: the file is not laid out so; names the line.
    """
    if kind_of(path) not in (".jsonl", ".json"):
        for query, rows in by_query(path, each_row(path, columns)):
            yield RankedList(query, [row.texts[1] for row in rows], [], f"{path}, line {rows[0].line}")
        return
    for place, value in at_least_one(read_json_lines(path), f"{path}: holds no lists."):
        query = as_text(first_of(value, ("query", "question"), place), f"{place}, query")
        candidates = as_texts(first_of(value, ("candidates",), place), f"{place}, candidates")
        if not candidates:
            raise DataError(f"{place}: no candidates; give at least one.")
        yield RankedList(query, candidates, [], place, name_of(value))


def relevances(ranked: RankedList) -> list[float]:
    return [float(label) for label in ranked.labels]


def without_order(labels: np.ndarray, there: np.ndarray) -> tuple[int, int]:
    """Returns how many lists have one candidate, and how many several that are equally relevant; neither tells an order.

    Args:
        labels: of the candidates, float32 (N, C).
        there: bool (N, C), False where a list has fewer.
    """
    alone = there.sum(axis=1) < 2
    equal = np.where(there, labels, -np.inf).max(axis=1) == np.where(there, labels, np.inf).min(axis=1)
    return int(alone.sum()), int((equal & ~alone).sum())


class Reader(TextReader):
    """Lists of candidates."""

    draw: Op | None = None  # of the lists of the training, where they are drawn anew

    def __init__(self, name, options):
        super().__init__(name, options)
        if options.rank_scale == 0:
            raise UsageError("--rank_scale=0: makes all candidates of a list equal. Give a number above 0; usual is 1.")

    @property
    def size(self) -> int:
        return self.options.list_size or LIST_SIZE

    def lists(self, path: str) -> list[RankedList]:
        """Returns the lists of a file; says which ones are left out."""
        options, bad_rows = self.options, self.bad_rows()
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        found = read_lists(path, columns, bad_rows, options.relevant_label)
        print_left_out(path, bad_rows)
        return found

    def survey(self):
        path = self.training_files()
        train = self.lists(path)
        useful = sum(len(set(relevances(each))) > 1 for each in train)
        summary = [f"{len(train):,} lists to train on, {useful:,} of which tell candidates apart"]
        summary += self.count_evaluation(lambda other: len(self.lists(other)))
        texts = [text for each in train[:SAMPLE] for text in (each.query, *each.candidates)]
        return Survey(", ".join(summary), [], len(train), texts)

    def survey_records(self, tokenizer):
        _, count = self.check_records(TASK, tokenizer)
        return Survey(f"{count:,} lists", [], count)

    def read(self, tokenizer):
        path = self.training_files()
        made = self._source(path, tokenizer, str(self.options.seed))
        labels, there = made.arrays["labels"], made.arrays["choice_weights"] > 0
        alone, equal = without_order(labels, there)
        unordered = f"{alone:,} have one candidate, {equal:,} several that are equally relevant"
        if alone + equal == len(labels):
            raise DataError(
                f"{path}: in no list is one candidate more relevant than another, so there is nothing to learn: {unordered}. Give "
                "each query candidates that are relevant and others that are not; are --text_column and --label_column right?"
            )
        if alone + equal:
            print_status(f"{path}: {alone + equal:,} of {len(labels):,} lists teach no order: {unordered}.")
        source = ArraySource(made.arrays, path)
        sets = self.evaluation_sets(source, tokenizer, lambda other: self._source(other, tokenizer, None))
        return Data(source, sets, [], 2, f"lists of up to {labels.shape[1]} candidates")

    def task(self, config, data):
        loss = LOSSES[self.options.rank_loss or next(iter(LOSSES))]
        scale = 1.0 if self.options.rank_scale is None else self.options.rank_scale
        return self.task_class(config, data.labels, reading=self.reading, loss=loss, scale=scale, draw=self.draw)

    def recorded_set(self, folder, tokenizer, labels):
        return self._source(folder, tokenizer, None)

    @tells_cuts("max_seq_length")
    def _source(self, path: str, tokenizer, sample_by: str | None) -> RankSource:
        redraws = sample_by and self.options.redraw_lists
        if os.path.isdir(path) and redraws:
            raise UsageError(
                f"--redraw_lists: the candidates of {path} were drawn when these records were made. Name the file by --train_file."
            )
        if os.path.isdir(path):
            return self._recorded(path, tokenizer)
        lists = self.lists(path)
        firsts, seconds, labels, there, numbers = [], [], [], [], []
        size = min(self.size, max(len(each.candidates) for each in lists)) if sample_by else self.size
        if redraws and size < max(len(each.candidates) for each in lists):
            return self._redrawn(path, tokenizer, lists, size, sample_by)
        for number, each in enumerate(lists):
            relevance = relevances(each)
            for places in parts(relevance, size, sample_by and f"{sample_by} {number}"):
                firsts += [each.query] * len(places)
                seconds += [each.candidates[place] for place in places]
                nothing = [0.0] * (size - len(places))
                labels.append([relevance[place] for place in places] + nothing)
                there.append([1.0] * len(places) + nothing)
                numbers.append(number)
        ids = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in (firsts, seconds)]
        return self._packed(path, tokenizer, *ids, labels, there, numbers)

    def _redrawn(self, path: str, tokenizer, lists: list[RankedList], size: int, sample_by: str) -> RankSource:
        """Returns a first draw, as without --redraw_lists, from which `draw` goes on."""
        counts = [len(each.candidates) for each in lists]
        firsts = [each.query for each in lists for _ in each.candidates]
        seconds = [text for each in lists for text in each.candidates]
        ids = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in (firsts, seconds)]
        flat = pack_ids(*ids, tokenizer.vocabulary, self.options.max_seq_length, self.reading.frame)
        relevance = np.array([label for each in lists for label in relevances(each)], np.float32)
        rows, there = [], np.zeros((len(lists), size), bool)
        for number, first in enumerate(np.cumsum(counts) - counts):
            (places,) = parts(relevances(lists[number]), size, f"{sample_by} {number}")
            rows += [first + place for place in places]
            there[number, : len(places)] = True
        self.draw = draw_candidates(flat, relevance, counts, size)
        labels = np.zeros(there.shape, np.float32)
        labels[there] = relevance[rows]
        arrays = {name: spread_rows(values[rows], there) for name, values in flat.items()}
        arrays |= {
            "labels": labels,
            "choice_weights": there.astype(np.float32),
            "list_ids": np.arange(len(lists), dtype=np.int32),
        }
        return RankSource(arrays, path, np.arange(len(lists)))

    def _packed(self, path, tokenizer, firsts, seconds, labels, there, numbers) -> RankSource:
        flat = pack_ids(firsts, seconds, tokenizer.vocabulary, self.options.max_seq_length, self.reading.frame)
        there = np.array(there, np.float32)
        arrays = {name: spread_rows(values, there > 0) for name, values in flat.items()}
        arrays |= {"labels": np.array(labels, np.float32), "choice_weights": there}
        return RankSource(arrays, path, np.array(numbers))

    def _recorded(self, path: str, tokenizer) -> RankSource:
        """Records of `create_finetuning_data --task=rank`; lists have the size that they have there."""
        manifest = Manifest.read(path)
        check_recorded(path, manifest, TASK, tokenizer, None)
        firsts, seconds, labels, there, numbers = [], [], [], [], []
        for parsed in recorded_batches(path, manifest):
            weights = parsed["label_weights"] > 0
            for ids, (a, b) in zip(parsed["token_ids"][weights], parsed["segment_lengths"][weights], strict=True):
                firsts.append(ids[:a].tolist())
                seconds.append(ids[a : a + b].tolist())
            labels += np.where(weights, parsed["labels"], 0.0).tolist()
            there += weights.astype(np.float32).tolist()
            numbers += parsed["example_ids"].ravel().tolist()
        return self._packed(path, tokenizer, firsts, seconds, labels, there, numbers)
