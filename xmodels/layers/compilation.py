"""Functions of large tensors that become one compiled loop where the training step asks for it.

On a processor each operation goes through all its numbers, and many of them do not stay in its caches until the next operation.
Networks name no backend: the step says what compiles a function (docs/decisions/compiled-loops.md).
"""

import contextlib
import math
from collections.abc import Callable

MANY = 1 << 18  # numbers from which it pays: a megabyte of float32
_COMPILE: list[Callable | None] = []


@contextlib.contextmanager
def compiled(compile_function: Callable | None):
    """Lets functions of many numbers that are called inside be compiled.

    Args:
        compile_function: maps a function of tensors to a compiled one. It is called wherever one is used, always with one of the
            same few functions. None leaves them as they are.
    """
    _COMPILE.append(compile_function)
    try:
        yield
    finally:
        _COMPILE.pop()


def is_worth_compiling(shape) -> bool:
    """Returns whether functions of a tensor of that shape, static or not, are to be compiled."""
    return bool(_COMPILE) and _COMPILE[-1] is not None and None not in shape and math.prod(shape) >= MANY


def compiled_form(function: Callable) -> Callable:
    """Returns a function of tensors as `compiled` has it compiled."""
    return _COMPILE[-1](function)
