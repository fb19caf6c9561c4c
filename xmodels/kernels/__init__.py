"""Steps that are compiled as a whole, for what operations on tensors are slow at. Needs the extra `numba`."""
