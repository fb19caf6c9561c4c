"""All steps of an LSTM, with a gradient of their own."""

from keras import ops


def run_lstm(gates, kernel, h, c, padding_mask=None, window: int = 0, begins=None):
    """Runs the steps of an LSTM whose inputs are projected already (Hochreiter and Schmidhuber, 1997; Zaremba et al., 2014).

    The rules of each operation would add a matrix of the size of the kernel in each step. Here a loop backwards gives the gradients of
    the gates alone; that of the kernel is then one product over all steps.

    Args:
        gates: (N, B, 4 * D), step by step, in the order input, forget, candidate, output.
        kernel: (D, 4 * D), of the recurrent connections.
        h, c: (B, D), the state before the first step.
        padding_mask: bool (B, N), True on real tokens, or None. The state stays as it is at padding.
        window: gradients flow through at most so many steps, from each multiple of `window` on; 0 for all.
        begins: bool (B, N), where a text of the row begins and the state before it is zeros, or None.

    Returns:
        h and c after each step, (N, B, D) each.
    """
    width = kernel.shape[0]
    real = None  # (N, B, 1)
    if padding_mask is not None:
        real = ops.expand_dims(ops.transpose(ops.cast(padding_mask, "bool")), 2)
    goes_on = None  # (N, B, 1)
    if begins is not None:
        goes_on = ops.expand_dims(1 - ops.transpose(ops.cast(begins, gates.dtype)), 2)
    length = gates.shape[0]  # None where it is not known
    places = ops.arange(ops.shape(gates)[0], dtype="int32")
    # 0 where no gradient goes on to the step before.
    flows = ops.cast(ops.logical_or(places == 0, places % window > 0), gates.dtype) if window else None  # (N,)

    def part(x, number: int):
        return x[:, number * width : (number + 1) * width]

    def beginning(x):
        """Returns zeros of the shapes of what loops hand on, for rows of x."""
        zeros = ops.zeros_like(part(x, 0))
        return zeros, zeros, ops.concatenate([zeros] * 4, axis=1), zeros

    @ops.custom_gradient
    def states_of(gates, kernel, h, c):
        def step(before, place):
            h, c = before[:2] if goes_on is None else [state * goes_on[place] for state in before[:2]]
            x = gates[place] + ops.matmul(h, kernel)
            shares, candidate = ops.sigmoid(x), ops.tanh(part(x, 2))  # of the former the third part is not used
            new_c = part(shares, 1) * c + part(shares, 0) * candidate
            new_h = part(shares, 3) * ops.tanh(new_c)
            if real is not None:
                new_h, new_c = ops.where(real[place], new_h, h), ops.where(real[place], new_c, c)
            after = new_h, new_c, shares, candidate
            return after, after

        begin = h, c, *beginning(gates[0])[2:]
        _, (all_h, all_c, all_shares, candidates) = ops.scan(step, begin, places, length)

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream  # (N, B, 2 D)
            h_before, c_before = (
                ops.concatenate([ops.expand_dims(first, 0), each[:-1]]) for first, each in ((h, all_h), (c, all_c))
            )
            if goes_on is not None:
                h_before, c_before = h_before * goes_on, c_before * goes_on
            transposed = ops.transpose(kernel)
            counts = None if real is None else ops.cast(real, upstream.dtype)

            def back(later, place):
                up, shares, candidate = upstream[place], all_shares[place], candidates[place]
                of_h, of_c, through = later[0] + part(up, 0), later[1] + part(up, 1), ops.tanh(all_c[place])
                # What padding got goes on to the step before.
                own_h, own_c = (of_h, of_c) if counts is None else (of_h * counts[place], of_c * counts[place])
                gates_of_step = [part(shares, number) for number in (0, 1, 3)]
                of_gates, forgotten = back_through_gates(
                    own_h, own_c, gates_of_step, candidate, through, c_before[place]
                )
                before = [ops.matmul(of_gates, transposed), forgotten]
                if counts is not None:
                    before = [x + y * (1 - counts[place]) for x, y in zip(before, (of_h, of_c), strict=True)]
                for shares_of_before in (flows, goes_on):
                    if shares_of_before is not None:
                        before = [x * shares_of_before[place] for x in before]
                after = *before, of_gates, before[0]  # the last one is there for the shape
                return after, after

            (of_h, of_c, _, _), (_, _, of_gates, _) = ops.scan(
                back, beginning(upstream[0]), places, length, reverse=True
            )
            of_kernel = ops.matmul(ops.transpose(in_rows(h_before)), in_rows(of_gates))
            return of_gates, of_kernel, of_h, of_c

        return ops.concatenate([all_h, all_c], axis=2), gradient

    return ops.split(states_of(gates, kernel, h, c), 2, axis=2)


def back_through_gates(of_h, of_c, gates, candidate, through, c_before):
    """Returns the gradients of the projected gates of a step, (B, 4 * D), and of the cell before it, (B, D).

    Args:
        of_h, of_c: the gradients of the state after the step, (B, D) each, as all others.
        gates: input, forget and output, behind their sigmoids.
        candidate, through: the tangents of the candidate and of the cell after the step.
        c_before: the cell before it.
    """
    i, f, o = gates
    of_c = of_c + of_h * o * (1 - through * through)
    into, of_c_before = i * candidate, of_c * f
    parts = [
        of_c * into * (1 - i),
        of_c_before * c_before * (1 - f),
        of_c * (i - into * candidate),
        of_h * through * o * (1 - o),
    ]
    return ops.concatenate(parts, axis=1), of_c_before


def in_rows(x):
    """Returns (N, B, D) -> (N B, D)."""
    return ops.reshape(x, (-1, x.shape[2]))
