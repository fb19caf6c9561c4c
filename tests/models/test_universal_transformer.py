"""The Universal Transformer: parity with tensor2tensor, what its recurrence equals, and the rules of halting."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.parity import assert_close, feed, read_case
from xmodels.decoding.sampling import generate
from xmodels.layers.adaptive_computation import Clock, Halting, ponder_cost
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import glorot
from xmodels.layers.positions import half_sinusoid
from xmodels.layers.separable_convolution import ConvolutionTransition, SeparableConvolution
from xmodels.layers.steps import Steps
from xmodels.models import adaptive_universal_transformer, universal_transformer
from xmodels.models.adaptive_universal_transformer import (
    AdaptiveUniversalTransformer,
    AdaptiveUniversalTransformerConfig,
)
from xmodels.models.backbone import named_weights
from xmodels.models.transformer import Transformer, TransformerConfig
from xmodels.models.transformer_pre_norm import PreNormTransformer
from xmodels.models.universal_transformer import UniversalTransformer, UniversalTransformerConfig
from xmodels.objectives.pondering import PonderingSeq2Seq
from xmodels.tasks.translate.task import Translate

SMALL = {
    "vocabulary_size": 30,
    "hidden_dim": 16,
    "num_layers": 3,
    "num_heads": 2,
    "intermediate_dim": 32,
    "max_sequence_length": 32,
}
QUIET = {"dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0}


def small(adaptive=False, **more):
    keras.utils.set_random_seed(1)
    network, config = UniversalTransformer, UniversalTransformerConfig
    if adaptive:
        network, config = AdaptiveUniversalTransformer, AdaptiveUniversalTransformerConfig
    return network(config(**SMALL | QUIET | more)).initialize()


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "token_ids": rng.integers(3, 30, (2, 7)).astype("int32"), "target_ids": rng.integers(3, 30, (2, 6)).astype("int32"),
        "padding_mask": np.arange(7) < np.array([[7], [5]]),
    }  # fmt: skip


@functools.cache
def variant_of(index):
    """A network of VARIANTS that no test changes."""
    backbone = small(**VARIANTS[index])
    return unsure(backbone) if VARIANTS[index].get("adaptive") else backbone


def unsure(backbone):
    """Spreads the halting probabilities, so that positions stop at different steps."""
    for steps in (backbone.encoder_steps, backbone.decoder_steps):
        steps.halting.kernel.assign(np.random.default_rng(3).normal(0, 0.5, steps.halting.kernel.shape))
        steps.halting.bias.assign([-0.3])
    return backbone


# --- tensor2tensor


@functools.cache
def tensor2tensor(name):
    """The network of a case with its largest number of steps, and the numbers and arrays of the case."""
    case = read_case(f"universal_transformer/{name}")
    n, inputs = case.numbers, case.inputs
    width, rows = n["hidden_dim"], inputs["padding_mask"].size
    values = {
        "vocabulary_size": rows, "hidden_dim": width, "num_layers": n["max_steps"], "num_heads": n["num_heads"],
        "intermediate_dim": n["intermediate_dim"], "step_signal": n["step_signal"], "layer_norm_epsilon": n["layer_norm_epsilon"],
    } | QUIET  # fmt: skip
    if n["recurrence"] == "act":
        output = {"basic": "interpolate", "accumulated": "accumulate"}[n["act_type"]]
        config = AdaptiveUniversalTransformerConfig(
            **values, max_steps=n["max_steps"], halting_output=output, halting_epsilon=n["act_epsilon"],
            force_halt=False, freeze_halted=False,
        )  # fmt: skip
        backbone = AdaptiveUniversalTransformer(config).initialize()
    else:
        backbone = UniversalTransformer(UniversalTransformerConfig(**values)).initialize()
    feed(encoder_weights(backbone), from_tensor2tensor(n), case.weights)
    # Each place has a token of its own.
    backbone.embedding.token.embeddings.assign(inputs["encoder_input"].reshape(rows, width) / width**0.5)
    return backbone, n, inputs, case.outputs


@pytest.mark.parametrize("name", ["fixed_steps", "act_basic", "act_accumulated_sinusoid_step"])
def test_encoder_is_that_of_tensor2tensor_after_any_number_of_steps(name):
    backbone, n, inputs, outputs = tensor2tensor(name)
    is_adaptive, mask = n["recurrence"] == "act", inputs["padding_mask"] > 0
    batch = {"token_ids": np.arange(mask.size, dtype="int32").reshape(mask.shape), "padding_mask": mask}
    batch["target_ids"], backbone.decoder_steps.num_steps = batch["token_ids"][:, :2], 1
    for num_steps in range(1, n["max_steps"] + 1):
        backbone.encoder_steps.num_steps = num_steps  # then it reads the first rows of its table
        found = backbone(batch)
        expected = {key.split("/")[1]: v for key, v in outputs.items() if key.startswith(f"max_steps{num_steps}/")}
        assert len(expected) == (3 if is_adaptive else 1)
        assert_close(found["encoder_output"], expected["sequence_output"])
        if is_adaptive:  # also on padding, which takes part there
            np.testing.assert_array_equal(found["encoder_ponder_times"], expected["ponder_times"])
            assert_close(found["encoder_remainders"], expected["remainders"], atol=1e-5, rtol=0)


def encoder_weights(backbone):
    return {name: weight for name, weight in named_weights(backbone).items() if name.startswith("encoder")}


def from_tensor2tensor(n):
    """The table of the encoder's weights for `parity.feed`."""
    table, top = {}, f"encoder/universal_transformer_{n['recurrence']}"

    def norm(our, their):
        table[f"{our}.gamma"] = f"{their}/layer_prepostprocess/layer_norm/layer_norm_scale"
        table[f"{our}.beta"] = f"{their}/layer_prepostprocess/layer_norm/layer_norm_bias"

    block, attention = f"{top}/rec_layer_0", f"{top}/rec_layer_0/self_attention/multihead_attention"
    for part in ("query", "key", "value"):
        table[f"encoder_block.mixer.{part}.kernel"] = f"{attention}/{part[0]}/kernel"
    table["encoder_block.mixer.merge.kernel"] = f"{attention}/output_transform/kernel"
    for our, their in (("expand", "conv1"), ("contract", "conv2")):
        for each in ("kernel", "bias"):
            table[f"encoder_block.feedforward.{our}.{each}"] = f"{block}/ffn/{their}/{each}"
    norm("encoder_block.mixer_norm", f"{block}/self_attention")
    norm("encoder_block.feedforward_norm", f"{block}/ffn")
    norm("encoder_norm", "encoder")
    if n["step_signal"] == "learned":
        table["encoder_steps.signal.table.embeddings"] = f"{top}/layer_embedding"
    if n["recurrence"] == "act":
        for each in ("kernel", "bias"):
            table[f"encoder_steps.halting.{each}"] = f"{top}/sigmoid_activation_for_pondering/dense/{each}"
    return table


