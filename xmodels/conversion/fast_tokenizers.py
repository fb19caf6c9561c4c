"""What the `tokenizer.json` of a folder of Hugging Face says, in the settings of our tokenizers.

Where files of a folder contradict each other, the one holds that `transformers` goes by: `tokenizer_config.json` names a class
of its own, such as `BertTokenizer`, whose settings stand there; or it names none, and `tokenizer.json` says everything.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.schema import Location, convert
from data_pipelines.text import recognized_tokens
from data_pipelines.text.byte_pairs import END_OF_WORD, are_numbered
from data_pipelines.text.vocabulary import CONTINUATION
from xmodels.models.folder import read_json

FAST, ADDED = "tokenizer.json", "added_tokens.json"
FAST_CLASS = "PreTrainedTokenizerFast"
WHOLE = (FAST_CLASS, "TokenizersBackend")  # classes that do as `tokenizer.json` says
USUAL_LONGEST = 100  # characters of a word, which Hugging Face writes whatever its source says
UNLIKE = {  # what a BPE model may say that ours do not do
    "dropout": (None, 0, 0.0), "continuing_subword_prefix": (None, ""), "end_of_word_suffix": (None, "", END_OF_WORD),
    "byte_fallback": (None, False), "ignore_merges": (None, False),
}  # fmt: skip


def vocabulary_of(folder: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns the ids of all tokens, with those that were added, and the merges of BPE.

    Raises:
        CheckpointError: the file is damaged, or holds a model of another kind.
    """
    path, whole, model = _model(folder)
    place = Location(path, error=CheckpointError, verdict="")
    added = convert(whole.get("added_tokens") or [], list[dict], place.at("added_tokens"))
    ids = model.get("vocab")
    ids = (ids if isinstance(ids, dict) else {}) | {str(token.get("content")): token.get("id") for token in added}
    if not ids or not are_numbered(ids):
        raise CheckpointError(f"{path}: expected a {model['type']} vocabulary with the ids 0, 1, 2, …")
    place = place.at("model").at("merges")
    pairs = [p.split(" ") if isinstance(p, str) else p for p in convert(model.get("merges"), list | None, place) or []]
    return ids, convert(pairs, list[tuple[str, str]], place)


def settings_of(folder: str, stored: dict, kind: str | None = None) -> dict:
    """Returns the kind of the tokenizer of ours that is closest, and its settings.

    Args:
        stored: what `tokenizer_config.json` says.
        kind: of the vocabulary that lies beside it.

    Raises:
        CheckpointError: no tokenizer of ours does what the file says.
    """
    path, whole, model = _model(folder)
    found = (_word_pieces if model["type"] == "WordPiece" else _byte_pairs)(path, whole, model, stored)
    if kind not in (None, found["tokenizer"]):
        raise CheckpointError(
            f"{path}: a tokenizer of the kind {found['tokenizer']}, but the vocabulary beside it is of the kind {kind}. Move away the "
            "one that is not the network's."
        )
    return found


def read_changes(stored: dict) -> dict[str, dict[str, Any]]:
    """Returns what the settings of a class of its own change in the normalizer and the pre-tokenizer of `tokenizer.json`."""
    if stored.get("tokenizer_class") in WHOLE:
        return {}
    names = {
        "lowercase": "do_lower_case",
        "strip_accents": "strip_accents",
        "handle_chinese_chars": "tokenize_chinese_chars",
    }
    own = {theirs: stored[name] for theirs, name in names.items() if type(stored.get(name)) is bool}
    prefix = stored.get("add_prefix_space")
    return {"normalizer": own, "pre_tokenizer": {"add_prefix_space": prefix} if type(prefix) is bool else {}}


def added_tokens(folder: str, stored: dict) -> dict[str, tuple[int, dict]]:
    """Returns the tokens that were added after training: content -> (id, how it is looked for)."""
    found: dict[str, tuple[int, dict]] = {}
    path, old = os.path.join(folder, FAST), os.path.join(folder, ADDED)
    if os.path.isfile(path):
        place = Location(path, "added_tokens", CheckpointError, verdict="")
        listed = convert(read_json(path).get("added_tokens") or [], list[dict], place)
    else:
        place = Location(
            os.path.join(folder, "tokenizer_config.json"), "added_tokens_decoder", CheckpointError, verdict=""
        )
        decoder = convert(stored.get("added_tokens_decoder") or {}, dict[str, dict], place)
        listed = [{**token, "id": int(index) if index.isdigit() else index} for index, token in decoder.items()]
    for token in listed:
        content, index = token.get("content"), token.get("id")
        if type(content) is not str or not content or type(index) is not int:
            raise CheckpointError(f"{place.file}: an added token without a text or an id: {token!r:.100}.")
        flags = {name: token.get(name) is True for name in recognized_tokens.FLAGS}
        found[content] = index, recognized_tokens.entry(content, **flags)
    if not os.path.isfile(path) and os.path.isfile(old):
        for content, index in read_json(old).items():
            if type(index) is not int or not content:
                raise CheckpointError(f"{old}: expected the ids of tokens. Found: {content!r:.60}: {index!r:.40}.")
            found.setdefault(content, (index, recognized_tokens.entry(content)))
    return found


