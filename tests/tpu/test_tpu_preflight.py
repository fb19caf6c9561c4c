"""The pre-flight: its table and arithmetic, its search, and, where the TPU compiler is installed, compiled systems."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import launch.tpu_preflight  # noqa: F401 - before tests replace what finds modules
from data_pipelines.errors import DeviceError, UsageError
from tests.helpers import jax_member
from tests.helpers.invocation import invoke
from tests.helpers.small_learner import largest_difference, train, values
from tests.helpers.small_learner import make_learner as make_small_learner
from tests.helpers.small_systems import small_sizes
from xmodels import systems
from xmodels.jobs.tpu_preflight.jax_step import compile_batch
from xmodels.jobs.tpu_preflight.run import preflight
from xmodels.jobs.tpu_preflight.step import Options, make_learner, make_placeholder_vocabulary
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.tpu import compiler
from xmodels.tpu.bounds import Cost, all_reduce_bytes, bounds
from xmodels.tpu.chips import CHIPS, EXAMPLES, GIB, Topology
from xmodels.tpu.compiler import DoesNotCompile, OutOfMemory, compile_step, failure
from xmodels.tpu.lowering import program, stablehlo
from xmodels.tpu.search import Search
from xmodels.training.recipe import Records

ROOT = pathlib.Path(__file__).parents[2]
needs_compiler = pytest.mark.extra("jax", "libtpu")

COST = Cost(flops=197e12, bytes_accessed=819e9 * 2, arguments=100, outputs=70, aliased=60, temporaries=1000, code=10)


def config_of(system, vocabulary_size=500):
    """A network of the system that is compiled in little time."""
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 64}
    kind = system.MODEL.config_class
    return kind(vocabulary_size=vocabulary_size, **small_sizes(kind, sizes))


def recipe_of(name, **numbers):
    system, records = systems.load(name), Records(sequence_length=32, num_predictions=6)
    recipe = system.recipe(make_placeholder_vocabulary(500), records, config=config_of(system))
    return dataclasses.replace(recipe, **numbers), records


def zeros(learner, batch):
    return {
        name: tf.zeros((batch, *x.shape[1:]), x.dtype)
        for name, x in learner.streams["training"].batches.zeros().items()
    }


def test_slices_are_counted_and_named_as_gcloud_does():
    expected = {
        "v2:2x2": (4, 8, "v2-8"), "v3:4x4": (16, 32, "v3-32"), "v4:2x2x1": (4, 4, "v4-8"),
        "v5e:2x4": (8, 8, "v5litepod-8"), "v5p:2x2x2": (8, 8, "v5p-16"), "v6e:1x1": (1, 1, "v6e-1"),
    }  # fmt: skip
    for name, wanted in expected.items():
        topology = Topology.parse(name)
        assert (topology.num_chips, topology.num_devices, topology.accelerator_type) == wanted
        assert topology.name == name


@pytest.mark.parametrize("text", ["v5e", "v5e:2", "v5e:2x2x2", "v4:2x2", "v5e:0x4", "v5e:32x32", "v5e:2x4 ", "v5e:²x4"])
def test_slices_that_cannot_be_are_refused_with_one_that_can(text):
    with pytest.raises(UsageError, match=f"such as {text[:2]}"):
        Topology.parse(text)


def test_unknown_generation_names_the_known_ones():
    with pytest.raises(UsageError, match="v9:2x2: no such TPU generation.*v2:2x2.*v6e:2x4"):
        Topology.parse("v9:2x2")


def test_roofs_by_hand():
    limits = bounds(COST, Topology.parse("v5e:2x4"), tokens=1000, parameter_bytes=100 * 10**9)
    assert limits.arithmetic == pytest.approx(1.0) and limits.bandwidth == pytest.approx(2.0)
    assert limits.interconnect == pytest.approx(100e9 * 2 * 7 / 8 / 200e9)
    assert limits.holds == "bandwidth" and limits.tokens_per_second("bandwidth") == pytest.approx(500)
    assert COST.memory == 100 + 70 - 60 + 1000 + 10


def test_one_chip_sends_nothing_and_half_a_chip_is_half_as_fast():
    assert all_reduce_bytes(4, 1) == 0
    alone = bounds(COST, Topology.parse("v5e:1x1"), 10, 4)
    assert alone.interconnect == 0 and alone.tokens_per_second("interconnect") == float("inf")
    halves = bounds(COST, Topology.parse("v3:2x2"), 10, 4)
    assert halves.arithmetic == pytest.approx(197e12 / (CHIPS["v3"].flops / 2))


@given(
    fixed=st.integers(0, 10**6), slope=st.integers(1, 10**5), start=st.integers(1, 4096), most=st.integers(1, 8),
    unit=st.sampled_from([1, 3]),
)  # fmt: skip
def test_search_tells_the_truth_within_its_compilations(fixed, slope, start, most, unit):
    tried = []

    def compiled(batch):
        tried.append(batch)
        if fixed + slope * batch > 10**6:
            raise OutOfMemory("", fixed + slope * batch, 10**6)
        return dataclasses.replace(COST, arguments=fixed, outputs=0, aliased=0, code=0, temporaries=slope * batch)

    search = Search(compiled, hbm=10**6, unit=unit)
    search.attempt(unit * start)
    search.run(most)
    assert len(tried) == len(set(tried)) <= max(1, most)
    assert all(batch % unit == 0 for batch in tried)
    true = (10**6 - fixed) // slope
    assert search.largest <= true and (search.smallest_failing or true + 1) > true
    if unit == 1 and most == 8 and true >= 8 and start <= 16 * true <= 16 * 8**4 * start:
        assert search.largest >= 0.5 * true


def test_search_ends_where_nothing_fits():
    def compiled(batch):
        raise OutOfMemory("", 0, 0)

    search = Search(compiled, hbm=1)
    search.attempt(8)
    search.run(20)
    assert search.largest == 0 and search.smallest_failing == 1 and len(search.fails) == 4


def test_messages_of_the_compiler_become_errors():
    full = failure(
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (51.74G) exceeds available HBM (15.75G). HLO module: a_step.\nSee elsewhere."
    )
    assert isinstance(full, OutOfMemory) and full.available == int(15.75 * GIB)
    assert full.needed == pytest.approx(51.74 * GIB, rel=1e-6) and "\n" not in str(full)
    other = failure("INVALID_ARGUMENT: Custom emitter for nonsense not found\n\nSuspected Python Code")
    assert not isinstance(other, OutOfMemory) and str(other).endswith("Custom emitter for nonsense not found")


def test_without_the_extra_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    assert invoke("tpu_preflight", system="bert") == 5
    assert "pip install xmodels[tpu-preflight]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"topology": "v9:2x2"}, "Known, each with a usual slice"),
        ({"size": "huge"}, "--system=bert has tiny, mini"),
        ({"vocab_size": 5}, "the special tokens alone"),
        ({"train_batch_size": 12}, "must be a multiple of the 8 devices"),
    ],
)
def test_flags_that_cannot_work(flags, message, monkeypatch, capsys):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: name)
    assert invoke("tpu_preflight", **{"system": "bert", "size": "tiny", **flags}) == 2
    assert message in capsys.readouterr().err


def test_what_is_compiled_is_the_step_that_trains():
    """The program of one device, run here without XLA, changes the weights as the Learner under its own strategy does."""
    recipe, records = recipe_of("bert", num_warmup_steps=0, num_steps=10, learning_rate=1e-2)
    config = dataclasses.replace(recipe.backbone().config, dropout=0.0, attention_dropout=0.0)
    recipe = dataclasses.replace(recipe, backbone=lambda: Bert(config))
    weights = []
    for program_of_slice in (True, False):
        keras.utils.set_random_seed(3)
        learner = make_learner(recipe, records, num_devices=1)
        before = {n: v.numpy() for n, v in named_weights(learner.backbone).items()}
        batch = {n: tf.ones_like(x) for n, x in zeros(learner, 4).items()}
        if program_of_slice:
            tf.function(program(learner).python_function)(batch)
        else:
            learner.strategy = tf.distribute.get_strategy()
            learner.train(iter(tf.data.Dataset.from_tensors(batch).repeat()), tf.constant(1))
        weights.append({n: v.numpy() for n, v in named_weights(learner.backbone).items()})
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=1e-6, err_msg=name)
        assert np.abs(value - before[name]).max() > 1e-4 or "key.bias" in name, name


def test_the_whole_step_is_lowered_with_its_sums_over_all_devices():
    learner = make_learner(*recipe_of("bert"), num_devices=8, mixed_precision="bfloat16")
    text = stablehlo(learner, zeros(learner, 2))
    count = len(learner.variables)
    assert text.count('"stablehlo.all_reduce"') == count + 2  # each gradient, the weights of the losses, what is logged
    assert "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]>" in text and "bf16" in text and "mhlo.copy" not in text
    assert text.count("may_alias") >= 3 * count + 1  # weights, two slots each, and the step number stay where they are
    assert keras.config.dtype_policy().name == "float32"


def test_boolean_constants_are_written_as_the_compiler_reads_them():
    learner = make_learner(*recipe_of("gpt"), num_devices=1)
    text = stablehlo(learner, zeros(learner, 2))
    causal = np.tril(np.ones((32, 32), np.uint8)).tobytes().hex().upper()
    assert f'dense<"0x{causal}"> : tensor<1x1x32x32xi1>' in text


def test_an_operation_that_xla_does_not_know_is_named():
    class Spelled(MaskedLM):
        def score(self, outputs, batch, backbone):
            losses, metrics = super().score(outputs, batch, backbone)
            total, weight = losses["masked_lm"]
            return {"masked_lm": (total + 0.0 * tf.strings.to_number(tf.strings.as_string(weight)), weight)}, metrics

    recipe, records = recipe_of("bert")
    config = recipe.backbone().config
    learner = make_learner(
        dataclasses.replace(recipe, objective=lambda: Spelled(config, recipe.objective().parts[0].corrupt)), records, 2
    )
    with pytest.raises(DoesNotCompile, match="AsString|StringToNumber"):
        stablehlo(learner, zeros(learner, 1))


@pytest.mark.long
@pytest.mark.extra("jax")
def test_the_step_of_jax_learns_what_the_step_of_tensorflow_learns(tmp_path):
    """The compiler shares the batch between two CPUs by itself, and a step that is not finite changes nothing."""
    learner = make_small_learner(**jax_member.NUMBERS)
    np.savez(tmp_path / "before.npz", **values(learner))
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "tests.helpers.jax_member", str(tmp_path)], env=environment, cwd=ROOT, check=True
    )
    told = [train(learner, [batch])[: len(learner.names) - 2] for batch in jax_member.batches()]
    after, weights = dict(np.load(tmp_path / "after.npz")), values(learner)
    np.testing.assert_allclose(after.pop("told")[[0, 2]], np.stack(told)[[0, 2]], rtol=1e-5)
    assert after.keys() == weights.keys() and largest_difference(after, weights) < 2e-6
    assert largest_difference(after, dict(np.load(tmp_path / "before.npz"))) > 1e-3


MODULE = """
module @m {{
  func.func public @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
    %y = {operation}
    return %y : tensor<{shape}xf32>
  }}
}}
"""
DOUBLE = "stablehlo.add %x, %x : tensor<{shape}xf32>"
NONSENSE = "stablehlo.custom_call @nonsense(%x) : (tensor<{shape}xf32>) -> tensor<{shape}xf32>"


def module(folder, operation, shape="8x128"):
    path = folder / "step.mlir"
    path.write_text(MODULE.format(shape=shape, operation=operation.format(shape=shape)))
    return str(path)


def test_parts_of_a_batch_are_counted_as_often_as_they_are_computed(monkeypatch):
    """The compiler counts the body of a loop once."""
    monkeypatch.setattr("xmodels.jobs.tpu_preflight.run.check_installed", lambda: None)
    monkeypatch.setattr("xmodels.jobs.tpu_preflight.run.compile_step", lambda *arguments: COST)
    options = Options(
        system="bert", topology="v5e:1x1", vocab_size=500, max_seq_length=32, train_batch_size=4, max_compiles=1
    )
    report = preflight(dataclasses.replace(options, gradient_accumulation_steps=2), config_of(systems.load("bert")))
    assert report.cost.flops == 2 * COST.flops and report.cost.bytes_accessed == 2 * COST.bytes_accessed
    assert report.cost.memory == COST.memory


@pytest.mark.one_in(2)
@needs_compiler
@pytest.mark.parametrize("name", [f"{generation}:{slice}" for generation, slice in EXAMPLES.items()])
def test_every_generation_has_its_devices(name, tmp_path):
    cost = compile_step(module(tmp_path, DOUBLE), Topology.parse(name))
    assert cost.arguments == cost.outputs == 8 * 128 * 4


@needs_compiler
def test_the_compiler_says_what_it_refuses(tmp_path):
    topology = Topology.parse("v5e:1x1")
    with pytest.raises(DoesNotCompile, match="nonsense"):
        compile_step(module(tmp_path, NONSENSE), topology)
    with pytest.raises(OutOfMemory) as full:
        compile_step(module(tmp_path, DOUBLE, shape="65536x65536"), topology)
    assert 15 * GIB < full.value.available <= 16 * GIB < full.value.needed


def small_options(name, **numbers):
    sizes = {"vocab_size": 500, "max_seq_length": 32, "max_predictions_per_seq": 6}
    return Options(system=name, topology="v5e:2x4", train_batch_size=16, max_compiles=1, **sizes, **numbers)


def test_micro_batches_are_not_for_jax(monkeypatch, capsys):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: name)
    flags = {"system": "bert", "size": "tiny", "backend": "jax", "gradient_accumulation_steps": 2}
    assert invoke("tpu_preflight", **flags) == 2
    assert "--backend=jax has no micro-batches" in capsys.readouterr().err


@pytest.mark.long
@needs_compiler
def test_a_step_that_jax_cannot_build_says_so():
    config = config_of(systems.load("bert"))
    broken = dataclasses.replace(config, max_sequence_length=8)  # of rows of 32 tokens
    with pytest.raises(
        DoesNotCompile, match="bert cannot be built with Keras' JAX backend: ValueError: .* SumEmbedding"
    ):
        compile_batch(small_options("bert", backend="jax"), broken, rows=2, level=1)


FURTHER = "roberta", "albert", "ernie", "ernie2", "spanbert", "xlnet", "mass", "unilm", "t5", "marian", "rnn_search"


@pytest.mark.one_in(5)
@needs_compiler
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("bert", "tensorflow"), ("transformer_xl", "tensorflow"), ("adaptive_universal_transformer", "tensorflow"), ("bert", "jax"),
        pytest.param("transformer_xl", "jax", marks=pytest.mark.long),
        pytest.param("adaptive_universal_transformer", "jax", marks=pytest.mark.long),
        ("bart", "tensorflow"), *(pytest.param(name, "tensorflow", marks=pytest.mark.long) for name in FURTHER),
    ],
)  # fmt: skip
def test_systems_compile_for_a_tpu(name, backend, capsys):
    options = small_options(name, backend=backend)
    report = preflight(options, config_of(systems.load(name)), optimization_level=1)
    weights = 3 * 4 * make_learner(*recipe_of(name), num_devices=1).backbone.count_params()
    assert report.cost.arguments >= weights and report.cost.aliased >= weights
    assert report.cost.flops > 0 and report.limits.tokens == 16 * 32 and report.largest == 16
    said = capsys.readouterr().out
    assert "Compiles for v5e:2x4: yes" in said and "holds" in said


def test_device_error_is_what_a_missing_compiler_raises(monkeypatch):
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="jax and libtpu not found"):
        compile_step("nowhere", Topology.parse("v5e:1x1"))