# --- what the recurrence equals


@pytest.mark.parametrize(("norm", "network_class"), [("pre", PreNormTransformer), ("post", Transformer)])
def test_steps_equal_layers_with_the_same_weights_and_the_signal_before_each(norm, network_class):
    backbone, batch = small(norm=norm, position="interleaved", step_signal="interleaved"), random_batch()
    layers = network_class(TransformerConfig(**SMALL | QUIET, position="interleaved")).initialize()
    ours = named_weights(backbone)
    for name, weight in named_weights(layers).items():
        parts = name.split(".")
        if parts[0].endswith("_blocks"):
            name = ".".join([parts[0].removesuffix("s"), *parts[2:]])
        weight.assign(ours[name])

    def signal(length, step):
        """P^t of the paper, section 2.1, computed by itself."""
        place, j = np.arange(length)[:, None], np.arange(8)
        rate = 10_000.0 ** (-2 * j / 16)
        return np.stack(
            [np.sin(place * rate) + np.sin(step * rate), np.cos(place * rate) + np.cos(step * rate)], -1
        ).reshape(length, 16)  # fmt: skip

    visible = Visible(batch["padding_mask"])
    x = np.array(ops.take(layers.embedding.token.embeddings, batch["token_ids"], axis=0)) * 4.0
    x = x * batch["padding_mask"][:, :, None]
    for t, block in enumerate(layers.encoder_blocks):
        x = block(ops.cast(x + signal(7, t + 1), "float32"), visible=visible)
    source = layers.finish(x, "encoder")
    outputs = backbone(batch)
    np.testing.assert_allclose(outputs["encoder_output"], source, atol=2e-5)
    y = np.array(ops.take(layers.embedding.token.embeddings, batch["target_ids"], axis=0)) * 4.0
    y[:, 0] = 0.0
    for t, block in enumerate(layers.decoder_blocks):
        y = ops.cast(y + signal(6, t + 1), "float32")
        y = block(y, source=source, visible=Visible(causal=True), source_visible=visible)
    np.testing.assert_allclose(outputs["sequence_output"], layers.finish(y, "decoder"), atol=2e-5)


