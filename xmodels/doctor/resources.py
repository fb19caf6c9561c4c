"""Disk and memory, against what the planned network needs."""

from xmodels.doctor.case import FINETUNE, Case
from xmodels.runs.preflight import check_writable


def folder(case: Case) -> str | None:
    """Returns whether the run folder may be written."""
    if not case.flags.model_dir:
        return None
    check_writable(case.flags.model_dir)
    return f"{case.flags.model_dir} may be written"


def disk(case: Case) -> str | None:
    """Returns room for the states that are kept."""
    from xmodels.runs.memory_check import check_disk

    if not case.flags.model_dir or case.num_parameters is None:
        return None
    return check_disk(case.flags.model_dir, case.num_parameters, case.flags.keep_checkpoint_max)


def memory(case: Case) -> str | None:
    """Returns weights, optimizer and activations of a step, by estimate."""
    from xmodels.jobs.pretrain.network import scored_positions
    from xmodels.runs.memory_check import check_memory

    if case.num_parameters is None:
        return None
    flags = case.flags
    if case.job == FINETUNE:
        batch, length, slots = flags.train_batch_size, flags.max_seq_length, 0
    else:
        batch, length = case.recipe.batch_size, case.records.sequence_length
        slots = scored_positions(case.recipe, case.records)
    return check_memory(flags, case.num_parameters, case.config, batch, length, slots, case.num_replicas)
