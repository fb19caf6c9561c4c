"""Stories with a question as arrays: every sentence is a place, the question is the last one."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.babi import StoryQuestion
from data_pipelines.errors import DataError
from data_pipelines.text.plain_units import WordSplitter, WordTokenizer, is_punctuation
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary

SENTENCE, QUESTION = 0, 1  # segment ids


def vocabulary_of(questions: Sequence[StoryQuestion], do_lower_case: bool = True) -> WordTokenizer:
    """Returns a tokenizer that knows all words of stories and questions, the signs between words aside."""
    splitter, seen = WordSplitter(do_lower_case), set()
    for text in {text for asked in questions for text in (*asked.sentences, asked.question)}:
        seen.update(word for word, _ in splitter(text) if not is_sign(word))
    return WordTokenizer(Vocabulary([*SPECIAL_TOKENS, *sorted(seen)], "the stories"), do_lower_case)


def is_sign(word: str) -> bool:
    return all(is_punctuation(character) for character in word)


def answers_of(questions: Sequence[StoryQuestion]) -> list[str]:
    """Returns all different answers, sorted: the classes."""
    return sorted({asked.answer for asked in questions})


class StoryEncoder:
    """Stories and questions -> ids.

    Args:
        tokenizer: gives the words of a sentence; signs between words are left out.
        max_sentences: of a longer story the last so many are kept.
        max_words: of a sentence; longer ones are cut.
    """

    def __init__(self, tokenizer: Tokenizer, max_sentences: int, max_words: int):
        self.tokenizer, self.max_sentences, self.max_words = tokenizer, max_sentences, max_words
        self.signs = {id for id, token in enumerate(tokenizer.vocabulary.tokens) if is_sign(token)}
        self.known: dict[str, list[int]] = {}  # bAbI says the same few sentences again and again

    def words(self, sentence: str) -> list[int]:
        """Returns the ids of one sentence, with those of unknown signs."""
        if sentence not in self.known:
            pieces = self.tokenizer.encode_batch([sentence])[0]
            ids = [
                id
                for id, (first, end) in zip(pieces.ids, pieces.spans, strict=True)
                if id not in self.signs and not is_sign(sentence[first:end])
            ]
            self.known[sentence] = ids[: self.max_words]
        return self.known[sentence]

    def arrays(self, stories: Sequence[tuple[Sequence[str], str]], width: int | None = None) -> dict[str, np.ndarray]:
        """Returns that of N pairs of sentences and a question.

        Args:
            width: S; None for the longest story, with its question.

        Returns:
            token_ids int32 (N, S, W), 0 behind the last word; segment_ids int32 (N, S), 1 at the question; padding_mask
            bool (N, S), True on sentences and the question, which stands behind the last sentence.
        """
        texts = [[*sentences[-self.max_sentences :], question] for sentences, question in stories]
        rows = [[self.words(text) for text in each] for each in texts]
        for row, story in enumerate(rows):
            for place, ids in enumerate(story):
                if not ids:
                    what = "question" if place == len(story) - 1 else f"sentence {place + 1}"
                    raise DataError(f"Story {row + 1}: {what} holds no word. Found: {texts[row][place][:60]!r}.")
        return self.packed(rows, width)

    def packed(self, stories: Sequence[Sequence[Sequence[int]]], width: int | None = None) -> dict[str, np.ndarray]:
        """Works as `arrays`, of stories whose sentences are ids; the question is the last of them."""
        rows = [[*story[:-1][-self.max_sentences :], story[-1]] for story in stories]
        width = width or max(map(len, rows), default=1)
        token_ids = np.zeros((len(rows), width, self.max_words), np.int32)
        for row, story in enumerate(rows):
            for place, ids in enumerate(story):
                token_ids[row, place, : min(len(ids), self.max_words)] = ids[: self.max_words]
        lengths = np.array([[len(row)] for row in rows], np.int32).reshape(-1, 1)
        places = np.arange(width)
        segment_ids = np.where(places == lengths - 1, QUESTION, SENTENCE).astype(np.int32)
        return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": places < lengths}


def answer_ids(questions: Sequence[StoryQuestion], labels: Sequence[str]) -> np.ndarray:
    """Returns int32 (N,): the classes of the answers.

    Raises:
        DataError: an answer is none of `labels`; names the line.
    """
    ids = {label: index for index, label in enumerate(labels)}
    for asked in questions:
        if asked.answer not in ids:
            raise DataError(
                f"{asked.place}: the answer {asked.answer!r} occurs nowhere in training, whose answers are "
                f"{', '.join(list(labels)[:20])}. Was the network trained on this task?"
            )
    return np.array([ids[asked.answer] for asked in questions], np.int32)
