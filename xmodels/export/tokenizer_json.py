"""A tokenizer as the `tokenizer.json` of the library `tokenizers`, where it reads texts as the run does."""

import numpy as np
from tokenizers import Tokenizer, processors

from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import Server

FILE = "tokenizer.json"
FEATURES = {
    "token_ids": "ids",
    "segment_ids": "type_ids",
    "padding_mask": "attention_mask",
}  # and what `tokenizers` calls them


def tokenizer_json(server: Server) -> str | None:
    """Returns the file's content; None where the library cannot read texts as the run does.

    It frames, shortens and pads, so `encode_batch` gives what the network reads. It is compared with the run on the rows by which
    exports are checked.
    """
    own, task = server.predictor.tokenizer, server.task
    if not isinstance(own.backend, Tokenizer) or not hasattr(server, "tokens") or task.orders:
        return None
    frame, vocabulary = task.reading.frame, own.vocabulary
    if not frame.roles <= {*vocabulary.roles, *vocabulary.ids}:
        return None
    made = Tokenizer.from_str(own.backend.to_str())
    spelled = {part.role: vocabulary.tokens[vocabulary[part.role]] for part in frame.parts if part.role}

    def template(num_texts: int) -> str:
        parts = frame.of_texts(num_texts)
        return " ".join(f"{'$' + 'AB'[p.text] if p.role is None else spelled[p.role]}:{p.segment}" for p in parts)

    special = [(token, vocabulary.ids[token]) for token in spelled.values()]
    made.post_processor = processors.TemplateProcessing(template(1), template(2), special)
    made.enable_truncation(server.max_sequence_length)
    pad = vocabulary["[PAD]"]
    made.enable_padding(
        direction="left" if frame.pads_left else "right", pad_id=pad, pad_type_id=frame.pad_segment, pad_token=vocabulary.tokens[pad]
    )  # fmt: skip
    text = made.to_str(pretty=True)
    return text if reads_alike(Tokenizer.from_str(text), server) else None


def reads_alike(tokenizer: Tokenizer, server: Server) -> bool:
    """Returns whether a tokenizer gives what the run reads of the rows by which exports are checked."""
    rows = list(server.checked)
    read = tokenizer.encode_batch([row[0] if len(row) == 1 else row for row in rows])
    wanted = without_padding(server.predictor.features(rows))
    return set(wanted) == set(FEATURES) and all(
        np.array_equal(np.array([getattr(each, name) for each in read]), wanted[feature])
        for feature, name in FEATURES.items()
    )
