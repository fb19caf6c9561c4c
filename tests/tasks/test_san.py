"""The stochastic answer network: the released code, one step by hand, which steps count, padding, and a run by the commands."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_close, assert_gradient_norms, assert_outputs, feed, gradients_of, read_case
from tests.helpers.small_models import network
from xmodels.layers.answer_network import StochasticAnswerNetwork, log_mean
from xmodels.layers.dropout import dropout_seed
from xmodels.models.backbone import named_weights
from xmodels.objectives.measures import cross_entropy, weighted_cross_entropy


def network_of(width=8, classes=3, **numbers):
    """A built network with weights that are not small."""
    keras.utils.set_random_seed(3)
    made = StochasticAnswerNetwork(width, classes, **{"dropout": 0.0, "stddev": 0.4} | numbers)
    made(*texts(width))
    return made


def texts(width=8, rows=2, seed=0):
    """hypothesis, its mask, premise, its mask; of the first row one and two rows are padding."""
    draw = np.random.default_rng(seed)
    lengths = ((5, 4), (7, 5))
    found = []
    for length, first in lengths:
        mask = np.arange(length) < np.array([first] + [length] * (rows - 1))[:, None]
        found += [draw.normal(size=(rows, length, width)).astype("float32"), mask]
    return found


@pytest.mark.parametrize(("width", "count"), [(768, 4_144_132), (1024, 7_360_516)])
def test_parameters_are_those_of_the_paper(width, count):
    made = StochasticAnswerNetwork(width, 3)
    rows = ops.zeros((1, 2, width))
    made(rows, ops.ones((1, 2)), rows, ops.ones((1, 2)))
    assert (
        made.count_params() == count == width + 1 + width**2 + width + 3 * (2 * width**2 + 2 * width) + 12 * width + 3
    )


def of_torch(matrix):
    """Gates r, z, n (3 D, ...) as z, r, h."""
    r, z, n = np.split(matrix, 3)
    return np.concatenate([z, r, n])


@pytest.mark.parametrize("case", ["gru_last", "gru_average"])
def test_steps_and_average_are_those_of_the_released_code(case):
    case = read_case(f"san/{case}")
    numbers, given = case.numbers, case.inputs
    width, classes = numbers["hidden_dim"], numbers["num_labels"]
    made = StochasticAnswerNetwork(width, classes, numbers["num_steps"], 0.0)
    inputs = [
        x for name in ("hypothesis", "premise") for x in (given[name], given[f"{name}_mask_1_is_pad"] == 0)
    ]  # fmt: skip
    made(*inputs)
    read = case.weights["classifier.proj.weight"].shape[1]  # [x, h] alone is the same with zeros for the rest
    table = {
        "summary.kernel": ("query_wsum.att.linear.weight", np.transpose), "summary.bias": "query_wsum.att.linear.bias",
        "attention.kernel": ("attn.score_func.linear.weight", np.transpose), "attention.bias": "attn.score_func.linear.bias",
        "cell.kernel": ("rnn.weight_ih", lambda x: of_torch(x).T),
        "cell.recurrent_kernel": ("rnn.weight_hh", lambda x: of_torch(x).T),
        "cell.bias": ("rnn.bias_ih", lambda x: np.stack([of_torch(x), of_torch(case.weights["rnn.bias_hh"])])),
        "classifier.kernel": ("classifier.proj.weight", lambda x: np.pad(x.T, [(0, 4 * width - read), (0, 0)])),
        "classifier.bias": "classifier.proj.bias",
    }  # fmt: skip
    weights = named_weights(made)
    feed(weights, table, case.weights, unused=("alpha", "rnn.bias_hh"))
    assert_close(made.summarize(*inputs[:2]), case.outputs["hypothesis_summary"])
    steps = made.step_logits(*inputs)
    assert_outputs({f"step_scores/{i}": steps[:, i] for i in range(numbers["num_steps"])}, case.outputs)

    def scores():
        return made(*inputs) if numbers["average"] else made.step_logits(*inputs)[:, -1]

    assert_close(scores(), case.outputs["scores"])
    loss = lambda: ops.mean(cross_entropy(np.zeros(len(steps), "int32"), scores()))  # noqa: E731
    gradients = gradients_of(loss, weights)[1]
    found = {row[0]: gradients[ours] for ours, row in table.items() if isinstance(row, tuple)}
    found |= {theirs: gradients[ours] for ours, theirs in table.items() if isinstance(theirs, str)}
    found["rnn.bias_ih"], found["rnn.bias_hh"] = gradients["cell.bias"]
    found["classifier.proj.weight"] = gradients["classifier.kernel"][:read]
    assert_gradient_norms(found, case.outputs, at_least=9)


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def test_one_step_is_two_attentions_and_a_softmax_by_hand():
    made = network_of(num_steps=1)
    hypothesis, hypothesis_mask, premise, premise_mask = texts()
    w = {name: np.array(value, "float64") for name, value in named_weights(made).items()}
    for row in range(2):
        h, p = hypothesis[row][hypothesis_mask[row]], premise[row][premise_mask[row]]
        state = softmax(h @ w["summary.kernel"][:, 0] + w["summary.bias"]) @ h
        read = softmax(p @ (state @ w["attention.kernel"] + w["attention.bias"])) @ p
        both = np.concatenate([read, state, np.abs(read - state), read * state])
        expected = np.log(softmax(both @ w["classifier.kernel"] + w["classifier.bias"]))
        np.testing.assert_allclose(made(*texts())[row], expected, atol=1e-5)


def test_evaluation_is_the_logarithm_of_the_mean_of_the_steps():
    made = network_of()
    found = np.array(made(*texts(), training=False))
    expected = softmax(np.array(made.step_logits(*texts()), "float64")).mean(axis=1)
    np.testing.assert_allclose(found, np.log(expected), atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=-1), 1.0, atol=1e-6)
    steps = np.array(made.step_logits(*texts()))
    assert np.abs(steps[:, 1:] - steps[:, :-1]).max() > 1e-3  # so that it is a mean of different ones


def test_every_example_keeps_a_step_and_nine_of_ten_of_the_others():
    made = network_of()
    with dropout_seed(np.array([1, 2], "uint32")):
        kept = np.array(made.draw_kept_steps(40_000, training=True))
    assert kept.any(axis=1).all()
    assert kept.mean() == pytest.approx(0.92, abs=0.005)
    np.testing.assert_allclose(kept.mean(axis=0), 0.92, atol=0.008)  # no step is preferred
    assert np.array(made.draw_kept_steps(9, training=False)).all()
    alone = network_of(step_dropout=0.999)
    with dropout_seed(np.array([1, 2], "uint32")):
        kept = np.array(alone.draw_kept_steps(5000, training=True))
    assert kept.any(axis=1).all() and kept.sum(axis=1).mean() < 1.02
    np.testing.assert_allclose(kept.mean(axis=0), 0.2, atol=0.03)


def test_the_loss_renormalises_what_is_left_of_the_steps():
    logs = np.log(softmax(np.random.default_rng(0).normal(size=(2, 5, 3))).astype("float32"))
    kept = np.array([[True, False, True, True, False], [False, False, False, False, True]])
    loss, _ = weighted_cross_entropy(np.array([0, 2]), log_mean(ops.convert_to_tensor(logs), kept), np.ones(2))
    means = [np.exp(logs[row][kept[row]]).mean(axis=0) for row in range(2)]
    assert float(loss) == pytest.approx(-np.log(means[0][0]) - np.log(means[1][2]), abs=1e-5)


def test_padding_of_either_text_changes_nothing_and_an_empty_text_gives_numbers():
    made = network_of()
    given = texts()
    expected = np.array(made(*given))
    for place in (0, 2):
        padded = list(given)
        padded[place] = np.pad(given[place], [(0, 0), (0, 3), (0, 0)], constant_values=7.0)
        padded[place + 1] = np.pad(given[place + 1], [(0, 0), (0, 3)])
        np.testing.assert_allclose(made(*padded), expected, atol=1e-6)
    nothing = [*given[:3], np.zeros_like(given[3])]
    assert np.isfinite(np.array(made(*nothing))).all()


def test_dropout_of_rows_is_the_same_at_all_positions():
    made = network_of(dropout=0.5)
    with dropout_seed(np.array([1, 2], "uint32")):
        dropped = np.array(made._drop_alike(ops.ones((4, 6, 8)), True))
    np.testing.assert_array_equal(dropped, np.repeat(dropped[:, :1], 6, axis=1))
    assert 0 < (dropped == 0).mean() < 1 and np.abs(dropped[0] - dropped[1]).max() > 0


# As a task; `test_multitask` uses one that was learnt.


def test_single_texts_and_networks_without_segments_are_refused(small_bert, tmp_path, capsys):
    (tmp_path / "single.tsv").write_text("text\tlabel\nann\tno\nbob\tyes\n")
    (tmp_path / "pairs.tsv").write_text("text\ttext_pair\tlabel\nann\tbob\tno\nbob\tann\tyes\n")
    flags = {
        "task": "san",
        "model_dir": tmp_path / "other",
        "max_seq_length": 16,
        "distribution_strategy": "one_device",
    }
    assert invoke("finetune", init_checkpoint=small_bert, **flags, train_file=tmp_path / "single.tsv") != 0
    assert "has one text in a row, but --task=san reads one text of a pair" in capsys.readouterr().err
    flags["train_file"] = tmp_path / "pairs.tsv"
    assert invoke("finetune", init_checkpoint=network("roberta", tmp_path), **flags) != 0
    assert "which a network of the kind roberta does not have" in capsys.readouterr().err
    assert invoke("finetune", init_checkpoint=small_bert, **flags, pooling="mean") != 0
    assert "--pooling: --task=san has no such flag" in capsys.readouterr().err
