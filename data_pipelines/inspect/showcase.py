"""What each objective does to records, by name, and how it is shown: the values of `inspect_data --objective`."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.inspect.objectives import HIDDEN, ORDER, SIDES
from data_pipelines.ops.compose import Op, compose
from data_pipelines.ops.corruption import mask_tokens, mask_units, mask_whole_words
from data_pipelines.ops.fragment import mask_fragment
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.infilling import infill_text, permute_sentences
from data_pipelines.ops.joined import frame_denoising, join_segments, mark_sentences
from data_pipelines.ops.permutation import permute
from data_pipelines.ops.sentinels import corrupt_spans, num_spans
from data_pipelines.ops.spans import mask_ngrams, mask_spans, mask_token_ngrams
from data_pipelines.ops.token_noise import delete_tokens, replace_tokens, rotate_document
from data_pipelines.text.frames import XLNET_STREAM
from data_pipelines.text.vocabulary import MASK, SEP, Vocabulary

PAIR_LABELS = {  # what the labels of two segments mean
    "next_sentence_labels": ("second segment", ("the next", "a random one")),
    "sentence_order_labels": ("segments", ("in order", "swapped")),
}
RED, GREEN, PLAIN = "\033[1;31m", "\033[32m", "\033[0m"
Example = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the records say: their vocabulary, framed length, rate of masking, predictions and features."""

    vocabulary: Vocabulary
    length: int
    rate: float
    num_predictions: int
    features: tuple[str, ...]
    replace_unit: str = "token"

    @property
    def budget(self) -> tuple[Vocabulary, float, int]:
        return self.vocabulary, self.rate, self.num_predictions

    @property
    def classic(self) -> tuple[int, int, float, int]:
        return self.vocabulary[MASK], len(self.vocabulary), self.rate, self.num_predictions

    @property
    def sentinels(self) -> list[int]:
        """Ids behind the vocabulary, from the end, as T5's."""
        count = max(1, num_spans(self.length, self.rate)[1])
        return list(range(len(self.vocabulary) + count - 1, len(self.vocabulary) - 1, -1))


def prepare(name: str, setting: Setting) -> tuple[Op, list[str]]:
    """Returns the op of an objective, and the tokens by id, sentinels included.

    Raises:
        DataError: the records lack the units that the objective hides.
    """
    needed = {"phrases": "phrase_start", "entities": "entity_start"}.get(name)
    if needed and needed not in setting.features:
        raise DataError(
            f"`--objective={name}` needs the feature `{needed}`, 1 where a unit opens. The records hold "
            f"{', '.join(sorted(setting.features))}. Write records that mark such units, or take whole_words."
        )
    sentinels = [f"<extra_id_{i}>" for i in range(len(setting.sentinels))]
    return OPS[name](setting), [*setting.vocabulary.tokens, *reversed(sentinels)]


def show_masked(example: Example, tokens: list[str], colours: bool = False) -> str:
    """Returns hidden tokens as `[answer→what stands there]`; permutation targets, which stay, as `[answer]`."""
    answers = {
        int(p): tokens[int(label)]
        for p, label, w in zip(example["mask_positions"], example["labels"], example["label_weights"], strict=True)
        if w
    }
    shown = []
    for place in range(int(example["padding_mask"].sum())):
        token = tokens[int(example["token_ids"][place])]
        if place in answers:
            token = f"{paint(f'[{answers[place]}', GREEN, colours)}→{paint(f'{token}]', RED, colours)}"
        shown.append(token)
    facts = [f"{len(answers)} tokens hidden"]
    for name, (title, meanings) in PAIR_LABELS.items():
        if name in example:
            facts.insert(0, f"{title}: {meanings[int(example[name])]}")
    return f"{' '.join(shown)}\n  {'; '.join(facts)}"


