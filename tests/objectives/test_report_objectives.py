"""What the report shows of objectives agrees with what the network computes: orders with masks, boundary predictions with logits."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.features import BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ
from data_pipelines.ops.fragment import mask_fragment
from data_pipelines.ops.permutation import permute
from data_pipelines.text.kinds import open_tokenizer
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.unilm import Unilm, UnilmConfig
from xmodels.models.xlnet import XLNet, XLNetConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.permutation_lm import PermutationLM
from xmodels.objectives.span_boundary import SpanBoundary
from xmodels.objectives.unilm import Unilm as UnilmObjective
from xmodels.runs.examples import as_html
from xmodels.runs.samples import examples, join_samplers
from xmodels.training.watching.samples import as_text

LENGTH = 12
NUMBERS = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16, "dropout": 0.0}
NUMBERS |= {"attention_dropout": 0.0, "initializer_stddev": 0.5}


@pytest.fixture
def tokenizer(zh_vocabulary):
    return open_tokenizer(zh_vocabulary)


def batch_of(tokenizer, rows=1, length=LENGTH, **more):
    """Rows of characters that differ."""
    single = [i for i, token in enumerate(tokenizer.vocabulary.tokens) if len(token) == 1 and token.isalpha()]
    token_ids = np.array(single[-rows * length :], "int32").reshape(rows, length)
    ones = np.ones_like(token_ids)
    given = {"token_ids": token_ids, "padding_mask": ones.astype(bool), "segment_ids": 0 * ones}
    given |= {"example_weights": np.ones(rows, "float32"), **more}
    return {name: tf.constant(value) for name, value in given.items()}


def network(kind, config, tokenizer):
    return kind(config(vocabulary_size=len(tokenizer.vocabulary), **NUMBERS)).initialize()


def dependence(logits_of, batch, other_id):
    """Whether the logits of each target change with each token, bool (P, L), of one row: each token is replaced in turn."""
    rows = {name: np.repeat(value.numpy(), LENGTH + 1, axis=0) for name, value in batch.items()}
    rows["token_ids"][np.arange(LENGTH), np.arange(LENGTH)] = other_id
    logits = ops.convert_to_numpy(logits_of({name: tf.constant(value) for name, value in rows.items()}))
    return (np.abs(logits[:-1] - logits[-1]).max(axis=-1) > 1e-4).T


def hidden_of(pieces):
    return [piece for piece in pieces if not isinstance(piece, str)]


def seen_in(cell):
    """The characters that a view shows besides the target."""
    return {character for piece in cell if isinstance(piece, str) for character in piece} - set(" ▢×0123456789")


def test_order_and_sight_of_xlnet_are_what_its_logits_depend_on(tokenizer):
    backbone = network(XLNet, XLNetConfig, tokenizer)
    objective = PermutationLM(backbone.config)
    ones = np.ones((1, LENGTH), "int32")
    batch = batch_of(tokenizer, word_start=ones, maskable=ones.astype(bool), seed=np.array([7], "uint64"))
    batch = permute(6, LENGTH // 2, LENGTH // 2, context=2)(batch)
    predictions = {
        name: ops.convert_to_numpy(value)
        for name, value in objective.predictions(objective.forward(backbone, batch), batch, backbone).items()
    }
    (example,) = examples({**batch, **objective.target_visibility(batch)}, predictions, tokenizer, {})
    depends = dependence(lambda rows: objective.logits(objective.forward(backbone, rows), backbone), batch, 5)
    hidden, places = hidden_of(example["pieces"]), batch["mask_positions"].numpy()[0]
    assert len(hidden) == 6 and all(shown == "" for _, _, shown, _ in hidden)
    assert [int(mark) for *_, mark in hidden] == (1 + depends[:, places].sum(axis=1)).tolist()
    tokens = [tokenizer.vocabulary.tokens[i] for i in batch["token_ids"].numpy()[0]]
    by_mark = {mark: row for row, (*_, mark) in zip(depends, hidden, strict=True)}
    assert [number for ((number,), _) in example["table"]["rows"]] == ["1 of 6", "4 of 6", "6 of 6"]
    for (number,), cell in example["table"]["rows"]:
        row = by_mark[number.split()[0]]
        assert seen_in(cell) == {token for token, reaches in zip(tokens, row, strict=True) if reaches}
    text = as_html([example])
    assert f"<span class=marked><sup>{hidden[0][3]}</sup>" in text and "shown:" not in text and "1 of 6" in text
    assert f":{hidden[0][3]}]" in as_text(example)


@pytest.mark.parametrize("model", [BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ])
def test_sight_of_unilm_is_what_its_logits_depend_on(tokenizer, model):
    backbone = network(Unilm, UnilmConfig, tokenizer)
    objective = UnilmObjective(backbone.config)
    masked, places = objective.masked_lm, np.array([[1, 4, 8, 10]], "int32")
    batch = batch_of(tokenizer, mask_positions=places, label_weights=np.ones((1, 4), "float32"))
    batch |= {"labels": tf.gather(batch["token_ids"], places[0], axis=1), "objective_ids": tf.constant([model])}
    batch |= {"source_lengths": tf.constant([5])}
    (example,) = examples({**batch, **objective.target_visibility(batch)}, {}, tokenizer, {})
    depends = dependence(lambda rows: masked.logits(objective.forward(backbone, rows), rows, backbone), batch, 5)
    tokens = [tokenizer.vocabulary.tokens[i] for i in batch["token_ids"].numpy()[0]]
    assert ("table" in example) == (model != BIDIRECTIONAL)
    marks = {LEFT_TO_RIGHT: ["1", "2", "3", "4"], RIGHT_TO_LEFT: ["4", "3", "2", "1"]}.get(model)
    assert [piece[3:] for piece in hidden_of(example["pieces"])] == ([[m] for m in marks] if marks else [[]] * 4)
    for _, cell in example.get("table", {"rows": []})["rows"]:
        ((truth, *_),) = hidden_of(cell)
        row = depends[places[0].tolist().index(tokens.index(truth))]
        assert seen_in(cell) | {truth} == {token for token, reaches in zip(tokens, row, strict=True) if reaches}


def test_spans_stand_with_what_masked_lm_and_the_boundary_objective_name(tokenizer):
    """Spans at 2-3 and 6, and one at the end, beside which stands nothing."""
    backbone = network(Bert, BertConfig, tokenizer)
    objective = together(MaskedLM(backbone.config), SpanBoundary(backbone.config, [0]))
    places = np.array([[2, 3, 6, 11, 0]], "int32")
    weights = np.array([[1, 1, 1, 1, 0]], "float32")
    batch = batch_of(tokenizer, mask_positions=places, label_weights=weights)
    batch["labels"] = tf.gather(batch["token_ids"], places[0], axis=1)
    outputs = objective.forward(backbone, batch)
    predictions = objective.predictions(outputs, batch, backbone)
    masked, (beside, counts) = (part.logits(outputs, batch, backbone) for part in objective.parts)
    named, beside = ops.convert_to_numpy(predictions["span_labels"])[0], ops.convert_to_numpy(beside)[0].argmax(-1)
    assert ops.convert_to_numpy(counts)[0].tolist() == [1, 1, 1, 0, 0]
    assert named.tolist() == [*beside[:3], -1, -1]
    as_arrays = {name: ops.convert_to_numpy(value) for name, value in predictions.items()}
    (example,) = examples(batch, as_arrays, tokenizer, {})
    assert [piece[3] for piece in hidden_of(example["pieces"])] == ["1", "1", "2", "3"]

    def text(identity):
        return tokenizer.vocabulary.tokens[identity].removeprefix("##")

    inside = ops.convert_to_numpy(masked)[0].argmax(-1)
    first, second, last = example["table"]["rows"]
    assert [piece[1] for piece in hidden_of(first[1])] == [text(i) for i in inside[:2]]
    assert [piece[1] for piece in hidden_of(first[2])] == [text(i) for i in beside[:2]]
    assert [piece[1] for piece in hidden_of(second[2])] == [text(beside[2])]
    tokens = [text(i) for i in batch["token_ids"].numpy()[0]]
    assert (first[2][0], first[2][-1]) == (tokens[1], tokens[4])  # what stands beside the span
    assert hidden_of(last[2]) == [] and len(hidden_of(last[1])) == 1
    html = as_html([example])
    assert html.count("<span class=marked><sup>1</sup>") == 1 and "boundary objective" in html


def test_an_example_of_an_old_run_shows_both_sides_and_no_table():
    text = as_html([{"pieces": ["a ", ["b", "c", "[MASK]"], " ⇒ ", ["d", "d", "d"]], "answers": {}}])
    assert "the encoder reads:</small> a <del title='shown: [MASK]'>c</del><ins class=truth>b</ins>" in text
    assert "the decoder writes:</small> <ins class=right title='shown: d'>d</ins>" in text
    assert "<table" not in text and "marked" not in text


def test_examples_of_several_tasks_say_of_which_and_the_first_has_the_note():
    example = {"pieces": ["<x>"], "answers": {}}
    assert join_samplers({"text": lambda: [example]})() == [example]
    several = join_samplers({"masking": lambda: [example, example], "capitals": lambda: [example]}, "Words <first>.")()
    assert [each["task"] for each in several] == ["masking", "masking", "capitals"]
    assert [each.get("note") for each in several] == ["Words <first>.", None, None]
    assert as_html(several).count("task: masking") == 2 and "note: Words &lt;first&gt;." in as_html(several)
    assert as_text(several[-1]) == "capitals: <x>"


def test_the_fragment_of_mass_is_where_the_encoder_misses_it(tokenizer):
    batch = batch_of(tokenizer)
    clean = batch["token_ids"]
    batch = {**batch, "word_start": tf.ones_like(clean), "seed": tf.constant([5], tf.uint64)}
    made = mask_fragment(tokenizer.vocabulary, LENGTH + 2, rates=(1.0, 0.0))(batch)
    (example,) = examples(made, {}, tokenizer, {})
    hidden = np.flatnonzero(made["token_ids"].numpy()[0] == tokenizer.vocabulary["[MASK]"])
    assert f"tokens {hidden[0] + 1} to {hidden[-1] + 1} of" in example["note"] and len(hidden) == LENGTH // 2
