"""Finds the added tokens of a tokenizer (`text.recognized_tokens`) inside a TensorFlow graph."""

import re

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer import Tokenizer

MARK = b"\xff"  # stands in no UTF-8 text
NONE = -1


class GraphAddedTokens(tf.Module):
    """Parts texts at added tokens, which have the ids of their own, and leaves what is between to a tokenizer of the graph.

    Raises:
        UsageError: a token takes blanks beside it, is a word of its own, or has other letters than ASCII in lower case.
    """

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        patterns, ids, lowered = {}, {}, {}
        for each in tokenizer.added_tokens:
            content = each["content"]
            lowers = bool(each.get("normalized")) and tokenizer.do_lower_case
            wrong = [name for name in ("lstrip", "rstrip", "single_word") if each.get(name)]
            if wrong or (lowers and not content.isascii()):
                raise UsageError(
                    f"The added token {content!r} ({wrong[0] if wrong else 'normalized'}) is not available in a graph. Serve the run "
                    "folder with `xmodels predict`, which tokenizes outside of it."
                )
            index = tokenizer.vocabulary.ids[content]
            patterns[content] = f"(?i:{_quoted(content)})" if lowers else _quoted(content)
            (lowered if lowers else ids)[content.lower() if lowers else content] = index
        longest_first = sorted(patterns, key=lambda content: (-len(content), content))
        self.pattern = f"({'|'.join(patterns[content] for content in longest_first)})"
        self.ids, self.lowered = _table(ids), _table(lowered)

    def __call__(self, text: tf.Tensor, tokenize) -> tf.RaggedTensor:
        """Returns the ids, int32 (B, None), of texts (B,); `tokenize` gives those of what holds no such token."""
        parts = tf.strings.split(tf.strings.regex_replace(text, self.pattern, MARK + rb"\1" + MARK), MARK)  # (B, None)
        part = parts.flat_values  # (N,)
        added = tf.maximum(self.ids.lookup(part), self.lowered.lookup(tf.strings.lower(part)))
        others = tokenize(tf.where(added == NONE, part, ""))  # (N, None)
        own = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(added, added != NONE), tf.cast(added != NONE, tf.int64))
        return parts.with_flat_values(tf.concat([own, others], axis=1)).merge_dims(1, 2)


def _quoted(content: str) -> str:
    """Returns a pattern of RE2 that matches the text itself."""
    return re.sub(r"([^\w\s])", r"\\\1", content, flags=re.ASCII) if content.isascii() else re.escape(content)


def _table(ids: dict[str, int]) -> tf.lookup.StaticHashTable:
    keys, values = list(ids) or [MARK], list(ids.values()) or [NONE]
    entries = tf.lookup.KeyValueTensorInitializer(tf.constant(keys, tf.string), tf.constant(values, tf.int32))
    return tf.lookup.StaticHashTable(entries, default_value=NONE)
