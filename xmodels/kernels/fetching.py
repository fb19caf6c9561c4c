"""Rows of large tables that are asked for before they are read: a step of words waits for memory more than it computes."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from xmodels.kernels.vectors import jit

AHEAD = 4  # rows
LINE = 64  # bytes that memory gives at a time
BYTE, INT = ir.IntType(8), ir.IntType(32)
TO_WRITE, KEEP, OF_DATA = (ir.Constant(INT, number) for number in (1, 3, 1))


@intrinsic
def prefetch(context, table, row, column):
    """Asks for the memory of `table[row, column]`, which must be there, and goes on."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], array, arguments[1:], wraparound=False)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), INT, INT, INT]), "llvm.prefetch.p0i8"
        )
        builder.call(function, [builder.bitcast(place, BYTE.as_pointer()), TO_WRITE, KEEP, OF_DATA])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate


@jit
def fetch_ahead(table, rows, place, end):
    """Asks for a row of a table (V, D) of 4-byte numbers that is read later: `rows[place]`, if `place` is before `end`."""
    if place < end:
        for column in range(0, table.shape[1], LINE // 4):
            prefetch(table, rows[place], column)
