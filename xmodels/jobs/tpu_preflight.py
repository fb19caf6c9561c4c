"""Answers before a TPU is paid for: does this training compile, does it fit, how fast could it be?"""

import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.dataset import ArraySource, Batches
from data_pipelines.errors import UsageError
from data_pipelines.layouts import dynamic_features
from data_pipelines.ops.compose import compose
from data_pipelines.stages.packing import PACKINGS
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.vocabulary import SPELLINGS, Vocabulary
from xmodels import systems
from xmodels.jobs.pretrain import BATCH
from xmodels.jobs.step_options import check_batch_size
from xmodels.models.backbone import ModelConfig
from xmodels.objectives.base import Objective
from xmodels.tpu.bounds import Bounds, Cost, bounds
from xmodels.tpu.chips import GIB, Topology
from xmodels.tpu.compiler import check_installed, compile_step
from xmodels.tpu.lowering import Slice, stablehlo
from xmodels.tpu.search import Search
from xmodels.training.learner import Learner, Memory
from xmodels.training.progress import say
from xmodels.training.recipe import Recipe, Records


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of `xmodels tpu_preflight`; None keeps the recipe's number."""

    system: str
    topology: str = "v5e:2x4"
    size: str = "base"
    vocab_file: str | None = None
    vocab_size: int = 30522
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    train_batch_size: int | None = None
    optimizer: str | None = None
    mixed_precision: str = "bfloat16"
    gradient_accumulation_steps: int = 1
    rematerialize: bool = False
    max_compiles: int = 5


@dataclasses.dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        batch_size: examples a step, over all devices.
        cost: of one device at that batch; None where it does not fit.
        limits: how fast the slice could be at most; likewise.
        largest: the largest global batch known to fit; 0 for none.
        too_large: the smallest known not to; None where none was found.
    """

    batch_size: int
    cost: Cost | None
    limits: Bounds | None
    largest: int
    too_large: int | None


def preflight(options: Options, config: ModelConfig | None = None, optimization_level: int | None = None) -> Report:
    """Compiles the training step for the slice, says what it costs, and looks for the largest batch.

    Args:
        config: of the network, in place of `options.size`.
        optimization_level: of the compiler; see `compile_step`.

    Raises:
        DeviceError: the compiler is not installed. UsageError: a flag cannot work.
        DoesNotCompile: the step has an operation that the TPU does not know.
    """
    topology = Topology.parse(options.topology)
    check_installed()
    recipe, records = _recipe(options, config)
    devices = topology.num_devices
    memory = Memory(options.gradient_accumulation_steps, options.rematerialize)
    check_batch_size(options, recipe.batch_size, devices)
    learner = make_learner(recipe, records, devices, options.mixed_precision, memory)
    size = sum(int(np.prod(v.shape)) for v in learner.variables)
    say(
        f"{options.system} ({options.size if config is None else 'own config'}): {size:,} parameters, {recipe.optimizer}, "
        f"{options.mixed_precision if options.mixed_precision != 'none' else 'float32'}; {recipe.batch_size:,} examples of "
        f"{records.sequence_length} tokens on {topology.name} ({topology.num_chips} chips), "
        f"{recipe.batch_size // devices} a device."
    )
    hbm = topology.chip.hbm // topology.chip.cores
    compiling = _compiling(learner, topology, options.max_compiles, optimization_level)
    search = Search(compiling, hbm, unit=memory.micro_batches)
    batch = recipe.batch_size // devices
    search.attempt(batch)
    search.run(options.max_compiles)
    cost = search.fits.get(batch)
    tokens, gradients = recipe.batch_size * records.sequence_length, 4 * size  # float32
    limits = bounds(cost, topology, tokens, gradients) if cost else None
    failing = search.smallest_failing
    report = Report(recipe.batch_size, cost, limits, search.largest * devices, failing and failing * devices)
    _say_report(report, topology, search)
    return report


def _recipe(options: Options, config: ModelConfig | None) -> tuple[Recipe, Records]:
    system = systems.load(options.system)
    sizes = sys.modules[system.MODEL.__module__].SIZES
    if options.size not in sizes:
        raise UsageError(f"--size={options.size}: {options.system} has no such size. Known: {', '.join(sizes)}.")
    vocabulary = open_tokenizer(options.vocab_file).vocabulary if options.vocab_file else stand_in(options.vocab_size)
    records = Records(options.max_seq_length, options.max_predictions_per_seq)
    recipe = system.recipe(vocabulary, records, options.size, config)
    return recipe.override(batch_size=options.train_batch_size, optimizer=options.optimizer), records


def stand_in(size: int) -> Vocabulary:
    """A vocabulary of `size` pieces without meaning: the step depends on their number only."""
    roles = list(SPELLINGS)
    if size <= len(roles):
        raise UsageError(f"--vocab_size={size}: the special tokens alone are {len(roles)}. BERT's has 30522 pieces.")
    return Vocabulary([*roles, *(f"piece{i}" for i in range(size - len(roles)))], f"--vocab_size={size}")


def make_learner(
    recipe: Recipe, records: Records, num_devices: int, mixed_precision: str = "none", memory: Memory | None = None
) -> Learner:  # fmt: skip
    """The learner of one of `num_devices` replicas, with random weights, built without records."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if mixed_precision == "bfloat16" else "float32")
    try:
        backbone, objective = recipe.backbone().initialize(), recipe.objective()
        transform = compose(recipe.frame, objective.transform())
        row = Batches(_nothing(_packing(recipe, objective), records), transform, 1, keep=BATCH).zeros()
        optimizer = recipe.make_optimizer()
        return Learner(
            Slice(num_devices), backbone, objective, optimizer, row, recipe.clip_norm, memory=memory or Memory()
        )
    finally:
        keras.config.set_dtype_policy(before)


