"""What would be trained: the configuration and where it comes from, sizes, costs, and the first batch. Writes nothing."""

import math
from collections.abc import Sequence

import keras
import psutil

from data_pipelines.batches.dataset import Batches
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.models.backbone import named_weights
from xmodels.runs.samples import COUNT, classes_of, examples
from xmodels.training.watching.flops import flops_per_token
from xmodels.training.watching.memory_estimate import training_memory
from xmodels.training.watching.peak import peak_flops
from xmodels.training.watching.progress import duration, print_status
from xmodels.training.watching.samples import as_text


def show(
    numbers: Sequence[tuple[str, object, str]], learner, batches: Batches, tokenizer: Tokenizer,
    num_steps: int, labels: list[str] | None = None,
) -> None:  # fmt: skip
    """Prints all of it.

    Args:
        numbers: (name, value, where it comes from) of all that is set, as `numbers.list_numbers` gives them.
        labels: names of the labels, where the examples have one each.
    """
    print_status("\nConfiguration")
    _table(numbers)
    print_status("\nNetwork")
    _table([(name, f"{getattr(learner.backbone.config, name)}", "") for name in learner.backbone.config.to_json()])
    print_status("\nParameters")
    _table([(name, f"{count:,}", "") for name, count in parameters(learner).items()])
    print_status("\nCost")
    _table([(name, value, "") for name, value in costs(learner, batches, num_steps).items()])
    batch = next(iter(batches.training()))
    print_status("\nFirst batch")
    _table([(name, f"{value.dtype.name} {tuple(value.shape)}", "") for name, value in batch.items()])
    print_status("")
    first = {name: value[:COUNT] for name, value in batch.items()}
    first |= learner.first_objective.target_visibility(first)
    for example in examples(first, {}, tokenizer, classes_of(learner.first_objective, labels)):
        print_status(f"  {as_text(example)}\n")
    print_status("Dry run: nothing was written.")


def _table(rows) -> None:
    rows = [tuple(map(str, row)) for row in rows]
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    for name, value, note in rows:
        print_status(f"  {name:{first}}  {value:{min(second, 40)}}  {note}".rstrip())


def parameters(learner) -> dict[str, int]:
    """Returns how many weights each part has, layers of one list together, and the sum."""
    counts: dict[str, int] = {}
    lengths: dict[str, set[str]] = {}
    for prefix, part in (("", learner.backbone), ("objective.", learner.objective)):
        for name, variable in named_weights(part).items():
            first, second, *_ = [*name.split("."), ""]
            counts[prefix + first] = counts.get(prefix + first, 0) + keras.ops.size(variable)
            if second.isdigit():
                lengths.setdefault(prefix + first, set()).add(second)
    named = {f"{name} ({len(lengths[name])})" if name in lengths else name: int(n) for name, n in counts.items()}
    return {**named, "total": sum(named.values())}


def costs(learner, batches: Batches, num_steps: int) -> dict[str, str]:
    """FLOPs, time at the machine's peak, memory, and passes over the examples."""
    zeros = batches.zeros()
    a_token = flops_per_token(learner.backbone, learner.first_objective, zeros)
    tokens = zeros["padding_mask"].shape.num_elements()
    peak = peak_flops(learner.strategy, keras.config.dtype_policy().compute_dtype)
    memory = training_memory(learner, zeros)
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in memory.items() if size)
    passes = num_steps * batches.batch_size / batches.source.num_examples
    found = {
        "compute": f"{_large(a_token)}FLOPs a token in training (three times the matrix products of the forward pass), "
        f"{_large(a_token * tokens)}FLOPs a step of {tokens:,} tokens",
    }
    if peak and a_token:  # tables of words multiply no matrices
        speed = peak["flops_per_second"] / a_token
        found["at the peak of this machine"] = (
            f"{_large(peak['flops_per_second'])}FLOPs a second ({peak['dtype']}, {peak['how']}): at most {speed:,.0f} tokens "
            f"a second, {duration(num_steps * tokens / speed)} for all steps"
        )
    found["memory per device (about)"] = f"{_gib(sum(memory.values()))} ({parts})"
    found["free memory of this machine"] = f"{_gib(psutil.virtual_memory().available)}"
    found["steps"] = (
        f"{num_steps:,} of {batches.batch_size:,} examples: {passes:,.3g} passes over {batches.source.num_examples:,}"
        if len(learner.streams) == 1
        else f"{num_steps:,}, of {len(learner.streams)} sources in turn; this shows the first one"
    )
    return found


def _large(number: float) -> str:
    """Returns `21.0 G` for 2.1e10, with the letter of the unit that follows."""
    size = min(5, max(0, int(math.log10(max(number, 1)) // 3)))
    return f"{number / 1000**size:.3g} {' kMGTP'[size].strip()}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
