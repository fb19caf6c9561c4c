"""Goldens of the originals: how a case is read, its weights are fed by a table of names, and results are compared by name."""

import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def read_case(name: str) -> types.SimpleNamespace:
    """A case of `golden`: `config`, its hyperparameters `numbers`, and dictionaries `weights`, `inputs` and `outputs`."""
    config = json.loads((GOLDEN / name / "config.json").read_text())
    files = {path.stem: dict(np.load(path)) for path in (GOLDEN / name).glob("*.npz")}
    return types.SimpleNamespace(config=config, numbers=config["hyperparameters"], **files)


def feed(weights: dict, table: dict, arrays: dict, unused=()) -> None:
    """Assigns all of `weights`, and uses all of `arrays`.

    Args:
        weights: {our name: variable}.
        table: {our name: their name, or (their name, function of their array)}; a plain name takes our shape.
        unused: names of arrays that may be left over.
    """
    assert set(weights) <= set(table), f"the table lacks {sorted(set(weights) - set(table))}"
    used = set(unused)
    for ours, variable in weights.items():
        row = table[ours]
        theirs, change = row if isinstance(row, tuple) else (row, lambda x, shape=variable.shape: x.reshape(shape))
        variable.assign(change(arrays[theirs]))
        used.add(theirs)
    assert set(arrays) <= used, f"nothing takes {sorted(set(arrays) - used)}"


def names_of(table: dict) -> dict[str, str]:
    """{our name: their name} of such a table."""
    return {ours: row[0] if isinstance(row, tuple) else row for ours, row in table.items()}


def assert_close(found, expected, name="result", where=None, atol=1e-4, rtol=1e-4) -> None:
    """The tolerance of the goldens: max|a - b| <= atol + rtol * max|b|, at the places `where`, such as those without padding."""
    found, expected = np.array(found), np.array(expected)
    assert found.shape == expected.shape, f"{name}: shape {found.shape}, expected {expected.shape}"
    if where is not None:
        found, expected = found[where], expected[where]
    difference, allowed = np.abs(found - expected), atol + rtol * np.abs(expected).max()
    worst = np.unravel_index(difference.argmax(), difference.shape)
    assert difference[worst] <= allowed, (
        f"{name}: {found[worst]} at {tuple(map(int, worst))}, expected {expected[worst]} within {allowed:.2g}; "
        f"{(difference > allowed).mean():.1%} of the places differ by more"
    )


def assert_outputs(found: dict, expected: dict, where=None, **tolerance) -> None:
    """Compares name by name; what is found must be among what is expected."""
    for name, value in found.items():
        assert_close(value, expected[name], name, where, **tolerance)


def gradients_of(loss, weights: dict) -> tuple:
    """The value of the function `loss`, and {name: gradient} of it by the weights."""
    with tf.GradientTape() as tape:
        value = loss()
    found = tape.gradient(value, {name: weight.value for name, weight in weights.items()})
    return value, {name: np.array(tf.convert_to_tensor(gradient)) for name, gradient in found.items()}


def assert_gradient_norms(found: dict, outputs: dict, at_least: int | None = None, rel=1e-3, atol=1e-6) -> None:
    """Compares the norms of {their name: gradient} with those that a case stores.

    Args:
        at_least: how many must be compared; None for all that are stored.
        atol: for gradients that are zero but for rounding, such as that of a key's bias, which moves all scores of a row alike.
    """
    expected = dict(zip(outputs["grad_norm_names"].tolist(), outputs["grad_norm_values"].tolist(), strict=True))
    compared = set(found) & set(expected)
    assert set(found) == set(expected) if at_least is None else len(compared) >= at_least, sorted(
        set(expected) ^ set(found)
    )
    for name in compared:
        assert np.linalg.norm(found[name]) == pytest.approx(expected[name], rel=rel, abs=atol), name
