"""Examples as HTML: a right prediction green, a wrong one red before the truth in blue; marks, and tables of what objectives show."""

import html
import itertools
from collections.abc import Iterable, Sequence

from xmodels.training.watching.samples import ARROW

KEY = "<ins class=right>correct prediction</ins> <del>wrong prediction</del><ins class=truth>truth</ins>"


def as_html(examples: Iterable[dict]) -> str:
    """Returns examples as `training.watching.samples` has them."""
    return f"<div class=examples><small>{KEY}</small>{''.join(map(_example, examples))}</div>"


def _example(example: dict) -> str:
    answers = "".join(
        f"<br><small>{html.escape(name)}:</small> {_show_hidden_token(truth, prediction)}"
        for name, (truth, prediction) in example.get("answers", {}).items()
    )
    table = _table(**example["table"]) if "table" in example else ""
    about = "".join(
        f"<small>{name}: {html.escape(example[name])}</small><br>" for name in ("task", "note") if name in example
    )
    return f"<div class=example>{about}{_sides(example['pieces'])}{answers}{table}</div>"


def _sides(pieces: list) -> str:
    """Returns the text; of an encoder and a decoder that of each."""
    if ARROW not in pieces:
        return _text(pieces)
    middle = pieces.index(ARROW)
    return (
        f"<small>the encoder reads:</small> {_text(pieces[:middle])}"
        f"<br><small>the decoder writes:</small> {_text(pieces[middle + 1 :])}"
    )


def _text(pieces: Sequence) -> str:
    """Returns pieces that have the same mark stand in one frame behind it."""
    parts = []
    for mark, run in itertools.groupby(_with_marks(pieces), lambda pair: pair[0]):
        inside = "".join(
            html.escape(piece) if isinstance(piece, str) else _show_hidden_token(*piece[:3]) for _, piece in run
        )
        parts.append(f"<span class=marked><sup>{html.escape(mark)}</sup>{inside}</span>" if mark else inside)
    return "".join(parts)


def _with_marks(pieces: Sequence) -> list[tuple[str, object]]:
    """Returns (mark, piece) of all pieces; a blank has the mark of those on both sides, other text none."""
    marks = ["" if isinstance(piece, str) else "".join(piece[3:]) for piece in pieces]
    for i in range(1, len(pieces) - 1):
        if pieces[i] == " " and marks[i - 1] == marks[i + 1]:
            marks[i] = marks[i - 1]
    return list(zip(marks, pieces, strict=True))


def _show_hidden_token(truth: str, prediction: str | None, shown: str = "") -> str:
    title = f" title='shown: {html.escape(shown)}'" if shown else ""
    truth = html.escape(truth)
    if prediction is None:
        return f"<ins class=truth{title}>{truth}</ins>"
    if html.escape(prediction) == truth:
        return f"<ins class=right{title}>{truth}</ins>"
    return f"<del{title}>{html.escape(prediction)}</del><ins class=truth>{truth}</ins>"


def _table(head: Sequence[str], rows: Iterable[Sequence[list]]) -> str:
    """Returns a table whose cells are lists of pieces."""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead>{body}</table>"
