"""How much a network computes, counted in its graph, and how much the machine could.

One multiplication and one addition are two FLOPs. Only matrix multiplications count, in whatever form they stand in the
graph (MatMul, BatchMatMul, Einsum, convolutions): for a Transformer that is 2 per weight of a Dense layer and token,
plus 4 L D per layer and token for the attention over L keys, plus the head at the positions that are scored. Training
counts three times the forward pass, as the backward pass multiplies twice as much (Kaplan et al., 2020, section 2.1), but
that of a teacher once. What rematerialisation computes again is not counted (Chowdhery et al., 2022, appendix B: model FLOPs
utilisation).
"""

import math
import re

import tensorflow as tf

TRAINING = 3  # passes forward and backward, in units of the forward pass


def flops_per_token(backbone, objective, batch) -> float:
    """FLOPs that training spends on one position of a batch of this shape, padding included."""
    return training_flops(backbone, objective, forward_flops(backbone, objective, batch), batch) / _positions(batch)


def training_flops(backbone, objective, forward: float, batch) -> float:
    """FLOPs of a step, from those of its forward pass; what `Objective.teach` computes has no backward pass."""
    fixed = count(trace(objective.teach, batch)) if objective.fixed_weights else 0.0
    return passes(backbone) * (forward - fixed) + fixed


def passes(backbone) -> int:
    """Passes in units of the forward one: a network of which nothing learns has no backward pass, and heads are small beside it."""
    return TRAINING if backbone.trainable_variables else 1


def of_learner(learner, batch) -> float:
    """Works as `flops_per_token`. Where it can it counts in the graph that evaluates, which is then traced already for such
    batches."""
    first, *others = learner.passes.values()
    if others or first.carried:
        return flops_per_token(learner.backbone, learner.first_objective, batch)
    forward = count(first.evaluate_batch.get_concrete_function(batch).graph)
    return training_flops(learner.backbone, learner.first_objective, forward, batch) / _positions(batch)


def forward_flops(backbone, objective, batch) -> float:
    """FLOPs of one forward pass with its losses.

    Args:
        batch: the features, with static shapes; only shapes and types are read.
    """
    return count(trace(lambda features: _losses(backbone, objective, features), batch))


def trace(function, batch) -> tf.Graph:
    """Returns the graph of a function of a batch."""
    specs = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
    return tf.function(function, autograph=False).get_concrete_function(specs).graph


def _losses(backbone, objective, features):
    return objective.run(backbone, features, training=False)[1]


def _positions(batch) -> int:
    return math.prod(batch["padding_mask"].shape)


def count(graph: tf.Graph) -> float:
    """FLOPs of the matrix multiplications of a graph with static shapes, and of the functions that it calls.

    What no output needs is not counted: TensorFlow leaves it out, such as the element that `keras.ops.map` tries beforehand. The
    body of a loop counts as often as its `maximum_iterations` or its condition says, or once where neither says anything.
    """
    definition = graph.as_graph_def(add_shapes=True)
    library = {function.signature.name: function for function in definition.library.function}
    nodes = _needed(definition.node, [tensor.op.name for tensor in graph.outputs])
    return _count(nodes, _shapes(definition.node), library)


def _needed(nodes, outputs: list[str]) -> list:
    """Returns the nodes on which the outputs depend."""
    by_name, waiting = {node.name: node for node in nodes}, list(outputs)
    found: dict = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = by_name[name]
            waiting += map(_source, by_name[name].input)
    return list(found.values())


def _count(nodes, shapes, library) -> float:
    by_name = {node.name: node for node in nodes}
    total = 0.0
    for node in nodes:
        total += _multiplications(node, shapes)
        times = 1
        for name, attribute in node.attr.items():
            function = library.get(attribute.func.name)
            if function is None or name == "cond":
                continue
            if name == "body":
                bound = _constant(node.input[1], by_name)
                times = max(_iterations(bound), _iterations(_bound_of(library.get(node.attr["cond"].func.name))))
            inner = _shapes(function.node_def, function)
            total += times * _count(function.node_def, inner, library)
    return total


def _multiplications(node, shapes) -> float:
    """FLOPs of one node itself."""
    if node.op not in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D"):
        return 0.0
    inputs = [_shape_of(name, shapes) for name in node.input]
    if node.op == "Einsum":
        return 2.0 * _einsum_size(node.attr["equation"].s.decode(), inputs)
    result = math.prod(shapes[node.name][0])
    if node.op == "Conv2D":
        return 2.0 * result * math.prod(inputs[1][:-1])
    turned = node.attr["transpose_a"].b or node.attr["adj_x"].b
    return 2.0 * result * inputs[0][-2 if turned else -1]


def _einsum_size(equation: str, inputs) -> int:
    """Returns how many products an einsum without repeated labels sums: the size of all its labels together."""
    sizes: dict[str, int] = {}
    for labels, shape in zip(equation.split("->")[0].split(","), inputs, strict=True):
        labels = labels.strip()
        spread = len(shape) - len(labels.replace("...", ""))
        labels = labels.replace("...", "".join(chr(0x3B1 + i) for i in range(spread)))
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return math.prod(sizes.values())


def _shapes(nodes, function=None) -> dict[str, list[list[int]]]:
    """Returns the output shapes of all nodes, and of the arguments of a function; an unknown dimension counts as 1."""
    shapes = {node.name: _known_shapes(node.attr["_output_shapes"]) for node in nodes}
    if function is not None:
        for index, argument in enumerate(function.signature.input_arg):
            shapes[argument.name] = _known_shapes(function.arg_attr[index].attr["_output_shapes"])
    return shapes


def _known_shapes(attribute) -> list[list[int]]:
    return [[max(1, axis.size) for axis in shape.dim] for shape in attribute.list.shape]


def _source(name: str) -> str:
    return name.lstrip("^").partition(":")[0]


def _shape_of(name: str, shapes) -> list[int]:
    """Returns the shape behind `node`, `node:1` (in a graph) or `node:output:1` (in a function)."""
    found = shapes[_source(name)]
    index = re.search(r":(\d+)$", name)
    return found[min(int(index[1]) if index else 0, len(found) - 1)]


def _constant(name: str, nodes):
    """Returns the constant that a node passes on; None where it is none. Keras' recurrent layers take the largest of one
    length."""
    node = nodes.get(_source(name))
    while node is not None and node.op in ("Max", "Identity", "Cast"):
        node = nodes.get(_source(node.input[0]))
    return node.attr["value"].tensor if node is not None and node.op == "Const" else None


def _bound_of(condition):
    """Returns the constant below which the condition of a loop holds the number of its rounds; None where it has none."""
    if condition is None:
        return None
    nodes = {node.name: node for node in condition.node_def}
    for node in condition.node_def:
        if node.op == "Less" and (found := nodes.get(_source(node.input[1]))) is not None and found.op == "Const":
            return found.attr["value"].tensor
    return None


def _iterations(tensor) -> int:
    """Returns the rounds of a loop, where the graph knows them."""
    value = int(tf.make_ndarray(tensor)) if tensor is not None and not tensor.tensor_shape.dim else 1
    return max(1, value)
