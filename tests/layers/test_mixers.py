"""What holds for every mixer that lies in `layers/attention`, against the long way of comparing each query with each key."""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.mixers import SMALL, small_numbers
from xmodels import systems
from xmodels.interfaces.mixers import summaries
from xmodels.jobs.pretrain.batches import check_packing
from xmodels.jobs.pretrain.system_settings import apply_network_settings, parse_system_options
from xmodels.layers import mixers
from xmodels.layers.attention.core import attend
from xmodels.layers.attention.linear import LinearAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.initialization import gpt
from xmodels.layers.rematerialization import rematerialized
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config

NAMES = mixers.names()
EFFICIENT = [name for name in NAMES if not mixers.find(name).compares_all]
CAUSAL = [name for name in NAMES if "causal" in mixers.find(name).supports]
SHOWN = [name for name in NAMES if mixers.find(name).has_probabilities]
TWO_SIDED = [name for name in NAMES if "causal" not in mixers.find(name).requires]
# Those that choose by content what a token sees may choose otherwise while later tokens are not there.
DECODED = [name for name in CAUSAL if not mixers.find(name).selects]
CONSTANT = [name for name in CAUSAL if not mixers.find(name).rewinds]  # whose cache does not grow
WINDOW = SMALL["window"]
LENGTHS = (
    pytest.param(5, marks=pytest.mark.long),
    pytest.param(23, marks=pytest.mark.long),
    131,
)  # a whole window, odd ones of several blocks and of two chunks
KINDS = ("nothing", "padding", "packs", "window")


@functools.cache
def make(name, policy="float32"):
    """A mixer with weights that speak clearly."""
    config = GptConfig(50, 8, 1, 2, 16, attention_dropout=0.0, mixer=name, mixer_numbers=small_numbers(name))
    keras.utils.set_random_seed(1)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        mixer = mixers.mixer_for(config, gpt(0.8), mixers.find(name).requires)
    finally:
        keras.mixed_precision.set_global_policy(before)
    mixer(np.zeros((1, 2, 8), "float32"), visible=Visible(causal="causal" in mixer.requires))
    return mixer


def states(length, rows=2):
    return ops.convert_to_tensor(np.random.default_rng(0).normal(size=(rows, length, 8)).astype("float32"))


