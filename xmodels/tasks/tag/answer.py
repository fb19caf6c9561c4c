"""Words with their tags, and the entities that these name, with their places in the text."""

import dataclasses
import json

import numpy as np

from data_pipelines.corpora.tables import read_table
from xmodels.tasks.base import answer
from xmodels.tasks.tag.words import OUTSIDE, Entity, Words, are_spans, as_spans, encoded, entities, pack_words, words_of


@dataclasses.dataclass(frozen=True)
class Tagged:
    """A text whose words have tags.

    Attributes:
        spans: the first and one past the last character of each word.
        tags: of each word; `O` where it lies behind what the network reads, or has no piece.
        probabilities: of these tags; 0 where the network said nothing.
        entities: the stretches that the tags name.
    """

    text: str
    spans: list[tuple[int, int]]
    tags: list[str]
    probabilities: list[float]
    entities: list[Entity]


class Predictor(answer.Predictor):
    """Tags texts: strings, or `Words` whose words are known."""

    answers = "texts with their entities"

    def example(self):
        return Words("", [])

    def words(self, asked) -> Words:
        return words_of(asked, self.tokenizer) if isinstance(asked, str) else asked

    def features(self, inputs):
        """token_ids, segment_ids, word_ids int32, padding_mask bool, label_weights float32: 1 where a word begins; (B, L)."""
        rows = encoded([self.words(asked) for asked in inputs], self.tokenizer)
        return pack_words(rows, self.tokenizer, self.max_sequence_length, self.task.reading.frame)

    def size(self, asked):
        return len(asked if isinstance(asked, str) else asked.text)

    def predictions(self, inputs, features, outputs):
        return [self._tagged(self.words(asked), row, features, outputs) for row, asked in enumerate(inputs)]

    def _tagged(self, words: Words, row: int, features, outputs) -> Tagged:
        opens = features["label_weights"][row] > 0
        places = features["word_ids"][row][opens]
        tags, probabilities = np.full(len(words.spans), OUTSIDE, object), np.zeros(len(words.spans))
        tags[places] = np.array(self.labels, object)[outputs["label_ids"][row][opens]]
        probabilities[places] = outputs["probabilities"][row][opens]
        found = entities(words, as_spans(tags, are_spans(self.labels)))
        return Tagged(words.text, words.spans, tags.tolist(), probabilities.tolist(), found)

    def inputs(self, question):
        self.refuse(question, ("text_pair", "text_pair_column"), "tagging reads one text only")
        if question.text is not None:
            return [question.text]
        if question.input_file.endswith(".txt"):
            return [line or None for line in answer.plain_lines(question.input_file)]
        return [row.texts[0] for row in read_table(question.input_file, self.columns_of(question), with_labels=False)]

    def columns_of(self, question, label=None):
        return super().columns_of(question, label) if question.text_column else answer.Columns()  # others are of CoNLL

    def shown(self, asked, prediction):
        for (first, end), tag, probability in zip(
            prediction.spans, prediction.tags, prediction.probabilities, strict=True
        ):
            yield f"  {probability:.4f}  {tag}  {prediction.text[first:end]}"
        yield f"entities: {len(prediction.entities)}"
        for each in prediction.entities:
            yield f"  {each.type}  {each.start}-{each.end}  {each.text}"

    def line(self, asked, prediction):
        found = ", ".join(f"{each.text} ({each.type} {each.start}-{each.end})" for each in prediction.entities)
        return f"{found}\t{prediction.text}"

    def header(self):
        return ["text", "entities"]

    def row(self, asked, prediction):
        found = [dataclasses.asdict(each) for each in prediction.entities]
        return [prediction.text, json.dumps(found, ensure_ascii=False)]

    def record(self, asked, prediction):
        words = [
            {"text": prediction.text[first:end], "tag": tag, "start": first, "end": end}
            for (first, end), tag in zip(prediction.spans, prediction.tags, strict=True)
        ]
        found = [dataclasses.asdict(each) for each in prediction.entities]
        return {"text": prediction.text, "entities": found, "words": words}