def test_the_number_of_steps_changes_no_number_of_parameters():
    counts = {small(num_layers=t, step_signal="sinusoid").count_params() for t in (2, 12)}
    assert len(counts) == 1
    assert small(num_layers=2).count_params() == counts.pop() + 2 * 2 * 16


def test_published_sizes_have_the_published_number_of_parameters():
    def counts(d, f):
        return 4 * d * d + 2 * d * f + f + 5 * d, 8 * d * d + 2 * d * f + f + 7 * d

    found = {name: counts(n["hidden_dim"], n["intermediate_dim"]) for name, n in universal_transformer.SIZES.items()}
    assert found["base"] == (12_592_128, 16_788_480) and found["tiny"][0] == 197_760
    assert found["small"] == found["tall"] == (3_150_336, 4_199_936)
    backbone = small()
    assert (backbone.encoder_block.count_params(), backbone.decoder_block.count_params()) == counts(16, 32)
    rest = 30 * 16 + 2 * 3 * 16 + 2 * 2 * 16  # one table of tokens, two of steps, the last norms
    assert backbone.count_params() == sum(counts(16, 32)) + rest
    assert small(adaptive=True, max_steps=3).count_params() == backbone.count_params() + 2 * 17
    most = {
        name: values.get("max_steps", 2 * values["num_layers"])
        for name, values in adaptive_universal_transformer.SIZES.items()
    }
    assert most == {"tiny": 4, "small": 12, "tall": 24, "base": 12}


VARIANTS = [
    {}, {"norm": "post"}, {"transition": "convolution"}, {"position": "learned", "num_decoder_layers": 2},
    {"adaptive": True, "freeze_halted": False}, {"adaptive": True, "transition": "convolution", "halting_output": "accumulate"},
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("variant", range(len(VARIANTS)), ids=lambda index: str(VARIANTS[index]))
def test_decoding_token_by_token_equals_the_whole_target(variant):
    backbone, batch = variant_of(variant), random_batch()
    past, found = backbone.start(batch, 8), []
    for first, last in ((0, 1), (1, 2), (2, 5), (5, 6)):
        states, past = backbone.decode(batch["target_ids"][:, first:last], past, first)
        found.append(states)
    np.testing.assert_allclose(ops.concatenate(found, axis=1), backbone(batch)["sequence_output"], atol=2e-5)


def test_greedy_continuation_is_that_of_the_whole_network():
    backbone, batch = variant_of(len(VARIANTS) - 1), random_batch()
    logits = lambda states: PonderingSeq2Seq().logits(states, backbone)  # noqa: E731
    begin, one = np.full((2, 1), 5, "int32"), np.ones(2, "int32")
    texts, _ = generate(backbone.decode, logits, backbone.start(batch, 6), begin, one, 6)
    states = backbone({**batch, "target_ids": np.array(texts)})["sequence_output"]
    np.testing.assert_array_equal(np.argmax(logits(states), axis=-1)[:, :-1], np.array(texts)[:, 1:])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("variant", range(len(VARIANTS)), ids=lambda index: str(VARIANTS[index]))
def test_what_comes_later_and_padding_are_invisible(variant):
    backbone, batch = variant_of(variant), random_batch()
    before = backbone(batch)
    changed = {**batch, "target_ids": batch["target_ids"].copy()}
    changed["target_ids"][:, 3:] = 5
    after = np.array(backbone(changed)["sequence_output"])
    np.testing.assert_allclose(after[:, :3], np.array(before["sequence_output"])[:, :3], atol=1e-5)
    assert np.abs(after[:, 3:] - np.array(before["sequence_output"])[:, 3:]).max() > 0.01
    padded = {
        "token_ids": np.pad(batch["token_ids"], ((0, 0), (0, 4)), constant_values=9),
        "padding_mask": np.pad(batch["padding_mask"], ((0, 0), (0, 4))),
        "target_ids": np.pad(batch["target_ids"], ((0, 0), (0, 3)), constant_values=9),
    }
    found = backbone(padded)
    np.testing.assert_allclose(np.array(found["sequence_output"])[:, :6], before["sequence_output"], atol=2e-5)
    if VARIANTS[variant].get("adaptive"):
        labels = {"labels": np.zeros((2, 6), "int32"), "label_weights": np.ones((2, 6), "float32")}
        more = {name: np.pad(value, ((0, 0), (0, 3))) for name, value in labels.items()}
        scores = [
            PonderingSeq2Seq().score(*each, backbone) for each in ((before, batch | labels), (found, padded | more))
        ]
        assert scores[0][0].keys() == {"seq2seq", "encoder_ponder", "decoder_ponder"}
        weights = {"example_weights": np.ones(2, "float32")}
        tuned = Translate(backbone.config, []).score(before, batch | labels | weights, backbone)[0]
        np.testing.assert_allclose(tuned["encoder_ponder"], scores[0][0]["encoder_ponder"])
        for part in range(2):
            for name, value in scores[0][part].items():
                np.testing.assert_allclose(value, scores[1][part][name], rtol=1e-4, err_msg=name)


def test_a_causal_convolution_has_no_gradient_from_what_comes_later():
    layer, x = ConvolutionTransition(4, 8, "relu", glorot(), is_causal=True), tf.Variable(tf.random.normal((1, 9, 4)))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(x)[:, 5])
    gradient = np.abs(tape.gradient(total, x).numpy()).sum(axis=(0, 2))
    assert not gradient[6:].any() and (gradient[:6] > 0).all()  # 3 + 5 - 1 places to the left


