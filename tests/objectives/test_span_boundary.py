"""SpanBERT's boundary objective names hidden tokens from the tokens beside their span, and from nothing else."""

import keras
import numpy as np
import pytest
from keras import ops

from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels.layers.heads import SpanBoundaryHead
from xmodels.models.bert import Bert, BertConfig
from xmodels.objectives.span_boundary import MAX_PAIR_TARGETS, SpanBoundary, spans
from xmodels.systems import spanbert
from xmodels.training.recipe import Records

SPECIAL = 20, 21, 22  # ids that stand in no text
SMALL = BertConfig(23, 8, 2, 2, 16, max_sequence_length=40, activation="gelu")
# Two rows: spans 2-4 and 6; and 1, 3-4, with a place that does not count.
POSITIONS = np.array([[2, 3, 4, 6], [1, 3, 4, 0]], "int32")
WEIGHTS = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], "float32")


def test_runs_of_hidden_places_are_spans():
    first, last, place = (ops.convert_to_numpy(x) for x in spans(ops.convert_to_tensor(POSITIONS), WEIGHTS))
    assert first.tolist()[0] == [2, 2, 2, 6] and last.tolist()[0] == [4, 4, 4, 6] and place.tolist()[0] == [0, 1, 2, 0]
    assert (
        first.tolist()[1][:3] == [1, 3, 3] and last.tolist()[1][:3] == [1, 4, 4] and place.tolist()[1] == [0, 0, 1, 0]
    )


@pytest.mark.parametrize("seed", range(5))
def test_spans_are_those_of_a_walk_over_random_masks(seed):
    rng = np.random.default_rng(seed)
    hidden = rng.random(40) < 0.4
    places = np.flatnonzero(hidden)
    padded = np.pad(places, (0, 5))[None].astype("int32")
    weights = (np.arange(len(places) + 5) < len(places))[None].astype("float32")
    first, last, place = (ops.convert_to_numpy(x)[0] for x in spans(ops.convert_to_tensor(padded), weights))
    for index, here in enumerate(places):
        begin = end = here
        while begin - 1 in places:
            begin -= 1
        while end + 1 in places:
            end += 1
        assert (first[index], last[index], place[index]) == (begin, end, here - begin)


def test_the_head_has_the_published_number_of_parameters():
    config = BertConfig(28_996, 768, 12, 12, 3072)
    head, table = SpanBoundaryHead(config, MAX_PAIR_TARGETS), keras.layers.Embedding(28_996, 768)
    table.build()
    index = np.zeros((1, 1), "int32")
    head(np.zeros((1, 3, 768), "float32"), index, index, index, token_embedding=table)
    assert head.count_params() == 1_960_676


def batch_of(positions, weights, length=12):
    return {
        "token_ids": np.arange(len(positions) * length).reshape(len(positions), length) % 20,
        "mask_positions": positions, "label_weights": weights, "labels": positions % 23,
    }  # fmt: skip


def test_logits_depend_on_the_sides_of_the_span_and_the_place_alone():
    """The head that the paper's formula gives, by hand; and nothing inside of a span reaches its answer."""
    keras.utils.set_random_seed(0)
    backbone = Bert(SMALL).initialize()
    objective, batch = SpanBoundary(SMALL, SPECIAL), batch_of(POSITIONS, WEIGHTS)
    states = np.random.default_rng(0).normal(size=(2, 12, 8)).astype("float32")
    logits, weights = objective.logits({"sequence_output": states}, batch, backbone)
    head, table = objective.head, ops.convert_to_numpy(backbone.embedding.token.embeddings)
    for row, index, left, right, place in (
        (0, 0, 1, 5, 0),
        (0, 2, 1, 5, 2),
        (0, 3, 5, 7, 0),
        (1, 0, 0, 2, 0),
        (1, 2, 2, 5, 1),
    ):
        x = np.concatenate([states[row, left], states[row, right], ops.convert_to_numpy(head.place.embeddings)[place]])
        for dense in (head.dense_0, head.dense_1):  # the norms are as they begin
            x = keras.activations.gelu(
                x @ ops.convert_to_numpy(dense.kernel) + ops.convert_to_numpy(dense.bias), approximate=False
            )
            x = ops.convert_to_numpy(x)
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-12)
        np.testing.assert_allclose(ops.convert_to_numpy(logits)[row, index], table @ x, atol=1e-4)
    assert np.array_equal(weights, WEIGHTS)
    changed = states.copy()
    changed[0, 2:5] = 7.0  # what is hidden
    again, _ = objective.logits({"sequence_output": changed}, batch, backbone)
    assert np.array_equal(again, logits)
    changed[0, 5] = 7.0  # beside both spans
    again, _ = objective.logits({"sequence_output": changed}, batch, backbone)
    assert not np.any(np.all(np.isclose(again[0], logits[0]), axis=-1)) and np.array_equal(again[1], logits[1])


def test_spans_at_an_end_and_places_beyond_the_table_do_not_count():
    length = 2 * MAX_PAIR_TARGETS
    positions = np.arange(1, MAX_PAIR_TARGETS + 4, dtype="int32")[None]
    at_ends = np.array([[0, 1, length - 1]], "int32")
    backbone, objective = Bert(SMALL).initialize(), SpanBoundary(SMALL, SPECIAL)
    states = {"sequence_output": np.zeros((1, length, 8), "float32")}
    _, weights = objective.logits(states, batch_of(positions, np.ones_like(positions, "float32"), length), backbone)
    assert np.array_equal(weights, [[1] * MAX_PAIR_TARGETS + [0] * 3])
    fewer = SpanBoundary(SMALL, SPECIAL, MAX_PAIR_TARGETS - 5)  # as the published command
    _, weights = fewer.logits(states, batch_of(positions, np.ones_like(positions, "float32"), length), backbone)
    assert np.array_equal(weights, [[1] * (MAX_PAIR_TARGETS - 5) + [0] * 8])
    _, weights = objective.logits(states, batch_of(at_ends, np.ones((1, 3), "float32"), length), backbone)
    assert not np.any(weights)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_spans_beside_special_tokens_count_in_masked_lm_alone(static):
    """`[CLS] 2 3 [SEP] 5 6 7 [SEP] [PAD]`: all but 5 to 7 stand beside a special token on one side."""
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *"abcdefgh"])
    cls, sep, pad = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]"))
    token_ids = np.array([[cls, 6, 7, 8, sep, 9, 10, 11, 12, sep, pad, pad]] * 4, "int32")
    positions = np.array([[1, 2], [3, 7], [5, 0], [8, 0]], "int32")
    weights = np.array([[1, 1], [1, 1], [1, 0], [1, 0]], "float32")
    batch = {"token_ids": token_ids, "mask_positions": positions, "labels": positions, "label_weights": weights}
    made = spanbert.recipe(vocabulary, Records(sequence_length=12, static=static), config=SMALL)
    objective = made.objective().parts[1]
    states = {"sequence_output": np.zeros((4, 12, 8), "float32")}
    _, found = objective.logits(states, batch, Bert(SMALL).initialize())
    assert ops.convert_to_numpy(found).tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]
