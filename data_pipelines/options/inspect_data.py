"""Shows records: decoded examples with their masked tokens, statistics of the masking, and whether files are complete.
With --vocab_file, it reports how a vocabulary fits a corpus; with --contamination, how much of a test set occurs in
one.

    xmodels inspect_data --data_dir=records --objective=spans --verify
    xmodels inspect_data --vocab_file=vocab.txt --input_file='corpus/*.txt'
    xmodels inspect_data --contamination='test*.tsv' --input_file='corpus/*.txt'
"""

import dataclasses
from typing import ClassVar

from data_pipelines.inspect.objectives import OBJECTIVES
from data_pipelines.options.declaration import option
from data_pipelines.options.input import LANGUAGES, encoding_option
from data_pipelines.text.tokenizer_settings import TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Records to show; or a vocabulary or test sets to compare with a corpus."""

    SECTION: ClassVar = "Text and labelled data"
    JOB: ClassVar = "data_pipelines.inspect.command:inspect_data"

    data_dir: str | None = option(None, "Folder of records to show.", section="Data")
    verify: bool = option(False, "Compare the SHA-256 of every shard with the manifest.")
    objective: str = option("whole_words", "Pretraining objective, which says how clean records are corrupted; docs/corruptions.md explains each.", section="What to show", choices=tuple(OBJECTIVES))  # fmt: skip
    wwm_replace_unit: str = option("token", "token: each token of a whole word is masked, kept or replaced independently. word: all of them alike.", choices=("token", "word"))  # fmt: skip
    num_examples: int = option(3, "Number of examples to print, at most 64.", minimum=1)
    num_statistics: int = option(2000, "Number of examples from which the masking statistics are computed.", minimum=1)
    seed: int = option(0, "Random seed; another seed draws other masks.")
    vocab_file: str | None = option(None, "Vocabulary, a file or a folder. Reports the share of unknown tokens in the corpus, what is most often lost as unknown, and the entries that are never used.", section="Instead of all above: a vocabulary, or test sets, beside a corpus")  # fmt: skip
    contamination: str | None = option(None, "Test files: tables, or text with one example a line. Reports how many of their 8-grams of words (in Chinese: of characters) occur in the corpus.")  # fmt: skip
    input_file: str | None = option(None, "The corpus. Default: the one that --data_dir was made from.")
    language: str = option("en", "Language of --input_file.", choices=LANGUAGES)
    input_format: str = option("auto", "How to read --input_file, as in create_pretraining_data.")
    encoding: str = encoding_option()
    tokenizer: str = option("auto", "Kind of vocabulary; auto detects it from the file.", section="Vocabulary", choices=("auto", *TOKENIZERS))  # fmt: skip
    do_lower_case: bool | None = option(None, "Lower-case the text and strip accents. Default: as the vocabulary's settings say, else what is usual for its kind.")  # fmt: skip
    text_field: str | None = option(None, "Field or column of the text in --input_file. Default: the usual names, such as text.")  # fmt: skip
    megabytes: float = option(5.0, "How many MB of the corpus to read, from evenly spaced places; 0 reads all of it.", maximum=1e9)  # fmt: skip
    text_column: str | None = option(None, "Column of the text in test tables: its name or position.", section="Contamination")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, if any.")
    num_worst: int = option(5, "How many of the most contaminated examples to print per file.")
