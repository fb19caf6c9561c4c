"""What makes two taggers different, beside their tags."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated

from data_pipelines.finetuning.tag_schemes import END, INSIDE, SPAN_TAG
from data_pipelines.schema import Constraint, Positive, whole

COMBINATIONS = ("concat", "mix", "mix_both")
OUTSIDE = "O"
PREFIXES = ("B", "I")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What stands in the task.json of a run; runs without these have the defaults.

    Attributes:
        crf: whether a linear chain decides about the tags of a text together.
        doc_stride: tokens from the beginning of one window of a long text to that of the next; None for half a window.
        freeze_backbone: whether the network below the head does not learn, and has no dropout.
        feature_layers: whose states the head reads, counted from 0, the embedding, or from -1, the last one; none for what a call of
            the network returns.
        combine_layers: how several become one: side by side, or by a learnt mix; with `mix_both` another mix stands beside what the
            BiLSTM gives (Peters et al., 2018, section 3.3).
        bilstm_dim: the width of each direction of a BiLSTM of two layers below the Dense layer; 0 for none.
    """

    crf: bool = False
    doc_stride: Positive | None = None
    freeze_backbone: bool = False
    feature_layers: list[int] = dataclasses.field(default_factory=list)
    combine_layers: Annotated[str, Constraint(lambda name: name in COMBINATIONS, "concat, mix or mix_both")] = "mix"
    bilstm_dim: whole(0) = 0


def are_spans(labels: Sequence[str]) -> bool:
    """Returns whether tags mark the beginnings and insides of spans, as B-PER and I-PER do."""
    return all(label == OUTSIDE or label.partition("-")[0] in PREFIXES and "-" in label for label in labels)


def in_other_scheme(labels: Sequence[str]) -> bool:
    """Returns whether tags mark spans otherwise than BIO does, as those of a converted tagger may: in a scheme with ends, or of
    IOB1, which has I-X without B-X."""
    if not all(SPAN_TAG.fullmatch(str(label)) for label in labels):
        return False
    return not are_spans(labels) or set(labels_in_bio(labels)) != set(labels)


def labels_in_bio(labels: Sequence[str]) -> list[str]:
    """Returns the tags that `labels` become when texts are given tags of BIO; tags that mark no spans stay as they are."""
    if not all(SPAN_TAG.fullmatch(str(label)) for label in labels):
        return list(labels)
    parts = [label.partition("-") for label in labels]
    begin = [f"B-{kind}" for _, _, kind in parts if kind]
    inside = [f"I-{kind}" for prefix, _, kind in parts if prefix in INSIDE + END]
    return list(dict.fromkeys([*(label for label in labels if label == OUTSIDE), *begin, *inside]))


def may_stand(labels: Sequence[str]) -> Mapping[str, list]:
    """Returns which tags may begin a text, and which may follow which, as `LinearChain` takes them: of spans I-X only behind
    B-X or I-X."""
    parts = [str(label).partition("-") for label in labels]
    if not are_spans([str(label) for label in labels]):
        return {"may_start": [True] * len(parts), "may_follow": [[True] * len(parts)] * len(parts)}
    begun = {kind for prefix, _, kind in parts if prefix == PREFIXES[0]}
    free = [prefix != PREFIXES[1] or kind not in begun for prefix, _, kind in parts]
    follow = [
        [is_free or (before[0] in PREFIXES and before[2] == tag[2]) for is_free, tag in zip(free, parts, strict=True)]
        for before in parts
    ]
    return {"may_start": free, "may_follow": follow}
