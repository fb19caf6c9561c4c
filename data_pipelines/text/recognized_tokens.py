"""Tokens that were added to a vocabulary after it was trained and are found in texts as they stand, such as the `[E1]` of
marked entities. They are a setting of the tokenizer, in the form that `tokenizer.json` has: `{"content": "[E1]", "normalized": true}`.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import AddedToken

from data_pipelines.errors import DataError

# What may be said of a token: it is looked for in the cleaned text; it takes the blanks before or behind it; it is a word of its own.
FLAGS = ("normalized", "lstrip", "rstrip", "single_word")
Entries = Sequence[Mapping[str, str | bool]]


def entry(content: str, **flags: bool) -> dict[str, str | bool]:
    """Returns one token as a setting."""
    return {"content": content, **{name: True for name in FLAGS if flags.get(name)}}


def problem(entries: list) -> str | None:
    """Returns what is wrong with a setting; None if it is as `entry` writes it."""
    for place, found in enumerate(entries):
        if not isinstance(found, dict) or type(found.get("content")) is not str or not found["content"]:
            return f'entry {place}: expected an object with the text "content". Found: {found!r:.60}.'
        wrong = [name for name in found if name != "content" and (name not in FLAGS or type(found[name]) is not bool)]
        if wrong:
            return f"entry {place}: expected {', '.join(FLAGS)}, each true or false. Found: {wrong[0]!r:.40}."
    return None


def recognize(backend: tokenizers.Tokenizer, special: Sequence[str | AddedToken], entries: Entries) -> bool:
    """Lets a tokenizer of the library find special tokens, and these, which its vocabulary holds, before it cleans and parts a
    text. Returns whether there are any.

    Raises:
        DataError: the vocabulary lacks one of them.
    """
    backend.add_special_tokens(list(special))
    for each in entries:
        if backend.token_to_id(each["content"]) is None:
            raise DataError(f"`added_tokens`: {each['content']!r:.60} is no token of the vocabulary.")
    backend.add_tokens(
        [AddedToken(each["content"], **{name: bool(each.get(name)) for name in FLAGS}) for each in entries]
    )
    return bool(special or entries)


def without(tokenizer: Any) -> Any:
    """Returns the same tokenizer, which finds none of the tokens that were added."""
    plain = copy.copy(tokenizer)
    plain.added_tokens = []
    plain.backend = tokenizers.Tokenizer(tokenizer.backend.model)
    plain.backend.pre_tokenizer = tokenizer.backend.pre_tokenizer
    if tokenizer.backend.normalizer is not None:
        plain.backend.normalizer = tokenizer.backend.normalizer
    return plain


def settings(entries: Entries) -> dict[str, list]:
    """Returns what `Tokenizer.options` says of them: nothing where there are none."""
    return {"added_tokens": [dict(each) for each in entries]} if entries else {}
