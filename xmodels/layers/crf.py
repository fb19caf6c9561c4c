"""A linear-chain conditional random field (Lafferty et al., 2001) over the words of a text (Huang et al., 2015; Lample et al., 2016).

A chain visits the places that a mask marks, in their order; others, such as padding and the later pieces of words, are passed over. A
path scores `start` of its first tag, the emission of each tag, and `transitions` from each tag to the next. There is no score of the
last tag, since the end of a chain need not be that of its text.
"""

from collections.abc import Sequence

import keras
from keras import ops

FORBIDDEN = -1e30  # the score of what may not be: no sum of real scores comes near, and its exponential is 0


class LinearChain(keras.layers.Layer):
    """The scores of a chain, all in float32 whatever the policy; they begin as 0. Methods are called by name.

    Args:
        may_start: C booleans: whether a text may begin with a tag.
        may_follow: C rows of C booleans: whether the tag of the column may stand behind that of the row. What may not has the score
            `FORBIDDEN`, which never changes.
    """

    def __init__(self, may_start: Sequence[bool], may_follow: Sequence[Sequence[bool]], **kwargs):
        super().__init__(dtype="float32", **kwargs)
        count = len(may_start)
        self._may_start, self._may_follow = list(may_start), [list(row) for row in may_follow]
        self.start_scores = self.add_weight(shape=(count,), initializer="zeros", name="start_scores")
        self.transition_scores = self.add_weight(shape=(count, count), initializer="zeros", name="transition_scores")
        self.built = True

    def scores(self, opens):
        """start (B, C), which is 0 where a chain does not open its text, and transitions (C, C), float32.

        Args:
            opens: bool (B,), whether the first word of a chain is the first of its text.
        """
        start, transitions = map(ops.convert_to_tensor, (self.start_scores, self.transition_scores))
        start = ops.where(ops.convert_to_tensor(self._may_start), start, FORBIDDEN)
        start = ops.where(ops.expand_dims(opens, 1), ops.expand_dims(start, 0), 0.0)
        return start, ops.where(ops.convert_to_tensor(self._may_follow), transitions, FORBIDDEN)

    def loss(self, emissions, labels, words, opens):
        """The negative logarithm of the probability of each path of labels, float32 (B,); 0 of a row without words.

        Args:
            emissions: float (B, L, C).
            labels: int (B, L), of the places that count.
            words: bool (B, L), the places that count.
            opens: bool (B,), as of `scores`.
        """
        emissions, (start, transitions) = ops.cast(emissions, "float32"), self.scores(opens)
        total = log_partition(emissions, words, start, transitions)
        return total - path_score(emissions, labels, words, start, transitions)

    def decode(self, emissions, words, opens):
        """The best path and how likely each of its tags is.

        Args:
            emissions, words, opens: as of `loss`.

        Returns:
            label_ids int32 (B, L), and their marginal probabilities float32 (B, L); 0 and 0 where no word stands.
        """
        emissions, (start, transitions) = ops.cast(emissions, "float32"), self.scores(opens)
        label_ids = viterbi(emissions, words, start, transitions)
        found = marginals(emissions, words, start, transitions)  # (B, L, C)
        chosen = ops.take_along_axis(found, ops.expand_dims(label_ids, -1), axis=-1)[..., 0]
        return label_ids, chosen


def first_words(words):
    """bool (B, L): the first place of each row that counts."""
    return ops.logical_and(words, ops.equal(ops.cumsum(ops.cast(words, "int32"), axis=1), 1))


def last_words(words):
    """bool (B, L): the last one."""
    return ops.flip(first_words(ops.flip(words, axis=1)), axis=1)


def by_place(scores, *marks):
    """float32 (B, L, C) and M of bool (B, L) -> (L, B, C + M), as a scan reads them: Keras scans one array of unknown length only."""
    joined = ops.concatenate([scores, ops.cast(ops.stack(marks, axis=2), scores.dtype)], axis=2)
    return ops.swapaxes(joined, 0, 1)


