"""Static masking, drawn once when the records are written.

Restates `create_masked_lm_predictions` of google-research/bert, draw by draw: given the same `random.Random` it makes
the same masks. The usual way is to mask in the graph (`data_pipelines.ops.corruption`), anew in every epoch.
"""

import dataclasses


@dataclasses.dataclass
class Masked:
    """A sequence with hidden tokens; `positions` ascend, `labels` are the tokens that stood there."""

    tokens: list
    positions: list[int]
    labels: list


def mask_statically(tokens, word_start, vocabulary, rate, max_predictions, whole_words, rng) -> Masked:
    """Hides tokens of one sequence.

    Args:
        tokens: the sequence with `[CLS]` and `[SEP]`, as strings or as ids.
        word_start: for each token whether it opens a word; None for special tokens, which are never hidden.
        vocabulary: (mask, all tokens in id order), of the same kind as `tokens`.
        rate: the share to hide, of the length with special tokens.
        max_predictions: an upper limit on the number of hidden tokens.
        whole_words: hide all tokens of a word, or none; a word that would exceed the number is skipped.
        rng: a `random.Random`.
    """
    mask, words = vocabulary
    groups: list[list[int]] = []
    for index, starts in enumerate(word_start):
        if starts is None:
            continue
        if whole_words and groups and not starts:
            groups[-1].append(index)
        else:
            groups.append([index])
    rng.shuffle(groups)
    wanted = min(max_predictions, max(1, round(len(tokens) * rate)))
    hidden, positions = list(tokens), []
    for group in groups:
        if len(positions) >= wanted:
            break
        if len(positions) + len(group) > wanted:
            continue
        for index in group:
            if rng.random() < 0.8:
                hidden[index] = mask
            elif rng.random() >= 0.5:
                hidden[index] = words[rng.randint(0, len(words) - 1)]
            positions.append(index)
    positions.sort()
    return Masked(hidden, positions, [tokens[index] for index in positions])
