"""BERT's tokenizer: clean, split at CJK characters and punctuation, then WordPiece (Devlin et al., 2018, section 3).

The work is done by the `tokenizers` library, which, with the cleaning of `bert_words`, reproduces the pieces of Google's
`tokenization.py` on all of our golden strings, and gives the character offsets that whole-word masking needs.
"""

import tokenizers
from tokenizers import decoders, models

from data_pipelines.text import bert_words, recognized_tokens
from data_pipelines.text.longest_pieces import LongestPieces
from data_pipelines.text.tokenizer import Pieces, Tokenizer
from data_pipelines.text.units import CHUNKS
from data_pipelines.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, UNKNOWN, Vocabulary

MAX_WORD_CHARACTERS = 200  # a longer word becomes [UNK], as in Google's code; Hugging Face says 100


class WordPieceTokenizer(Tokenizer):
    """Turns text into WordPiece ids.

    Args:
        vocabulary: the pieces; those that continue a word begin with `##`.
        do_lower_case: lower-case and strip accents, as the uncased models expect. Chinese models use True as well.
        max_word_characters: longer words become `[UNK]`.
        recognize_special_tokens: read `[MASK]` and its like in the text as the special tokens, as Hugging Face does;
            Google's code, and the default here, splits them at the brackets.
        added_tokens: further tokens to find in the text, as `recognized_tokens` has them.
    """

    kind = "wordpiece"
    chunks = CHUNKS

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        max_word_characters: int = MAX_WORD_CHARACTERS,
        recognize_special_tokens: bool = False,
        added_tokens: recognized_tokens.Entries = (),
    ):
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.max_word_characters = max_word_characters
        model = models.WordPiece(
            vocabulary.ids,
            unk_token=UNKNOWN,
            max_input_chars_per_word=max_word_characters,
            continuing_subword_prefix=CONTINUATION,
        )
        self.backend = tokenizers.Tokenizer(model)
        self.backend.normalizer = bert_words.normalizer(do_lower_case)
        self.backend.pre_tokenizer = bert_words.pre_tokenizer()
        self.backend.decoder = decoders.WordPiece(prefix=CONTINUATION)
        self.recognize_special_tokens, self.added_tokens = recognize_special_tokens, list(added_tokens)
        special = SPECIAL_TOKENS if recognize_special_tokens else ()
        if recognized_tokens.recognize(self.backend, special, self.added_tokens):
            self.chunks = None  # such a token may hold what parts chunks
        self.longest_pieces = LongestPieces(vocabulary, max_word_characters)
        self.continues = [token.startswith(CONTINUATION) for token in vocabulary.tokens]

    @classmethod
    def read(cls, path: str, **options) -> "WordPieceTokenizer":
        """Opens a `vocab.txt`."""
        return cls(Vocabulary.read(path, blanks=False), **options)

    def options(self) -> dict:
        return {"max_word_characters": self.max_word_characters, **recognized_tokens.settings(self.added_tokens)}

    def pieces_of(self, text: str, encoding) -> Pieces:
        ids = encoding.ids
        continues = self.continues
        return Pieces(ids, encoding.offsets, [0 if continues[i] else 1 for i in ids])
