"""Whether a tokenizer of ours cuts as the one of a `tokenizer.json` does: both read the same texts with the `tokenizers` library."""

import json

import tokenizers

from data_pipelines.errors import CheckpointError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion.fast_tokenizers import steps_of

# Case, accents in both forms, runs of signs, numbers, blanks of all kinds, other scripts, characters that no vocabulary has.
TEXTS = (
    "hello world", "Hello WORLD", "Hello...world!!! cafe 2b", "don't stop, I'll go; she's \"here\" (it's 9,000.50 €)",
    "café naïve Ångström", "cafe\u0301 nai\u0308ve", "  two  blanks at both ends  ", "a\tb\nc\r\nd", "a\u00a0b\u3000c", "x-y_z/w@v#u",
    "3.14159 and 2024-01-31", "我们去爬山。T恤很好看!", "ひらがな カタカナ 한국어", "Привет мир, Ёж", "Straße İstanbul ﬁne ½ Ⅷ",
    "smile 🙂 ☃☃ ok", "http://www.example.com/a?b=c&d=e", "UPPERCASEandlower mixedCase ABC123def", "##ing @@ ▁ Ġ </w> '' ``", "",
)  # fmt: skip


def reference(path: str, changes: dict) -> tokenizers.Tokenizer:
    """Returns the tokenizer of a `tokenizer.json`, without cutting to a length.

    Args:
        changes: what is said otherwise beside it, for its normalizer and its pre-tokenizer.

    Raises:
        CheckpointError: the library cannot read it.
    """
    with open(path, encoding="utf-8") as file:
        stored = json.load(file)
    for part, values in changes.items():
        for step in steps_of(stored.get(part)):
            step.update({name: value for name, value in values.items() if name in step})
    try:
        found = tokenizers.Tokenizer.from_str(json.dumps(stored))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(
            f"{path}: the tokenizers library {tokenizers.__version__} cannot read it: {error}."
        ) from None
    found.no_truncation()
    found.no_padding()
    return found


def check_alike(ours: Tokenizer, theirs: tokenizers.Tokenizer, path: str) -> None:
    """Raises a CheckpointError that names the first text that the two cut otherwise, or the first token with two ids."""
    known = theirs.get_vocab(with_added_tokens=True)
    for token, index in ours.vocabulary.ids.items():
        if known.get(token, index) != index:
            raise CheckpointError(
                f"{path}: the id of {token!r} is {known[token]}, but {index} in {ours.vocabulary.source}. Two vocabularies "
                "lie in this folder; move away the one that is not the network's."
            )
    if left := sorted(set(known) - set(ours.vocabulary.ids)):
        raise CheckpointError(
            f"{path}: holds {len(left):,} token(s) that the vocabulary beside it lacks, such as {left[0]!r}. Move away the one that "
            "is not the network's."
        )
    for text in (*TEXTS, *_texts_of_added_tokens(ours)):
        mine, wanted = _words(ours.backend, text), _words(theirs, text)
        if mine == wanted:
            ids = theirs.encode(text, add_special_tokens=False).ids
            mine, wanted = ([ours.vocabulary.tokens[i] for i in each] for each in (ours.encode(text).ids, ids))
        if mine != wanted:
            raise CheckpointError(
                f"{path}: it cuts {text!r} into {wanted!r:.200}; the tokenizer of ours that is closest, {ours.kind}, into "
                f"{mine!r:.200}. No tokenizer of ours cuts alike; move the vocabulary away to convert the network without it."
            )


def _words(backend: tokenizers.Tokenizer, text: str) -> list[str]:
    """Returns what a text is parted into before its words are cut into pieces: so a small vocabulary hides no difference."""
    clean = backend.normalizer.normalize_str(text) if backend.normalizer else text
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(clean)] if backend.pre_tokenizer else [clean]


def _texts_of_added_tokens(ours: Tokenizer) -> list[str]:
    """Returns texts that the tokens stand in that were added to a vocabulary."""
    added = [each["content"] for each in ours.options().get("added_tokens", [])]
    return [
        text for token in added for text in (f"hello {token} cat", f"x{token}y", f"{token.upper()} {token.lower()}")
    ]
