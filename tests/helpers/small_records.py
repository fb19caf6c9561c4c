"""Single records, for tests that write shards by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.records.encoding import encode_examples


def encode_example(values: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """Returns one serialized `tf.train.Example` from lists."""
    columns = {}
    for name, value in values.items():
        dtype = np.float32 if value and isinstance(value[0], float) else np.int64
        columns[name] = np.array(value, dtype), np.array([len(value)])
    return encode_examples(columns)[0]
