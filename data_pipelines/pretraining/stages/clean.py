"""Stage: cleans documents before anything looks at their words. Each cleaner maps text to text.

HTML and wiki markup often spans several sentences, so a document is cleaned as one text with a line for each sentence;
lines that a cleaner adds (`<br>`) become sentences.
"""

import collections
import dataclasses
import importlib.metadata
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import UsageError
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.text.html_markup import strip_html
from data_pipelines.text.wiki_markup import strip_wiki

_PUNCTUATION_OF_CHINESE = "！，：；？（）．～"  # full width is how Chinese writes these
_WIDTHS = {
    0x3000: " ",
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if chr(code) not in _PUNCTUATION_OF_CHINESE},
}
_SPACES = re.compile(r"[^\S\n]+")


def fold_width(text: str) -> str:
    """Returns full-width letters, digits and signs in half width; the punctuation of Chinese stays."""
    return text.translate(_WIDTHS)


def _class(keep: str, *categories: str) -> str:
    """Returns a regular expression for the code points of some Unicode categories."""
    codes = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) in categories and chr(c) not in keep]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]+"


def control_stripper() -> Callable[[str], str]:
    """Takes out control and format characters, private ones, U+FFFD; any run of white space becomes one blank."""
    unwanted = re.compile(_class("\t\n", "Cc", "Cf", "Co", "Cs") + "|\ufffd+")

    def strip(text: str) -> str:
        text = text.replace("\u2028", "\n").replace("\u2029", "\n").replace("\x0b", " ").replace("\x0c", " ")
        return _SPACES.sub(" ", unwanted.sub("", text))

    return strip


def simplifier() -> Callable[[str], str]:
    """Returns traditional to simplified characters by OpenCC's table t2s, which knows phrases (乾隆 stays, 乾淨 becomes 干净)."""
    import opencc

    return opencc.OpenCC("t2s").convert


# In the order in which they work, whatever the order of the flag: markup first, since it may hide characters (&#12288;).
CLEANERS: dict[str, Callable[[], Callable[[str], str]]] = {
    "wiki": lambda: strip_wiki,
    "html": lambda: strip_html,
    "width": lambda: fold_width,
    "control": control_stripper,
    "traditional_to_simplified": simplifier,
}


def choose_rules(names: str) -> list[str]:
    """Returns the cleaners of a comma-separated list, in the order in which they work.

    Raises:
        UsageError: a name is unknown.
    """
    wanted = {name.strip() for name in names.split(",")} - {""}
    if unknown := sorted(wanted - CLEANERS.keys()):
        raise UsageError(f"--clean={','.join(unknown)}: unknown. Known: {', '.join(CLEANERS)}.")
    return [name for name in CLEANERS if name in wanted]


def describe(names: str) -> dict:
    """Returns the cleaners and the versions of their libraries, for the manifest."""
    libraries = {"traditional_to_simplified": "opencc"}
    versions = {name: importlib.metadata.version(libraries[name]) for name in choose_rules(names) if name in libraries}
    return {"clean": ",".join(choose_rules(names)), "clean_versions": versions}


def clean(
    names: str, min_sentence_chars: int, min_document_chars: int, statistics: collections.Counter,
    join: Callable[[list[str]], list[str]] | None = None,
) -> Stage:  # fmt: skip
    """Cleans documents and drops what is too short; a document without sentences vanishes.

    Args:
        names: comma-separated names of `CLEANERS`.
        min_sentence_chars: shorter sentences are dropped (characters after cleaning).
        min_document_chars: documents with fewer characters, counted over the sentences that are left, are dropped.
        statistics: counts `cleaned_by_NAME` (documents that a cleaner changed, or elements of such), `not_cleaned_by_NAME` (those
            that it could not take; they stay as they are), `characters_before_cleaning`,
            `characters_after_cleaning`, `short_sentences_dropped`, `short_documents_dropped`, and
            `emptied_documents_dropped` (nothing is left of them).
        join: for documents whose elements are not sentences in a row, such as turns: each is cleaned by itself and stays one, and
            this takes out those of which nothing is left.
    """
    if not (choose_rules(names) or min_sentence_chars or min_document_chars):
        return lambda documents: documents
    cleaners = [(name, CLEANERS[name]()) for name in choose_rules(names)]

    def sentences_of(document: Document) -> list[str]:
        statistics["characters_before_cleaning"] += len("\n".join(document.sentences))
        if join:
            return join([" ".join(lines_of(sentence)) for sentence in document.sentences])
        return lines_of("\n".join(document.sentences))

    def lines_of(text: str) -> list[str]:
        for name, cleaner in cleaners:
            try:
                cleaned = cleaner(text)
            except Exception:  # of a library; one odd document does not end a run over millions
                statistics[f"not_cleaned_by_{name}"] += 1
                continue
            statistics[f"cleaned_by_{name}"] += cleaned != text
            text = cleaned
        return [line.strip() for line in text.split("\n") if line.strip()]

    def stage(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            found = sentences_of(document) if cleaners else document.sentences
            kept = [sentence for sentence in found if len(sentence) >= min_sentence_chars]
            statistics["short_sentences_dropped"] += len(found) - len(kept)
            length = sum(map(len, kept))
            if cleaners:
                statistics["characters_after_cleaning"] += length + max(0, len(kept) - 1)
            if not kept:
                statistics["emptied_documents_dropped"] += 1
            elif length < min_document_chars:
                statistics["short_documents_dropped"] += 1
            else:
                yield document if kept == document.sentences else dataclasses.replace(document, sentences=kept)

    return stage


def report(statistics: dict[str, int]) -> list[str]:
    """Returns what cleaning did, in lines for people; none where nothing was asked for."""
    lines = []
    if before := statistics.get("characters_before_cleaning"):
        cleaned = [f"{name} {statistics.get(f'cleaned_by_{name}', 0):,}" for name in CLEANERS]
        gone = 1 - statistics["characters_after_cleaning"] / before
        lines.append(f"cleaning took out {gone:.2%} of characters · documents changed by: {', '.join(cleaned)}")
    failed = {name: statistics.get(f"not_cleaned_by_{name}", 0) for name in CLEANERS}
    if any(failed.values()):
        found = " · ".join(f"{name} {count:,}" for name, count in failed.items() if count)
        lines.append(f"Warning: documents that a cleaner could not take, left as they were: {found}")
    dropped = {
        n: statistics.get(f"{n.replace(' ', '_')}_dropped", 0)
        for n in ("short sentences", "short documents", "emptied documents")
    }
    if any(dropped.values()):
        lines.append("dropped: " + " · ".join(f"{name} {count:,}" for name, count in dropped.items()))
    return lines
