"""The kinds of tokenizers by name, and how files tell which one made them."""

import json
import os
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text import frames, recognized_tokens
from data_pipelines.text.byte_pairs import END_OF_WORD, BpeTokenizer, ByteBpeTokenizer
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.paired_pieces import SentencePiecePairTokenizer
from data_pipelines.text.plain_units import CharacterTokenizer, WordTokenizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.tokenizer import CONFIG, Tokenizer
from data_pipelines.text.tokenizer_settings import (
    CHOICES,
    FILES,
    FRAME,
    MOST_SENTINELS,
    OPTIONS,
    OPTIONS_OF,
    PAIR,
    UNTRAINED,
)
from data_pipelines.text.wordpiece import WordPieceTokenizer

KINDS = {
    kind.kind: kind
    for kind in (
        WordPieceTokenizer, ByteBpeTokenizer, BpeTokenizer, SentencePieceTokenizer, SentencePiecePairTokenizer,
        CharacterTokenizer, WordTokenizer, OpenWordTokenizer,
    )
}  # fmt: skip


def open_tokenizer(path: str, kind: str = "auto", do_lower_case: bool | None = None) -> Tokenizer:
    """Returns the tokenizer of a vocabulary.

    Args:
        path: a `vocab.txt`, `vocab.json` (its merges beside it) or `*.model`; or a folder that holds one of these,
            and perhaps `tokenizer_config.json` with the settings.
        kind: one of `KINDS`; `auto` goes by the settings, or else by the file: word pieces in `.txt`, BPE in `.json`
            (over bytes unless pieces end in `</w>`; a pair of SentencePiece models where they lie beside it), SentencePiece
            in `.model`.
        do_lower_case: None: as the settings say, or as is usual for the kind.

    Raises:
        UsageError: the kind is unknown, or another than the file holds.
        DataError: a file is missing or damaged.
    """
    settings: dict = {}
    if os.path.isdir(path):
        settings = read_config(os.path.join(path, CONFIG))
        path = file_in(path)
    stored = settings.pop("tokenizer", None)
    if kind == "auto":
        kind = stored or kind_of_file(path)
    elif stored and kind != stored:
        raise UsageError(f"--tokenizer={kind}: {os.path.dirname(path)} holds a vocabulary of --tokenizer={stored}.")
    if kind not in KINDS:
        raise UsageError(f"--tokenizer={kind}: unknown. Known: {', '.join(KINDS)}.")
    check_form(path, kind)
    if do_lower_case is not None:
        settings["do_lower_case"] = do_lower_case
    return make(kind, path, settings)


def make(kind: str, path: str, settings: Mapping[str, Any]) -> Tokenizer:
    """Returns the tokenizer of a file, with checked settings."""
    tokenizer = KINDS[kind].read(path, **{name: value for name, value in settings.items() if name != FRAME})
    tokenizer.frame = settings.get(FRAME)
    return tokenizer


def open_for_records(path: str, kind: str = "auto", do_lower_case: bool | None = None) -> Tokenizer:
    """Works as `open_tokenizer`, of a vocabulary with which records can be made.

    Raises:
        UsageError: it cuts the two sides of parallel text by a model each, which records do not tell apart.
    """
    tokenizer = open_tokenizer(path, kind, do_lower_case)
    if tokenizer.kind in UNTRAINED:
        raise UsageError(
            f"--vocab_file={path}: cuts sources and targets by a SentencePiece model each, so no records are made with it. "
            "Fine-tune its network by `xmodels finetune --task=translate --train_file=TABLE`, or train a vocabulary for both sides."
        )
    return tokenizer


def tokenizer_of_records(folder: str, settings) -> Tokenizer:
    """Returns the tokenizer that lies in a folder of records.

    Args:
        settings: those of the manifest, which knows its vocabulary by a SHA-256.

    Raises:
        DataError: it is missing, damaged or not the one with which the records were made.
    """
    tokenizer = read_tokenizer(folder, settings.tokenizer)
    if tokenizer.sha256 != settings.vocabulary_sha256:
        raise other_vocabulary(
            f"{folder}/{next(iter(tokenizer.files()))} was changed",
            tokenizer,
            folder,
            settings,
            "Put the old file back",
        )
    return tokenizer


def other_vocabulary(found: str, tokenizer: Tokenizer, folder: str, settings, advice: str) -> DataError:
    """Returns the error about a vocabulary with which the records of a folder were not made."""
    return DataError(
        f"{found}: {len(tokenizer.vocabulary)} pieces, but the records in {folder} were made with another vocabulary of "
        f"{settings.vocabulary_size}. {advice}, or make records anew."
    )


