"""The kinds of tokenizers by name, and the settings that `tokenizer_config.json` may have for each. Imports nothing heavy.

`kinds` holds the classes of the same names.
"""

MOST_SENTINELS = 100_000  # T5 has 100
FILES = ("vocab.txt", "vocab.json", "spiece.model")  # what a vocabulary folder holds one of
PAIR = "source.spm", "target.spm"  # beside a vocab.json
ASSETS = (*FILES, "merges.txt", *PAIR)  # all names that `Tokenizer.files` uses
FRAME = "frame"  # special tokens around texts, as `frames` writes them
OPTIONS = {
    "max_word_characters": int, "add_prefix_space": bool, "words": str, "keep_accents": bool, "clean": bool,
    "part_digits": bool, "num_sentinels": int, "segmenter": str, "added_tokens": list, FRAME: str,
}  # fmt: skip
CHOICES = {  # never a segmenter that runs code named in a file
    "segmenter": ("none", "jieba", "presegmented"),
    "words": ("punctuation", "blanks"),
}
OPTIONS_OF = {  # kind -> its settings beside `do_lower_case`
    "wordpiece": ("max_word_characters", "added_tokens", FRAME),
    "byte_bpe": ("add_prefix_space", "added_tokens", FRAME),
    "bpe": ("words", "added_tokens", FRAME),
    "sentencepiece": ("keep_accents", "clean", "part_digits", "num_sentinels", FRAME),
    "sentencepiece_pair": (),
    "characters": (),
    "words": ("segmenter",),
    "word_characters": ("segmenter",),
}
UNTRAINED = ("sentencepiece_pair",)  # which come with published networks, and which records do not have
TOKENIZERS = tuple(kind for kind in OPTIONS_OF if kind not in UNTRAINED)
