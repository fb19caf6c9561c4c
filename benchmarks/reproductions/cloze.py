"""Gaps in held-out Chinese text: how often a masked language model predicts whole words, and single characters of words."""

from collections import Counter

import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import iterate_table
from data_pipelines.text.words import align, segmenter
from xmodels.models.backbone import Backbone
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.runs import loaded

LENGTH, BATCH, TEXTS, GAPS = 128, 64, 1500, 10  # tokens, rows, texts, and gaps of a text
LONGEST = 4  # characters of a word that is hidden
# All characters of a hidden word; the same of words that the lexicon has; of hidden words, each character for itself; and characters
# of words whose others are shown.
KINDS = WORDS, NAMES, OF_WORDS, SINGLE = "whole words", "names", "characters of whole words", "single characters"


def score(run: str, file: str, names: str) -> dict[str, float]:
    """Shares that a pretrained network names right; the same gaps for every network of one vocabulary.

    Args:
        file: JSON lines with `text`.
        names: a lexicon, a name a line.

    Returns:
        For each of `KINDS` the share; "gaps of names", how many there are; and "commonest of names", the share of the most
        frequent one among them.
    """
    found = loaded.load(run)
    objective = MaskedLM(found.backbone.config)
    with open(names, encoding="utf-8") as lines:
        known = set(lines.read().split())
    rows = gaps(
        found.tokenizer, known, [row.texts[0] for row in iterate_table(file, Columns("text"), with_labels=False)]
    )
    built = False
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    hidden: dict[str, list[tuple[int, ...]]] = {kind: [] for kind in KINDS}
    for begin in range(0, len(rows), BATCH):
        batch, labels, kinds = batch_of(found, rows[begin : begin + BATCH])
        outputs = found.backbone(batch)
        if not built:  # the head gets its weights once it is there
            objective.logits(outputs, batch, found.backbone)
            found.assign(objective)
            built = True
        named = np.argmax(np.asarray(objective.logits(outputs, batch, found.backbone)), axis=-1)
        for row, kind in enumerate(kinds):
            wanted = labels[row][labels[row] >= 0]
            each = named[row][labels[row] >= 0] == wanted
            if kind in (WORDS, NAMES):
                right[kind].append(bool(each.all()))
                hidden[kind].append(tuple(wanted))
            if kind != NAMES:
                alone = OF_WORDS if kind == WORDS else kind
                right[alone] += each.tolist()
                hidden[alone] += [(label,) for label in wanted]
    return {
        **{kind: float(np.mean(values)) for kind, values in right.items()},
        **{f"gaps of {kind}": len(values) for kind, values in right.items()},
        **{f"commonest of {kind}": Counter(each).most_common(1)[0][1] / len(each) for kind, each in hidden.items()},
    }


def gaps(tokenizer, names: set[str], texts: list[str]) -> list[tuple[list[int], list[int], str]]:
    """(ids, places that are hidden, what that is): words of several characters, each also as one character of it, and names."""
    words_of, rng, rows = segmenter("jieba"), np.random.default_rng(0), []
    for text, pieces in zip(texts[:TEXTS], tokenizer.encode_batch(texts[:TEXTS]), strict=True):
        starts = align(pieces, words_of(text)) if pieces.ids else None
        if starts is None:
            continue
        opens = [*(place for place, start in enumerate(starts) if start), len(starts)]
        words = [
            range(a, b)
            for a, b in zip(opens, opens[1:], strict=False)
            if 2 <= b - a <= LONGEST
            and b <= LENGTH - 2
            and all(is_ideograph(text[slice(*pieces.spans[p])]) for p in range(a, b))
        ]
        for place in rng.permutation(len(words))[:GAPS]:
            word = words[place]
            rows.append((pieces.ids[: LENGTH - 2], list(word), WORDS))
            rows.append((pieces.ids[: LENGTH - 2], [int(rng.choice(word))], SINGLE))
        known = [word for word in words if text[pieces.spans[word[0]][0] : pieces.spans[word[-1]][1]] in names]
        rows += [(pieces.ids[: LENGTH - 2], list(word), NAMES) for word in known[:GAPS]]
    return rows


def is_ideograph(text: str) -> bool:
    return len(text) == 1 and "\u4e00" <= text <= "\u9fff"


def batch_of(found, rows):
    """Features of rows with [MASK] in the gaps, labels (B, LONGEST), -1 where there is none, and what was hidden."""
    vocabulary, backbone = found.tokenizer.vocabulary, found.backbone
    longest = max(len(ids) for ids, *_ in rows) + 2
    token_ids = np.full((len(rows), longest), vocabulary.padding_id, "int32")
    labels, places = np.full((len(rows), LONGEST), -1), np.zeros((len(rows), LONGEST), "int32")
    for row, (ids, hidden, _) in enumerate(rows):
        framed = [vocabulary["[CLS]"], *ids, vocabulary["[SEP]"]]
        token_ids[row, : len(framed)] = framed
        for slot, place in enumerate(hidden):
            token_ids[row, place + 1] = vocabulary["[MASK]"]
            labels[row, slot], places[row, slot] = ids[place], place + 1
    return (
        features(backbone, token_ids, token_ids != vocabulary.padding_id, places),
        labels,
        [kind for *_, kind in rows],
    )


def features(backbone: Backbone, token_ids, padding_mask, places) -> dict[str, np.ndarray]:
    given = {"token_ids": token_ids, "padding_mask": padding_mask, "segment_ids": np.zeros_like(token_ids)}
    return {name: value for name, value in given.items() if name in backbone.reads} | {"mask_positions": places}
