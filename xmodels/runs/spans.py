"""Hidden spans as spans: each with its number, and with what is named from the tokens beside it."""

from xmodels.training.watching.samples import Hidden, pieces

HEAD = [
    "span",
    "masked LM: predicted from the whole visible text",
    "boundary objective: predicted from the two tokens next to the span",
]
NOT_ASKED = "(not predicted: the span is next to an end of the text)"


def show_spans(tokens: list[str], hidden: Hidden, beside: dict[int, str | None]) -> dict:
    """Returns pieces whose marks are the numbers of the spans, and a table of the spans.

    Args:
        tokens, hidden: as of `pieces`; the places of `hidden` ascend.
        beside: {hidden place: what is named from the tokens beside its span, None where nothing is}.
    """
    found = runs(list(hidden))
    marks = {place: str(number) for number, run in enumerate(found, start=1) for place in run}
    rows = [
        [[str(number)], part(tokens, hidden, run[0], run[-1] + 1), _from_beside(tokens, hidden, beside, run)]
        for number, run in enumerate(found, start=1)
    ]
    return {"pieces": pieces(tokens, hidden, marks), "table": {"head": HEAD, "rows": rows}}


def runs(places: list[int]) -> list[list[int]]:
    """Returns ascending places as runs of neighbours."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][-1] + 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _from_beside(tokens: list[str], hidden: Hidden, beside: dict[int, str | None], run: list[int]) -> list:
    if all(beside[place] is None for place in run):
        return [NOT_ASKED]
    named = {place: (hidden[place][0], beside[place]) for place in run}
    return part(tokens, named, run[0] - 1, run[-1] + 2)


def part(tokens: list[str], hidden: Hidden, begin: int, end: int) -> list:
    """Returns the pieces of the tokens from `begin` to before `end`."""
    return pieces(tokens[begin:end], {place - begin: pair for place, pair in hidden.items() if begin <= place < end})
