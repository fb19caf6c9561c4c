"""The format of the records of Google's `create_pretraining_data.py`, of BERT and of ALBERT, and that of labelled records."""

import numpy as np

from data_pipelines import layout
from data_pipelines.features import Feature
from data_pipelines.layout import RecordFormat
from data_pipelines.records import lengths


def static_features(length: int, num_predictions: int, marks_words: bool = False) -> dict[str, Feature]:
    """Returns what such a record holds: examples of fixed length that are masked already. ALBERT's also tell where words begin;
    nothing here needs that."""
    boundaries = {"token_boundary": Feature((length,))} if marks_words else {}
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


def _hidden_wrongly(values, settings):
    """Yields the records that hide a token outside of the text, or one twice."""
    used = values["masked_lm_weights"] > 0  # (N, P)
    real = values["input_mask"].sum(axis=1)  # (N,)
    positions = np.where(used, values["masked_lm_positions"], -1)
    most = positions.max(axis=1)
    yield most >= real, lambda n: f"hides a token at position {most[n]}, but the text has {real[n]} tokens (from 0)"
    twice = np.array([len(set(row[row >= 0])) < (row >= 0).sum() for row in positions])
    yield twice, lambda n: f"hides a token twice: masked_lm_positions are {positions[n][used[n]].tolist()}"


GOOGLE = RecordFormat(
    lengths=lengths.of_mask, measured=("input_mask",), ids=("input_ids", "masked_lm_ids"), faults=_hidden_wrongly
)
LABELLED = RecordFormat(lengths=lengths.of_framed_segments)


def format_of(settings) -> RecordFormat:
    """Returns the format of the records of a manifest with these `RecordSettings`: a layout, Google's, or that of labelled records."""
    if settings.masking == "static":
        return GOOGLE
    return layout.find(settings.packing) if settings.packing else LABELLED
