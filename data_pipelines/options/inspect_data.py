"""The options of `xmodels inspect_data`."""

import dataclasses
from typing import ClassVar

from data_pipelines.inspect.objectives import OBJECTIVES
from data_pipelines.options.declaration import option
from data_pipelines.options.input import LANGUAGES, encoding_option
from data_pipelines.text.tokenizer_settings import TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Records to show; or a vocabulary or test sets to compare with a corpus."""

    JOB: ClassVar = "data_pipelines.inspect.command:inspect_data"

    data_dir: str | None = option(None, "Records of create_pretraining_data.", section="Data")
    verify: bool = option(False, "Compare the SHA-256 of every shard with the manifest.")
    objective: str = option("whole_words", "What to do to clean records; docs/corruptions.md explains each.", section="What to show", choices=tuple(OBJECTIVES))  # fmt: skip
    wwm_replace_unit: str = option("token", "Whether the tokens of a whole word share one fate.", choices=("token", "word"))  # fmt: skip
    num_examples: int = option(3, "Examples to print, at most 64.", minimum=1)
    num_statistics: int = option(2000, "Examples for the statistics of the masking.", minimum=1)
    seed: int = option(0, "Another seed draws other masks.")
    vocab_file: str | None = option(None, "Vocabulary, a file or a folder: the share of unknown tokens in the corpus, what is lost most often, entries that are never used.", section="Instead of all above: a vocabulary, or test sets, beside a corpus")  # fmt: skip
    contamination: str | None = option(None, "Test files, tables or text with an example a line: how many of their runs of 8 words (in Chinese: of characters) stand in the corpus.")  # fmt: skip
    input_file: str | None = option(None, "The corpus. Default: the one that --data_dir was made from.")
    language: str = option("en", "Language of --input_file.", choices=LANGUAGES)
    input_format: str = option("auto", "How to read --input_file, as create_pretraining_data.")
    encoding: str = encoding_option()
    tokenizer: str = option("auto", "Kind of the vocabulary; auto tells by the file.", section="Vocabulary", choices=("auto", *TOKENIZERS))  # fmt: skip
    do_lower_case: bool | None = option(None, "Lower-case and strip accents. Default: as the vocabulary says, or as usual.")  # fmt: skip
    text_field: str | None = option(
        None, "Field or column of --input_file that holds the text. Default: the usual names."
    )
    megabytes: float = option(
        5.0, "How much of the corpus to read, from places at equal distances; 0 reads all.", maximum=1e9
    )
    text_column: str | None = option(None, "Column of the text in test tables, by name or position.", section="Contamination")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, if any.")
    num_worst: int = option(5, "Most contaminated examples to print of each file.")
