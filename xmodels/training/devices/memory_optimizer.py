"""TensorFlow's memory optimizer, which may rewrite sums of gradients in loops so that they fail."""

from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.eager import context  # no public name sets it


def turn_off_memory_optimizer() -> None:
    """Keeps TensorFlow from computing sums in a temporary variable.

    Where a graph needs more than 205 MB, its memory optimizer does so with sums of three tensors and more whose shapes are known.
    In a loop the variable of one turn may still be there in the next, and the step ends with "AlreadyExistsError: ... tmp_var"
    (TensorFlow's issues 23780 and 37740): so ended CoVe's translator with batches of 32 pairs of 64 words and 10,000 words to choose
    from. A step of BERT takes as much memory and time without it.
    """
    found = context.context()
    config = config_pb2.ConfigProto()
    if found._config is not None:
        config.CopyFrom(found._config)
    config.graph_options.rewrite_options.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    found._config = config
    found.function_call_options = None  # which hold the configuration of before
