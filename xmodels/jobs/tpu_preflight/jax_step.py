"""`xmodels tpu_preflight --backend=jax`: one batch, in a process of its own, since a process has one Keras backend.

`python -m xmodels.jobs.tpu_preflight.jax_step QUESTION` prints one line of JSON for `xmodels.tpu.compiler.ask`.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping

import numpy as np

from xmodels.models.config import TokenConfig
from xmodels.tpu import compiler
from xmodels.tpu.bounds import Cost
from xmodels.tpu.chips import Topology
from xmodels.tpu.compiler import DoesNotCompile


def compile_batch(options, config: TokenConfig | None, rows: int, level: int | None) -> Cost:
    """Compiles the step of `xmodels tpu_preflight` for `rows` examples a device.

    Raises:
        As `compiler.compile_step`; DoesNotCompile also says that the step cannot be built on JAX.
    """
    question = {
        "options": dataclasses.asdict(options),
        "config": config and config.to_json(),
        "rows": rows,
        "level": level,
    }
    return compiler.ask("xmodels.jobs.tpu_preflight.jax_step", [json.dumps(question)], {"KERAS_BACKEND": "jax"})


def _answer(question: Mapping) -> Mapping:
    from xmodels import systems
    from xmodels.jobs.tpu_preflight.options import Options
    from xmodels.jobs.tpu_preflight.step import make_recipe, precision
    from xmodels.tpu.jax_program import compile_lowered

    options, config = Options(**question["options"]), question["config"]
    if config:
        config = systems.load(options.system).MODEL.config_class.from_json(config)
    devices = np.array(compiler.devices_of(Topology.parse(options.topology)))
    try:
        with precision(options.mixed_precision):
            lowered = _lower_step(options, *make_recipe(options, config), devices, question["rows"])
    except Exception as error:
        first = (str(error).strip() or repr(error)).splitlines()[0]
        raise DoesNotCompile(
            f"The step of {options.system} cannot be built with Keras' JAX backend: {type(error).__name__}: {first[:300]}. "
            "--backend=tensorflow, with which `xmodels pretrain` trains, may do."
        ) from error
    return compile_lowered(lowered, question["level"])


def _lower_step(options, recipe, records, devices: np.ndarray, rows: int):
    from xmodels.jobs.tpu_preflight.step import make_row_of_zeros
    from xmodels.tpu.jax_program import Program, lower

    backbone, objective, optimizer = recipe.backbone().initialize(), recipe.objective(), recipe.make_optimizer()
    row = {name: x.numpy() for name, x in make_row_of_zeros(recipe, backbone, objective, records).zeros().items()}
    program = Program(backbone, objective, optimizer, row, recipe.clip_norm, options.rematerialize)
    return lower(program, devices, rows)


if __name__ == "__main__":
    compiler.answer(lambda: _answer(json.loads(sys.argv[1])))
