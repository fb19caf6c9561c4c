"""Whether disk and memory hold what a training makes, before its first step."""

from xmodels.models.config import TokenConfig
from xmodels.runs.preflight import check_space, count_held_bytes, disk_need, format_size
from xmodels.training.devices import distribution
from xmodels.training.watching import memory_need


def check_disk(model_dir: str, num_parameters: int, kept: int) -> str:
    """Returns the states of a run against the free disk; says both. Raises a DataError where they do not fit."""
    need = disk_need(num_parameters, kept + 1)
    free = check_space(model_dir, need, count_held_bytes(model_dir))
    return f"{format_size(need)} for {kept} states, the best one, one being written, and the network; {format_size(free)} free"


def check_memory(
    options, num_parameters: int, config: TokenConfig, batch_size: int, length: int, num_predictions: int = 0,
    num_replicas: int = 1, built: bool = False,
) -> str:  # fmt: skip
    """Returns the need of a step on each device against its free memory, as `training.memory_need` estimates; says it.

    Args:
        options: those of the command, for precision, accumulation and recomputation.
        num_parameters: of network and heads.
        batch_size: over all devices.
        built: whether the network is in memory already.
    """
    on_gpu = distribution.num_gpus() > 0
    parts = options.gradient_accumulation_steps * (num_replicas if on_gpu else 1)  # virtual CPUs share one memory
    half, again = options.mixed_precision != "none", options.rematerialize
    rows = max(1, batch_size // parts)
    activations = memory_need.activation_bytes(config, rows, length, num_predictions, half, again)
    taken = 0 if on_gpu else memory_need.process_bytes()
    if built and on_gpu:
        taken = num_parameters * memory_need.STEP_BYTES
    return memory_need.check_memory(num_parameters, activations, memory_need.free_bytes(on_gpu), on_gpu, taken)


def check_resources(options, learner, batch_size: int, length: int, num_predictions: int = 0) -> None:
    """Checks memory and disk for a learner that is built; `options` are those of its command."""
    count = learner.backbone.count_params() + learner.objective.count_params()
    check_disk(options.model_dir, count, options.keep_checkpoint_max)
    replicas = learner.strategy.num_replicas_in_sync
    check_memory(options, count, learner.backbone.config, batch_size, length, num_predictions, replicas, built=True)
