"""A batch of mixed lengths inside a graph: rows of like length go through the network together, so that little is padding."""

from collections.abc import Callable, Mapping

import tensorflow as tf

MIN_ROWS = 4  # of a part, which has a multiple of them: few shapes, for which oneDNN keeps its kernels
MAX_PARTS = 8
PADDING = 0.15  # the share of a batch from which it is parted


def answer_in_parts(
    answer: Callable[[dict[str, tf.Tensor]], Mapping[str, tf.Tensor]],
    features: Mapping[str, tf.Tensor],
    per_token: bool = False,
) -> dict[str, tf.Tensor]:
    """Returns what `answer` gives to a batch, in the order of its rows.

    A batch that is mostly text goes through the network at once. Another is sorted by length and parted, and each part is only as
    wide as its longest row.

    Args:
        answer: from features to outputs, whose first axis is that of the rows.
        features: the inputs of the network, (B, L) or (B, S, L), `padding_mask`, bool, among them; others may have further axes
            behind that of the tokens. L is 1 at least.
        per_token: whether the second axis of all outputs is that of the tokens, which is filled up with zeros to L; else no axis may
            depend on L.
    """
    count_given = tf.shape(features["padding_mask"])[0]
    spare = tf.cast(count_given == 0, tf.int32)  # not all kernels take a batch without rows: convolutions do not
    features = {n: tf.pad(x, [[0, spare], *[[0, 0]] * (x.shape.rank - 1)]) for n, x in features.items()}
    mask = features["padding_mask"]
    axis = mask.shape.rank - 1  # of the tokens
    specs = {
        n: tf.TensorSpec([None, *x.shape[1:axis], None, *x.shape[axis + 1 :]], x.dtype, name=n)
        for n, x in features.items()
    }
    graph = tf.function(answer, autograph=False).get_concrete_function(specs)
    names = sorted(graph.structured_outputs)
    lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=-1)  # (B,) or (B, S)
    lengths = tf.reduce_max(lengths, axis=list(range(1, lengths.shape.rank)))  # (B,)
    order = tf.argsort(lengths, stable=True)
    width = tf.shape(mask)[-1]
    size, count = parts(lengths, width)

    def one_part(index, *found):
        rows = order[index * size : (index + 1) * size]
        part = {n: tf.gather(x, rows) for n, x in features.items()}
        columns = used_columns(part["padding_mask"])
        outputs = graph({n: tf.gather(x, columns, axis=axis) for n, x in part.items()})
        if per_token:
            margins = [columns[0], width - 1 - columns[-1]]  # padding stands on one side, so columns are neighbours
            outputs = {n: tf.pad(x, [[0, 0], margins, *[[0, 0]] * (x.shape.rank - 2)]) for n, x in outputs.items()}
        return index + 1, *(array.write(index, outputs[n]) for n, array in zip(names, found, strict=True))

    arrays = []
    for name in names:
        spec = graph.structured_outputs[name]
        shape = [None, None, *spec.shape[2:]] if per_token else [None, *spec.shape[1:]]
        arrays.append(tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=shape))
    _, *found = tf.while_loop(lambda index, *_: index < count, one_part, (0, *arrays))
    back = tf.argsort(order)[:count_given]
    return {name: tf.gather(array.concat(), back) for name, array in zip(names, found, strict=True)}


def parts(lengths: tf.Tensor, width: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the rows of a part, and how many parts there are, both int32 and 1 at least."""
    rows = tf.size(lengths)
    real = tf.cast(tf.reduce_sum(lengths), tf.float32)
    padded = real < (1 - PADDING) * tf.cast(rows, tf.float32) * tf.cast(width, tf.float32)
    size = tf.where(padded, -(-rows // (MAX_PARTS * MIN_ROWS)) * MIN_ROWS, tf.maximum(rows, 1))
    return size, tf.maximum(-(-rows // size), 1)


def used_columns(mask: tf.Tensor) -> tf.Tensor:
    """Returns the columns that are not padding in all rows, int32; one at least."""
    used = tf.reduce_any(mask, axis=list(range(mask.shape.rank - 1)))  # (L,)
    used |= (tf.range(tf.size(used)) == 0) & ~tf.reduce_any(used)
    return tf.cast(tf.where(used)[:, 0], tf.int32)
