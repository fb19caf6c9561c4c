"""Graphs that go when nobody needs them any more, so that one process can train many networks."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def function_of(owner: Any, function: Callable, **options) -> Callable:
    """Returns `tf.function(function, **options)` whose graphs are taken apart when `owner` is collected.

    Operations of a graph refer to their graph in C++, where Python's collector does not look. A graph that has called another
    function would stay for ever, with all variables that both have captured: four times the weights for each training.
    """
    graphs: list[tf.Graph] = []

    def noted(*args, **kwargs):
        if tf.inside_function():  # and not run eagerly, where the graph would be that of the process
            graphs.append(tf.compat.v1.get_default_graph())
        return function(*args, **kwargs)

    weakref.finalize(owner, _dismantle, graphs).atexit = False
    # A partial, or TensorFlow takes the functions of all streams for a single one that is retraced, and warns.
    return tf.function(functools.partial(noted), **options)


def _dismantle(graphs: list[tf.Graph]) -> None:
    """Takes graphs apart, and those of the loops and functions that they call."""
    from tensorflow.python.framework.func_graph import dismantle_func_graph  # no public name does it

    waiting, known = list(graphs), {id(graph) for graph in graphs}
    graphs.clear()
    while waiting:
        graph = waiting.pop()
        for function in list(graph._functions.values()):
            inner = getattr(function, "graph", None)
            if inner is not None and id(inner) not in known:
                known.add(id(inner))
                waiting.append(inner)
        dismantle_func_graph(graph)
        _ = graph._function_captures.by_val_capture_tuples  # made anew, or a copy would keep what was captured
