"""A linear-chain conditional random field (Lafferty et al., 2001) over the words of a text (Huang et al., 2015; Lample et al., 2016).

A chain consists of the positions that a mask marks, in order; others, such as padding and the later pieces of words, are skipped. The
score of a path is `start` of its first tag, plus the emission of each tag, plus `transitions` from each tag to the next. There is no
score for ending in a tag, since a chain may end before its text does.
"""

from collections.abc import Sequence

import keras
from keras import ops

FORBIDDEN = -1e30  # the score of a forbidden tag or transition: far below any sum of real scores, with exponential 0


class LinearChain(keras.layers.Layer):
    """The start and transition scores of a chain, float32 whatever the dtype policy, initialized to 0. Methods are called by name.

    Args:
        may_start: C booleans: whether a text may begin with each tag.
        may_follow: C rows of C booleans: whether the tag of the column may follow that of the row. Whatever is not allowed has
            the constant score `FORBIDDEN`.
    """

    def __init__(self, may_start: Sequence[bool], may_follow: Sequence[Sequence[bool]], **kwargs):
        super().__init__(dtype="float32", **kwargs)
        count = len(may_start)
        self._may_start, self._may_follow = list(may_start), [list(row) for row in may_follow]
        self.start_scores = self.add_weight(shape=(count,), initializer="zeros", name="start_scores")
        self.transition_scores = self.add_weight(shape=(count, count), initializer="zeros", name="transition_scores")
        self.built = True

    def scores(self, opens):
        """Returns start scores (B, C), 0 for chains that do not open their text, and transitions (C, C), float32.

        Args:
            opens: bool (B,), whether the first word of a chain is the first of its text.
        """
        start, transitions = map(ops.convert_to_tensor, (self.start_scores, self.transition_scores))
        start = ops.where(ops.convert_to_tensor(self._may_start), start, FORBIDDEN)
        start = ops.where(ops.expand_dims(opens, 1), ops.expand_dims(start, 0), 0.0)
        return start, ops.where(ops.convert_to_tensor(self._may_follow), transitions, FORBIDDEN)

    def loss(self, emissions, labels, words, opens):
        """Returns the negative log-likelihood of the labels of each row, float32 (B,); 0 for a row without words.

        Args:
            emissions: float (B, L, C).
            labels: int (B, L), read where `words` is True.
            words: bool (B, L), the positions of the chain.
            opens: bool (B,), as in `scores`.
        """
        emissions, (start, transitions) = ops.cast(emissions, "float32"), self.scores(opens)
        total = log_partition(emissions, words, start, transitions)
        return total - path_score(emissions, labels, words, start, transitions)

    def decode(self, emissions, words, opens):
        """Returns the best path (Viterbi) and the marginal probability of each of its tags.

        Args:
            emissions, words, opens: as in `loss`.

        Returns:
            label_ids int32 (B, L), and their marginal probabilities float32 (B, L); both are 0 where `words` is False.
        """
        emissions, (start, transitions) = ops.cast(emissions, "float32"), self.scores(opens)
        label_ids = viterbi(emissions, words, start, transitions)
        found = marginals(emissions, words, start, transitions)  # (B, L, C)
        chosen = ops.take_along_axis(found, ops.expand_dims(label_ids, -1), axis=-1)[..., 0]
        return label_ids, chosen


def first_words(words):
    """Marks the first True of each row: bool (B, L) -> bool (B, L)."""
    return ops.logical_and(words, ops.equal(ops.cumsum(ops.cast(words, "int32"), axis=1), 1))


def last_words(words):
    """Marks the last True of each row: bool (B, L) -> bool (B, L)."""
    return ops.flip(first_words(ops.flip(words, axis=1)), axis=1)


def by_place(scores, *marks):
    """Joins scores float32 (B, L, C) and M masks bool (B, L) to one (L, B, C + M), since Keras scans only one array of unknown L."""
    joined = ops.concatenate([scores, ops.cast(ops.stack(marks, axis=2), scores.dtype)], axis=2)
    return ops.swapaxes(joined, 0, 1)


def forward(emissions, words, start, transitions, reduce):
    """Returns forward recursion: the log-sum or the maximum of the scores of the paths that end in each tag, float32 (B, L, C).

    The maximum over the tags is subtracted before each next position, so that long texts lose no precision. Skipped positions
    repeat the scores of the position before them; before the first word they are 0.

    Args:
        reduce: (B, C, C) -> (B, C), over the previous tags: `ops.logsumexp` or `ops.max`.
    """

    def step(before, here):
        emission, is_word, is_first = here[:, :-2], here[:, -2:-1] > 0, here[:, -1:] > 0
        follows = reduce(ops.expand_dims(before, 2) + transitions, axis=1)  # (B, C)
        score = ops.where(is_word, ops.where(is_first, start, follows) + emission, before)
        return less_largest(score), score

    nothing = ops.zeros_like(emissions[:, 0])
    return ops.swapaxes(ops.scan(step, nothing, by_place(emissions, words, first_words(words)))[1], 0, 1)


