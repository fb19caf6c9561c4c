"""Takes HTML and wiki markup out of text."""

import re
from html.parser import HTMLParser

_HIDDEN = frozenset("script style head noscript template svg math".split())
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big center cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp "
    "small span strike strong sub sup time tt u var wbr img input button nowiki ref".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body br caption col colgroup dd details dialog div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html iframe li link main meta nav ol optgroup option p pre section select "
    "source summary table tbody td textarea tfoot th thead title tr ul video audio".split()
)
_TAG_OR_ENTITY = re.compile(r"<[a-zA-Z!/?]|&[#a-zA-Z]")


class _TextOfHtml(HTMLParser):
    """Gathers the visible text; blocks part lines. Tags whose name HTML does not know, such as <unk>, are text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden: list[str] = []  # the hidden elements that are open

    def handle_starttag(self, tag, attributes):
        if tag in _HIDDEN:
            self.hidden.append(tag)
        elif tag in _BLOCKS:
            self.parts.append("\n")
        elif tag not in _INLINE:
            self.handle_data(self.get_starttag_text())

    def handle_startendtag(self, tag, attributes):
        if tag not in _HIDDEN:
            self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        if tag in self.hidden:
            del self.hidden[self.hidden.index(tag) :]
        elif tag in _BLOCKS:
            self.parts.append("\n")
        elif tag not in _INLINE and tag not in _HIDDEN:
            self.handle_data(f"</{tag}>")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data)


def strip_html(text: str) -> str:
    """The visible text of HTML, or of prose with some tags and entities in it; blocks such as `<p>` part lines.

    A lone `<` or `&` and tags that HTML does not know, such as `<unk>`, stay.
    """
    if not _TAG_OR_ENTITY.search(text):
        return text
    parser = _TextOfHtml()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


_WIKI = re.compile(r"\[\[|\{\{|\{\||''|^\s*(?:={2,}.*={2,}\s*$|[*#:;]+\s)|\[https?:|__[A-Z]+__|-\{|<ref|<!--", re.M)
_TABLE = re.compile(r"^\s*:*\{\|.*?^\s*\|\}", re.M | re.S)
_UNWANTED_LINK = re.compile(
    r"\s*:?(?:file|image|category|media|文件|檔案|档案|图像|圖像|分类|分類)\s*[:：]|\s*[a-z-]{2,12}:(?!\s)", re.I
)
_HEADING = re.compile(r"^\s*(={2,})\s*(.*?)\s*\1\s*$", re.M)
_LIST = re.compile(r"^\s*[*#:;]+\s*", re.M)
_VARIANT = re.compile(r"-\{([^{}]*)\}-")  # -{zh-hans:计算机; zh-hant:電腦;}-, the forms of one word
_MAGIC = re.compile(r"__[A-Z]+__")


def _one_variant(match: re.Match) -> str:
    """The first form of a Chinese conversion mark; simplified where it is named."""
    inside = match[1].split("|", 1)[-1]
    forms = dict(form.strip().split(":", 1) for form in inside.split(";") if ":" in form)
    for name in ("zh-hans", "zh-cn"):
        if name in forms:
            return forms[name].strip()
    return next(iter(forms.values()), inside).strip()


def strip_wiki(text: str) -> str:
    """The prose of wiki markup: no templates, tables, references, pictures and categories; links as their text.

    The grammar is that of mwparserfromhell; headings become lines of their own.
    """
    if not _WIKI.search(text):
        return text
    import mwparserfromhell

    text = _TABLE.sub("", text)
    text = _VARIANT.sub(_one_variant, text)
    text = _LIST.sub("", _HEADING.sub(r"\2", text))
    code = mwparserfromhell.parse(text)
    unwanted = [link for link in code.filter_wikilinks() if _UNWANTED_LINK.match(str(link.title))]
    unwanted += code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() in ("ref", "references", "gallery"))
    for node in unwanted:
        if code.contains(node):  # else it stood in one that is gone already
            code.remove(node)
    return _MAGIC.sub("", code.strip_code(normalize=True, collapse=False))