def read_tokenizer(folder: str, described: dict | None = None) -> Tokenizer:
    """Returns the tokenizer of a folder of records or a model, as `describe` has described it.

    Args:
        described: the settings; None reads them from `tokenizer_config.json`.

    Raises:
        DataError: files are missing or damaged, or the settings are not ours.
    """
    described = read_config(os.path.join(folder, CONFIG)) if described is None else check_values(described, folder)
    kind = described.pop("tokenizer", None)
    if kind is None:
        raise DataError(f'{os.path.join(folder, CONFIG)}: expected "tokenizer": one of {", ".join(KINDS)}.')
    return make(kind, file_in(folder), described)


def read_config(path: str) -> dict:
    """Returns what `tokenizer_config.json` says that we know; empty where there is none. Hugging Face's other keys are left
    out.

    Raises:
        DataError: not a JSON object, or a value is of the wrong type.
    """
    try:
        value = strict_json.read(path)
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not valid JSON ({error}).") from None
    return check_values(value, path)


def check_values(value, source: str) -> dict:
    """Returns the settings of a tokenizer, known and of the right types."""
    if not isinstance(value, dict):
        raise DataError(f"{source}: expected a JSON object, found {type(value).__name__}.")
    kind = value.get("tokenizer")
    if kind is not None and (not isinstance(kind, str) or kind not in KINDS):
        raise DataError(f'{source}: "tokenizer": {kind!r} is unknown. Known: {", ".join(KINDS)}.')
    types = {"do_lower_case": bool, **{name: OPTIONS[name] for name in OPTIONS_OF.get(kind, ())}}
    found = {name: value[name] for name in types if value.get(name) is not None}
    for name, wanted in types.items():
        if name in found and type(found[name]) is not wanted:
            raise DataError(f"{source}: `{name}` must be of type {wanted.__name__}. Found: {found[name]!r}.")
        if name in found and found[name] not in CHOICES.get(name, (found[name],)):
            raise DataError(f"{source}: `{name}` must be one of {', '.join(CHOICES[name])}. Found: {found[name]!r}.")
        most = MOST_SENTINELS if name == "num_sentinels" else (1 << 31) - 1
        if wanted is int and not (name == "max_word_characters") <= found.get(name, 1) <= most:
            raise DataError(f"{source}: `{name}` is too small or too large. Found: {found[name]!r:.40}.")
    if wrong := recognized_tokens.problem(found.get("added_tokens", [])):
        raise DataError(f"{source}: `added_tokens`, {wrong}")
    if FRAME in found and (wrong := frames.problem(found[FRAME])):
        raise DataError(f"{source}: `{FRAME}`: {wrong} Found: {found[FRAME]!r:.100}.")
    return {"tokenizer": kind, **found} if kind else found


def file_in(folder: str) -> str:
    """Returns the vocabulary file that a folder holds."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [name for name in FILES if name in names] or [name for name in names if name.endswith(".model")]
    if len(found) != 1:
        raise DataError(
            f"{folder}: expected one of {', '.join(FILES)}, found {', '.join(found) or 'none'}. Name the file itself."
        )
    return os.path.join(folder, found[0])


def kind_of_file(path: str) -> str:
    """Returns the kind that a file looks like."""
    if path.endswith(".model"):
        return "sentencepiece"
    if not path.endswith(".json"):
        return "wordpiece"
    if any(os.path.isfile(os.path.join(os.path.dirname(path), name)) for name in PAIR):
        return "sentencepiece_pair"
    if not os.path.isfile(path):
        return "byte_bpe"  # whose reader says that it is missing
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return "bpe" if END_OF_WORD + '"' in file.read() else "byte_bpe"


FORMS = {"byte_bpe": ".json", "bpe": ".json", "sentencepiece_pair": ".json", "sentencepiece": ".model"}  # others: text


def check_form(path: str, kind: str, flag: str = "vocab_file") -> None:
    """Raises a UsageError where a file cannot hold a vocabulary of that kind."""
    form = FORMS.get(kind, ".txt")
    wrong = not path.endswith(form) if kind in FORMS else path.endswith((".json", ".model"))
    if wrong:
        raise UsageError(
            f"--{flag}={path}: a vocabulary of --tokenizer={kind} is a file *{form}"
            f"{' with its merges beside it' if form == '.json' else ''}, or a folder with one."
        )
