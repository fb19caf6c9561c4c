"""The values of `inspect_data --objective`, and how the examples of each are shown. Imports nothing heavy.

`showcase` holds what makes them, by the same names.
"""

HIDDEN, SIDES, ORDER = "hidden tokens", "encoder and decoder", "order of targets"
OBJECTIVES = {
    "masked_lm": HIDDEN,
    "whole_words": HIDDEN,
    "ngrams": HIDDEN,
    "spans": HIDDEN,
    "phrases": HIDDEN,
    "entities": HIDDEN,
    "unilm": HIDDEN,
    "mass": SIDES,
    "text_infilling": SIDES,
    "sentence_permutation": SIDES,
    "token_masking": SIDES,
    "token_deletion": SIDES,
    "document_rotation": SIDES,
    "bart": SIDES,
    "span_corruption": SIDES,
    "permutation_lm": ORDER,
}
