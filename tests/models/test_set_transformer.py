"""Set Transformer against the released code, and what the order of the elements, padding and the parts may not change."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError
from tests.helpers.parity import assert_close, assert_gradient_norms, feed, gradients_of, read_case
from xmodels.layers.set_attention import InducedSetAttention, SeedPooling, SelfAttentionOfSet, SetAttentionBlock
from xmodels.models.backbone import named_weights
from xmodels.models.set_transformer import SIZES, SetTransformer, SetTransformerConfig

CASES = ["blocks", "blocks_layer_norm"]


def table_of_block(ours: str, theirs: str) -> dict:
    """{our name: their name, and their kernels turned} of one attention block."""
    dense = {"query": "fc_q", "key": "fc_k", "value": "fc_v", "expand": "fc_o"}
    table = {f"{ours}{name}.kernel": (f"{theirs}{other}.weight", np.transpose) for name, other in dense.items()}
    table |= {f"{ours}{name}.bias": f"{theirs}{other}.bias" for name, other in dense.items()}
    for index in range(2):
        table |= {f"{ours}norms.{index}.gamma": f"{theirs}ln{index}.weight"}
        table |= {f"{ours}norms.{index}.beta": f"{theirs}ln{index}.bias"}
    return table


def table_of_induced(ours: str, theirs: str) -> dict:
    blocks = {"inward.": "mab0.", "outward.": "mab1."}
    table = {f"{ours}inducing": f"{theirs}I"}
    for name, other in blocks.items():
        table |= table_of_block(ours + name, theirs + other)
    return table


def table_of_network() -> dict:
    table = {"pooling.seeds": "full.dec.0.S", **table_of_block("pooling.block.", "full.dec.0.mab.")}
    for index in range(2):
        table |= table_of_induced(f"blocks.{index}.", f"full.enc.{index}.")
        table |= table_of_block(f"decoder_blocks.{index}.block.", f"full.dec.{index + 1}.mab.")
    return table | {"head.kernel": ("full.dec.3.weight", np.transpose), "head.bias": "full.dec.3.bias"}


def below(arrays: dict, prefix: str) -> dict:
    return {name: value for name, value in arrays.items() if name.startswith(prefix)}


class Case:
    """The parts of a case, with its weights."""

    def __init__(self, name: str):
        self.case = read_case(f"set_transformer/{name}")
        numbers = self.case.numbers
        dim, inputs = numbers["hidden_dim"], self.case.inputs
        self.x, self.y = ops.convert_to_tensor(inputs["x"]), ops.convert_to_tensor(inputs["y"])

        def block():
            return SetAttentionBlock(dim, numbers["num_heads"], numbers["layer_norm"])

        self.mab, self.sab = block(), SelfAttentionOfSet(block())
        self.isab = InducedSetAttention(block(), block(), numbers["num_inducing"], dim)
        self.pma = SeedPooling(block(), numbers["num_seeds"], dim)
        self.network = SetTransformer(
            SetTransformerConfig(
                input_dim=numbers["input_dim"],
                hidden_dim=dim,
                num_heads=numbers["num_heads"],
                normalize=numbers["layer_norm"],
                num_inducing=numbers["num_inducing"],
                num_seeds=numbers["num_seeds"],
            )  # fmt: skip
        )
        self.head = keras.layers.Dense(numbers["output_dim"])
        self.outputs()
        self.weights = {}
        for part, ours, table, prefix in (
            (self.mab, "mab", table_of_block("", "mab."), "mab."),
            (self.sab, "sab", table_of_block("block.", "sab.mab."), "sab."),
            (self.isab, "isab", table_of_induced("", "isab."), "isab."),
            (self.pma, "pma", {"seeds": "pma.S", **table_of_block("block.", "pma.mab.")}, "pma."),
        ):
            self.take(ours, named_weights(part), table, prefix)
        whole = named_weights(self.network) | {f"head.{n}": v for n, v in named_weights(self.head).items()}
        self.take("full", whole, table_of_network(), "full.")

    def take(self, part: str, weights: dict, table: dict, prefix: str) -> None:
        feed(weights, table, below(self.case.weights, prefix))
        for ours, variable in weights.items():
            theirs = table[ours] if isinstance(table[ours], str) else table[ours][0]
            self.weights[theirs] = variable

    def full(self, x):
        mask = ops.ones(x.shape[:2], "bool")
        return self.head(self.network({"points": x, "padding_mask": mask})["seed_output"])

    def outputs(self) -> dict:
        isab = self.isab(self.x)
        return {
            "mab": self.mab(self.y, self.x), "sab": self.sab(self.x), "isab": isab, "pma": self.pma(isab),
            "set_transformer": self.full(self.x),
        }  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_blocks_and_gradients_are_those_of_the_released_code(name):
    case = Case(name)
    for part, value in case.outputs().items():
        assert_close(value, case.case.outputs[part], part)

    def loss():
        found = case.outputs()
        return sum(ops.mean(ops.square(found[part])) for part in ("set_transformer", "pma", "mab", "sab"))

    _, gradients = gradients_of(loss, case.weights)
    assert_gradient_norms(gradients, case.case.outputs)


def network_of(**numbers):
    keras.utils.set_random_seed(1)
    sizes = {"hidden_dim": 16, "num_heads": 4, "num_inducing": 3, "num_decoder_layers": 1}
    return SetTransformer(SetTransformerConfig(input_dim=2, **sizes | numbers)).initialize()


def sets(rows=3, length=7, seed=0):
    points = np.random.default_rng(seed).normal(size=(rows, length, 2)).astype("float32")
    return {"points": points, "padding_mask": np.arange(length) < np.array([[length], [4], [1]])}


FORMS = [{}, {"normalize": True}, {"form": "paper"}, {"num_inducing": 0}, {"num_seeds": 3}]


@pytest.mark.parametrize("numbers", FORMS, ids=str)
def test_the_order_of_the_elements_changes_the_order_of_their_states_only(numbers):
    network, features = network_of(**numbers), sets()
    order = np.random.default_rng(1).permutation(7)
    moved = {name: value[:, order] for name, value in features.items()}
    found, expected = network(moved), network(features)
    real = moved["padding_mask"]
    states = np.array(expected["sequence_output"])[:, order]
    np.testing.assert_allclose(np.array(found["sequence_output"])[real], states[real], atol=1e-5)
    for name in ("seed_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


@pytest.mark.parametrize("numbers", FORMS, ids=str)
def test_padding_is_invisible(numbers):
    network, features = network_of(**numbers), sets()
    mask = features["padding_mask"][..., None]
    garbage = {**features, "points": np.where(mask, features["points"], np.float32(100.0))}
    longer = {
        "points": np.pad(features["points"], [(0, 0), (0, 5), (0, 0)], constant_values=3.0),
        "padding_mask": np.pad(features["padding_mask"], [(0, 0), (0, 5)]),
    }
    expected = network(features)
    for changed in (garbage, longer):
        np.testing.assert_allclose(network(changed)["pooled_output"], expected["pooled_output"], atol=1e-5)
    alone = {name: value[1:2, :4] for name, value in features.items()}
    np.testing.assert_allclose(network(alone)["pooled_output"], expected["pooled_output"][1:2], atol=1e-5)


def test_an_element_that_counts_changes_the_answer():
    network, features = network_of(), sets()
    changed = {**features, "points": features["points"] + np.float32([0.5, 0.0]) * (np.arange(7) == 3)[:, None]}
    difference = np.abs(network(changed)["pooled_output"] - network(features)["pooled_output"]).max(axis=1)
    assert difference[0] > 1e-4 and difference[1] > 1e-4 and difference[2] == 0.0  # of the third it is padding


def test_a_block_without_values_returns_its_query():
    x, y = (ops.convert_to_tensor(np.random.default_rng(seed).normal(size=(2, 5, 8)), "float32") for seed in (0, 1))
    block = SetAttentionBlock(8, 2)
    block(x, y)
    for layer in (block.value, block.expand):
        layer.kernel.assign(ops.zeros_like(layer.kernel))
    np.testing.assert_allclose(block(x, y), block.query(x), atol=1e-6)
    np.testing.assert_array_equal(SelfAttentionOfSet(block)(x), block(x, x))
    order = np.array([3, 1, 4, 0, 2])
    np.testing.assert_allclose(block(x, ops.take(y, order, axis=1)), block(x, y), atol=1e-6)


def test_inducing_points_never_compare_all_pairs():
    length = 37
    network = network_of()

    def shapes(numbers):
        network = network_of(**numbers)
        graph = tf.function(lambda points: network({"points": points, "padding_mask": tf.ones((1, length), tf.bool)}))
        traced = graph.get_concrete_function(tf.TensorSpec((1, length, 2))).graph
        return [tuple(output.shape) for op in traced.get_operations() for output in op.outputs if output.shape.rank]

    assert not any(shape.count(length) > 1 for shape in shapes({}))
    assert any(shape.count(length) > 1 for shape in shapes({"num_inducing": 0}))  # so the test would see it
    assert network.config.keys_per_query(1000) == 3


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_built_and_their_configuration_is_read_again(size):
    config = SetTransformerConfig(input_dim=3, **SIZES[size])
    assert SetTransformerConfig.from_json(config.to_json()) == config
    assert "vocabulary_size" not in config.to_json()
    output = SetTransformer(config).initialize()(
        {"points": ops.ones((2, 4, 3)), "padding_mask": ops.ones((2, 4), "bool")}
    )
    assert output["pooled_output"].shape == (2, config.hidden_dim)


@pytest.mark.parametrize(
    ("name", "value"), [("form", "other"), ("num_inducing", -1), ("input_dim", 0), ("dropout", 2.0)]
)
def test_a_configuration_that_cannot_be_is_refused(name, value):
    with pytest.raises(CheckpointError, match=name):
        SetTransformerConfig.from_json({"input_dim": 3, name: value})