def _packing(recipe: Recipe, objective: Objective) -> str:
    """The first --packing of the recipe whose records hold what the objective reads."""
    return next(name for name in recipe.packings if set(objective.reads) <= set(dynamic_features(name)))


def _nothing(packing: str, records: Records) -> ArraySource:
    """One example of zeros, with the features that records of this packing have."""
    width = PACKINGS[packing].num_pieces(records.sequence_length)
    shapes = {
        n: tuple(width if axis is None else axis for axis in f.shape) for n, f in dynamic_features(packing).items()
    }
    return ArraySource({name: np.zeros((1, *shape), np.int64) for name, shape in shapes.items()}, packing)


def _compiling(learner: Learner, topology: Topology, most: int, level: int | None) -> Callable[[int], Cost]:
    """Compiles the step for so many examples a device, and says so."""
    count = 0

    def compiled(batch: int) -> Cost:
        nonlocal count
        count += 1
        say(f"  compiling {count} of at most {most}: {batch:,} examples a device ...")
        rows = {name: tf.zeros((batch, *x.shape[1:]), x.dtype) for name, x in learner.batch.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(stablehlo(learner, rows))
            cost = compile_step(path, topology, level)
        # The compiler counts a loop once. So the update, which stands outside, is counted too often: by little.
        parts = learner.memory.micro_batches
        return dataclasses.replace(cost, flops=parts * cost.flops, bytes_accessed=parts * cost.bytes_accessed)

    return compiled


def _say_report(report: Report, topology: Topology, search: Search) -> None:
    limit = f"{search.hbm / GIB:.2f} GiB a {'core' if topology.chip.cores > 1 else 'chip'}"
    cost, limits = report.cost, report.limits
    if cost is None or limits is None:
        needed = search.fails[report.batch_size // topology.num_devices]
        say(f"Does not fit: {f'{needed / GIB:.2f} GiB' if needed else 'more than'} for temporaries alone, of {limit}.")
    else:
        arguments = cost.arguments + cost.outputs - cost.aliased
        say(f"Compiles for {topology.name}: yes, in {cost.seconds:.0f} s.")
        say(
            f"HBM: {cost.memory / GIB:.2f} of {limit}: weights, optimizer and batch {arguments / GIB:.2f}, temporaries "
            f"{cost.temporaries / GIB:.2f}, program {cost.code / GIB:.2f}."
        )
        say(f"A step of a device: {cost.flops:.3g} FLOP, {cost.bytes_accessed:.3g} bytes read and written.")
        for name, what in (("arithmetic", "peak FLOP/s"), ("bandwidth", "HBM"), ("interconnect", "links")):
            seconds, rate = getattr(limits, name), limits.tokens_per_second(name)
            say(f"  {name:12} {1e3 * seconds:9.3f} ms a step, {rate:.3g} tokens/s at the {what}")
        say(f"No faster than {limits.tokens_per_second(limits.holds):.3g} tokens/s: {limits.holds} holds.")
    beyond = f"; {report.too_large:,} does not" if report.too_large else ""
    say(f"Largest batch known to fit: {report.largest:,} examples{beyond}.")
