"""The order of labels, which gives them their ids."""

from collections.abc import Iterable, Sequence

SEPARATOR = "|"  # of several labels in one cell of a table


def sort_labels(names: Iterable[str]) -> list[str]:
    """Returns different labels, in order: by number where all are numbers, else by letter."""
    names = set(names)
    return sorted(names, key=lambda name: (int(name), name)) if all(n.isdigit() for n in names) else sorted(names)


def sort_tags(names: Iterable[str]) -> list[str]:
    """Tags in order: `O` first, then by type, and B before I."""
    return sorted(set(names), key=lambda name: (name != "O", name.partition("-")[2], name))


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """Returns the labels that stand side by side in a cell; none where it is empty."""
    return tuple(label.strip() for label in cell.split(separator) if label.strip())


def repeated_label(labels: Sequence[str], cell: str | None = None) -> str | None:
    """Returns what is wrong with labels of which one stands twice; None where none does."""
    return f"a label stands twice in {cell or list(labels)!r:.40}" if len(set(labels)) < len(labels) else None
