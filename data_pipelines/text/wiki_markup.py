"""Takes wiki markup out of text, in time linear in its length whatever the text holds.

The parsers that there are try a template or tag that nothing closes again from each of its beginnings. This reads marks
one after the other: an opening one is remembered, and its closing one takes out or keeps what has been written since.
At most `_DEEPEST` openings are remembered; of more, the oldest becomes text. So each piece of text is moved that often
at most.
"""

import collections
import dataclasses
import re

from data_pipelines.text.html_markup import BLOCKS, HIDDEN, INLINE, TAG, Closings, unescape

_DEEPEST = 40
_SIGNS = re.compile(r"\[\[|\{\{|\{\||''|^[^\S\n]*+(?:==|[*#:;]++\s)|\[https?:|__[A-Z]|-\{|<ref|<!--", re.M)
_MARK = re.compile(
    rf"{TAG}|(?P<comment><!--)|(?P<table>^[ \t:]*+\{{\|)|(?P<table_end>^[ \t]*+\|\}}(?!\}}))"
    r"|(?P<braces>\{{2,}+)|(?P<braces_end>\}{2,}+)|(?P<link>\[\[)|(?P<url>\[(?=(?:https?:|ftp:)?//|mailto:))"
    r"|(?P<brackets_end>\]+)|(?P<bar>\|)|(?P<quotes>'{2,}+)|(?P<magic>__[A-Z]{1,30}+__)",
    re.M,
)
_URL = re.compile(r"""[^\s\[\]<>"{}|]*+""")
_UNWANTED_LINK = re.compile(
    r":?(?:file|image|category|media|文件|檔案|档案|图像|圖像|分类|分類)\s*+[:：]|[a-z-]{2,12}+:(?!\s)", re.I
)
_VARIANT = re.compile(r"-\{([^{}]*+)\}-")  # -{zh-hans:计算机; zh-hant:電腦;}-, the forms of one word
_RAW_DROPPED = frozenset(
    "categorytree gallery graph hiero imagemap inputbox math score section templatedata timeline".split()
)
_RAW_KEPT = frozenset("ce chem nowiki pre source syntaxhighlight".split())
_DROPPED = frozenset(("ref", "references"))
_KNOWN = HIDDEN | INLINE | BLOCKS | _RAW_DROPPED | _RAW_KEPT | _DROPPED
# What an end may leave open inside: a link may hold an address in brackets that nothing closes, but no template.
_CROSSES = {"url": (), "link": ("url",), "braces": ("url", "link"), "table": ("url", "link", "braces")}


@dataclasses.dataclass
class _Opening:
    """A mark that waits for its end.

    Attributes:
        place: where what it holds begins in the text.
        first: the part that the mark itself was written as.
        bar: for links, the place of the first `|`, and the number of parts before it.
    """

    kind: str
    place: int
    first: int
    bar: tuple[int, int] | None = None


