"""Questions answered by likelihood: how likely each way to go on is, behind its context."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from tqdm.auto import tqdm

from data_pipelines.batches.running_text import end_of_documents
from data_pipelines.corpora.cloze import Question
from data_pipelines.errors import DataError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.language_model.scorer import Scorer, logarithms

STEP = 64  # lengths are multiples of it, so that few functions are compiled


@dataclasses.dataclass(frozen=True)
class Likelihood:
    """What the network says of one option behind its context.

    Attributes:
        loss: -log p in nats, of all its tokens.
        is_greedy: whether each of its tokens is the likeliest one behind those before it.
        tokens: its ids.
    """

    loss: float
    is_greedy: bool
    tokens: list[int]


@dataclasses.dataclass(frozen=True)
class _Row:
    ids: list[int]  # of context and option, behind the token that ends documents
    count: int  # of the last, which are scored


def likelihoods(
    scorer: Scorer, questions: Sequence[Question], max_length: int, batch_size: int, restricted: bool = False
) -> tuple[list[list[Likelihood]], int]:
    """Returns how likely the options of each question are, and how many contexts were too long and lost their beginning.

    Args:
        max_length: tokens that the network reads at once.
        batch_size: rows at a time; questions of like length share a batch.
        restricted: whether what the scorer holds unlikely is no answer where an option begins.

    Raises:
        DataError: an option is longer than the network reads, or has no piece.
    """
    rows = [_rows(question, scorer.tokenizer) for question in questions]
    for question, options in zip(questions, rows, strict=True):
        longest = max(row.count for row in options)
        if longest > max_length:
            raise DataError(f"{question.place}: {longest} tokens to score, but the network reads {max_length} at most.")
    cut = sum(max(len(row.ids) for row in options) > max_length + 1 for options in rows)
    everything = [_shortened(row, options, max_length) for options in rows for row in options]
    found = iter(_score(scorer, everything, batch_size, max_length, restricted))
    return [[next(found) for _ in options] for options in rows], cut


def _rows(question: Question, tokenizer: Tokenizer) -> list[_Row]:
    """Returns context and option are tokenized as one text; a piece that reaches into the option belongs to it."""
    end, rows = end_of_documents(tokenizer), []
    for option, pieces in zip(
        question.options, tokenizer.encode_batch([question.context + o for o in question.options]), strict=True
    ):
        if not end and not question.context:
            raise DataError(
                f"{question.place}: no context, and the vocabulary has no token that ends documents to begin with."
            )
        before = sum(last <= len(question.context) for _, last in pieces.spans)
        if before == len(pieces.ids):
            raise DataError(f"{question.place}: the tokenizer has no piece for {option.strip()!r:.40}.")
        rows.append(_Row([*end, *pieces.ids], len(pieces.ids) - before))
    return rows


def _shortened(row: _Row, options: list[_Row], max_length: int) -> _Row:
    """Returns without the beginning of a context that is too long for the longest option, so that all see the same one."""
    excess = max(0, max(len(other.ids) for other in options) - max_length - 1)
    return _Row(row.ids[min(excess, len(row.ids) - row.count - 1) :], row.count)


def _score(scorer: Scorer, rows: list[_Row], batch_size: int, max_length: int, restricted: bool) -> list[Likelihood]:
    found: list[Likelihood | None] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    width = -(-max(row.count for row in rows) // 8) * 8  # P, of all batches
    with tqdm(total=len(rows), desc="options", unit="option", disable=len(rows) < 200) as progress:
        for begin in range(0, len(rows), batch_size):
            places = order[begin : begin + batch_size]
            longest = max(len(rows[place].ids) for place in places) - 1
            length = min(-(-longest // STEP) * STEP, max_length)
            losses, first, labels, real = _batch(
                scorer, [rows[p] for p in places], batch_size, length, width, restricted
            )
            for row, place in enumerate(places):
                mask = real[row]
                found[place] = Likelihood(
                    float(losses[row][mask].sum()), bool(first[row][mask].all()), labels[row][mask].tolist()
                )
            progress.update(len(places))
    return found


def _batch(scorer: Scorer, rows: list[_Row], batch_size: int, length: int, width: int, restricted: bool):
    token_ids, lengths = np.zeros((batch_size, length), np.int32), np.ones(batch_size, np.int32)
    positions, labels = np.zeros((2, batch_size, width), np.int32)
    real, at_begin = np.zeros((2, batch_size, width), bool)
    for index, row in enumerate(rows):
        inputs = row.ids[:-1]
        token_ids[index, : len(inputs)], lengths[index] = inputs, len(inputs)
        positions[index, : row.count] = np.arange(len(inputs) - row.count, len(inputs))
        labels[index, : row.count] = row.ids[-row.count :]
        real[index, : row.count], at_begin[index, 0] = True, restricted
    losses, first = scorer.score(token_ids, lengths, positions, labels, at_begin)
    return logarithms(losses), first.numpy(), labels, real
