"""The layout of the records of Google's `create_pretraining_data.py`, of BERT and of ALBERT."""

from data_pipelines.features import Feature


def static_features(length: int, num_predictions: int, packing: str | None = None) -> dict[str, Feature]:
    """What such a record holds: examples of fixed length that are masked already. ALBERT's, whose `packing` is `sentence_order`,
    also tell where words begin; nothing here needs that."""
    boundaries = {"token_boundary": Feature((length,))} if packing == "sentence_order" else {}
    return {
        "input_ids": Feature((length,)),
        "input_mask": Feature((length,)),
        "segment_ids": Feature((length,)),
        "masked_lm_positions": Feature((num_predictions,)),
        "masked_lm_ids": Feature((num_predictions,)),
        "masked_lm_weights": Feature((num_predictions,), "float32"),
        "next_sentence_labels": Feature((1,)),
        **boundaries,
    }
