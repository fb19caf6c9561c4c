"""Which special tokens the tokenizer of a folder of Hugging Face puts around texts.

The folder says it, not the network: a RoBERTa may come with BERT's tokenizer. `transformers` goes by the class that
`tokenizer_config.json`, or else `config.json`, names: one of its own puts its special tokens, whatever `tokenizer.json` says; the
general one does what the post-processor of `tokenizer.json` says; and where no class is named, the one of the network is meant.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.schema import Location, convert
from data_pipelines.text import frames
from data_pipelines.text.frames import BERT, ROBERTA, XLNET, Frame, Part
from data_pipelines.text.vocabulary import CLS, SEP, Vocabulary
from xmodels.conversion.fast_tokenizers import FAST, WHOLE
from xmodels.models.folder import read_json

CLASSES = {
    **dict.fromkeys(("Bert", "DistilBert", "Electra", "Albert", "Deberta", "DebertaV2", "MobileBert", "RemBert"), BERT),
    **dict.fromkeys(("Roberta", "Bart", "Camembert", "XLMRoberta", "Longformer", "LED", "MPNet"), ROBERTA),
    "XLNet": XLNET,
}
# What these classes call the segments, which others leave out: then all tokens are of the first.
WITH_SEGMENTS = "token_type_ids"
INPUT_NAMES = "model_input_names"
SPECIAL = {"cls_token": CLS, "sep_token": SEP}


def frame_of(folder: str, stored: Mapping, model: Mapping, kind: str, vocabulary: Vocabulary) -> str | None:
    """Returns the frame of the tokenizer of a folder; None where nothing in the folder says it, so that it is that of the network.

    Args:
        stored: what `tokenizer_config.json` says.
        model: what `config.json` says.
        kind: of the vocabulary.

    Raises:
        CheckpointError: no frame of ours puts the same tokens.
    """
    named = str(stored.get("tokenizer_class") or model.get("tokenizer_class") or "")
    if named in WHOLE or (named and own_frame(named) is None):
        path = os.path.join(folder, FAST)
        return _of_post_processor(path, stored, vocabulary) if os.path.isfile(path) else None
    if not named and kind == "wordpiece":  # which only BERT's class reads
        named = "BertTokenizer"
    found = own_frame(named)
    return found and _spell(found, stored, vocabulary)


def own_frame(named: str) -> Frame | None:
    """Returns the frame of a class of `transformers`; None for one that is not known to have one of its own."""
    return CLASSES.get(named.removesuffix("Fast").removesuffix("Tokenizer"))


def _spell(frame: Frame, stored: Mapping, vocabulary: Vocabulary) -> str:
    """Returns a frame with the tokens that the settings name where a role is played by others here."""
    spelled = {}
    for name, role in SPECIAL.items():
        value = stored.get(name)
        token = value.get("content") if isinstance(value, dict) else value
        if isinstance(token, str) and token in vocabulary.ids and vocabulary.ids[token] != vocabulary.roles.get(role):
            spelled[role] = token
    parts = tuple(Part(p.text, spelled.get(p.role, p.role), p.segment, p.needs) for p in frame.parts)
    return Frame(parts).template


def _of_post_processor(path: str, stored: Mapping, vocabulary: Vocabulary) -> str:
    """Returns the frame that a `tokenizer.json` says."""
    place = Location(path, "post_processor", CheckpointError, verdict="")
    whole = convert(read_json(path).get("post_processor"), dict | None, place)
    steps = [step for step in _steps(whole) if step.get("type") != "ByteLevel"]
    if len(steps) > 1:
        raise CheckpointError(
            f"{path}: `post_processor`: {len(steps)} steps put tokens around texts, of which one is expected."
        )
    roles = {vocabulary.tokens[index]: role for role, index in vocabulary.roles.items() if role in (CLS, SEP)}
    names = stored.get(INPUT_NAMES)
    has_segments = isinstance(names, list) and WITH_SEGMENTS in names if names is not None else True
    one, two = _templates(path, steps[0], has_segments) if steps else ([("A", 0)], [("A", 0), ("B", int(has_segments))])
    one, two = ([(roles.get(name, name), segment) for name, segment in each] for each in (one, two))
    template = _joined(one, two)
    if not template or frames.problem(template):
        shown = (" ".join(f"{name}:{segment}" for name, segment in each) for each in (one, two))
        raise CheckpointError(
            f"{path}: `post_processor` puts {' and '.join(shown)} around one text and two. Expected the same around the first text, "
            "and tokens of 2 to 40 characters without blanks, brackets, | and colons."
        )
    return template


def _steps(processor: Mapping | None) -> Iterator[Mapping]:
    if processor is None:
        return
    if processor.get("type") == "Sequence":
        for each in processor.get("processors") or ():
            yield from _steps(each)
    else:
        yield processor


def _templates(path: str, step: Mapping, has_segments: bool) -> tuple[list, list]:
    """Returns (token or A or B, segment) of the parts around one text and around two."""
    kind = step.get("type")
    place = Location(path, "post_processor", CheckpointError, verdict="")
    if kind == "TemplateProcessing":
        found = [
            convert(step.get(name), list[dict[str, dict[str, Any]]], place.at(name)) for name in ("single", "pair")
        ]
        read = [[_part(path, name, value) for part in each for name, value in part.items()] for each in found]
    elif kind in ("BertProcessing", "RobertaProcessing"):
        cls, sep = (convert(step.get(name), list, place.at(name)) for name in ("cls", "sep"))
        start, end = str(cls[:1] and cls[0]), str(sep[:1] and sep[0])
        one = [(start, 0), ("A", 0), (end, 0)]
        second = [("B", 1), (end, 1)] if kind == "BertProcessing" else [(end, 0), ("B", 0), (end, 0)]
        read = [one, one + second]
    else:
        raise CheckpointError(f"{path}: `post_processor` of the type {kind!r:.40} is not known here.")
    one, two = ([(name, segment if has_segments else 0) for name, segment in each] for each in read)
    return one, two


def _part(path: str, name: str, value: Mapping) -> tuple[str, int]:
    """Returns a text, A or B, or a special token, and its segment."""
    identity, segment = value.get("id"), value.get("type_id", 0)
    known = name == "SpecialToken" or (name == "Sequence" and identity in ("A", "B"))
    if not known or not isinstance(identity, str) or type(segment) is not int or not 0 <= segment < 10:
        raise CheckpointError(f"{path}: `post_processor`: {name!r:.40} {dict(value)!r:.80} is no part of a template.")
    return identity, segment


def _joined(one: list[tuple[str, int]], two: list[tuple[str, int]]) -> str:
    """Returns a frame for one text and two: what the second text brings along stands in brackets. Empty where there is none."""
    more = len(two) - len(one)
    for begin in range(len(one), -1, -1):
        end = begin + more
        if two[:begin] + two[end:] == one and "B" in [name for name, _ in two[begin:end]]:
            words = [f"{name}:{segment}" if segment else name for name, segment in two]
            words[begin], words[end - 1] = f"({words[begin]}", f"{words[end - 1]})" if more > 1 else f"({words[begin]})"
            return " ".join(words)
    return ""
