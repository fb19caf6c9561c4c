"""The order of labels, which gives them their ids."""

from collections.abc import Iterable


def sort_labels(names: Iterable[str]) -> list[str]:
    """Different labels, in order: by number where all are numbers, else by letter."""
    names = set(names)
    return sorted(names, key=lambda name: (int(name), name)) if all(n.isdigit() for n in names) else sorted(names)


def sort_tags(names: Iterable[str]) -> list[str]:
    """Tags in order: `O` first, then by type, and B before I."""
    return sorted(set(names), key=lambda name: (name != "O", name.partition("-")[2], name))
