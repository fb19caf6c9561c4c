"""Which parts of a teacher are learnt, and which layer from which: --distill_layers and --distill_layer_map."""

import math

from data_pipelines.errors import UsageError

EMBEDDINGS, HIDDEN, ATTENTION = PARTS = ("embeddings", "hidden", "attention")
ALL = "all"
UNIFORM, TOP, BOTTOM = MAPS = ("uniform", "top", "bottom")  # the paper's names, section 4.5
Pairs = tuple[tuple[int, int], ...]


def parse_parts(given: str) -> tuple[str, ...]:
    """Returns the parts that --distill_layers names, in the order of `PARTS`.

    Raises:
        UsageError: it names another one.
    """
    named = tuple(part.strip() for part in given.split(","))
    if named == (ALL,):
        return PARTS
    if unknown := [part for part in named if part not in PARTS]:
        raise UsageError(
            f"--distill_layers={given}: unknown part {unknown[0]!r}. Expected {', '.join(PARTS)}, or {ALL}."
        )
    return tuple(part for part in PARTS if part in named)


def parse_map(given: str) -> str | Pairs:
    """Returns the value of --distill_layer_map: one of `MAPS`, or pairs.

    Raises:
        UsageError: it is neither, or names a layer of the network twice.
    """
    if given in MAPS:
        return given
    pairs = [tuple(part.strip() for part in pair.split(":")) for pair in given.split(",")]
    if not all(len(pair) == 2 and all(each.isdecimal() for each in pair) for pair in pairs):
        raise UsageError(
            f"--distill_layer_map={given}: expected {', '.join(MAPS)}, or pairs of a layer of the network and one of the teacher, "
            "such as 1:2,2:4."
        )
    found = tuple((int(m), int(n)) for m, n in pairs)
    if len({m for m, _ in found}) < len(found):
        raise UsageError(
            f"--distill_layer_map={given}: a layer of the network stands there twice; it learns from one layer of the teacher."
        )
    return found


def map_layers(given: str, ours: int, theirs: int) -> Pairs:
    """Returns from which layer of the teacher each layer of the network learns, as --distill_layer_map says.

    Args:
        ours, theirs: the numbers of layers, M and N.

    Raises:
        UsageError: as `parse_map`; or it names a layer that is not there, or does not go with the numbers of layers.
    """
    flag, found, numbers = f"--distill_layer_map={given}", parse_map(given), range(1, ours + 1)
    if found == UNIFORM and theirs % ours:
        near = ",".join(f"{m}:{math.ceil(m * theirs / ours)}" for m in numbers)
        raise UsageError(
            f"{flag}: the teacher has {theirs} layers, no multiple of the {ours} of the network. Take {TOP} or {BOTTOM}, or pairs, "
            f"such as {near}."
        )
    if found in (TOP, BOTTOM) and ours > theirs:
        raise UsageError(
            f"{flag}: the network has {ours} layers, the teacher {theirs}, which are fewer. Name pairs, such as 1:1,{ours}:{theirs}."
        )
    if not isinstance(found, str):
        if wrong := next((pair for pair in found if not (0 < pair[0] <= ours and 0 < pair[1] <= theirs)), None):
            raise UsageError(
                f"{flag}: has the pair {wrong[0]}:{wrong[1]}, but the network has the layers 1 to {ours}, the teacher 1 to {theirs}."
            )
        return found
    layer = {UNIFORM: lambda m: m * theirs // ours, TOP: lambda m: m + theirs - ours, BOTTOM: lambda m: m}[found]
    return tuple((m, layer(m)) for m in numbers)
