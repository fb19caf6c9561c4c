"""Byte pair encoding (Sennrich et al., 2016): over bytes, as GPT-2 and RoBERTa, and over characters, as GPT-1.

Both are done by the `tokenizers` library and keep a vocabulary in `vocab.json` and the merges, best first, in
`merges.txt`, as Hugging Face does.
"""

import json
import os
from collections.abc import Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from data_pipelines import strict_json
from data_pipelines.errors import DataError
from data_pipelines.text import recognized_tokens
from data_pipelines.text.tokenizer import Pieces, Tokenizer, parts_ideographs, trim
from data_pipelines.text.units import CHUNKS
from data_pipelines.text.vocabulary import MASK, UNKNOWN, Vocabulary

END_OF_WORD = "</w>"
HEADER = "#version: 0.2\n"
Merges = Sequence[tuple[str, str]]


def byte_symbols() -> list[str]:
    """Returns how byte-level vocabularies write the bytes 0 to 255 (Radford et al., 2019, code)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


class ByteBpeTokenizer(Tokenizer):
    """BPE over UTF-8 bytes (Radford et al., 2019, section 2.2): every text has pieces, and they give it back.

    Text is parted into letters, digits and other signs, each with the blank before it, which shows as `Ġ`. A piece
    opens a word where it begins with a blank (fairseq's rule for RoBERTa, so a comma belongs to the word before it),
    after a line end, and at CJK ideographs, which are words of their own as in BERT.

    Args:
        vocabulary: the pieces. Must hold the 256 bytes, or an unknown token for those it lacks.
        merges: pairs of pieces, the first to be joined first.
        do_lower_case: lower-case the text; GPT-2 and RoBERTa do not.
        add_prefix_space: read a text as if it began with a blank, so that its first word is like any other.
        recognize_special_tokens: read `<mask>` and its like in the text as the special tokens.
        added_tokens: further tokens to find in the text, as `recognized_tokens` has them.
    """

    kind = "byte_bpe"
    blank = " "
    keeps_blanks = True
    parts_at_blanks = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Merges,
        do_lower_case: bool = False,
        add_prefix_space: bool = False,
        recognize_special_tokens: bool = False,
        added_tokens: recognized_tokens.Entries = (),
    ):
        self.vocabulary = vocabulary
        self.merges = list(merges)
        self.do_lower_case = do_lower_case
        self.add_prefix_space = add_prefix_space
        self.recognize_special_tokens = recognize_special_tokens
        lacking = [symbol for symbol in pre_tokenizers.ByteLevel.alphabet() if symbol not in vocabulary]
        if lacking and UNKNOWN not in vocabulary:
            raise DataError(
                f"{vocabulary.source}: a byte-level vocabulary without {len(lacking)} of the 256 bytes, such as "
                f"{min(lacking)!r}, and without an unknown token; some text would vanish. Is it of --tokenizer=byte_bpe?"
            )
        self.backend = tokenizers.Tokenizer(bpe_model(vocabulary, self.merges))
        if do_lower_case:
            self.backend.normalizer = normalizers.Lowercase()
        self.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
        self.backend.decoder = decoders.ByteLevel()
        special, mask = vocabulary.special_ids if recognize_special_tokens else (), vocabulary.roles.get(MASK)
        # RoBERTa's mask takes the blank on its left with it.
        found = [AddedToken(vocabulary.tokens[i], lstrip=i == mask, special=True) for i in special]
        self.added_tokens = list(added_tokens)
        if recognized_tokens.recognize(self.backend, found, self.added_tokens):
            self.parts_at_blanks = False  # such a token may hold a blank
        added = {each["content"] for each in self.added_tokens}
        self.after_blank = [token[:1] == "Ġ" or token in added for token in vocabulary.tokens]

    @classmethod
    def read(cls, path: str, **options) -> "ByteBpeTokenizer":
        """Opens `vocab.json` and the `merges.txt` beside it."""
        return cls(*read_pairs(path), **options)

    def options(self) -> dict:
        return {"add_prefix_space": self.add_prefix_space, **recognized_tokens.settings(self.added_tokens)}

    def files(self) -> dict[str, bytes]:
        return files(self.vocabulary, self.merges)

    def pieces_of(self, text: str, encoding) -> Pieces:
        ids, spans, starts, previous_end = encoding.ids, [], [], 0
        for i, (first, end) in zip(ids, encoding.offsets, strict=True):
            opens = (
                not starts
                or self.after_blank[i]
                or (first >= previous_end and first > 0 and text[first - 1] in "\n\r\t\u3000")
                or parts_ideographs(text, first, previous_end)
            )
            starts.append(int(opens))
            spans.append(trim(text, first, end))
            previous_end = end
        return Pieces(ids, spans, starts)


class BpeTokenizer(Tokenizer):
    """BPE over the characters of words, whose last piece ends in `</w>` (Radford et al., 2018).

    Words are those of BERT's tokenizer, as in Hugging Face's reading of GPT-1 where spaCy is absent.

    Args:
        vocabulary: the pieces and an unknown token.
        merges: pairs of pieces, the first to be joined first.
        do_lower_case: lower-case and strip accents, as GPT-1.
        words: `punctuation` parts words at blanks, punctuation and ideographs; `blanks` at blanks only, for text that
            is tokenized already, as subword-nmt does.
        recognize_special_tokens: read `<unk>` and its like in the text as the special tokens.
        added_tokens: further tokens to find in the text, as `recognized_tokens` has them.
    """

    kind = "bpe"

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Merges,
        do_lower_case: bool = True,
        words: str = "punctuation",
        recognize_special_tokens: bool = False,
        added_tokens: recognized_tokens.Entries = (),
    ):
        self.vocabulary = vocabulary
        self.merges = list(merges)
        self.do_lower_case = do_lower_case
        self.words = words
        self.recognize_special_tokens = recognize_special_tokens
        self.backend = tokenizers.Tokenizer(bpe_model(vocabulary, self.merges, END_OF_WORD))
        self.backend.normalizer, self.backend.pre_tokenizer = word_splitter(do_lower_case, words)
        self.backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
        self.added_tokens = list(added_tokens)
        special = [vocabulary.tokens[i] for i in vocabulary.special_ids] if recognize_special_tokens else []
        recognizes = recognized_tokens.recognize(self.backend, special, self.added_tokens)
        self.chunks = CHUNKS if words == "punctuation" and not recognizes else None

    @classmethod
    def read(cls, path: str, **options) -> "BpeTokenizer":
        """Opens `vocab.json` and the `merges.txt` beside it."""
        vocabulary, merges = read_pairs(path)
        if UNKNOWN not in vocabulary:
            raise DataError(f"{path}: a BPE vocabulary needs an unknown token, <unk>, for characters it lacks.")
        return cls(vocabulary, merges, **options)

    def options(self) -> dict:
        return {"words": self.words, **recognized_tokens.settings(self.added_tokens)}

    def files(self) -> dict[str, bytes]:
        return files(self.vocabulary, self.merges)

    def pieces_of(self, text: str, encoding) -> Pieces:
        words, previous, starts = encoding.word_ids, None, []
        for word in words:
            starts.append(int(word is None or word != previous))
            previous = word
        return Pieces(encoding.ids, encoding.offsets, starts)


def word_splitter(do_lower_case: bool, words: str):
    """Returns the normalizer and pre-tokenizer that part words for `BpeTokenizer`."""
    if words == "blanks":
        normalizer = normalizers.Lowercase() if do_lower_case else normalizers.Sequence([])
        return normalizer, pre_tokenizers.Split(" ", "removed")  # no other blanks: so does subword-nmt
    return normalizers.BertNormalizer(lowercase=do_lower_case), pre_tokenizers.BertPreTokenizer()


def bpe_model(vocabulary: Vocabulary, merges: Merges, suffix: str | None = None) -> models.BPE:
    """Returns the library's model; its complaints become a DataError."""
    options = {"end_of_word_suffix": suffix} if suffix else {}
    if UNKNOWN in vocabulary:
        options["unk_token"] = vocabulary.tokens[vocabulary[UNKNOWN]]
    try:
        return models.BPE(vocabulary.ids, merges, **options)
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"{vocabulary.source}: vocabulary and merges do not fit each other: {error}.") from None


