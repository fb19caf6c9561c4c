"""Word-level corpora as natural text again: what their tokenization parted is joined (Radford et al., 2019, section 3.1).

Signs go back to the words that they stand at and marks such as `@-@` become what they mean. No word is dropped, `<unk>`
stays, and line ends stay, so that only the spelling changes and not what is said.
"""

import re
from collections.abc import Callable, Mapping

CLINGING = frozenset(", . ; : ! ? ) ] } % ° … ...".split())  # to the word before
OPENING = frozenset("( [ { $ £ € # US$ C$ A$".split())  # to the word behind
CLITIC = re.compile(r"n't|'(?:s|re|ve|ll|d|m)", re.IGNORECASE)
JOINTS = {"@-@": "-", "@,@": ",", "@.@": "."}  # in WikiText, between the parts of a word or number
TREEBANK = {
    "``": '"', "''": '"', "`": "'", "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
HEADING = re.compile(r"(=(?: =)*) (.+?) \1\s*")  # = = Plot = =


def wikitext(text: str) -> str:
    """Returns WikiText: `did n't`, `1 @,@ 000`, `( see )`, `" so "`, ` = = Plot = = `."""
    return _by_lines(text, _wikitext_line)


def treebank(text: str) -> str:
    """Returns the Penn Treebank and what is tokenized like it, such as LAMBADA and the Children's Book Test: -LRB-, ``so''."""
    text = text.replace("\\/", "/").replace("\\*", "*")
    return _by_lines(text, lambda line: _joined(line.split(), TREEBANK))


def _by_lines(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))


def _wikitext_line(line: str) -> str:
    heading = HEADING.fullmatch(line.strip())
    if heading:
        signs = heading[1].replace(" ", "")
        return f"{signs} {_joined(heading[2].split(), {})} {signs}"
    return _joined(line.split(), {})


def _joined(words: list[str], spellings: Mapping[str, str]) -> str:
    """Returns one line. A quotation mark opens where none is open, and closes the one that is."""
    parts: list[str] = []
    quoted = {'"': False, "'": False}
    glued = True  # does the next word stand at what was before?
    for index, word in enumerate(words):
        written = spellings.get(word.lower(), word)
        left, right = word in JOINTS or written in CLINGING, word in JOINTS or written in OPENING
        if CLITIC.fullmatch(word):
            left = True
        elif written in quoted:
            closes = quoted[written] if word not in ("``", "`", "''") else word == "''"
            # The dogs ' tails: no quotation begins behind a plural, unless it has its own sign.
            possessive = word == "'" and not closes and index > 0 and words[index - 1].lower().endswith("s")
            left, right = closes or possessive, not (closes or possessive)
            quoted[written] ^= not possessive
        parts += ["" if left or glued else " ", JOINTS.get(word, written)]
        glued = right
    return "".join(parts)


DETOKENIZERS: dict[str, Callable[[str], str]] = {"none": lambda text: text, "wikitext": wikitext, "ptb": treebank}
