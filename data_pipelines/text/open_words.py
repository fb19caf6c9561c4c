"""Words of which a network reads the characters too, so that those which the vocabulary lacks are not all alike."""

import copy
from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.features import Features
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import BOS, CLS, EOS, PAD, SEP, UNKNOWN, Vocabulary
from data_pipelines.units.characters import BEGIN_SENTENCE, CHARACTER_IDS, END_SENTENCE, read_back, spell, spell_mark

MOST_NUMBERS = 1 << 22  # that leave room for marks beside them (`pretraining.stages.tokenize`)
MOST_SPELLED = 1 << 17  # words whose characters are kept, 26 MB
MARKS = {CLS: BEGIN_SENTENCE, BOS: BEGIN_SENTENCE, SEP: END_SENTENCE, EOS: END_SENTENCE}  # role -> its character


class UnknownWord(int):
    """The id of the unknown token, which knows the word that it stands for as long as it stands in a list."""

    def __new__(cls, unknown_id: int, word: str):
        found = super().__new__(cls, unknown_id)
        found.word = word
        return found

    def __getnewargs__(self):
        return int(self), self.word


class OpenVocabulary(Vocabulary):
    """A vocabulary whose tokens are spelled for the network."""

    features: Features = {"character_ids": CHARACTER_IDS}

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.forget()

    def forget(self) -> None:
        """Forgets the words that it lacks, and how words are spelled."""
        self.rows = np.zeros((0, CHARACTER_IDS.shape[-1]), np.int32)
        self.row_of: dict[int | str, int] = {}  # of ids, and of words that it lacks
        self.unknown_words: list[str] = []
        self.places: dict[str, int] = {}  # of them in the list

    def numbered(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids of a text with a number for each word that the vocabulary lacks, behind all ids.

        Raises:
            DataError: there are too many of them.
        """
        found = [len(self) + self._place(i.word) if isinstance(i, UnknownWord) else i for i in ids]
        if len(self) + len(self.places) > MOST_NUMBERS:
            raise DataError(
                f"{self.source}: a shard holds {len(self.places):,} different words that the vocabulary lacks, too many to tell "
                "apart. Make more shards: raise --num_shards."
            )
        return found

    def _place(self, word: str) -> int:
        if word not in self.places:
            self.places[word] = len(self.unknown_words)
            self.unknown_words.append(word)
        return self.places[word]

    def of_numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of tokens (T,) that were numbered, and their characters, int32 (T,) and (T, 50)."""
        distinct, places = np.unique(numbers, return_inverse=True)
        words, first = self.unknown_words, len(self)
        ids = [i if i < first else UnknownWord(self[UNKNOWN], words[i - first]) for i in distinct.tolist()]
        return np.array(ids, np.int32)[places], self.token_features(ids)["character_ids"][places]

    def token_features(self, ids: Sequence[int]) -> dict[str, np.ndarray]:
        """Returns `character_ids`, int32 (L, 50): those of words, a mark where a sentence begins or ends, zeros for padding.

        Args:
            ids: as `OpenWordTokenizer` gives them; a plain unknown id has the characters of its token.
        """
        keys = self.keys_of(ids)
        if new := [key for key in dict.fromkeys(keys) if key not in self.row_of]:
            if len(self.row_of) + len(new) > MOST_SPELLED:
                self.row_of, new = {}, list(dict.fromkeys(keys))
            first, last = len(self.row_of), len(self.row_of) + len(new)
            if last > len(self.rows):
                self.rows = np.resize(self.rows, (max(last, 2 * len(self.rows)), self.rows.shape[1]))
            self.rows[first:last] = self.spelled(new)
            self.row_of |= {key: first + place for place, key in enumerate(new)}
        return {"character_ids": self.rows[[self.row_of[key] for key in keys]]}

    def keys_of(self, ids: Sequence[int]) -> list[int | str]:
        """Returns what tells words apart: the id of one that the vocabulary has, and the word itself of others."""
        return [i.word if isinstance(i, UnknownWord) else int(i) for i in ids]

    def spelled(self, keys: Sequence[int | str]) -> np.ndarray:
        """Returns the characters of what `keys_of` gives, int32 (W, 50)."""
        found = spell([key if isinstance(key, str) else self.tokens[key] for key in keys])
        marks = {self.roles[role]: spell_mark(character) for role, character in MARKS.items() if role in self.roles}
        if PAD in self.roles:
            marks[self.roles[PAD]] = np.zeros(found.shape[1], np.int32)
        for row, key in zip(found, keys, strict=True):
            row[:] = marks.get(key, row)
        return found

    def words_of(self, ids: np.ndarray, features: dict[str, np.ndarray]) -> list[int]:
        """Returns the ids of a text as the tokenizer gave them, from (L,) of a record and its `token_features`."""
        unknown = self[UNKNOWN]
        words = {place: read_back(features["character_ids"][place]) for place in np.flatnonzero(ids == unknown)}
        return [UnknownWord(unknown, words[i]) if words.get(i) is not None else int(x) for i, x in enumerate(ids)]


def spell_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """Returns the tokenizer, or a copy whose tokens have characters too, for networks that read them: those of their spelling."""
    if tokenizer.is_open:
        return tokenizer
    found, vocabulary = copy.copy(tokenizer), tokenizer.vocabulary
    found.vocabulary = OpenVocabulary(vocabulary.tokens, vocabulary.source, (), True)
    return found


class OpenWordTokenizer(WordTokenizer):
    """One token for each word, as `WordTokenizer` cuts them, with its characters. Letters keep their case unless told otherwise."""

    kind = "word_characters"
    is_open = True

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool = False, segmenter: str = "none"):
        super().__init__(vocabulary, do_lower_case, segmenter)
        self.vocabulary = OpenVocabulary(vocabulary.tokens, vocabulary.source)

    def id_of(self, word: str) -> int:
        """Returns the id of a word, an `UnknownWord` where the vocabulary lacks it."""
        return self.vocabulary.ids[word] if word in self.vocabulary.ids else UnknownWord(self.unknown, word)
