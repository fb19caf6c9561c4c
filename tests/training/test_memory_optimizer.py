"""TensorFlow's memory optimizer, which ends steps of large recurrent decoders, is off in every graph that trains."""

from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.eager import context

from xmodels.training.devices import distribution


def test_graphs_are_called_without_the_memory_optimizer():
    distribution.choose("one_device")
    called = config_pb2.ConfigProto.FromString(context.context().function_call_options.config_proto_serialized)
    for config in (called, context.context().config):
        assert (
            config.graph_options.rewrite_options.memory_optimization
            == rewriter_config_pb2.RewriterConfig.MemOptType.NO_MEM_OPT
        )