class _Prose:
    """Reads a text from left to right and gathers its prose in `parts`."""

    def __init__(self, text: str):
        self.text, self.closings = text, Closings(text)
        self.parts: list[str] = []
        self.openings: collections.deque[_Opening] = collections.deque(maxlen=_DEEPEST)
        self.place = 0  # before it, all is read

    def read(self) -> str:
        """Returns the prose of the text."""
        while found := _MARK.search(self.text, self.place):
            self.write(self.text[self.place : found.start()])
            self.place = found.end()
            getattr(self, found.lastgroup if found.lastgroup else "tag")(found)
        self.write(self.text[self.place :])
        return "".join(self.parts)

    def write(self, text: str) -> None:
        if text:
            self.parts.append(unescape(text))

    def open(self, kind: str, mark: str) -> None:
        self.openings.append(_Opening(kind, self.place, len(self.parts)))
        self.parts.append(mark)

    def close(self, kind: str) -> _Opening | None:
        """Takes the last opening of a kind off, and those that it leaves open inside; None where nothing waits for it."""
        for depth, opening in enumerate(reversed(self.openings), 1):
            if opening.kind == kind:
                for _ in range(depth):
                    self.openings.pop()
                return opening
            if opening.kind not in _CROSSES.get(kind, (opening.kind,)):
                return None
        return None

    def drop(self, opening: _Opening) -> None:
        del self.parts[opening.first :]

    def comment(self, found: re.Match) -> None:
        end = self.closings.after("-->", found.start() + 2)
        if end < 0:
            self.write(found[0])
        self.place = max(end, self.place)

    def tag(self, found: re.Match) -> None:
        name, is_end = found[2].lower(), bool(found[1])
        end = self.closings.tag_end(found.end()) if name in _KNOWN else -1
        if end < 0:
            self.write(found[0])
            return
        self.place = end
        is_empty = self.text[end - 2] == "/"
        if name in _DROPPED:
            if is_end:
                if opening := self.close(name):
                    self.drop(opening)
            elif not is_empty:
                self.open(name, self.text[found.start() : end])
        elif name in _RAW_DROPPED | _RAW_KEPT and not is_end and not is_empty:
            inside, behind = self.closings.raw_end(name, end)
            if inside < 0:
                self.write(self.text[found.start() : end])
                return
            if name in _RAW_KEPT:
                self.write(self.text[end:inside])
            self.place = behind
        elif name in BLOCKS:
            self.parts.append("\n")

    def table(self, found: re.Match) -> None:
        self.open("table", found[0])

    def table_end(self, found: re.Match) -> None:
        if opening := self.close("table"):
            self.drop(opening)
        else:
            self.write(found[0])

    def braces(self, found: re.Match) -> None:
        """Reads braces: two open a template and three an argument; an odd one goes with its neighbours."""
        count = len(found[0])
        for index in range(count // 2):
            self.open("braces", "{{" if index or count % 2 == 0 else "{{{")

    def braces_end(self, found: re.Match) -> None:
        left = len(found[0])
        while left > 1 and (opening := self.close("braces")):
            width = min(left, len(self.parts[opening.first]))
            self.drop(opening)
            left -= max(2, width)
        self.write("}" * left)

    def link(self, found: re.Match) -> None:
        self.open("link", found[0])

    def bar(self, found: re.Match) -> None:
        self.parts.append("|")
        if self.openings and self.openings[-1].kind == "link" and self.openings[-1].bar is None:
            self.openings[-1].bar = found.start(), len(self.parts)

    def url(self, found: re.Match) -> None:
        end = _URL.match(self.text, self.place).end()
        self.open("url", self.text[found.start() : end])
        self.place = end

    def brackets_end(self, found: re.Match) -> None:
        left = len(found[0])
        while left:
            if opening := self.close("url"):
                left -= 1
                self.end_url(opening, found.end() - left - 1)
            elif left > 1 and (opening := self.close("link")):
                left -= 2
                self.end_link(opening, found.end() - left - 2)
            else:
                self.parts.append("]" * left)
                return

    def end_url(self, opening: _Opening, place: int) -> None:
        """Takes the address out and keeps the words behind it; on several lines it is none."""
        if self.text.find("\n", opening.place, place) >= 0:
            self.parts.append("]")
            return
        del self.parts[opening.first]
        if len(self.parts) > opening.first:
            self.parts[opening.first] = self.parts[opening.first].lstrip(" \t")

    def end_link(self, opening: _Opening, place: int) -> None:
        """Takes a link out that leads to a picture, a category or another wiki; of others keeps the words to be read."""
        title = self.text[opening.place : opening.bar[0] if opening.bar else place]
        if _UNWANTED_LINK.match(title.lstrip()):
            self.drop(opening)
        elif "\n" in title:
            self.parts.append("]]")
        else:
            del self.parts[opening.first : opening.bar[1] if opening.bar else opening.first + 1]

    def quotes(self, found: re.Match) -> None:
        """Reads quotes: two mark italics, three bold, five both; what is more is text."""
        count = len(found[0])
        self.parts.append("'" * (1 if count == 4 else max(0, count - 5)))

    def magic(self, found: re.Match) -> None:
        """Skips words such as __NOTOC__, which tell the wiki something."""


def _one_variant(match: re.Match) -> str:
    """Returns the first form of a Chinese conversion mark; simplified where it is named."""
    inside = match[1].split("|", 1)[-1]
    forms = dict(form.strip().split(":", 1) for form in inside.split(";") if ":" in form)
    for name in ("zh-hans", "zh-cn"):
        if name in forms:
            return forms[name].strip()
    return next(iter(forms.values()), inside).strip()


def _plain_line(line: str) -> str:
    """Returns a line without the marks of a heading or of a list."""
    text = line.strip()
    if text.startswith("==") and text.endswith("=="):
        left, right = len(text) - len(text.lstrip("=")), len(text) - len(text.rstrip("="))
        level = min(left, right)
        return text[level:-level].strip() if left < len(text) else line
    return line.lstrip().lstrip("*#:;").lstrip() if text[:1] and text[0] in "*#:;" else line


def strip_wiki(text: str) -> str:
    """Returns the prose of wiki markup: no templates, tables, references, pictures and categories; links as their text.

    Headings become lines of their own. Marks that nothing closes stay as text.
    """
    if not _SIGNS.search(text):
        return text
    text = _VARIANT.sub(_one_variant, text)
    return _Prose("\n".join(map(_plain_line, text.split("\n")))).read()
