"""Schemes in which tags of words name spans, and the tags that cannot be in theirs.

BIO: a span begins with B-, and goes on with I-. IOB1: it begins with I-, and with B- only right behind another one of its type.
BIOES (also IOBES), BMES, BILOU: each span has an end of its own, and one word alone is S- or U-.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from data_pipelines.errors import DataError

OUTSIDE = "O"
SPAN_TAG = re.compile(r"O|[BIESMLU]-.+")
UPPER, LOWER = set("BIESMLU"), set("biesmlu")
OTHER_SPELLINGS = (
    re.compile(r"(?P<letter>[BIESMLU])(?P<mark>[-_:/.|])(?P<kind>.+)", re.IGNORECASE),
    re.compile(r"(?P<kind>.+)(?P<mark>[-_:/.|])(?P<letter>[BIESMLU])", re.IGNORECASE),
)
BEGIN, INSIDE, END, SINGLE = "B", "IM", "EL", "SU"
REPAIR, REFUSE = "repair", "refuse"


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A scheme.

    Attributes:
        name: for people.
        inside, end: the letters of words inside of a span, and at its end; no end where spans have none.
        begins_inside: whether a span may begin as it goes on (IOB1).
    """

    name: str
    inside: str = "I"
    end: str = ""
    begins_inside: bool = False


BIO, IOB1 = Scheme("BIO"), Scheme("IOB1", begins_inside=True)
BIOES, BMES, BILOU = Scheme("BIOES", end="E"), Scheme("BMES", "M", "E"), Scheme("BILOU", end="L")


@dataclasses.dataclass(frozen=True)
class BadTag:
    """A tag that cannot be where it stands.

    Attributes:
        place: of the word in its sentence; behind the last one where a span does not end.
        reason: what stands there, and what was expected.
    """

    place: int
    reason: str


def usual_spelling(tags: Iterable[str]) -> dict[str, str]:
    """Tags of spans that a file spells otherwise, such as `B_LOC`, `LOC-B` or `b-loc` -> as here; empty where it does not, or where
    some tag is none of spans.

    All tags must be spelled alike, and some span must begin: then none of them is a part of speech.
    """
    found = set(tags)
    outside = {tag for tag in found if tag in (OUTSIDE, OUTSIDE.lower())}
    for pattern in OTHER_SPELLINGS:
        matches = {tag: pattern.fullmatch(tag) for tag in found - outside}
        if not matches or not all(matches.values()):
            continue
        letters = {match["letter"] for match in matches.values()}
        alike = len({match["mark"] for match in matches.values()}) == 1 and (letters <= UPPER or letters <= LOWER)
        if alike and {letter.upper() for letter in letters} & set("BISU"):
            made = {tag: f"{match['letter'].upper()}-{match['kind']}" for tag, match in matches.items()}
            return {tag: usual for tag, usual in (made | dict.fromkeys(outside, OUTSIDE)).items() if tag != usual}
    return {}


def respell(tags: Sequence[str], spelling: Mapping[str, str]) -> list[str]:
    """Tags as `usual_spelling` says."""
    return [spelling.get(tag, tag) for tag in tags] if spelling else list(tags)


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Returns the scheme of a file, from the letters of its tags.

    BIO and IOB1 have the same ones. It is IOB1 if more spans begin with I- than with a B- that IOB1 would not need.
    """
    letters, begun, needless = set(), 0, 0
    for tags in sentences:
        previous = OUTSIDE
        for tag in tags:
            letter, _, kind = tag.partition("-")
            letters.add(letter)
            if letter in ("B", "I") and (previous == OUTSIDE or previous.partition("-")[2] != kind):
                begun, needless = begun + (letter == "I"), needless + (letter == "B")
            previous = tag
    if letters & {"L", "U"}:
        return BILOU
    if "M" in letters:
        return BMES
    if letters & {"E", "S"}:
        return BIOES
    return IOB1 if begun > needless else BIO


def bad_tags(tags: Sequence[str], scheme: Scheme) -> Iterator[BadTag]:
    """Yields the tags of a sentence that cannot be where they stand, in order."""
    before, open_kind = None, None  # the tag before, and the type of the span that may go on
    for place, tag in enumerate([*tags, None]):
        letter, _, kind = (tag or OUTSIDE).partition("-")
        continues = letter in INSIDE + END and tag is not None
        behind = f"behind {before!r}" if before else "at the beginning of a sentence"
        if scheme.end and open_kind is not None and not (continues and kind == open_kind):
            found = f"{tag!r} {behind}" if tag else f"a sentence that ends with {before!r}"
            yield BadTag(place, f"{found}, expected '{scheme.inside}-{open_kind}' or '{scheme.end}-{open_kind}'")
        elif continues and kind != open_kind and not scheme.begins_inside:
            yield BadTag(place, f"{tag!r} {behind}, expected 'B-{kind}' there")
        open_kind = kind if letter and (letter in BEGIN + INSIDE) else None
        before = tag


def to_bio(tags: Sequence[str]) -> list[str]:
    """Tags of IOB1, BIOES, BMES and BILOU as BIO: a span begins with B-, and goes on with I-.

    Tags that cannot be are read as conlleval (Tjong Kim Sang, 2000) and seqeval read them: a span that goes on without having begun
    begins where it is first seen, and one without an end ends where it does not go on.
    """
    made, previous, open_span = [], None, False
    for tag in tags:
        if tag == OUTSIDE:
            made.append(tag)
            previous, open_span = None, False
            continue
        prefix, _, kind = tag.partition("-")
        begins = prefix in BEGIN + SINGLE or kind != previous or not open_span
        made.append(f"{'B' if begins else 'I'}-{kind}")
        previous, open_span = kind, prefix not in END + SINGLE
    return made


def refusal(path: str, line: int, bad: BadTag, scheme: Scheme, count: int) -> DataError:
    """Returns the error that names a tag that cannot be."""
    return DataError(
        f"{path}, line {line}: {bad.reason}, as the tags of the file are those of {scheme.name}; {count:,} such place(s) in the "
        "file. Correct them, or have them read as conlleval does with --bad_tags=repair."
    )
