"""What the targets of an example may see, where that is not all of it: their order, and the text as some of them see it."""

import itertools

import numpy as np

from xmodels.training.watching.samples import Hidden, pieces

UNSEEN = "▢"
MAY_SEE = f"what it sees ({UNSEEN}: tokens it does not see)"


def show_sight(tokens: list[str], hidden: Hidden, seen: np.ndarray) -> dict:
    """Returns pieces whose marks are the places in the order of the targets, where they have one; and a table of what three of
    them see.

    Args:
        tokens, hidden: as of `pieces`.
        seen: bool (n, L), what each of the n targets of `hidden` may see.
    """
    places = np.array(list(hidden))
    itself = np.arange(len(tokens)) == places[:, None]  # (n, L)
    blind = itself.any(axis=0) & ~(seen & itself).any(axis=0)  # (L,)
    own = ["" if hides else token for token, hides in zip(tokens, blind, strict=True)]  # as a target sees itself
    seen = seen | itself
    if seen.all():
        return {"pieces": pieces(own, hidden)}
    ranks = seen[:, places].sum(axis=1)  # 1 for a target that sees no other
    ordered = sorted(ranks) == list(range(1, len(places) + 1))
    marks = {place: str(rank) for place, rank in zip(hidden, ranks, strict=True)} if ordered else {}
    chosen = np.argsort(ranks, kind="stable")[[0, len(places) // 2, -1]]
    rows = []
    for index in dict.fromkeys(chosen.tolist()):
        place = int(places[index])
        number = f"{marks[place]} of {len(places)}" if ordered else ""
        rows.append([[number], view([*tokens[:place], own[place], *tokens[place + 1 :]], hidden, place, seen[index])])
    return {
        "pieces": pieces(own, hidden, marks),
        "table": {"head": ["place in the order" if ordered else "", MAY_SEE], "rows": rows},
    }


def view(tokens: list[str], hidden: Hidden, place: int, seen: np.ndarray) -> list:
    """Returns the text as the target at `place` sees it; what it does not see in a row is one token, such as `▢×12`."""
    found: list[str] = []
    target = 0
    for is_seen, run in itertools.groupby(range(len(tokens)), lambda at: bool(seen[at])):
        run = list(run)
        if place in run:
            target = len(found) + run.index(place)
        found += [tokens[at] for at in run] if is_seen else [format_unseen(tokens[run[0]], len(run))]
    return pieces(found, {target: hidden[place]})


def format_unseen(first: str, count: int) -> str:
    """Returns what stands for `count` tokens; with the blank before `first`, as the vocabulary writes it."""
    blank = first[:1] if first[:1] in ("▁", "Ġ") else ""
    return f"{blank}{UNSEEN}" + (f"×{count}" if count > 1 else "")
