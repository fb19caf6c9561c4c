"""A text and its translation, summary or answer.

Text and its translation, or any text and what is to be written from it (Vaswani et al., 2017, section 5.1).
"""

from data_pipelines.corpora.labelled import RawExample, broken_examples
from data_pipelines.corpora.translations import read_translations
from data_pipelines.features import Feature
from data_pipelines.finetuning.shown import words
from data_pipelines.finetuning.task import Task, count_tokens
from data_pipelines.text.framing import max_text_tokens


class Translate(Task):
    """Two texts apart, each up to the length. Cutting would leave words without their translation, so long ones go."""

    name = "translate"
    own_flags = ("target_file",)
    long_text = "drop"

    def examples(self, path):
        target, bad_rows = self.settings.target_file, self.bad_rows()
        for source, translation, place in read_translations(path, self.settings.columns(), target, bad_rows):
            empty = not source.strip() or not translation.strip()
            problem = "empty text: one side says nothing" if empty else None
            yield RawExample(place, {"source": source, "target": translation}, problem=problem)
        yield from broken_examples(bad_rows)

    def features(self, size):
        return {
            "token_ids": Feature((None,)),
            "target_ids": Feature((None,)),
            "segment_lengths": Feature((2,)),
            "example_ids": Feature(()),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        capacity = max_text_tokens(1, self.settings.max_seq_length)
        sources, targets = (tokenizer.encode_batch([value[name] for value in values]) for name in ("source", "target"))
        for index, source, target in zip(indices, sources, targets, strict=True):
            longest = max(len(source.ids), len(target.ids))
            counts["cut"] += longest > capacity
            if longest > capacity and self.leaves_out_long:
                counts["left_out_long"] += 1
                continue
            ids, target_ids = source.ids[:capacity], target.ids[:capacity]
            counts["cut_tokens"] += len(source.ids) + len(target.ids) - len(ids) - len(target_ids)
            count_tokens(ids + target_ids, tokenizer, counts)
            counts["example_tokens"] += len(ids) + len(target_ids) + 4
            yield {
                "token_ids": ids,
                "target_ids": target_ids,
                "segment_lengths": [len(ids), len(target_ids)],
                "example_ids": [index],
            }

    @classmethod
    def render(cls, record, tokens, labels):
        ids, lengths = record["token_ids"], record["segment_lengths"]
        return f"{words(ids[: lengths[0]], tokens)}\n  → {words(record['target_ids'][: lengths[1]], tokens)}"
