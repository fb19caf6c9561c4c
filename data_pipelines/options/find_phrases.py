"""Joins words that occur together into phrases such as new_york, for word vectors, as word2phrase does.

xmodels find_phrases --input_file='text/*.txt' --thresholds=200,100 --output_file=phrases/text.txt
xmodels train_vocabulary --input_file=phrases/text.txt --tokenizer=words --segmenter=presegmented --output_file=words
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import InputOptions
from data_pipelines.text.tokenizer_settings import CHOICES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(InputOptions):
    """What to read, what a phrase is, and where the text with phrases goes."""

    SECTION: ClassVar = "Text and labelled data"
    JOB: ClassVar = "data_pipelines.pretraining.phrases:find_phrases"

    thresholds: str = option("100", "Scores above which two words are joined, separated by commas: one for each pass. Later passes join what earlier ones have joined, so three words need two passes. Lower ones join more.", section="Phrases")  # fmt: skip
    min_count: int = option(5, "Number of times that the words of a phrase must occur, and the pair more often.", minimum=1)  # fmt: skip
    max_entries: int = option(20_000_000, "Number of words and pairs to keep in memory, about 0.15 GB a million; where there are more, the rarest are dropped.", minimum=1000)  # fmt: skip
    do_lower_case: bool = option(True, "Lower-case the text and strip accents.")
    segmenter: str | None = option(None, "How text is split into words. none: at punctuation and blanks. jieba: by jieba. presegmented: at blanks only. Default: jieba for Chinese, else none.", choices=CHOICES["segmenter"])  # fmt: skip
    output_file: str = option(REQUIRED, "Where to write the text: a sentence a line, words parted by blanks, a blank line between documents. Its phrases, with counts of the text and scores, are written beside it as NAME.phrases.tsv.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output file.")
