"""One of several choices.

Multiple choice: of each choice a sequence of context, question and choice; a record holds those of all choices, (N, L).

What stands before the choice gives way to it: of what is too long the context loses its end, then the question.
"""

from collections.abc import Iterator

import numpy as np

from data_pipelines.corpora.choices import BLANK, ChoiceQuestion, read_choices
from data_pipelines.corpora.labelled import RawExample
from data_pipelines.features import Feature
from data_pipelines.finetuning.lists import Lists
from data_pipelines.text.joining import gap

Parts = tuple[list[int], list[int], list[int]]  # the ids of context, question and choice


def parts_of(asked: ChoiceQuestion) -> Iterator[tuple[str, str, str]]:
    """Yields context, question and choice of each choice, each with the blank before it where the language has one.

    In a cloze the choice fills the blank of the question.
    """
    for choice in asked.choices:
        question = asked.question.replace(BLANK, choice)
        after = gap(asked.context, question) if asked.context else ""
        yield asked.context, after + question, gap(question, choice) + choice


def fit_parts(context: list[int], question: list[int], choice: list[int], capacity: int) -> Parts:
    """Returns as many ids as fit: the context gives way to the question, and both to the choice."""
    choice = choice[:capacity]
    question = question[: capacity - len(choice)]
    return context[: capacity - len(question) - len(choice)], question, choice


class Choose(Lists):
    """One of several choices is right."""

    name = "choose"

    def examples(self, path):
        for asked in read_choices(path):
            answer = asked.answer_index()
            value = {"parts": list(parts_of(asked)), "answer": answer}
            yield RawExample(asked.place, value, asked.id, self._problem(asked, answer))

    def _problem(self, asked: ChoiceQuestion, answer: int | None) -> str | None:
        if len(asked.choices) < 2:
            return f"too few choices: {len(asked.choices)}, expected at least 2"
        if any(not choice.strip() for choice in asked.choices):
            return "empty text: a choice says nothing"
        if answer is None:
            return (
                f"answer is no choice: {str(asked.answer)[:40]!r} for {len(asked.choices)} choices; expected a position from "
                "0, a letter, or the text of one"
            )
        if 0 < self.settings.num_choices < len(asked.choices):
            return f"too many choices: {len(asked.choices)}. Raise --num_choices"
        return None

    def labels_of(self, value):
        return (str(value["answer"]),)

    def size_of(self, value):
        return len(value["parts"])

    def features(self, size):
        own = {"part_lengths": Feature((size, 3)), "labels": Feature(()), "choice_weights": Feature((size,), "float32")}
        return {**super().features(size), **own}

    def encode(self, indices, values, tokenizer, size, counts):
        for index, value in zip(indices, values, strict=True):
            columns = [[p.ids for p in tokenizer.encode_batch(texts)] for texts in zip(*value["parts"], strict=True)]
            whole = list(zip(*columns, strict=True))
            kept = [fit_parts(*parts, self.capacity(2)) for parts in whole]
            # Without a context the question is the first text.
            texts = [(c, q + o) if whole[0][0] else (q, o) for c, q, o in kept]
            row = self.rows(texts, size, tokenizer, counts)
            lost = [sum(map(len, a)) - sum(map(len, b)) for a, b in zip(whole, kept, strict=True)]
            counts.update(cut=sum(map(bool, lost)), cut_tokens=sum(lost))
            if self.is_left_out(any(lost), counts):
                continue
            part_lengths = np.zeros((size, 3), np.int64)
            part_lengths[: len(kept)] = [[len(part) for part in parts] for parts in kept]
            yield {
                **row,
                "part_lengths": part_lengths,
                "labels": [value["answer"]],
                "choice_weights": np.arange(size) < len(value["parts"]),
                "example_ids": [index],
            }

    def record_size(self, size):
        return self.settings.num_choices or size