def visible_of(kind, is_causal, length):
    """A `Visible` for two rows, of which the second is shorter."""
    ends = np.array([[length], [max(1, length - 3)]])
    if kind == "padding":
        return Visible(ops.convert_to_tensor(np.arange(length) < ends), causal=is_causal)
    if kind == "packs":  # examples of many lengths, longer and shorter than a block
        packs = np.searchsorted([1, 3, length // 3, length // 2, length // 2 + 1], np.arange(length), "right") + 1
        return Visible(
            causal=is_causal, packs=ops.convert_to_tensor((packs * (np.arange(length) < ends)).astype("int32"))
        )
    return Visible(causal=is_causal, window=2 if kind == "window" else None)


def seen(visible, length):
    """bool (2, L, L), of what a `Visible` says."""
    dense = visible.dense(length, length)
    return np.ones((2, length, length), bool) if dense is None else np.broadcast_to(dense, (2, 1, length, length))[:, 0]


def unfit(mixer, visible):
    """The error of a mixer that cannot do what a `Visible` asks; None if it can."""
    if missing := visible.given() - mixer.supports:
        return f"does not support `{sorted(missing)[0]}`"
    return f"requires `{sorted(unset)[0]}`" if (unset := mixer.requires - visible.given()) else None


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_the_long_way_gives_and_so_are_gradients_or_it_refuses(name, is_causal, kind, length):
    mixer, visible, x = make(name), visible_of(kind, is_causal, length), states(length)
    if error := unfit(mixer, visible):
        with pytest.raises(ValueError, match=error):
            mixer(x, visible=visible)
        return
    direction = np.random.default_rng(1).normal(size=x.shape) * seen(visible, length).any(axis=2, keepdims=True)
    found = []
    for call in (lambda x: mixer(x, visible=visible), lambda x: mixer.explicit(x, visible)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x) * direction  # of tokens that see something
            loss = tf.reduce_sum(y)
        weights = [weight.value for weight in mixer.trainable_variables]  # some may matter to a cost only
        gradients = tape.gradient(loss, [x, *weights], unconnected_gradients="zero")
        found.append([np.array(tf.convert_to_tensor(value)) for value in (y, *gradients)])
    assert np.abs(found[1][0]).max() > 0.1 and np.abs(found[1][1]).max() > 0.01
    largest = max(np.abs(value).max() for value in found[1])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=4e-6 * largest)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_comes_from_what_is_invisible(name, is_causal, kind):
    mixer, visible, x = make(name), visible_of(kind, is_causal, 13), states(13)
    if unfit(mixer, visible):
        return
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(mixer(x, visible=visible) * np.random.default_rng(2).normal(size=8), axis=-1)  # (2, L)
    reached = np.abs(tape.batch_jacobian(y, x).numpy()).max(axis=-1) > 0  # (2, L, L)
    allowed = seen(visible, 13)
    if (places := mixer.reach(13)) is not None:
        allowed = allowed & np.array(places).any(axis=0)
    some = allowed.any(axis=2)
    if visible.padding is not None:
        some = some & np.array(visible.padding)  # what padding becomes does not matter
    allowed = allowed | np.eye(13, dtype=bool)  # a token is its own query
    assert not (reached & ~allowed)[some].any()
    assert mixer.selects or (reached == allowed)[some].all()


@pytest.mark.parametrize("name", DECODED)
@pytest.mark.parametrize("pieces", [(23,), (1,) * 8, (3, 1, 17, 1, 1), (140, 1, 2)], ids=str)
def test_decoding_with_a_cache_is_the_whole_text_at_once(name, pieces):
    mixer, x = make(name), states(sum(pieces))
    past, place, found = mixer.start(2, sum(pieces)), 0, []
    for length in pieces:
        y, past = mixer.step(x[:, place : place + length], past, place)
        found.append(y)
        place += length
    expected = mixer(x, visible=Visible(causal=True))
    np.testing.assert_allclose(ops.concatenate(found, axis=1), expected, atol=2e-5)


@pytest.mark.parametrize("name", CONSTANT)
def test_the_cache_of_an_efficient_mixer_does_not_grow_with_the_text(name):
    mixer = make(name)

    def numbers(length):
        return [tuple(part.shape) for part in keras.tree.flatten(mixer.start(2, length))]

    assert numbers(64) == numbers(100_000)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["padding", pytest.param("packs", marks=pytest.mark.long)])
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_it_computes_the_same_also_where_the_length_is_not_known(name, is_causal, kind):
    mixer, visible, x = make(name), visible_of(kind, is_causal, 23), states(23)
    if unfit(mixer, visible):
        return
    some = seen(visible, 23).any(axis=2)

    def function(x, given):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x, visible=dataclasses.replace(visible, **{kind: given}))
            loss = tf.reduce_sum(tf.where(some[..., None], y, 0.0) ** 2)
        return y, tape.gradient(loss, x)

    arguments = x, getattr(visible, kind)
    expected, slope = (np.array(each)[some] for each in function(*arguments))
    specs = [tf.TensorSpec([None, None, *a.shape[2:]], a.dtype) for a in arguments]
    ways = tf.function(function, jit_compile=True), tf.function(function, input_signature=specs)
    for compiled in ways:
        y, gradient = (np.array(each)[some] for each in compiled(*arguments))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4 * np.abs(slope).max())


@pytest.mark.parametrize("name", NAMES)
def test_in_half_precision_it_stays_finite_and_close(name):
    plain, half = make(name), make(name, "mixed_bfloat16")
    visible, x = visible_of("padding", "causal" in plain.supports, 131), states(131)
    for theirs, ours in zip(half.weights, plain.weights, strict=True):
        theirs.assign(ours)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = half(x, visible=visible)
        loss = tf.reduce_sum(tf.cast(y, "float32") ** 2)
    assert y.dtype == tf.bfloat16 and np.isfinite(tape.gradient(loss, x)).all()
    expected = np.array(plain(x, visible=visible))
    real = np.array(visible.padding)
    difference = np.abs(np.array(tf.cast(y, "float32")) - expected)[real]
    if not plain.selects:  # rounding may choose other tokens
        assert difference.max() < 0.1 * np.abs(expected).max()


# In networks.


@functools.cache
def network(network_class=Gpt2, name=mixers.DEFAULT, num_layers=2, window=WINDOW, **numbers):
    numbers = {
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "max_sequence_length": 64,
        "mixer_numbers": small_numbers(name, window=window),
    } | numbers
    keras.utils.set_random_seed(2)
    backbone = network_class(network_class.config_class(50, 16, num_layers, 2, 32, mixer=name, **numbers)).initialize()
    for variable in backbone.weights:
        variable.assign_add(np.random.default_rng(variable.shape[-1]).normal(0, 0.2, variable.shape))
    return backbone


