"""Answers of a network on all devices of a strategy: each gets a part of the rows of a batch."""

from collections.abc import Callable

import keras
import numpy as np


def answer_on_replicas(answer: Callable, strategy) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Returns `answer` as a function from arrays to arrays, one graph for all lengths.

    The last row is repeated where rows are no multiple of the devices.

    Args:
        answer: a function of the features of a batch, whose first axis is that of rows, as that of what it returns is.
        strategy: of TensorFlow, in whose scope the network was made.
    """
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    graph = tf.function(lambda parts: strategy.run(answer, args=(parts,)), reduce_retracing=True, autograph=False)

    def function(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = len(next(iter(features.values())))
        places = np.minimum(np.arange(count * -(-rows // count)), rows - 1).reshape(count, -1)

        def part(context):
            own = places[context.replica_id_in_sync_group]
            return {name: tf.constant(value[own]) for name, value in features.items()}

        found = graph(strategy.experimental_distribute_values_from_function(part))
        arrays = {
            name: [keras.ops.convert_to_numpy(each) for each in strategy.experimental_local_results(value)]
            for name, value in found.items()
        }
        return {name: np.concatenate(parts)[:rows] for name, parts in arrays.items()}

    return function
