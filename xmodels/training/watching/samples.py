"""Examples as people read them: hidden words with what stands there, the truth and the prediction; labels likewise.

An example is plain JSON, as it stands in log.jsonl:
    {"pieces": ["the ", ["rain", "snow", "[MASK]"], " fell"], "answers": {"label": ["weather", "sport"]}}
A piece is a run of text, or (truth, prediction, what the network saw); an answer is (truth, prediction). A prediction
that nobody made is None. Where an objective has more to show, a hidden word has a fourth part, its mark, such as the number of its
span, and there is a `table`: {"head": names, "rows": of cells, each a list of pieces}. `task` and `note` are text.
"""

from collections.abc import Mapping

from data_pipelines.text.joining import gap

ARROW = " ⇒ "  # a piece between what an encoder reads and what the decoder writes
Hidden = Mapping[int, tuple[str, str | None]]  # {place: (truth, prediction)}


def pieces(tokens: list[str], hidden: Hidden, marks: Mapping[int, str] | None = None) -> list:
    """Runs of text and hidden tokens.

    Args:
        tokens: what the network sees; pieces of words as the vocabulary writes them.
        marks: {place of a hidden token: its mark}.
    """
    found: list = []
    true = [
        hidden[place][0] if place in hidden else token for place, token in enumerate(tokens)
    ]  # tells where blanks are
    for place, token in enumerate(tokens):
        if between := _between(true[place - 1] if place else "", true[place]):
            _append(found, between)
        if place in hidden:
            truth, prediction = hidden[place]
            found.append([_plain(truth), prediction if prediction is None else _plain(prediction), _plain(token)])
            found[-1] += [marks[place]] if marks and place in marks else []
        else:
            _append(found, _plain(token))
    return found


def _append(found: list, text: str) -> None:
    if found and isinstance(found[-1], str):
        found[-1] += text
    else:
        found.append(text)


def _between(before: str, token: str) -> str:
    """Returns the blank before a token, in the spellings of all vocabularies: `##ing`, `▁the`, `Ġthe`."""
    if token[:1] in ("▁", "Ġ"):
        return " "
    continues = token.startswith("##") or before[:1] in ("▁", "Ġ")
    return "" if continues else gap(_plain(before), token)


def _plain(token: str) -> str:
    return token.removeprefix("##").removeprefix("▁").removeprefix("Ġ") or token


def as_text(example: dict) -> str:
    """Returns one line: hidden words as `[truth→prediction]`, or, where there is none, `[truth→what stands there]`, and `:mark`
    if any."""
    parts = [piece if isinstance(piece, str) else _bracket(*piece) for piece in example["pieces"]]
    answers = [f"{name}: {_answer(*pair)}" for name, pair in example.get("answers", {}).items()]
    task = f"{example['task']}: " if "task" in example else ""
    return task + "".join(parts) + (f"  ({'; '.join(answers)})" if answers else "")


def _bracket(truth: str, prediction: str | None, shown: str, mark: str = "") -> str:
    return f"[{truth}→{shown if prediction is None else prediction}{f':{mark}' if mark else ''}]"


def _answer(truth: str, prediction: str | None) -> str:
    return truth if prediction is None else f"{truth}, predicted {prediction}"