def test_a_convolution_is_that_of_keras():
    x = np.random.default_rng(0).normal(size=(2, 9, 4)).astype("float32")
    for is_causal in (True, False):
        ours, theirs = (
            SeparableConvolution(6, 5, is_causal, "glorot_uniform"),
            keras.layers.SeparableConv1D(6, 5, padding="same"),
        )
        ours(x), theirs(x)
        theirs.set_weights(
            [np.array(ours.kernel)[:, :, None], np.array(ours.dense.kernel)[None], np.array(ours.dense.bias)]
        )
        padded = np.pad(x, ((0, 0), (4, 0), (0, 0))) if is_causal else x
        expected = np.array(theirs(padded))[:, 2:-2] if is_causal else theirs(x)
        np.testing.assert_allclose(ours(x), expected, atol=1e-5)


# --- halting


def tick_all(rule, probabilities):
    """Weights (B, L, T) and the clock after all of `probabilities` (B, L, T)."""
    clock, weights = Clock.initial(probabilities.shape[:2]), []
    for t in range(probabilities.shape[2]):
        weight, clock = rule.tick(clock, ops.convert_to_tensor(probabilities[:, :, t]), t == probabilities.shape[2] - 1)
        weights.append(np.array(weight))
    return np.stack(weights, axis=-1), clock


def test_weights_are_those_of_a_plain_walk_and_sum_to_one():
    probabilities = np.random.default_rng(0).beta(1, 3, (8, 40, 7)).astype("float32")
    weights, clock = tick_all(Halting(epsilon=0.05), probabilities)
    stopped_early = 0
    for at in np.ndindex(8, 40):
        total, expected = 0.0, np.zeros(7)
        for t, p in enumerate(probabilities[at]):
            if total + p > 0.95 or t == 6:
                expected[t] = 1 - total
                break
            expected[t] = p
            total += p
        stopped_early += t < 6
        np.testing.assert_allclose(weights[at], expected, atol=1e-6)
        assert clock.steps[at] == t + 1 and abs(clock.remainder[at] - expected[t]) < 1e-6
    assert 50 < stopped_early < 320
    assert np.abs(weights.sum(-1) - 1).max() < 1e-6 and np.all(np.array(clock.halted))
    remainder = np.array(clock.remainder)
    assert remainder.min() >= 0 and remainder.max() <= 1
    unforced, clock = tick_all(Halting(epsilon=0.05, force=False), probabilities)
    going = ~np.array(clock.halted)
    assert going.any() and (unforced[going].sum(-1) < 0.951).all() and not np.array(clock.remainder)[going].any()