def batch_of(length, rows=2):
    token_ids = np.random.default_rng(3).integers(50, size=(rows, length)).astype("int32")
    real = np.arange(length) < np.linspace(length, length - 5, rows)[:, None]
    return {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": real}


def axes(function, *arguments):
    """The shapes of all tensors of a graph, and of the functions that it calls."""
    graph = tf.function(function, autograph=False).get_concrete_function(*arguments).graph
    found, graphs = [], [graph]
    while graphs:
        here = graphs.pop()
        for operation in here.get_operations():
            found += [tuple(output.shape) for output in operation.outputs if output.shape.rank is not None]
        graphs += [f.graph for f in getattr(here, "_functions", {}).values() if hasattr(f, "graph")]
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_packed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["plain", "packed"])
@pytest.mark.parametrize("network_class", [Bert, pytest.param(Gpt2, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_training_makes_no_tensor_of_pairs_of_tokens_but_for_full_attention(name, network_class, is_packed):
    length, supports = 512, mixers.find(name).supports
    if (is_packed and "packs" not in supports) or name not in {Bert: TWO_SIDED, Gpt2: CAUSAL}[network_class]:
        return
    backbone, batch = network(network_class, name, 1, max_sequence_length=length), batch_of(length)
    if is_packed:
        packs = (1 + np.arange(length) // 100)[None].repeat(2, axis=0).astype("int32")
        batch |= {"pack_ids": packs, "position_ids": (np.arange(length) % 100 + 0 * packs).astype("int32")}
        batch |= {"pack_starts": np.array([[0, 100]] * 2, "int32")}

    def loss_and_gradients(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(backbone(batch, training=True)["sequence_output"])
        return loss, tape.gradient(loss, [weight.value for weight in backbone.embedding.trainable_variables])

    specs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in batch.items()}
    shapes = axes(loss_and_gradients, specs)
    pairs = [shape for shape in shapes if sum(axis is not None and axis >= length for axis in shape) > 1]
    assert bool(pairs) == mixers.find(name).compares_all, pairs
    largest = max(np.prod([axis or 1 for axis in shape]) for shape in shapes)
    assert mixers.find(name).compares_all or largest < 2 * 2 * length * length / 2


@pytest.mark.parametrize("network_class", [Gpt, pytest.param(Gpt2, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DECODED)
def test_a_network_decodes_as_it_reads(name, network_class):
    backbone, batch = network(network_class, name), batch_of(30)
    batch["padding_mask"][:] = True
    past, place, found = backbone.start(2, 64), 0, []
    for length in (12, 1, 1, 16):
        y, past = backbone.decode(batch["token_ids"][:, place : place + length], past, place)
        found.append(y)
        place += length
    np.testing.assert_allclose(ops.concatenate(found, axis=1), backbone(batch)["sequence_output"], atol=1e-4)
    assert backbone.rewinds == mixers.find(name).rewinds


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TWO_SIDED)
def test_the_summary_of_bert_is_that_of_the_whole_network(name):
    backbone, batch = network(Bert, name), batch_of(30)
    np.testing.assert_allclose(
        backbone.summarize(batch)["pooled_output"], backbone(batch)["pooled_output"], atol=1e-5
    )  # fmt: skip
    assert backbone.shows_attention == mixers.find(name).has_probabilities
    if backbone.shows_attention:
        maps = backbone.attention_maps(batch)
        np.testing.assert_allclose(np.sum(maps[0], axis=-1), 1.0, atol=1e-4)


@pytest.mark.parametrize("network_class", [Gpt, pytest.param(Gpt2, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [name for name in CAUSAL if name in SHOWN])
def test_a_causal_network_attends_to_what_stands_before(name, network_class):
    maps = np.array(network(network_class, name).attention_maps(batch_of(30)))
    assert maps.shape == (2, 2, 2, 30, 30) and not np.triu(maps, 1).any()
    np.testing.assert_allclose(maps.sum(axis=-1), 1.0, atol=1e-4)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_computed_again_has_the_same_gradients(name):
    network_class = Gpt2 if name in CAUSAL else Bert
    backbone, batch, found = network(network_class, name, dropout=0.2, attention_dropout=0.2), batch_of(30), []
    for again in (False, True):
        with tf.GradientTape() as tape, dropout_seed(np.array([1, 2])), rematerialized(again):
            loss = tf.reduce_sum(backbone(batch, training=True)["sequence_output"][:, :20] ** 3)
        found.append(tape.gradient(loss, backbone.embedding.token.embeddings.value))
    whole, recomputed = map(tf.convert_to_tensor, found)
    assert float(tf.reduce_max(tf.abs(whole))) > 1e-3
    np.testing.assert_allclose(recomputed, whole, rtol=1e-3, atol=1e-4 * float(tf.reduce_max(tf.abs(whole))))


@pytest.mark.parametrize("name", [name for name in EFFICIENT if mixers.find(name).starts_from_attention])
def test_weights_of_full_attention_fit(name):
    network_class = Bert if name in TWO_SIDED else Gpt2
    full, other = (named_weights(network(network_class, each)) for each in (mixers.DEFAULT, name))
    assert {key: tuple(value.shape) for key, value in full.items()}.items() <= {
        key: tuple(value.shape) for key, value in other.items()
    }.items()


def test_a_window_that_holds_the_text_is_full_attention():
    full, batch = network(), batch_of(30)
    wide = network(name="local_window", window=64)
    expected = np.array(full(batch)["sequence_output"])[batch["padding_mask"]]
    np.testing.assert_allclose(
        np.array(wide(batch)["sequence_output"])[batch["padding_mask"]], expected, atol=1e-5
    )  # fmt: skip


def test_a_network_refuses_a_mixer_that_cannot_do_what_it_asks(monkeypatch):
    monkeypatch.setattr(LinearAttention, "supports", frozenset({"padding", "packs"}))
    with pytest.raises(ValueError, match="LinearAttention does not support `causal`"):
        Gpt2(Gpt2Config(50, 16, 1, 2, 32, mixer="linear"))
    Bert(BertConfig(50, 16, 1, 2, 32, mixer="linear"))


class NoPacks(LinearAttention):
    """A mixer that does not keep several examples of a row apart."""

    supports = frozenset({"padding"})


def test_a_network_takes_a_mixer_without_packed_rows_until_a_batch_has_them(monkeypatch):
    monkeypatch.setattr(mixers, "find", lambda name: NoPacks)
    backbone, batch = Bert(BertConfig(50, 16, 1, 2, 32, mixer="linear")).initialize(), batch_of(8)
    backbone(batch)
    packs = np.ones((2, 8), "int32")
    batch |= {"pack_ids": packs, "position_ids": 0 * packs, "pack_starts": np.zeros((2, 1), "int32")}
    with pytest.raises(ValueError, match="NoPacks does not support `packs` of `Visible`; it supports padding"):
        backbone(batch)


def test_packed_rows_are_refused_by_name_before_training(monkeypatch):
    backbone = network(Bert, "linear")
    monkeypatch.setattr(LinearAttention, "supports", frozenset({"padding"}))
    with pytest.raises(
        UsageError, match="--pack_rows: the mixer linear does not keep several examples of a row apart."
    ):
        check_packing("bert", backbone)


def test_an_unknown_mixer_lists_the_known_ones():
    for wrong in ("linaer", "core", "visible"):
        with pytest.raises(ValueError, match=f"Unknown mixer '{wrong}'. Known: {', '.join(NAMES)}"):
            mixers.find(wrong)
    with pytest.raises(CheckpointError, match="here: `mixer`: Unknown mixer"):
        GptConfig.from_json({**GptConfig(9, 4, 1, 1, 4).to_json(), "mixer": "no"}, "here")
    with pytest.raises(ValueError, match="`window` must be at least 1"):
        network(name="local_window", window=0)


def test_estimates_of_memory_know_how_many_tokens_are_compared():
    found = {name: BertConfig(50, 16, 2, 2, 32, mixer=name).keys_per_query(4096) for name in NAMES}
    assert found[mixers.DEFAULT] == 4096 and all(found[name] < 4096 / 2 for name in EFFICIENT)


@pytest.mark.parametrize("config_class", [BertConfig, GptConfig, Gpt2Config])
def test_configurations_of_full_attention_are_written_as_before_there_was_a_choice(config_class):
    full = config_class(50, 16, 2, 2, 32)
    assert not any("mixer" in name for name in full.to_json())
    assert config_class.from_json(full.to_json()) == full
    other = dataclasses.replace(full, mixer="local_window", mixer_numbers={"window": 7})
    assert config_class.from_json(other.to_json()) == other and other.to_json()["mixer.window"] == 7
    assert config_class(**dataclasses.asdict(other)) == other
    assert dataclasses.replace(other, mixer="linear").mixer_numbers == mixers.find("linear").numbers()


def test_folders_from_before_mixers_had_numbers_of_their_own_are_read():
    sizes = BertConfig(50, 16, 2, 2, 32).to_json()
    old = BertConfig.from_json({**sizes, "mixer": "local_window", "attention_window": 7})
    assert old.mixer_numbers.window == 7 and old.values()["mixer.window"] == 7
    assert BertConfig.from_json({**sizes, "mixer": "linear", "attention_window": 128}).mixer == "linear"
    assert BertConfig.from_json({**sizes, "attention_window": 9}) == BertConfig(50, 16, 2, 2, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mixer.window": 0}, "here: `mixer.window` must be a whole number from 1 to"),
        ({"mixer.window": "5"}, "here: `mixer.window` must be a whole number from 1 to"),
        (
            {"mixer.rank_": 4},
            "here: `mixer.rank_` is no number of the mixer local_window. Its numbers: `mixer.window`.",
        ),
        ({"mixer": 3}, "here: `mixer` must be a string. Found: 3."),
        ({"mixer_numbers": {"window": 4}}, "here: `mixer_numbers` is no key; a number of a mixer is `mixer.NAME`."),
    ],
)
def test_numbers_that_a_mixer_does_not_have_are_named(changes, message):
    with pytest.raises(CheckpointError) as caught:
        BertConfig.from_json({**BertConfig(50, 16, 2, 2, 32).to_json(), "mixer": "local_window", **changes}, "here")
    assert message in str(caught.value)


def test_set_changes_the_numbers_of_the_chosen_mixer_and_knows_their_earlier_name():
    system = systems.load("bert")

    def changed(text, name="local_window"):
        parse_system_options(text, system)  # as pretraining, which checks the names first
        return apply_network_settings(text, system, BertConfig(50, 16, 2, 2, 32, mixer=name))

    assert changed("mixer.window=3,dropout=0.2").mixer_numbers.window == 3
    assert changed("attention_window=4").mixer_numbers.window == 4
    assert changed("mixer=local_window,mixer.window=6", "linear").mixer_numbers.window == 6
    with pytest.raises(UsageError, match="`mixer.window` is no number of the mixer multi_head. Its numbers: none."):
        changed("mixer.window=3", mixers.DEFAULT)
    with pytest.raises(UsageError, match="--set=mixer.windwo=3: unknown name. Did you mean mixer.window?"):
        changed("mixer.windwo=3")
    with pytest.raises(UsageError, match="--set=mixer.window=far: expected a whole number."):
        changed("mixer.window=far")


def test_numbers_of_the_same_name_have_the_same_type():
    kinds = {}
    for name in NAMES:
        for field in dataclasses.fields(mixers.find(name).numbers):
            assert kinds.setdefault(field.name, field.type) == field.type


def test_help_lists_every_mixer_with_its_numbers():
    found = summaries()
    assert sorted(found) == NAMES
    for name in NAMES:
        for field in dataclasses.fields(mixers.find(name).numbers):
            expected = f"--set=mixer.{field.name}={field.default}: {field.metadata['help']}."
            assert expected in found[name]
    assert "--set=mixer.window=128: how many tokens" in found["local_window"]


# From records to a text.


OTHERS = [name for name in CAUSAL if name != mixers.DEFAULT]


@pytest.mark.long
@pytest.mark.parametrize("name", [OTHERS[0], *(pytest.param(n, marks=pytest.mark.long) for n in OTHERS[1:])])
def test_a_system_trains_with_it_and_goes_on_with_its_texts(name, tmp_path, stream_records, zh_vocabulary):
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 64}
    sizes |= {"vocabulary_size": len(Vocabulary.read(zh_vocabulary))}
    sizes |= {"attention_window": WINDOW}  # the earlier name of a number, which holds for the mixer of the flag
    (tmp_path / "config.json").write_text(json.dumps({"config": sizes}))
    flags = {"system": "gpt2", "data_dir": stream_records, "model_dir": tmp_path / "run", "train_batch_size": 4}
    flags |= {"model_config_file": tmp_path / "config.json", "eval_steps": 1}
    assert invoke("pretrain", **flags, num_train_steps=2, mixer=name) == 0
    assert json.loads((tmp_path / "run/backbone/config.json").read_text())["config"]["mixer"] == name
    assert invoke("pretrain", **flags, num_train_steps=3) == 2  # another run
    assert invoke("generate", model_dir=tmp_path / "run", prompt="今天", max_new_tokens=4) == 0


def test_a_mixer_is_refused_where_there_is_no_choice(tmp_path, capsys):
    assert invoke("pretrain", system="transformer", data_dir="no", model_dir=tmp_path / "run", mixer="linear") == 2
    assert invoke("pretrain", system="bert", data_dir="no", model_dir=tmp_path / "run", mixer="full") == 2
    errors = capsys.readouterr().err
    assert "--mixer=linear: the attention of --system=transformer cannot be chosen" in errors
    assert f"--mixer=full: Unknown mixer 'full'. Known: {', '.join(NAMES)}" in errors


# What a query sees.


def by_hand(visible, query, key, row):
    """One place of `Visible.dense`, as its docstring says it."""
    values = {n: getattr(visible, n) for n in ("padding", "packs", "prefix", "global_ids", "order")}
    at = {n: None if value is None else np.array(value)[row] for n, value in values.items()}
    if at["padding"] is not None and not at["padding"][key]:
        return False
    if at["packs"] is not None and (at["packs"][key] == 0 or at["packs"][key] != at["packs"][query]):
        return False
    if visible.causal and key > query and not (at["prefix"] is not None and key < at["prefix"]):
        return False
    if at["order"] is not None and at["order"][key] > at["order"][query]:
        return False
    marked = at["global_ids"] is not None and (at["global_ids"][key] > 0 or at["global_ids"][query] > 0)
    return visible.window is None or abs(query - key) <= visible.window or marked


FIELDS = {
    "padding": np.array([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0, 0]], bool),
    "causal": True,
    "packs": np.array([[1, 1, 2, 2, 2, 3, 3], [1, 2, 2, 2, 3, 0, 0]], "int32"),
    "prefix": np.array([3, 1], "int32"),
    "window": 2,
    "global_ids": np.array([[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 1]], "int32"),
    "order": np.array([[3, 1, 2, 0, 6, 5, 4], [0, 0, 1, 1, 2, 2, 9]], "int32"),
}
MIXES = [
    (), *((name,) for name in FIELDS), ("causal", "padding"), ("causal", "prefix", "padding"), ("window", "global_ids"),
    ("causal", "packs", "window"), tuple(FIELDS),
]  # fmt: skip


@pytest.mark.parametrize("names", MIXES, ids="-".join)
def test_dense_says_what_its_fields_mean(names):
    visible = Visible(**{name: FIELDS[name] for name in names})
    assert visible.given() == set(names)
    for queries, positions in ((7, range(7)), (np.array([2, 5], "int32"), (2, 5))):
        found = visible.dense(queries, 7)
        if found is None:
            assert not set(names) - {"prefix", "global_ids"}
            continue
        found = np.broadcast_to(found, (2, 1, len(positions), 7))
        expected = [[[by_hand(visible, q, k, row) for k in range(7)] for q in positions] for row in range(2)]
        np.testing.assert_array_equal(found[:, 0], expected)


def test_a_mask_is_no_larger_than_it_must_be():
    real = FIELDS["padding"]
    assert Visible(real).dense(7, 7).shape == (2, 1, 1, 7)
    assert Visible(causal=True).dense(7, 7).shape == (1, 1, 7, 7)


def test_attention_takes_a_bias_and_a_scale():
    query, key, value = (
        ops.convert_to_tensor(x.astype("float32")) for x in np.random.default_rng(0).normal(size=(3, 2, 4, 2, 3))
    )
    bias = ops.convert_to_tensor(np.random.default_rng(1).normal(size=(2, 4, 4)).astype("float32"))
    scores = np.einsum("blhk,bshk->bhls", query, key) * 0.3 + np.array(bias)
    weights = np.exp(scores) * np.tril(np.ones((4, 4)))
    expected = np.einsum("bhls,bshk->blhk", weights / weights.sum(axis=-1, keepdims=True), value)
    np.testing.assert_allclose(attend(query, key, value, Visible(causal=True), bias, 0.3), expected, atol=1e-5)