def check_word_pieces(stored: Mapping, source: str) -> None:
    """Raises a CheckpointError where word pieces are cut otherwise than by BERT, as which they would be read."""
    lower = stored.get("do_lower_case")
    wrong = {
        "strip_accents": stored.get("strip_accents") not in (None, lower is not False),
        "tokenize_chinese_chars": stored.get("tokenize_chinese_chars") is False,
        "tokenizer_class": "Japanese" in str(stored.get("tokenizer_class")),
        "do_basic_tokenize": stored.get("do_basic_tokenize") is False,
    }
    for name in filter(wrong.get, wrong):
        raise CheckpointError(
            f"{source}: `{name}` = {stored[name]!r}: our word pieces are BERT's, which drop accents where they lower-case, and part "
            "Chinese characters. No tokenizer of ours cuts alike; move the vocabulary away to convert the network without it."
        )


def steps_of(part: dict | None) -> Iterator[dict]:
    """Yields the steps of a normalizer or a pre-tokenizer, which may be a sequence of them."""
    if isinstance(part, dict):
        yield part
        for inner in (*(part.get("normalizers") or ()), *(part.get("pretokenizers") or ())):
            yield from steps_of(inner)


def _model(folder: str) -> tuple[str, dict, dict]:
    """Returns the path of the file, what it holds, and its model."""
    path = os.path.join(folder, FAST)
    whole = read_json(path)
    model = convert(whole.get("model"), dict | None, Location(path, "model", CheckpointError, verdict="")) or {}
    if model.get("type") not in ("WordPiece", "BPE"):
        raise CheckpointError(
            f"{path}: a model of type {model.get('type')!r}, of which only word pieces and BPE can be taken. For SentencePiece put "
            "its spiece.model beside it."
        )
    return path, whole, model


def _normalizer(path: str, whole: dict) -> dict:
    return (
        convert(whole.get("normalizer"), dict | None, Location(path, "normalizer", CheckpointError, verdict="")) or {}
    )


def _word_pieces(path: str, whole: dict, model: dict, stored: dict) -> dict:
    normalizer = _normalizer(path, whole)
    lower = any(step.get("lowercase") is True or step.get("type") == "Lowercase" for step in steps_of(normalizer))
    if stored.get("tokenizer_class") not in WHOLE:
        lower = stored.get("do_lower_case", lower)
    told = {"do_lower_case": lower, "strip_accents": normalizer.get("strip_accents")}
    check_word_pieces(told | {"tokenize_chinese_chars": normalizer.get("handle_chinese_chars")}, path)
    prefix, longest = model.get("continuing_subword_prefix", CONTINUATION), model.get("max_input_chars_per_word")
    if prefix != CONTINUATION:
        raise CheckpointError(
            f"{path}: `continuing_subword_prefix` = {prefix!r}; pieces of ours that continue a word begin with ##."
        )
    settings = {"tokenizer": "wordpiece"} | ({} if lower is None else {"do_lower_case": lower})
    return settings | ({} if longest in (None, USUAL_LONGEST) else {"max_word_characters": longest})


def _byte_pairs(path: str, whole: dict, model: dict, stored: dict) -> dict:
    """Returns which BPE it is, by the marks that its pieces carry."""
    normalizer = _normalizer(path, whole)
    place = Location(path, "pre_tokenizer", CheckpointError, verdict="")
    steps = convert(whole.get("pre_tokenizer"), dict | None, place) or {}
    parts = convert(steps.get("pretokenizers", []), list[dict], place.at("pretokenizers"))
    bytewise = [step for step in (steps, *parts) if step.get("type") == "ByteLevel"]
    suffix = model.get("end_of_word_suffix") == END_OF_WORD
    if not suffix and (not bytewise or len(parts) > 1 or normalizer.get("type") not in (None, "Lowercase")):
        raise CheckpointError(
            f"{path}: BPE that is neither GPT-2's over bytes nor GPT-1's with </w>; no tokenizer of ours cuts alike."
        )
    for name, usual in UNLIKE.items():
        if model.get(name) not in usual:
            raise CheckpointError(f"{path}: `{name}` = {model[name]!r:.40}: no tokenizer of ours cuts alike.")
    if suffix:
        return {"tokenizer": "bpe", "do_lower_case": bool(normalizer.get("lowercase", False))}
    prefix = stored.get("add_prefix_space") if stored.get("tokenizer_class") not in WHOLE else None
    return {
        "tokenizer": "byte_bpe", "do_lower_case": bool(normalizer),
        "add_prefix_space": bool(bytewise[0].get("add_prefix_space") if prefix is None else prefix),
    }  # fmt: skip