@pytest.mark.parametrize(("bias", "steps"), [(30.0, 1), (-30.0, 5)])
def test_who_is_sure_takes_one_step_and_who_never_is_takes_all(bias, steps):
    backbone, batch = small(adaptive=True, max_steps=5, halting_epsilon=1e-6), random_batch()
    for each in (backbone.encoder_steps, backbone.decoder_steps):
        each.halting.kernel.assign(np.zeros((16, 1)))
        each.halting.bias.assign([bias])
    outputs = backbone(batch)
    for stack in ("encoder", "decoder"):
        assert (np.array(outputs[f"{stack}_ponder_times"]) == steps).all()
    fixed = small(num_layers=5)
    ours, theirs = named_weights(fixed), named_weights(backbone)
    for name in ours:
        ours[name].assign(theirs[name])
    fixed.encoder_steps.num_steps = fixed.decoder_steps.num_steps = steps
    np.testing.assert_allclose(outputs["sequence_output"], fixed(batch)["sequence_output"], atol=1e-5)


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("output", ["accumulate", "interpolate"])
def test_the_output_is_made_of_the_states_and_frozen_states_stay(output, freeze):
    backbone = unsure(small(adaptive=True, max_steps=6, halting_output=output, freeze_halted=freeze))
    steps, entered, states = backbone.encoder_steps, [], []
    x, places = np.random.default_rng(0).normal(size=(2, 9, 16)).astype("float32"), np.zeros((9, 16), "float32")

    def advance(state, step):
        entered.append(np.array(state))
        states.append(np.array(backbone.encoder_block(state)))
        return ops.convert_to_tensor(states[-1])

    found, told = steps.run(ops.convert_to_tensor(x), places, advance)
    weights, times = np.array(told["halting_weights"]), np.array(told["ponder_times"])
    assert len(np.unique(times)) > 2
    expected = np.zeros_like(x)
    for t in range(6):
        w = weights[:, :, t, None]
        expected = w * states[t] + (expected if output == "accumulate" else (1 - w) * expected)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    signals = [np.array(s) for s in steps.signals(places)]
    last = np.take_along_axis(np.stack(states), (times - 1).astype(int)[None, :, :, None], axis=0)[0]
    assert (times < 5).any()
    for t in range(1, 6):
        earlier = times < t  # such have stopped at least one step ago
        if freeze:
            np.testing.assert_array_equal(entered[t][earlier], (last + signals[t])[earlier])
        elif earlier.any():
            assert np.abs(entered[t] - last - signals[t])[earlier].min(axis=0).max() > 1e-3


def test_only_the_remainder_costs_and_padding_does_not():
    backbone, batch = unsure(small(adaptive=True)), random_batch()
    with tf.GradientTape() as tape:
        outputs = backbone(batch)
        total, count = ponder_cost(
            outputs["encoder_ponder_times"], outputs["encoder_remainders"], batch["padding_mask"]
        )
    gradient = tape.gradient(total, backbone.encoder_steps.halting.bias.value)
    assert float(count) == 12 and np.abs(gradient.numpy()).max() > 0.1
    n, r = (np.array(outputs[f"encoder_{name}"])[batch["padding_mask"]] for name in ("ponder_times", "remainders"))
    assert float(total) == pytest.approx(float(n.sum() + r.sum()), rel=1e-5)


def test_bad_choices_are_named():
    with pytest.raises(ValueError, match="Received: 'post', 'convolution'"):
        small(norm="post", transition="convolution")
    with pytest.raises(ValueError, match="one of interpolate, accumulate. Received: 'mean'"):
        small(adaptive=True, halting_output="mean")


def test_places_and_steps_in_halves_of_the_channels_are_the_signal_of_two_dimensions():
    expected = read_case("transformer_tables/timing_schedule_loss").outputs["timing2d/h3_w4_channels16"][
        0
    ]  # (3, 4, 16)
    signals = Steps("half", 16, 4).signals(half_sinusoid(np.arange(3), 16))
    assert_close(ops.stack(signals, axis=1), expected)
    odd = np.array(ops.stack(Steps("half", 7, 2).signals(half_sinusoid(np.arange(3), 7)), axis=1))
    assert not odd[..., 4:].any() and (odd[1, :, 0] == odd[1, 0, 0]).all() and (odd[:, 1, 2] == odd[0, 1, 2]).all()


def test_positions_of_a_source_may_halt_together():
    """The mean of their probabilities decides; padding and other rows have no part in it, and targets halt one by one."""
    alone, together = (unsure(small(adaptive=True, halt_together=each)) for each in (False, True))
    batch = random_batch()
    outputs = together(batch)
    times, real = np.array(outputs["encoder_ponder_times"]), batch["padding_mask"]
    assert (times == times[:, :1]).all() and len(np.unique(np.array(alone(batch)["encoder_ponder_times"])[real])) > 1
    assert not together.decoder_steps.rule.together and len(np.unique(outputs["decoder_ponder_times"])) > 1
    changed = {**batch, "token_ids": np.where(real, batch["token_ids"], 9)}
    for name in ("encoder_output", "encoder_remainders"):
        assert_close(np.array(outputs[name])[real], np.array(together(changed)[name])[real])
    one = {**batch, "padding_mask": np.arange(7) < np.array([[1], [1]])}
    assert_close(np.array(together(one)["encoder_output"])[:, 0], np.array(alone(one)["encoder_output"])[:, 0])
    state = ops.convert_to_tensor(np.random.default_rng(1).normal(size=(2, 7, 16)).astype("float32"))
    each, mean = (np.array(n.encoder_steps.probability(state, real)) for n in (alone, together))
    for row, found in enumerate(mean):
        np.testing.assert_allclose(found, each[row][real[row]].mean(), rtol=1e-6)
