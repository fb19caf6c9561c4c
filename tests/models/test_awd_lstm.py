"""AWD-LSTM: the numbers of Salesforce's code, and what each of its dropouts and penalties does."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers import costs
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.weight_drop_lstm import WeightDropLstm
from xmodels.models.awd_lstm import SIZES, AwdLstm, AwdLstmConfig
from xmodels.models.backbone import named_weights
from xmodels.models.lstm_lm import LstmLM, LstmLMConfig
from xmodels.objectives.tied_lm import TiedLM

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/awd_lstm/lm"
IDS = np.array([[2, 5, 6, 3, 7, 5], [4, 7, 3, 9, 9, 1]], "int32")
SEED = np.array([3, 5], "uint32")


def network(**given):
    keras.utils.set_random_seed(1)
    return AwdLstm(AwdLstmConfig(13, 6, **{"recurrent_dim": 8, "dropout": 0.0} | given)).initialize()


def states(backbone, ids=IDS, training=True, seed=SEED, **features):
    with dropout_seed(seed):
        return np.array(backbone({"token_ids": ids, **features}, training=training)["sequence_output"])


@pytest.fixture(scope="module")
def golden():
    """The network of the golden, its objective, and the losses and outputs of two segments in a row."""
    weights, inputs = (np.load(GOLDEN / f"{name}.npz") for name in ("weights", "inputs"))
    config = AwdLstmConfig(60, 24, num_layers=3, dropout=0.0, recurrent_dim=32)
    backbone, objective = AwdLstm(config).initialize(), TiedLM(config)
    named = named_weights(backbone)
    theirs = {"embedding.embeddings": "encoder.weight"}
    named["embedding.embeddings"].assign(weights["encoder.weight"])
    objective.bias.assign(weights["decoder.bias"])
    for i in range(3):
        ours, name = f"recurrent_layers.{i}.", f"rnns.{i}."
        named[f"{ours}gates.kernel"].assign(weights[f"{name}weight_ih_l0"].T)
        named[f"{ours}gates.bias"].assign(weights[f"{name}bias_ih_l0"] + weights[f"{name}bias_hh_l0"])
        named[f"{ours}steps.cell.recurrent.kernel"].assign(weights[f"{name}weight_hh_l0"].T)
        theirs |= {
            f"{ours}gates.kernel": f"{name}weight_ih_l0", f"{ours}gates.bias": f"{name}bias_ih_l0",
            f"{ours}steps.cell.recurrent.kernel": f"{name}weight_hh_l0",
        }  # fmt: skip
    memory, found, variables = backbone.initial_memory(3), [], [v.value for v in (*named.values(), objective.bias)]
    with tf.GradientTape() as tape:
        total = 0.0
        for ids, targets in zip(inputs["token_ids"], inputs["targets"], strict=True):
            batch = {"token_ids": ids.T, "labels": targets.T, "label_weights": np.ones(targets.T.shape, "float32")}
            outputs, losses, _ = objective.run(backbone, {**batch, **memory}, training=True)
            means = {name: loss / weight for name, (loss, weight) in losses.items()}
            logits = objective.logits(outputs["sequence_output"], backbone)
            found.append((outputs, {n: float(v) for n, v in means.items()}, logits))
            total += sum(means.values())
            memory = {"memory": outputs["memory"]}
    gradients = tape.gradient(total, variables)
    norms = {theirs[n]: float(tf.norm(tf.convert_to_tensor(g))) for n, g in zip(named, gradients, strict=False)}
    return found, norms | {"decoder.bias": float(tf.norm(gradients[-1]))}


def test_states_logits_and_losses_of_two_segments_are_those_of_the_original(golden):
    expected = np.load(GOLDEN / "outputs.npz")
    for segment, (outputs, losses, logits) in enumerate(golden[0]):
        of = f"segment{segment}/"
        np.testing.assert_allclose(
            np.array(outputs["sequence_output"]).swapaxes(0, 1), expected[f"{of}output"], atol=1e-5
        )
        np.testing.assert_allclose(np.array(logits).swapaxes(0, 1), expected[f"{of}logits"], atol=1e-5)
        after = [expected[f"{of}state_{kind}/{layer}"] for layer in range(3) for kind in "hc"]
        np.testing.assert_allclose(outputs["memory"], np.concatenate(after, axis=-1), atol=1e-5)
        assert losses == pytest.approx(
            {
                "causal_lm": float(expected[f"{of}loss"]),
                "activation": float(expected[f"{of}activation_regularization"]),
                "temporal_activation": float(expected[f"{of}temporal_regularization"]),
            },
            rel=1e-4,
        )


def test_gradients_of_both_segments_are_those_of_the_original(golden):
    expected = np.load(GOLDEN / "outputs.npz")
    wanted = dict(zip(expected["grad_norm_names"].tolist(), expected["grad_norm_values"].tolist(), strict=True))
    assert len(golden[1]) == 11
    for name, norm in golden[1].items():
        assert norm == pytest.approx(wanted[name], rel=1e-3), name


def test_numbers_of_weights_are_those_of_the_paper():
    config = AwdLstmConfig(100, **SIZES["base"])
    assert config.widths == (1150, 1150, 400)
    second_biases = 4 * sum(config.widths)  # PyTorch adds two biases, and here is their sum
    lstms = AwdLstm(config).initialize().count_params() - 100 * 400
    assert lstms + second_biases == 20_211_600


def test_without_dropout_it_is_a_plain_lstm_of_the_same_weights():
    plain = LstmLM(LstmLMConfig(13, 6, num_layers=2, dropout=0.0)).initialize()
    ours = AwdLstm(AwdLstmConfig(13, 6, num_layers=2, recurrent_dim=6)).initialize()
    assert named_weights(ours).keys() == named_weights(plain).keys()
    for name, weight in named_weights(plain).items():
        named_weights(ours)[name].assign(weight)
    np.testing.assert_allclose(states(ours, training=False), plain({"token_ids": IDS})["sequence_output"], atol=1e-6)


def test_a_mask_of_recurrent_weights_holds_for_all_steps_and_rows_and_changes_from_pass_to_pass():
    keras.utils.set_random_seed(3)
    layer, plain = WeightDropLstm(5, rate=0.5), WeightDropLstm(5, rate=0.0)
    x, state = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32"), np.zeros((2, 10), "float32")
    for each in (layer, plain):
        each(x, state)
    for mine, other in zip(plain.weights, layer.weights, strict=True):
        mine.assign(other)
    cell = layer.steps.cell
    with dropout_seed(SEED):
        mask = np.array(cell.weight_dropout(np.ones((5, 20), "float32"), training=True))
    assert set(np.unique(mask)) == {0.0, 2.0}
    with dropout_seed(SEED):
        dropped = np.array(layer(x, state, training=True)[0])
    plain.steps.cell.recurrent.kernel.assign(np.array(cell.recurrent.kernel) * mask)
    np.testing.assert_allclose(plain(x, state)[0], dropped, atol=1e-6)
    whole = np.array(layer(x, state)[0])
    np.testing.assert_allclose(dropped[:, 0], whole[:, 0], atol=1e-7)  # h is zero before the first step
    assert (np.abs(dropped[:, 1] - whole[:, 1]) > 1e-4).any()
    with dropout_seed(SEED + 1):
        other = np.array(layer(x, state, training=True)[0])
    assert np.abs(other - dropped).max() > 1e-3


def test_a_share_of_the_recurrent_weights_is_dropped_and_their_mean_stays():
    cell = WeightDropLstm(100, rate=0.3).steps.cell
    kernel = np.array(cell.recurrent.kernel)
    with dropout_seed(SEED):
        cell.recurrent.kernel.assign(np.ones_like(kernel))
        dropped = np.array(cell.draw_kernel(True))
    assert (dropped == 0).mean() == pytest.approx(0.3, abs=0.01) and dropped.mean() == pytest.approx(1.0, abs=0.01)


def test_the_word_that_is_dropped_is_gone_wherever_it_stands_and_the_output_matrix_stays_whole():
    backbone = network(embedding_dropout=0.5)
    rows = np.array([[5, 6, 5, 7, 6, 5]] * 2, "int32")
    with dropout_seed(SEED):
        x = np.array(backbone.embedding_dropout(backbone.embedding(rows), rows, training=True))
    kept = (x != 0).any(-1)
    assert (kept[:, [0, 2, 5]] == kept[:, :1]).all() and (kept[0] == kept[1]).all()
    table = np.array(backbone.embedding.embeddings)
    for place in np.argwhere(kept):
        np.testing.assert_allclose(x[tuple(place)], 2.0 * table[rows[tuple(place)]], rtol=1e-6)
    objective = TiedLM(backbone.config)
    states_ = np.random.default_rng(0).normal(size=(3, 6)).astype("float32")
    with dropout_seed(SEED):
        np.testing.assert_allclose(objective.logits(states_, backbone), states_ @ table.T, rtol=1e-5)


@pytest.mark.parametrize("place", ["dropout", "input_dropout", "hidden_dropout"])
def test_dropout_of_states_is_the_same_at_all_positions_of_a_text(place):
    """A layer that drops half of the dimensions at every position alike: which, differs from row to row."""
    layer = getattr(network(**{place: 0.5}), place)
    with dropout_seed(SEED):
        x = np.array(layer(np.ones((4, 5, 64), "float32"), training=True))
    assert (x == x[:, :1]).all() and not (x[0] == x[1]).all()
    assert (x == 0).mean() == pytest.approx(0.5, abs=0.12) and set(np.unique(x)) == {0.0, 2.0}


def test_penalties_are_of_training_alone_and_of_dropped_and_whole_states():
    backbone = AwdLstm(AwdLstmConfig(13, 6, recurrent_dim=8, dropout=0.5)).initialize()
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
    batch = {"token_ids": IDS, "padding_mask": mask}
    with costs.collect() as found, dropout_seed(SEED):
        dropped = np.array(backbone(batch, training=True)["sequence_output"])
    whole = np.array(backbone(batch)["sequence_output"])
    activation, temporal = (float(total / weight) for total, weight in found.values())
    assert list(found) == ["activation", "temporal_activation"]
    assert activation == pytest.approx(2.0 * np.square(dropped[mask]).mean(), rel=1e-4)
    steps, both = whole[:, 1:] - whole[:, :-1], mask[:, 1:] & mask[:, :-1]
    assert temporal == pytest.approx(np.square(steps[both]).mean(), rel=1e-4)
    with costs.collect() as evaluated:
        backbone(batch, training=False)
    assert [float(total) for total, _ in evaluated.values()] == [0.0, 0.0]
    assert [float(w) for _, w in evaluated.values()] == [float(w) for _, w in found.values()] == [10.0, 8.0]
    without = AwdLstm(AwdLstmConfig(13, 6, activation_penalty=0.0, temporal_penalty=0.0)).initialize()
    with costs.collect() as none:
        without(batch, training=True)
    assert not none


def test_the_state_stays_as_it_is_at_padding_and_goes_on_from_segment_to_segment():
    backbone = network()
    whole = states(backbone, training=False)
    lengths = np.array([[2], [3]])
    mask = np.arange(4) < lengths
    first = backbone({"token_ids": IDS[:, :4], "padding_mask": mask, **backbone.initial_memory(2)})
    rest = np.stack([row[length : length + 3] for row, (length,) in zip(IDS, lengths, strict=True)])
    second = backbone({"token_ids": rest, "memory": first["memory"]})["sequence_output"]
    for row, (length,) in enumerate(lengths):
        np.testing.assert_allclose(second[row], whole[row, length : length + 3], atol=1e-6)


def test_gradients_end_at_each_window_and_outputs_are_those_without():
    """The gradient of a state reaches the embeddings of its own window only."""
    whole, cut = network(), network(bptt=2)
    np.testing.assert_array_equal(states(whole, training=False), states(cut, training=False))

    def reached(backbone):
        x = tf.constant(np.random.default_rng(0).normal(size=(1, 6, 6)).astype("float32"))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for layer, width in zip(backbone.recurrent_layers, backbone.config.widths, strict=True):
                y, _ = layer(y, np.zeros((1, 2 * width), "float32"))
            last = tf.reduce_sum(y[:, 3])
        return np.abs(tape.gradient(last, x).numpy()).max(axis=(0, 2)) > 0

    assert reached(whole).tolist() == [True] * 4 + [False] * 2
    assert reached(cut).tolist() == [False] * 2 + [True] * 2 + [False] * 2


def test_decoding_token_by_token_equals_one_pass():
    backbone = network(weight_dropout=0.5)
    past, found = backbone.start(2, 6), []
    for place in range(6):
        x, past = backbone.decode(IDS[:, place : place + 1], past, place)
        found.append(np.array(x))
    np.testing.assert_allclose(np.concatenate(found, axis=1), states(backbone, training=False), atol=1e-6)


def test_a_step_with_all_kinds_of_dropout_compiles_by_xla_and_equals_the_plain_one():
    backbone = AwdLstm(
        AwdLstmConfig(13, 6, recurrent_dim=8, bptt=4, **{n: 0.3 for n in SIZES["base"] if "dropout" in n})
    )
    backbone.initialize()
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)

    def step():
        with tf.GradientTape() as tape, costs.collect() as found, dropout_seed(SEED):
            x = backbone({"token_ids": IDS, "padding_mask": mask, **backbone.initial_memory(2)}, training=True)
            loss = ops.sum(ops.square(x["sequence_output"])) + sum(total for total, _ in found.values())
        return tape.gradient(loss, [v.value for v in backbone.trainable_weights])

    plain, compiled = step(), tf.function(step, jit_compile=True)()
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), atol=1e-5)