def show_sides(example: Example, tokens: list[str], colours: bool = False) -> str:
    """Returns the encoder's text with masks and sentinels marked, and what the decoder writes."""
    marked = {MASK, *(token for token in tokens[-200:] if token.startswith("<extra_id_"))}

    def line(ids, real):
        words = [tokens[int(i)] for i, there in zip(ids, real, strict=True) if there]
        return " ".join(paint(word, RED, colours) if word in marked else word for word in words)

    answer = line(example["labels"], example["label_weights"] > 0)
    return f"reads:  {line(example['token_ids'], example['padding_mask'])}\nwrites: {paint(answer, GREEN, colours)}"


def show_order(example: Example, tokens: list[str], colours: bool = False) -> str:
    """Targets with their place in the order, `[answer:3]`: it sees all other text and the targets before it."""
    used = example["label_weights"] > 0
    places = example["mask_positions"][used].astype(int)
    seen = example["query_mask"][used][:, places].sum(axis=1)  # targets that each target sees
    number = {int(place): rank for rank, place in enumerate(places[np.argsort(seen, kind="stable")], start=1)}
    shown = [tokens[int(i)] for i in example["token_ids"][: int(example["padding_mask"].sum())]]
    for place, rank in number.items():
        shown[place] = paint(f"[{shown[place]}:{rank}]", GREEN, colours)
    facts = "; reads backwards" if example.get("is_reversed", 0) else ""
    return f"{' '.join(shown)}\n  {len(number)} targets; none sees itself or one of a higher number{facts}"


def paint(text: str, colour: str, colours: bool) -> str:
    return f"{colour}{text}{PLAIN}" if colours else text


def _pair(op: Op, setting: Setting) -> Op:
    return compose(frame_pair(setting.vocabulary, setting.length), op)


def _joined(s: Setting, *noise: Op) -> Op:
    return compose(join_segments(s.length - 2, s.vocabulary[SEP]), *noise)


def _sentences(s: Setting) -> tuple[Op, ...]:
    marked = () if "sentence_start" in s.features else (mark_sentences(s.vocabulary),)
    return (*marked, permute_sentences())


def _denoising(s: Setting, *noise: Op) -> Op:
    return _joined(s, *noise, frame_denoising(s.vocabulary, s.length))


def _permute(s: Setting) -> Op:
    if "is_reversed" not in s.features:
        return _pair(permute(s.num_predictions), s)
    reused = s.length // 2  # of records of `--packing=stream_bidirectional`
    return compose(frame_pair(s.vocabulary, s.length, XLNET_STREAM), permute(max(2, s.length // 6), reused, reused))


OPS: dict[str, Callable[[Setting], Op]] = {
    "masked_lm": lambda s: _pair(mask_tokens(*s.classic), s),
    "whole_words": lambda s: _pair(mask_whole_words(*s.classic, replace_unit=s.replace_unit), s),
    "ngrams": lambda s: _pair(mask_ngrams(*s.budget), s),
    "spans": lambda s: _pair(mask_spans(*s.budget), s),
    "phrases": lambda s: _pair(mask_units(s.vocabulary, "phrase_start", s.rate, s.num_predictions), s),
    "entities": lambda s: _pair(mask_units(s.vocabulary, "entity_start", s.rate, s.num_predictions), s),
    "unilm": lambda s: _pair(mask_token_ngrams(*s.budget), s),
    "mass": lambda s: _joined(s, mask_fragment(s.vocabulary, s.length)),
    "text_infilling": lambda s: _denoising(s, infill_text(s.vocabulary[MASK])),
    "sentence_permutation": lambda s: _denoising(s, *_sentences(s)),
    "token_masking": lambda s: _denoising(s, replace_tokens(s.vocabulary[MASK], s.rate)),
    "token_deletion": lambda s: _denoising(s, delete_tokens(s.rate)),
    "document_rotation": lambda s: _denoising(s, rotate_document()),
    "bart": lambda s: _denoising(s, *_sentences(s), infill_text(s.vocabulary[MASK])),
    "span_corruption": lambda s: _joined(s, corrupt_spans(s.sentinels, s.vocabulary[SEP], s.length - 2, s.rate)),
    "permutation_lm": _permute,
}
SHOW = {HIDDEN: show_masked, SIDES: show_sides, ORDER: show_order}