def forward(emissions, words, start, transitions, reduce):
    """For each place and tag the sum or the best of the paths that end there, float32 (B, L, C), less the largest of each place
    before, so that long texts cost no digits. What is passed over repeats what stands before it; before the first word there is 0.

    Args:
        reduce: (B, C, C) -> (B, C) over the tags before: `ops.logsumexp` or `ops.max`.
    """

    def step(before, here):
        emission, is_word, is_first = here[:, :-2], here[:, -2:-1] > 0, here[:, -1:] > 0
        follows = reduce(ops.expand_dims(before, 2) + transitions, axis=1)  # (B, C)
        score = ops.where(is_word, ops.where(is_first, start, follows) + emission, before)
        return less_largest(score), score

    nothing = ops.zeros_like(emissions[:, 0])
    return ops.swapaxes(ops.scan(step, nothing, by_place(emissions, words, first_words(words)))[1], 0, 1)


def backward(emissions, words, transitions):
    """For each place and tag the logarithm of the sum of the paths that begin behind it, less the largest, float32 (B, L, C)."""

    def step(behind, here):
        leading = ops.expand_dims(here[:, :-1] + behind, 1) + transitions  # (B, C before, C)
        return less_largest(ops.where(here[:, -1:] > 0, ops.logsumexp(leading, axis=2), behind)), behind

    nothing = ops.zeros_like(emissions[:, 0])
    return ops.swapaxes(ops.scan(step, nothing, by_place(emissions, words), reverse=True)[1], 0, 1)


def less_largest(scores):
    return scores - ops.max(scores, axis=-1, keepdims=True)


def log_partition(emissions, words, start, transitions):
    """The logarithm of the sum of all paths, float32 (B,); 0 of a row without words.

    Its gradient is given: the marginal probabilities. So no loop is differentiated, which XLA refuses for loops of Keras.
    """

    @ops.custom_gradient
    def total(emissions, start, transitions):
        ahead = forward(emissions, words, start, transitions, ops.logsumexp)  # (B, L, C)
        removed = ops.sum(ops.max(ahead, axis=-1), axis=1)  # (B,), what `forward` has taken away on the way
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
    """The marginals (B, L, C) from what `forward` and `backward` give."""
    return ops.where(ops.expand_dims(words, 2), ops.softmax(ahead + behind, axis=-1), 0.0)


def pairs_of(ahead, onward, words, transitions):
    """How likely each pair of tags is at each place but the first, (B, L - 1, C before, C); 0 but at words that have one before them.

    Args:
        onward: (B, L, C), of the paths that go on from a tag, with its emission.
    """
    scores = ops.expand_dims(less_largest(ahead)[:, :-1], 3) + transitions + ops.expand_dims(onward[:, 1:], 2)
    scores = scores - ops.max(scores, axis=(2, 3), keepdims=True)
    shares = ops.exp(scores) / ops.sum(ops.exp(scores), axis=(2, 3), keepdims=True)
    later = ops.logical_and(words, ops.logical_not(first_words(words)))[:, 1:]
    return ops.where(ops.expand_dims(later, (2, 3)), shares, 0.0)


def marginals(emissions, words, start, transitions):
    """How likely each tag is at each word, over all paths, float32 (B, L, C); 0 where no word stands."""
    ahead = forward(emissions, words, start, transitions, ops.logsumexp)
    return likely(ahead, backward(emissions, words, transitions), words)


def path_score(emissions, labels, words, start, transitions):
    """The score of the path of labels, float32 (B,)."""
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
    """The tags of the best path, int32 (B, L); 0 where no word stands."""
    best = forward(emissions, words, start, transitions, ops.max)  # (B, L, C)
    to_tag = ops.transpose(transitions)  # (C, C before)

    def step(behind, here):
        lead = here[:, :-2] + ops.where(here[:, -1:] > 0, 0.0, ops.take(to_tag, behind, axis=0))
        tag = ops.where(here[:, -2] > 0, ops.cast(ops.argmax(lead, axis=-1), "int32"), behind)
        return tag, tag

    nothing = ops.zeros_like(emissions[:, 0, 0], dtype="int32")
    tags = ops.scan(step, nothing, by_place(best, words, last_words(words)), reverse=True)[1]
    return ops.where(words, ops.swapaxes(tags, 0, 1), 0)
