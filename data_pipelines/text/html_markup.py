"""Takes HTML out of text, in time linear in its length whatever the text holds.

A parser that builds a tree cannot promise that: HTML's rules for tags that are not closed copy open elements again and
again. So this reads tags one after the other, and nothing is read twice for a second meaning.
"""

import html
import re

HIDDEN = frozenset("script style head noscript template svg math".split())
INLINE = frozenset(
    "a abbr acronym b bdi bdo big center cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby s samp "
    "small span strike strong sub sup time tt u var wbr img input button nowiki ref".split()
)
BLOCKS = frozenset(
    "address article aside blockquote body br caption col colgroup dd details dialog div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html iframe li link main meta nav ol optgroup option p pre section select "
    "source summary table tbody td textarea tfoot th thead title tr ul video audio".split()
)
TAG = r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,19}+)(?=[\s/>])"
_MARKUP = re.compile(rf"{TAG}|<!--|<!(?=[a-zA-Z\[])|<\?(?=[a-zA-Z])")
_TAG_OR_ENTITY = re.compile(r"<[a-zA-Z!/?]|&[#a-zA-Z]")
_ATTRIBUTES = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
_ENDLESS_NUMBER = re.compile(r"&#(?:\d{12,}+|[xX][\da-fA-F]{12,}+);?")


def unescape(text: str) -> str:
    """Returns the text with its entities as characters; a number that no character has is U+FFFD, however long it is."""
    return html.unescape(_ENDLESS_NUMBER.sub("\ufffd", text)) if "&" in text else text


class Closings:
    """Finds where markup ends. A search that fails once is not made again, so all searches together are linear.

    Args:
        text: searched from left to right: the positions that are asked for grow.
    """

    def __init__(self, text: str):
        self.text = text
        self.absent: set[str] = set()  # what does not occur in the rest of the text
        self.has_quotes = True

    def after(self, closing: str, position: int) -> int:
        """Returns the place behind the next `closing`; -1 where there is none."""
        place = -1 if closing in self.absent else self.text.find(closing, position)
        if place < 0:
            self.absent.add(closing)
            return -1
        return place + len(closing)

    def tag_end(self, position: int) -> int:
        """Returns the place behind the `>` of a tag; -1 where there is none. A `>` in a quoted value does not end a tag.

        Once the quotes of a text leave a tag open to the end, quotes mean nothing in the rest of it.
        """
        if self.has_quotes and ">" not in self.absent:
            if found := _ATTRIBUTES.match(self.text, position):
                return found.end()
            self.has_quotes = False
        return self.after(">", position)

    def raw_end(self, name: str, position: int) -> tuple[int, int]:
        """Returns where the end tag of an element without markup inside begins, and the place behind it; (-1, -1) without one."""
        pattern = re.compile(rf"</{name}\s*+>", re.I)
        found = None if name in self.absent else pattern.search(self.text, position)
        if not found:
            self.absent.add(name)
            return -1, -1
        return found.span()


def strip_html(text: str) -> str:
    """Returns the visible text of HTML, or of prose with some tags and entities in it; blocks such as `<p>` part lines.

    A lone `<` or `&`, markup that nothing closes, and tags that HTML does not know, such as `<unk>`, stay.
    """
    if not _TAG_OR_ENTITY.search(text):
        return text
    closings, parts = Closings(text), []
    hidden: list[str] = []  # the kinds of hidden elements that are open
    place = searched = 0
    while found := _MARKUP.search(text, searched):
        name = (found[2] or "").lower()
        end = _end_of(found, name, text, closings)
        if end < 0:  # text
            searched = found.end()
            continue
        if not hidden:
            parts.append(unescape(text[place : found.start()]))
        place = searched = end
        if name == "body":
            hidden.clear()
        if found[1] and name in hidden:
            del hidden[hidden.index(name) :]
        elif name in HIDDEN and not found[1] and text[end - 2] != "/" and name not in hidden:
            hidden.append(name)
        elif name in BLOCKS and not hidden:
            parts.append("\n")
        if hidden and name in ("script", "style") and not found[1]:
            place = searched = max(closings.raw_end(name, end)[0], end)  # whatever stands inside is no markup
    if not hidden:
        parts.append(unescape(text[place:]))
    return "".join(parts)


def _end_of(found: re.Match, name: str, text: str, closings: Closings) -> int:
    """Returns the place behind some markup; -1 where it is text."""
    if name:
        return closings.tag_end(found.end()) if name in HIDDEN or name in BLOCKS or name in INLINE else -1
    if found[0] == "<!--":
        return closings.after("-->", found.start() + 2)  # `<!-->` is whole
    if text.startswith("<![", found.start()) and (end := closings.after("]]>", found.end())) > 0:
        return end
    return closings.after(">", found.end())
