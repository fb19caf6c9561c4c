"""Questions about stories.

Questions about stories, as bAbI asks them: a record holds the words of each sentence, and of the question, (M, W).
"""

import functools

import numpy as np

from data_pipelines.corpora.babi import read_babi, task_files
from data_pipelines.corpora.labelled import RawExample
from data_pipelines.features import Feature
from data_pipelines.finetuning.shown import words
from data_pipelines.finetuning.stories import StoryEncoder, is_sign, vocabulary_of
from data_pipelines.finetuning.task import Task, count_tokens
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.plain_units import WordSplitter


class AnswerStory(Task):
    """An answer, one of those that the training has, for a story and a question."""

    name = "answer_story"
    names_labels = True
    needs_vocabulary = False  # without one the words of the stories are the vocabulary

    def paths(self):
        return task_files(self.settings.input_file)

    def open_tokenizer(self):
        if self.settings.vocab_file:
            kind = "words" if self.settings.tokenizer == "auto" else self.settings.tokenizer
            return open_tokenizer(self.settings.vocab_file, kind, self.settings.do_lower_case)
        questions = [asked for path in self.paths() for asked in read_babi(path)]
        return vocabulary_of(questions, self.settings.do_lower_case is not False)

    def examples(self, path):
        for asked in read_babi(path):
            value = {"sentences": list(asked.sentences), "question": asked.question, "answer": asked.answer}
            empty = next((text for text in (*asked.sentences, asked.question) if not self.num_words(text)), None)
            problem = self.refuses(asked.answer) if empty is None else f"no word: {empty[:60]!r}"
            yield RawExample(asked.place, value, problem=problem)

    def num_words(self, text: str) -> int:
        return num_words(text, self.settings.do_lower_case is not False)

    def labels_of(self, value):
        return (value["answer"],)

    def check_labels(self, labels, num_examples, inputs):
        """Checks nothing: answers stand in no column that could be another one."""

    def size_of(self, value):
        return max(map(self.num_words, (*value["sentences"], value["question"])))

    def features(self, size):
        length = self.settings.max_seq_length
        return {
            "token_ids": Feature((length, size)),
            "segment_lengths": Feature((length, 2)),
            "labels": Feature(()),
            "example_ids": Feature(()),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        length = self.settings.max_seq_length
        encoder = StoryEncoder(tokenizer, length - 1, size)
        for index, value in zip(indices, values, strict=True):
            is_cut = len(value["sentences"]) >= length
            counts["cut"] += is_cut
            if is_cut and self.leaves_out_long:
                counts["left_out_long"] += 1
                continue
            (ids,) = encoder.arrays([(value["sentences"], value["question"])], length)["token_ids"]
            lengths = np.count_nonzero(ids, axis=1)
            count_tokens(ids[ids > 0].tolist(), tokenizer, counts)
            yield {
                "token_ids": ids,
                "segment_lengths": np.stack([lengths, np.zeros_like(lengths)], axis=1),
                "labels": [self.labels.index(value["answer"])],
                "example_ids": [index],
            }

    @classmethod
    def render(cls, record, tokens, labels):
        rows = zip(record["token_ids"], record["segment_lengths"][:, 0], strict=True)
        *sentences, asked = [words(row[:length], tokens) for row, length in rows if length]
        shown = [*(f"    {each}" for each in sentences), f"  ? {asked}", f"  [{labels[int(record['labels'])]}]"]
        return "\n".join(shown)


@functools.lru_cache(maxsize=1 << 16)  # bAbI says the same few sentences again and again
def num_words(text: str, do_lower_case: bool) -> int:
    """Returns the words of a sentence, without the signs between them."""
    return sum(not is_sign(word) for word, _ in WordSplitter(do_lower_case)(text))
