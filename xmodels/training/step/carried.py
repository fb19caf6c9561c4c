"""States that a network carries from batch to batch: the memory of a Transformer-XL, the states of an LSTM."""

import tensorflow as tf

from data_pipelines.errors import UsageError
from xmodels.training.step.precision import ONCE


class Carried:
    """The memory of a whole batch, as `backbone.initial_memory` returns it, kept between steps and saved with a state.

    It is used only if the rows of a batch continue those of the previous one (`Batches.continues`); if examples are unrelated,
    every batch starts without a memory. Every replica holds the memory of all rows and updates that of its own, so that a run
    can be resumed with another number of replicas.

    Args:
        backbone: a network with a memory.
        batch_size: rows of all replicas.
        micro_batches: parts of a batch; must be 1.

    Raises:
        UsageError: there are several micro-batches, which cannot share a memory.
    """

    def __init__(self, backbone, batch_size: int, micro_batches: int):
        if micro_batches > 1:
            raise UsageError(
                f"--gradient_accumulation_steps={micro_batches}: a {type(backbone).__name__} carries a memory from step to step, "
                "which micro-batches cannot share. Leave the flag out."
            )
        start = backbone.initial_memory(batch_size)
        self.memory = {name: tf.Variable(value, trainable=False, aggregation=ONCE) for name, value in start.items()}

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {f"carried.{name}": variable for name, variable in self.memory.items()}

    def rows(self, replica, batch) -> dict[str, tf.Tensor]:
        """Returns the features of a replica's share of a batch, with the memory of its rows."""
        count = next(iter(batch.values())).shape[0]
        return {**batch, **{name: v[replica * count :][:count] for name, v in self.memory.items()}}

    def next_memory(self, outputs, context, finite) -> list[tf.Tensor]:
        """Returns the memory of all rows after a step; unchanged if the step is skipped."""
        whole = {name: context.all_gather(outputs[name], axis=0) for name in self.memory}
        return [tf.where(finite, whole[name], before) for name, before in self.memory.items()]

    def assign(self, values: list[tf.Tensor]) -> None:
        for variable, value in zip(self.memory.values(), values, strict=True):
            variable.assign(value)
