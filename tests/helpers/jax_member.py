"""The steps of `tpu.jax_program` on two CPUs of jax: `python -m tests.helpers.jax_member FOLDER`, with KERAS_BACKEND=jax.

Reads the weights of before.npz, takes a step on each batch of `batches`, and writes after.npz: all weights and what was told.
"""

import sys

import numpy as np

from tests.helpers.small_learner import make_batches, make_network, make_optimizer
from xmodels.models.backbone import named_weights
from xmodels.tpu.jax_program import Program, lower

NUMBERS = {"optimizer": "adamw", "clip_norm": 0.1}


def batches():
    """Three batches, the second of which cannot be learnt from."""
    first, second, third = make_batches(3)
    return [first, second | {"label_weights": np.full_like(second["label_weights"], np.nan)}, third]


def main(folder):
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    backbone, objective = make_network()
    row = {name: np.zeros_like(x[:1]) for name, x in batches()[0].items()}
    program = Program(backbone, objective, make_optimizer(NUMBERS["optimizer"]), row, NUMBERS["clip_norm"])
    parts = (("backbone", backbone), (objective.prefix, objective))
    weights = {f"{prefix}.{n}": v for prefix, part in parts for n, v in named_weights(part).items()}
    before = np.load(f"{folder}/before.npz")
    for name, variable in weights.items():
        variable.assign(before[name])
    rows = len(batches()[0]["labels"]) // jax.device_count()
    step, state, told = lower(program, np.array(jax.devices()), rows).compile(), program.state(), []
    for batch in batches():
        placed = jax.device_put((state, {}, batch), step.input_shardings[0])
        state, _, sums = step(*placed)
        told.append(np.array(sums))
    names = {id(v): name for name, v in weights.items()}
    after = {names[id(v)]: np.array(x) for v, x in zip(program.variables, state[0], strict=True)}
    np.savez(f"{folder}/after.npz", told=np.stack(told), **after)


if __name__ == "__main__":
    main(sys.argv[1])
