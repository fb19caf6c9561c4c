"""The commands, and the examples of what they write, that stand on the pages of the documentation."""

import itertools
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("README*.md"), *(ROOT / "samples").glob("*.md")])
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
COMMENT = re.compile(r"(^|\s)#\s.*$", re.MULTILINE)
VERBS = re.compile(r"(?:^|[\s(])(?:xmodels|python3? -m launch)[ \t]+(?=[a-z_]+(?:\s|$))")
LINES = re.compile(r"^(?=\S)", re.MULTILINE)
ENDS = "|&;<>()\n"  # of a command
LEFT_OUT = ("…", "...")  # in a command that shows some of its flags


def text_of(page):
    """The text of a page in docs."""
    return (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")


def fenced(text, language=None):
    """The fenced blocks of a page, or those that name a language."""
    return [block for name, block in FENCED.findall(text) if language in (None, name)]


def inline(text):
    """What stands in backticks in the text of a page."""
    return INLINE.findall(FENCED.sub("", text))


def commands(blocks, begin=VERBS):
    """The words of each command in blocks: those behind `xmodels`, or with `begin=LINES` all words of each line."""
    for block in blocks:
        block = COMMENT.sub("", block.replace("\\\n", " "))
        for found in begin.finditer(block):
            lexer = shlex.shlex(block[found.end() :], posix=True, punctuation_chars=ENDS)
            lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t", "", True
            yield list(itertools.takewhile(lambda word: word[0] not in ENDS, lexer))