def files(vocabulary: Vocabulary, merges: Merges) -> dict[str, bytes]:
    """Returns `vocab.json` and `merges.txt`."""
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    return {"vocab.json": ids_file(vocabulary), "merges.txt": (HEADER + lines).encode()}


def ids_file(vocabulary: Vocabulary) -> bytes:
    """Returns the contents of `vocab.json`."""
    return json.dumps(vocabulary.ids, ensure_ascii=False, separators=(",", ":")).encode()


def merges_beside(path: str) -> str:
    """Returns the file of merges that belongs to a vocabulary: `x_vocab.json` -> `x_merges.txt`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.removesuffix(".json").replace("vocab", "merges") + ".txt")


def are_numbered(ids: dict) -> bool:
    """Returns whether the values are 0, 1, 2, …, each once."""
    return all(type(i) is int for i in ids.values()) and sorted(ids.values()) == list(range(len(ids)))


def read_ids(path: str) -> Vocabulary:
    """Reads a `vocab.json`. Raises a DataError where it is missing or damaged."""
    try:
        ids = strict_json.read(path, "utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such vocabulary file. Make one with `xmodels train_vocabulary`.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not valid JSON ({error}).") from None
    if not isinstance(ids, dict) or not are_numbered(ids):
        raise DataError(f"{path}: expected an object of pieces with the ids 0, 1, 2, …, each once.")
    return Vocabulary(sorted(ids, key=ids.get), path, required=(), spelled=True)


def read_pairs(path: str) -> tuple[Vocabulary, Merges]:
    """Reads `vocab.json` and its merges.

    Raises:
        DataError: one is missing or damaged.
    """
    vocabulary = read_ids(path)
    merges_path = merges_beside(path)
    if os.path.lexists(merges_path) and not os.path.isfile(merges_path):
        raise DataError(f"{merges_path}: is not a file.")
    try:
        with open(merges_path, encoding="utf-8-sig", newline="\n") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        raise DataError(f"{merges_path}: no such file; {os.path.basename(path)} needs its merges beside it.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{merges_path}: not valid UTF-8 at byte {error.start}.") from None
    merges = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2:
            raise DataError(f"{merges_path}, line {number}: expected two pieces parted by a blank. Found: {line!r}.")
        merges.append(pair)
    return vocabulary, merges