def backward(emissions, words, transitions):
    """Returns backward recursion: the log-sum of the scores of the paths after each tag, less the maximum over the tags,
    float32 (B, L, C)."""

    def step(behind, here):
        leading = ops.expand_dims(here[:, :-1] + behind, 1) + transitions  # (B, C before, C)
        return less_largest(ops.where(here[:, -1:] > 0, ops.logsumexp(leading, axis=2), behind)), behind

    nothing = ops.zeros_like(emissions[:, 0])
    return ops.swapaxes(ops.scan(step, nothing, by_place(emissions, words), reverse=True)[1], 0, 1)


def less_largest(scores):
    return scores - ops.max(scores, axis=-1, keepdims=True)


def log_partition(emissions, words, start, transitions):
    """Returns the log of the sum of the exponentiated scores of all paths, float32 (B,); 0 for a row without words.

    The custom gradient is the marginal probabilities, so no loop is differentiated: XLA cannot do so for Keras' loops.
    """

    @ops.custom_gradient
    def total(emissions, start, transitions):
        ahead = forward(emissions, words, start, transitions, ops.logsumexp)  # (B, L, C)
        removed = ops.sum(ops.max(ahead, axis=-1), axis=1)  # (B,), the maxima that are subtracted
        found = removed + ops.logsumexp(less_largest(ahead[:, -1]), axis=-1)

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream  # (B,)
            behind = backward(emissions, words, transitions)
            each = ops.expand_dims(upstream, (1, 2)) * likely(ahead, behind, words)  # (B, L, C)
            first = ops.sum(ops.where(ops.expand_dims(first_words(words), 2), each, 0.0), axis=1)  # (B, C)
            pairs = pairs_of(ahead, emissions + behind, words, transitions) * ops.expand_dims(upstream, (1, 2, 3))
            return each, first, ops.sum(pairs, axis=(0, 1))

        return ops.where(ops.any(words, axis=1), found, 0.0), gradient

    return total(emissions, start, transitions)


def likely(ahead, behind, words):
    """Returns the marginal probabilities (B, L, C) from the results of `forward` and `backward`; 0 where `words` is False."""
    return ops.where(ops.expand_dims(words, 2), ops.softmax(ahead + behind, axis=-1), 0.0)


def pairs_of(ahead, onward, words, transitions):
    """Returns the probability of each pair of consecutive tags, (B, L - 1, C previous, C), at all positions but the first.

    It is 0 except at words with a word before them.

    Args:
        ahead: (B, L, C), from `forward`.
        onward: (B, L, C), the result of `backward` plus the emissions.
    """
    scores = ops.expand_dims(less_largest(ahead)[:, :-1], 3) + transitions + ops.expand_dims(onward[:, 1:], 2)
    scores = scores - ops.max(scores, axis=(2, 3), keepdims=True)
    shares = ops.exp(scores) / ops.sum(ops.exp(scores), axis=(2, 3), keepdims=True)
    later = ops.logical_and(words, ops.logical_not(first_words(words)))[:, 1:]
    return ops.where(ops.expand_dims(later, (2, 3)), shares, 0.0)


def marginals(emissions, words, start, transitions):
    """Returns the marginal probability of each tag at each word, float32 (B, L, C); 0 where `words` is False."""
    ahead = forward(emissions, words, start, transitions, ops.logsumexp)
    return likely(ahead, backward(emissions, words, transitions), words)


def path_score(emissions, labels, words, start, transitions):
    """Returns the score of the path of the labels, float32 (B,)."""
    labels, count = ops.cast(labels, "int32"), emissions.shape[-1]
    emitted = ops.take_along_axis(emissions, ops.expand_dims(labels, -1), axis=-1)[..., 0]  # (B, L)
    length = ops.shape(words)[1]
    places = ops.arange(length, dtype="int32")
    earlier = ops.logical_and(ops.expand_dims(words, 1), ops.expand_dims(places, 1) > places)  # (B, L, L before)
    before = ops.max(ops.where(earlier, places, -1), axis=-1)  # (B, L): the word before, -1 for none
    from_label = ops.take_along_axis(labels, ops.maximum(before, 0), axis=1)
    moved = ops.take(ops.reshape(transitions, (-1,)), from_label * count + labels)
    begun = ops.take_along_axis(start, labels, axis=1)  # (B, L)
    score = emitted + ops.where(before >= 0, moved, begun)
    return ops.sum(ops.where(words, score, 0.0), axis=1)


def viterbi(emissions, words, start, transitions):
    """Returns the tags of the best path, int32 (B, L); 0 where `words` is False."""
    best = forward(emissions, words, start, transitions, ops.max)  # (B, L, C)
    to_tag = ops.transpose(transitions)  # (C, C before)

    def step(behind, here):
        lead = here[:, :-2] + ops.where(here[:, -1:] > 0, 0.0, ops.take(to_tag, behind, axis=0))
        tag = ops.where(here[:, -2] > 0, ops.cast(ops.argmax(lead, axis=-1), "int32"), behind)
        return tag, tag

    nothing = ops.zeros_like(emissions[:, 0, 0], dtype="int32")
    tags = ops.scan(step, nothing, by_place(best, words, last_words(words)), reverse=True)[1]
    return ops.where(words, ops.swapaxes(tags, 0, 1), 0)
