"""ELECTRA's masks: a generator fills them, by numbers that are drawn here (Clark et al., 2020, arXiv 2003.10555).

The number of a masked token belongs to the example, so a run that resumes samples the same tokens.
"""

import tensorflow as tf

from data_pipelines.ops.cloze import budget_of, positions_of, replace
from data_pipelines.ops.compose import Op
from data_pipelines.ops.corruption import choose_words
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import MASK, Vocabulary

MASKED = 0.85  # of the chosen tokens, as in ELECTRA's released code; others stay, so that the generator sees them too


def mask_for_samples(
    vocabulary: Vocabulary, rate: float = 0.15, num_predictions: int = 20, masked: float = MASKED
) -> Op:
    """Chooses random tokens as BERT does, masks a share `masked` of them and keeps the others.

    Reads:  token_ids, padding_mask, maskable, all (B, L); seed (B,).
    Writes: token_ids, clean_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights and draws, uniform in
        [0, 1), float32 (B, P).
    Drops: maskable.
    """
    mask_id = vocabulary[MASK]

    def op(features):
        features, seed = take_seed(features)
        token_ids, maskable = features["token_ids"], features.pop("maskable")
        budget = budget_of(features, rate, num_predictions)
        chosen = choose_words(tf.ones_like(token_ids), maskable, budget, fold(seed, 0))  # (B, L)
        positions, weights = positions_of(chosen, num_predictions)
        return {
            **features,
            "token_ids": replace(token_ids, chosen, mask_id, 1, fold(seed, 1), rates=(masked, 0.0)),
            "clean_ids": token_ids,
            "mask_positions": positions,
            "labels": tf.where(weights > 0, tf.gather(token_ids, positions, batch_dims=1), 0),
            "label_weights": weights,
            "draws": uniform(fold(seed, 2), num_predictions),
        }

    return op
