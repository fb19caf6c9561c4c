"""Weight initialisation shared by the Transformer family."""

import keras


def truncated_normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """Normal, cut at two standard deviations (BERT's `create_initializer`; GPT uses the same 0.02)."""
    return keras.initializers.TruncatedNormal(stddev=stddev)
