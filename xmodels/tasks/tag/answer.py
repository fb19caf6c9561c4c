"""Words with their tags, and the entities that these name, with their places in the text."""

import dataclasses
import json

import numpy as np

from data_pipelines.finetuning.tag_schemes import to_bio
from xmodels.tasks.base import answer
from xmodels.tasks.base.answer import compile_answer
from xmodels.tasks.tag.settings import OUTSIDE, Settings, are_spans, in_other_scheme, labels_in_bio
from xmodels.tasks.tag.words import Entity, Words, as_spans, encode_words, entities, pack_words, windows_of, words_of

POOL = 256  # texts whose windows are in memory at once


@dataclasses.dataclass(frozen=True)
class Tagged:
    """A text whose words have tags.

    Attributes:
        spans: the first and one past the last character of each word.
        tags: of each word, those of spans as BIO; `O` where it has no piece.
        probabilities: of these tags; 0 where a word has no piece.
        entities: the stretches that the tags name.
    """

    text: str
    spans: list[tuple[int, int]]
    tags: list[str]
    probabilities: list[float]
    entities: list[Entity]


class Predictor(answer.Predictor):
    """Tags texts: strings, or `Words` whose words are known. Long ones are read in windows, of which each word is asked in the one
    that shows most around it; the tags of all words of a text are then chosen together."""

    answers = "texts with their entities"

    def __init__(self, run, columns=None):
        self.settings = run.settings(Settings)
        super().__init__(run, columns)
        self._decode = compile_answer(lambda given: self.task.decode(given["logits"], given["words"]))

    def make_task(self, run):
        return run.make_task(settings=self.settings)

    def as_input(self, text):
        return text

    def example(self):
        return [], np.zeros(0, np.int64), np.zeros(0, np.int64)

    def words(self, asked) -> Words:
        return words_of(asked, self.tokenizer) if isinstance(asked, str) else asked

    def features(self, inputs):
        """Returns (B, L): token_ids, segment_ids, word_ids int32, padding_mask bool, label_weights float32: 1 where a word
        counts."""
        return pack_words(inputs, self.tokenizer, self.max_sequence_length, self.task.reading.frame)

    def size(self, asked):
        return len(asked[0])

    def answer(self, features):
        return {"logits": self.task.emissions(self.backbone, features)["logits"]}

    def predictions(self, inputs, features, outputs):
        """Returns that of each window the words that count there, and their logits."""
        counts = features["label_weights"] > 0
        return [(features["word_ids"][row][c], outputs["logits"][row][c]) for row, c in enumerate(counts)]

    def predict(self, inputs, batch_size=32, progress=lambda count: None) -> list[Tagged]:
        """Tags texts; each of their windows is a row of a batch."""
        found, frame = [], self.task.reading.frame
        for first in range(0, len(inputs), POOL):
            texts = [self.words(asked) for asked in inputs[first : first + POOL]]
            rows = encode_words(texts, self.tokenizer)
            windows = windows_of(rows, self.settings.doc_stride, self.max_sequence_length, frame)
            answered = iter(super().predict([each for made in windows for each in made], batch_size))
            parts = [[next(answered) for _ in made] for made in windows]
            found += self._tagged(texts, parts, batch_size)
            progress(len(texts))
        return found

    def _tagged(self, texts: list[Words], parts: list[list[tuple]], batch_size: int) -> list[Tagged]:
        """Returns the tags of texts, from the words and logits of their windows."""
        places, logits = ([np.concatenate([part[side] for part in made]) for made in parts] for side in (0, 1))
        found: list = [None] * len(texts)
        order = np.argsort([len(each) for each in places], kind="stable")  # of like length, as little is then padding
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            lengths = np.array([len(places[row]) for row in rows])
            words = np.arange(max(1, lengths.max())) < lengths[:, None]  # (B, W)
            given = np.zeros((*words.shape, len(self.labels)), np.float32)
            given[words] = np.concatenate([logits[row] for row in rows])
            chosen = self._decode({"logits": given, "words": words})
            for row, ids, likely, real in zip(rows, chosen["label_ids"], chosen["probabilities"], words, strict=True):
                found[row] = self._with_tags(texts[row], places[row], ids[real], likely[real])
        return found

    def _with_tags(self, words: Words, places, label_ids, likely) -> Tagged:
        tags, probabilities = np.full(len(words.spans), OUTSIDE, object), np.zeros(len(words.spans))
        tags[places] = np.array(self.labels, object)[label_ids]
        probabilities[places] = likely
        if in_other_scheme(self.labels):
            tags = np.array(to_bio(tags), object)
        found = entities(words, as_spans(tags, are_spans(labels_in_bio(self.labels))))
        return Tagged(words.text, words.spans, tags.tolist(), probabilities.tolist(), found)

    def inputs(self, question):
        self.refuse(question, ("text_pair", "text_pair_column"), "tagging reads one text only")
        if question.text is not None:
            return [question.text]
        if question.input_file.endswith(".txt"):
            return (line or None for line in answer.each_line(question.input_file))
        return (row.texts[0] for row in self.table_rows(question))

    def columns_of(self, text, text_pair=None, label=None):
        return super().columns_of(text, text_pair, label) if text else answer.Columns()  # others are of CoNLL

    def describe_prediction(self, asked, prediction):
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
            {"text": prediction.text[first:end], "tag": tag, "start": first, "end": end, "probability": probability}
            for (first, end), tag, probability in zip(
                prediction.spans, prediction.tags, prediction.probabilities, strict=True
            )
        ]
        found = [dataclasses.asdict(each) for each in prediction.entities]
        return {"text": prediction.text, "entities": found, "words": words}
