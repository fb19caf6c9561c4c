"""Answers before a TPU is paid for: does this training compile, does it fit, how fast could it be?"""

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from xmodels.jobs.step_options import check_batch_size
from xmodels.jobs.tpu_preflight.jax_step import compile_batch
from xmodels.jobs.tpu_preflight.options import Options
from xmodels.jobs.tpu_preflight.step import make_learner, make_recipe
from xmodels.models.config import TokenConfig
from xmodels.tpu.bounds import Bounds, Cost, bounds
from xmodels.tpu.chips import GIB, Topology
from xmodels.tpu.compiler import check_installed, compile_step
from xmodels.tpu.lowering import stablehlo
from xmodels.tpu.search import Search
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.step.streams import ONLY
from xmodels.training.watching.progress import print_status


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


def preflight(options: Options, config: TokenConfig | None = None, optimization_level: int | None = None) -> Report:
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
    recipe, records = make_recipe(options, config)
    devices = topology.num_devices
    memory = Memory(options.gradient_accumulation_steps, options.rematerialize)
    check_batch_size(options, recipe.batch_size, devices)
    if options.backend == "jax" and memory.micro_batches > 1:
        raise UsageError(
            f"--gradient_accumulation_steps={memory.micro_batches}: the step of --backend=jax has no micro-batches. Leave one "
            "of both out."
        )
    learner = make_learner(recipe, records, devices, options.mixed_precision, memory)
    size = sum(int(np.prod(v.shape)) for v in learner.variables)
    print_status(
        f"{options.system} ({options.size if config is None else 'own config'}): {size:,} parameters, {recipe.optimizer}, "
        f"{options.mixed_precision if options.mixed_precision != 'none' else 'float32'}; {recipe.batch_size:,} examples of "
        f"{records.sequence_length} tokens on {topology.name} ({topology.num_chips} chips), "
        f"{recipe.batch_size // devices} a device."
    )
    hbm = topology.chip.hbm // topology.chip.cores
    if options.backend == "jax":
        compiling = functools.partial(compile_batch, options, config, level=optimization_level)
    else:
        compiling = _make_compiler(learner, topology, optimization_level)
    search = Search(_with_progress(compiling, options.max_compiles), hbm, unit=memory.micro_batches)
    batch = recipe.batch_size // devices
    search.attempt(batch)
    cost = search.fits.get(batch)
    tokens, gradients = recipe.batch_size * records.sequence_length, 4 * size  # float32
    limits = bounds(cost, topology, tokens, gradients) if cost else None
    limit = f"{search.hbm / GIB:.2f} GiB a {'core' if topology.chip.cores > 1 else 'chip'}"
    if cost and limits:
        _print_fit(cost, limits, topology, limit)
    else:
        _print_misfit(search.fails[batch], limit)
    search.run(options.max_compiles)
    failing = search.smallest_failing
    report = Report(recipe.batch_size, cost, limits, search.largest * devices, failing and failing * devices)
    beyond = f"; {report.too_large:,} does not" if report.too_large else ""
    print_status(f"Largest batch known to fit: {report.largest:,} examples{beyond}.")
    return report


def _with_progress(compiling: Callable[[int], Cost], most: int) -> Callable[[int], Cost]:
    """Returns the same, but it says what it does."""
    count = 0

    def compiled(rows: int) -> Cost:
        nonlocal count
        count += 1
        print_status(f"  compiling {count} of at most {most}: {rows:,} examples a device ...")
        return compiling(rows)

    return compiled


def _make_compiler(learner: Learner, topology: Topology, level: int | None) -> Callable[[int], Cost]:
    """Compiles the step that TensorFlow traces for so many examples a device."""

    def compiled(rows: int) -> Cost:
        batch = {
            name: tf.zeros((rows, *x.shape[1:]), x.dtype) for name, x in learner.streams[ONLY].batches.zeros().items()
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(stablehlo(learner, batch))
            cost = compile_step(path, topology, level)
        # The compiler counts a loop once. So the update, which stands outside, is counted too often: by little.
        parts = learner.memory.micro_batches
        return dataclasses.replace(cost, flops=parts * cost.flops, bytes_accessed=parts * cost.bytes_accessed)

    return compiled


def _print_fit(cost: Cost, limits: Bounds, topology: Topology, limit: str) -> None:
    arguments = cost.arguments + cost.outputs - cost.aliased
    print_status(f"Compiles for {topology.name}: yes, in {cost.seconds:.0f} s.")
    print_status(
        f"HBM: {cost.memory / GIB:.2f} of {limit}: weights, optimizer and batch {arguments / GIB:.2f}, temporaries "
        f"{cost.temporaries / GIB:.2f}, program {cost.code / GIB:.2f}."
    )
    print_status(f"A step of a device: {cost.flops:.3g} FLOP, {cost.bytes_accessed:.3g} bytes read and written.")
    for name, what in (("arithmetic", "peak FLOP/s"), ("bandwidth", "HBM"), ("interconnect", "links")):
        seconds, rate = getattr(limits, name), limits.tokens_per_second(name)
        print_status(f"  {name:12} {1e3 * seconds:9.3f} ms a step, {rate:.3g} tokens/s at the {what}")
    print_status(f"No faster than {limits.tokens_per_second(limits.holds):.3g} tokens/s: {limits.holds} holds.")


def _print_misfit(needed: int | None, limit: str) -> None:
    print_status(
        f"Does not fit: {f'{needed / GIB:.2f} GiB' if needed else 'more than'} for temporaries alone, of {limit}."
    )
