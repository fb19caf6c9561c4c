"""The Transformer computes what tensor2tensor's and fairseq's do: states, logits, losses, gradients, beams, sizes."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.parity import assert_close, assert_gradient_norms, feed, gradients_of, names_of, read_case
from xmodels.decoding.beam import beam_search, gnmt_penalty, mean_penalty
from xmodels.decoding.ranked_beam import ranked_beam_search
from xmodels.decoding.sampling import generate
from xmodels.layers.attention.visible import Visible
from xmodels.layers.positions import interleaved_sinusoid, sinusoid
from xmodels.models import transformer, transformer_pre_norm
from xmodels.models.backbone import named_weights
from xmodels.models.transformer import TransformerConfig
from xmodels.models.universal_transformer import UniversalTransformer
from xmodels.objectives.measures import smoothed_cross_entropy, weighted_cross_entropy
from xmodels.objectives.seq2seq import Seq2Seq

FAIRSEQ = {
    "transformer_post_ln": transformer.Transformer,
    "transformer_pre_ln_shared_all": transformer_pre_norm.PreNormTransformer,
}
NETWORKS = [transformer.Transformer, transformer_pre_norm.PreNormTransformer]
PAD, END = 1, 2  # of fairseq


def from_fairseq(numbers):
    """The table of all weights for `parity.feed`."""
    heads, width = numbers["num_heads"], numbers["hidden_dim"]
    rows = {"embedding.token.embeddings": "encoder.embed_tokens.weight"}
    if not numbers["share_all_embeddings"]:
        rows["embedding.output_token.embeddings"] = "decoder.embed_tokens.weight"

    def attention(ours, theirs):
        for part in ("query", "key", "value"):
            rows[f"{ours}.{part}.kernel"] = (f"{theirs}.{part[0]}_proj.weight", lambda x: x.T.reshape(width, heads, -1))
            rows[f"{ours}.{part}.bias"] = f"{theirs}.{part[0]}_proj.bias"
        rows[f"{ours}.merge.kernel"] = (f"{theirs}.out_proj.weight", lambda x: x.T.reshape(heads, -1, width))
        rows[f"{ours}.merge.bias"] = f"{theirs}.out_proj.bias"

    def norm(ours, theirs):
        rows[f"{ours}.gamma"], rows[f"{ours}.beta"] = (f"{theirs}.{p}" for p in ("weight", "bias"))

    for stack in ("encoder", "decoder"):
        for layer in range(numbers[f"num_{stack}_layers"]):
            ours, theirs = f"{stack}_blocks.{layer}", f"{stack}.layers.{layer}"
            attention(f"{ours}.mixer", f"{theirs}.self_attn")
            norm(f"{ours}.mixer_norm", f"{theirs}.self_attn_layer_norm")
            if stack == "decoder":
                attention(f"{ours}.cross", f"{theirs}.encoder_attn")
                norm(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
            for ours_part, theirs_part in (("expand", "fc1"), ("contract", "fc2")):
                rows[f"{ours}.feedforward.{ours_part}.kernel"] = (f"{theirs}.{theirs_part}.weight", lambda x: x.T)
                rows[f"{ours}.feedforward.{ours_part}.bias"] = f"{theirs}.{theirs_part}.bias"
            norm(f"{ours}.feedforward_norm", f"{theirs}.final_layer_norm")
        if numbers["normalization"] == "pre":
            norm(f"{stack}_norm", f"{stack}.layer_norm")
    return rows


@functools.cache
def network(name):
    case = read_case(f"transformer/{name}")
    n = case.numbers
    shared = n["share_all_embeddings"]
    config = TransformerConfig(
        n["source_vocabulary_size"], n["hidden_dim"], n["num_encoder_layers"], n["num_heads"], n["intermediate_dim"],
        num_decoder_layers=n["num_decoder_layers"],
        target_vocabulary_size=None if shared else n["target_vocabulary_size"],
        attention_bias=True, start="token", layer_norm_epsilon=n["layer_norm_epsilon"],
    )  # fmt: skip
    backbone = FAIRSEQ[name](config).initialize()
    weights, table = named_weights(backbone), from_fairseq(n)
    assert set(weights) == set(table)
    # fairseq has the encoder's weights a second time, under names such as "fc1_bias", for a faster path.
    feed(weights, table, case.weights, unused={name for name in case.weights if "_" in name.rsplit(".", 1)[1]})
    return backbone


def places(ids):
    """fairseq counts tokens that are no padding, from 2 on."""
    real = ids != PAD
    return (np.cumsum(real, axis=1) * real + 1).astype("int32")


def batch_of(inputs):
    source, target = inputs["source_ids"], inputs["decoder_input_ids"]
    labels = inputs["target_ids"]
    return {
        "token_ids": source, "padding_mask": source != PAD, "position_ids": places(source), "target_ids": target,
        "target_position_ids": places(target), "labels": labels, "label_weights": (labels != PAD).astype("float32"),
    }  # fmt: skip


@pytest.mark.parametrize("name", FAIRSEQ)
def test_states_logits_and_losses_are_those_of_fairseq(name):
    case, backbone = read_case(f"transformer/{name}"), network(name)
    batch = batch_of(case.inputs)
    outputs = backbone(batch)
    assert_close(outputs["encoder_output"], case.outputs["encoder_output"], "encoder_output", batch["padding_mask"])
    logits = Seq2Seq().logits(outputs["sequence_output"], backbone)
    real = batch["label_weights"] > 0
    assert_close(logits, case.outputs["logits"], "logits", real)
    total, weight = smoothed_cross_entropy(
        batch["labels"], logits, batch["label_weights"], case.numbers["label_smoothing"]
    )
    smoothing, size = case.numbers["label_smoothing"], logits.shape[-1]
    entropy = -(1 - smoothing) * np.log(1 - smoothing) - smoothing * np.log(smoothing / (size - 1))
    assert_close(float(total) + float(weight) * entropy, case.outputs["label_smoothed_loss_sum"])
    assert_close(
        weighted_cross_entropy(batch["labels"], logits, batch["label_weights"])[0], case.outputs["nll_loss_sum"]
    )


@pytest.mark.parametrize("name", FAIRSEQ)
def test_gradient_norms_are_those_of_fairseq(name):
    case, backbone = read_case(f"transformer/{name}"), network(name)
    batch, weights = batch_of(case.inputs), named_weights(backbone)
    objective = Seq2Seq(case.numbers["label_smoothing"])
    found = gradients_of(lambda: objective.score(backbone(batch), batch, backbone)[0]["seq2seq"][0], weights)[1]
    names = names_of(from_fairseq(case.numbers))
    found = {names[ours]: gradient for ours, gradient in found.items() if "k_proj.bias" not in names[ours]}
    atol = 1e-5 * float(case.outputs["grad_norm_values"].max())
    assert_gradient_norms(found, case.outputs, at_least=61, atol=atol)


def test_stacks_are_those_of_tensor2tensor():
    """On inputs that are no embeddings: positions, pre-norm blocks without biases, padding in both attentions."""
    case = read_case("transformer/encoder_decoder_pre_ln")
    n = case.numbers
    config = TransformerConfig(9, n["hidden_dim"], n["num_layers"], n["num_heads"], n["intermediate_dim"])
    backbone = transformer_pre_norm.PreNormTransformer(config).initialize()
    width, table = n["hidden_dim"], {}

    def norm(ours, theirs):
        table[f"{ours}.gamma"] = f"{theirs}/layer_norm/layer_norm_scale"
        table[f"{ours}.beta"] = f"{theirs}/layer_norm/layer_norm_bias"

    for stack in ("encoder", "decoder"):
        for layer in range(n["num_layers"]):
            ours, theirs = f"{stack}_blocks.{layer}", f"{stack}/layer_{layer}"
            parts = {"mixer": "self_attention"} | ({"cross": "encdec_attention"} if stack == "decoder" else {})
            for part, their in parts.items():
                attention = f"{theirs}/{their}/multihead_attention"
                for name in ("query", "key", "value"):
                    table[f"{ours}.{part}.{name}.kernel"] = f"{attention}/{name[0]}/kernel"
                table[f"{ours}.{part}.merge.kernel"] = f"{attention}/output_transform/kernel"
                norm(f"{ours}.{part}_norm", f"{theirs}/{their}/layer_prepostprocess")
            for name, their in (("expand", "conv1"), ("contract", "conv2")):
                for kind in ("kernel", "bias"):
                    table[f"{ours}.feedforward.{name}.{kind}"] = f"{theirs}/ffn/{their}/{kind}"
            norm(f"{ours}.feedforward_norm", f"{theirs}/ffn/layer_prepostprocess")
        norm(f"{stack}_norm", f"{stack}/layer_prepostprocess")
    weights = named_weights(backbone)
    del weights["embedding.token.embeddings"]
    feed(weights, table, case.weights)
    source, target = case.inputs["encoder_input"], case.inputs["decoder_input"]
    x = source + sinusoid(np.arange(source.shape[1]), width)
    assert_close(x, case.outputs["encoder_after_positions"])
    visible = Visible(case.inputs["padding_mask"] > 0)
    for block in backbone.encoder_blocks:
        x = block(x, visible=visible)
    memory = backbone.finish(x, "encoder")
    assert_close(memory, case.outputs["encoder_output"], "encoder_output", case.inputs["padding_mask"] > 0)
    y = target + sinusoid(np.arange(target.shape[1]), width)
    assert_close(y, case.outputs["decoder_after_positions"])
    for block in backbone.decoder_blocks:
        y = block(y, source=memory, visible=Visible(causal=True), source_visible=visible)
    assert_close(backbone.finish(y, "decoder"), case.outputs["decoder_output"])


def test_tables_are_those_of_tensor2tensor():
    case = read_case("transformer_tables/timing_schedule_loss")
    for name, expected in case.outputs.items():
        if name.startswith("timing/"):
            parts = dict(zip(("start", "length", "channels"), [0, 0, 0], strict=True))
            for part in name.removeprefix("timing/").split("_"):
                parts[part.rstrip("0123456789")] = int(part.lstrip("abcdefghijklmnopqrstuvwxyz"))
            positions = np.arange(parts["start"], parts["start"] + parts["length"])
            assert_close(sinusoid(positions, parts["channels"]), expected[0])
    labels, logits = case.inputs["labels"], ops.convert_to_tensor(case.inputs["logits"])
    smoothing = 1 - case.numbers["confidence"]
    for row in range(labels.shape[0]):
        for column in range(labels.shape[1]):
            one = np.zeros(labels.shape, "float32")
            one[row, column] = 1
            found, _ = smoothed_cross_entropy(labels, logits, one, smoothing)
            assert_close(found, case.outputs["smoothed_cross_entropy"][row, column])
    total, weight = smoothed_cross_entropy(labels, logits, (labels != 0).astype("float32"), smoothing)
    assert_close(total, case.outputs["padded/loss_numerator"])
    assert_close(weight, case.outputs["padded/loss_denominator"])
    for alpha, expected in zip(
        case.outputs["length_penalty/alphas"], case.outputs["length_penalty/values"], strict=True
    ):
        assert_close(gnmt_penalty(float(alpha))(case.outputs["length_penalty/lengths"].astype("float32")), expected)


def test_a_perfect_answer_costs_nothing():
    target = np.full(7, 0.1 / 6)
    target[2] = 0.9
    loss, _ = smoothed_cross_entropy(
        np.array([2]), ops.convert_to_tensor(np.log(target)[None], "float32"), np.ones(1), 0.1
    )
    assert abs(float(loss)) < 1e-6


@pytest.mark.parametrize("signal", [sinusoid, interleaved_sinusoid])
def test_a_shift_of_positions_is_one_rotation_for_all(signal):
    table = np.array(signal(np.arange(40), 16), "float64")
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), np.sqrt(8), rtol=1e-5)
    rotation, *_ = np.linalg.lstsq(table[:30], table[5:35], rcond=None)
    np.testing.assert_allclose(table[:35] @ rotation, table[5:40], atol=1e-4)


def tiny(network_class, **more):
    keras.utils.set_random_seed(1)
    config = TransformerConfig(30, 16, 2, 2, 32, 32, 0.0, attention_dropout=0.0, intermediate_dropout=0.0, **more)
    return network_class(config).initialize()


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "token_ids": rng.integers(3, 30, (2, 7)).astype("int32"), "target_ids": rng.integers(3, 30, (2, 6)).astype("int32"),
        "padding_mask": np.arange(7) < np.array([[7], [5]]),
    }  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("network_class", NETWORKS)
@pytest.mark.parametrize("position", ["sinusoid", "interleaved", "learned"])
def test_decoding_token_by_token_equals_the_whole_target(network_class, position):
    backbone, batch = tiny(network_class, position=position), random_batch()
    past, found = backbone.start(batch, 6), []
    for first, last in ((0, 1), (1, 2), (2, 5), (5, 6)):
        states, past = backbone.decode(batch["target_ids"][:, first:last], past, first)
        found.append(states)
    np.testing.assert_allclose(ops.concatenate(found, axis=1), backbone(batch)["sequence_output"], atol=2e-5)


@pytest.mark.parametrize("network_class", NETWORKS)
def test_what_comes_later_and_padding_are_invisible(network_class):
    backbone, batch = tiny(network_class), random_batch()
    before = np.array(backbone(batch)["sequence_output"])
    changed = {**batch, "target_ids": batch["target_ids"].copy()}
    changed["target_ids"][:, 3:] = 5
    np.testing.assert_allclose(np.array(backbone(changed)["sequence_output"])[:, :3], before[:, :3], atol=1e-5)
    padded = {
        **batch,
        "token_ids": np.pad(batch["token_ids"], ((0, 0), (0, 4)), constant_values=9),
        "padding_mask": np.pad(batch["padding_mask"], ((0, 0), (0, 4))),
    }
    np.testing.assert_allclose(np.array(backbone(padded)["sequence_output"]), before, atol=1e-5)


def test_the_encoder_without_positions_does_not_know_the_order():
    backbone, batch = tiny(transformer.Transformer), random_batch()
    batch["padding_mask"][:] = True
    order = np.array([3, 1, 0, 2, 6, 5, 4])
    same = np.zeros((2, 7), "int32")
    states = np.array(backbone.encode({**batch, "position_ids": same}))
    moved = np.array(backbone.encode({**batch, "token_ids": batch["token_ids"][:, order], "position_ids": same}))
    np.testing.assert_allclose(moved, states[:, order], atol=1e-5)


@pytest.mark.parametrize("name", FAIRSEQ)
@pytest.mark.parametrize(("search", "power"), [("beam_lenpen0", 0), ("beam_lenpen1", 1)])
def test_hypotheses_of_fairseq_have_the_scores_that_it_gives_them(name, search, power):
    """Whatever finds them."""
    case, backbone = read_case(f"transformer/{name}"), network(name)
    hypotheses, last = case.outputs[f"{search}/ids"], case.numbers["max_generated_length"]
    for rank in range(hypotheses.shape[1]):
        labels = hypotheses[:, rank]  # (B, T), with the end token, then padding
        inputs = np.concatenate([np.full((len(labels), 1), END), labels[:, :-1]], axis=1).astype("int32")
        batch = batch_of({**case.inputs, "target_ids": labels, "decoder_input_ids": inputs})
        logs = np.array(ops.log_softmax(Seq2Seq().logits(backbone(batch)["sequence_output"], backbone)))
        picked = np.take_along_axis(logs, labels[..., None].astype(int), axis=-1)[..., 0]
        real = labels != PAD
        np.testing.assert_allclose(
            (picked * real)[:, :last], case.outputs[f"{search}/token_scores"][:, rank, :last], atol=1e-3
        )
        within = real.sum(axis=1) <= last  # at the last place the end is forced, whatever its probability
        total = (picked * real).sum(axis=1) / real.sum(axis=1) ** power
        np.testing.assert_allclose(total[within], case.outputs[f"{search}/scores"][within, rank], atol=1e-3)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FAIRSEQ)
@pytest.mark.parametrize("search, power, penalty", [
    ("beam_lenpen0", 0.0, 0.0), ("beam_lenpen1", 1.0, 0.0), ("beam_lenpen2_unkpen0.5", 2.0, 0.5),
])  # fmt: skip
def test_beams_find_the_hypotheses_of_fairseq(name, search, power, penalty):
    """All but those of one row, where more than K texts end: fairseq keeps the first, ours (as Hugging Face) the best."""
    case, backbone = read_case(f"transformer/{name}"), network(name)
    expected, scores = case.outputs[f"{search}/ids"], case.outputs[f"{search}/scores"]
    (rows, beams, _), longest = expected.shape, case.numbers["max_generated_length"] + 1
    batch = {key: np.repeat(value, beams, axis=0) for key, value in batch_of(case.inputs).items()}
    batch["target_position_ids"] = np.tile(np.arange(longest + 1, dtype="int32") + 2, (rows * beams, 1))

    def step(token_ids, position, state):
        states = backbone({**batch, "target_ids": token_ids})["sequence_output"]
        return ops.take(Seq2Seq().logits(states, backbone), position, axis=1), state

    def follow_its_rules(logs, token_ids, length):
        token, impossible = ops.arange(logs.shape[-1]), -1e9
        ends = ops.equal(token, END)
        logs = ops.where(ops.equal(token, PAD), impossible, logs)
        logs = ops.where(ops.equal(token, case.numbers["unknown_token_id"]), logs - penalty, logs)
        logs = ops.where(ops.logical_and(length >= longest, ops.logical_not(ends)), impossible, logs)
        return ops.where(ops.logical_and(length <= 1, ends), impossible, logs)

    starts, state = ops.full((rows,), END), {"none": ops.zeros((rows, 1))}
    ids, totals = ranked_beam_search(step, state, starts, beams, longest, END, power, True, filters=[follow_its_rules])
    ids, totals = np.array(ids)[:, :, 1:], np.array(totals)
    alike = np.array([np.array_equal(*pair) for pair in zip(ids, np.where(expected == PAD, 0, expected), strict=True)])
    assert list(np.flatnonzero(~alike)) == ([2] if name == "transformer_post_ln" and power else [])
    np.testing.assert_allclose(totals[alike], scores[alike], atol=1e-3)
    assert np.all(totals[~alike] >= scores[~alike] - 1e-3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("network_class", NETWORKS)
def test_a_beam_of_one_writes_what_greedy_decoding_writes(network_class):
    backbone, batch = tiny(network_class), random_batch()
    starts = ops.convert_to_tensor([0, 0])
    greedy, _ = generate(
        backbone.decode, lambda states: Seq2Seq().logits(states, backbone), backbone.start(batch, 13),
        ops.expand_dims(starts, 1), ops.ones_like(starts), 13, end_id=None,
    )  # fmt: skip

    def step(token_ids, position, past):
        token = ops.expand_dims(ops.take(token_ids, position, axis=1), 1)
        states, past = backbone.decode(token, past, position)
        return Seq2Seq().logits(states[:, 0], backbone), past

    ids, _ = beam_search(step, backbone.start(batch, 13), starts, 1, 12, -1, mean_penalty(1.0))
    np.testing.assert_array_equal(np.array(ids)[:, 0], greedy)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("size", "vocabulary_size", "bias", "count"),
    [("base", 37_000, False, 63_045_632), ("base", 37_000, True, 63_082_496), ("big", 37_000, False, 214_171_648),
     ("big", 32_000, True, 209_125_376)],
)  # fmt: skip
def test_published_sizes_have_the_published_number_of_parameters(size, vocabulary_size, bias, count):
    def expected(v, d, f, layers):
        biases = 4 * d if bias else 0
        encoder, decoder = 4 * d * d + biases + 2 * d * f + f + 5 * d, 8 * d * d + 2 * biases + 2 * d * f + f + 7 * d
        return layers * (encoder + decoder) + v * d

    numbers = transformer.SIZES[size]
    assert expected(vocabulary_size, numbers["hidden_dim"], numbers["intermediate_dim"], numbers["num_layers"]) == count
    small = TransformerConfig(11, 8, 2, 2, 12, attention_bias=bias)
    assert transformer.Transformer(small).initialize().count_params() == expected(11, 8, 12, 2)
    pre_norm = transformer_pre_norm.PreNormTransformer(small).initialize()
    assert pre_norm.count_params() == expected(11, 8, 12, 2) + 4 * 8


@pytest.mark.one_in(4)
@pytest.mark.parametrize("network_class", [*NETWORKS, UniversalTransformer])
@pytest.mark.parametrize(
    ("share", "others", "count"),
    [("all", None, 1), ("target_softmax", None, 2), ("none", None, 3), ("all", 40, 2), ("none", 40, 3)],
)
def test_source_target_and_output_share_as_many_tables_as_asked(network_class, share, others, count):
    given = {"target_vocabulary_size": others, "dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0}
    config = network_class.config_class(30, 8, 2, 2, 12, share_embeddings=share, **given)
    backbone, objective = network_class(config).initialize(), Seq2Seq()
    tables = {name: w for name, w in named_weights(backbone).items() if name.startswith("embedding.") and w.ndim == 2}
    assert len(tables) == count
    targets = others or 30
    assert sorted(w.shape[0] for w in tables.values()) == sorted([30, *[targets] * (count - 1)])
    batch = random_batch() | {"labels": np.ones_like(random_batch()["target_ids"])}
    batch["label_weights"] = np.ones(batch["labels"].shape, "float32")

    def loss():
        losses, _ = objective.score(backbone(batch), batch, backbone)
        return losses["seq2seq"][0]

    assert objective.logits(backbone(batch)["sequence_output"], backbone).shape[-1] == targets
    for name, gradient in gradients_of(loss, tables)[1].items():  # no table is left out of the training
        assert np.abs(gradient).max() > 0, name


@pytest.mark.long
@pytest.mark.parametrize("network_class", NETWORKS)
def test_gradients_of_the_last_layer_shrink_with_the_depth_of_pre_norm_alone(network_class):
    """As one over the root of the depth, where what the layers add exceeds the embedding (Xiong et al., 2020, theorem 1)."""

    def norm(layers):
        keras.utils.set_random_seed(layers)
        sizes = {"dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0}
        backbone, objective = network_class(TransformerConfig(30, 64, layers, 4, 128, **sizes)).initialize(), Seq2Seq()
        batch = random_batch() | {"labels": random_batch(1)["target_ids"], "label_weights": np.ones((2, 6), "float32")}
        kernel = backbone.decoder_blocks[-1].feedforward.contract.kernel
        loss, found = gradients_of(
            lambda: objective.score(backbone(batch), batch, backbone)[0]["seq2seq"][0], {"it": kernel}
        )
        return np.linalg.norm(found["it"])

    ratio = norm(2) / norm(12)
    assert 0.7 < ratio < 1.3 if network_class is transformer.Transformer else 1.4 < ratio < 6**0.5


@pytest.mark.parametrize("network_class", NETWORKS)
def test_nothing_of_later_targets_reaches_a_logit(network_class):
    """The gradient of the logits at a place by the inputs of the decoder behind it is exactly 0."""
    backbone, batch = tiny(network_class), random_batch()
    embed = backbone.embedding.target
    inputs = tf.Variable(embed(batch["target_ids"]))
    backbone.embedding.target = lambda *args, **kwargs: inputs.value()
    for place in range(6):
        with tf.GradientTape() as tape:
            picked = ops.sum(Seq2Seq().logits(backbone(batch)["sequence_output"], backbone)[:, place] ** 2)
        gradient = np.array(tape.gradient(picked, inputs))
        assert np.abs(gradient[:, : place + 1]).max(axis=(0, 2)).min() > 0 and not gradient[:, place + 1 :].any()


def test_kernels_begin_as_glorot_has_it_for_whole_matrices():
    keras.utils.set_random_seed(0)
    backbone = transformer.Transformer(TransformerConfig(11, 64, 1, 8, 256)).initialize()
    block = backbone.decoder_blocks[0]
    for kernel in (block.mixer.query.kernel, block.cross.merge.kernel):
        assert np.abs(np.array(kernel)).max() == pytest.approx(np.sqrt(6 / 128), rel=0.01)
    assert np.abs(np.array(block.feedforward.expand.kernel)).max() == pytest.approx(np.sqrt(6 / 320), rel=0.01)
