"""The options of `xmodels create_pretraining_data`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import InputOptions
from data_pipelines.packings import PACKINGS
from data_pipelines.text.tokenizer_settings import TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions(InputOptions):
    """All that shapes the records."""

    vocab_file: str = option(REQUIRED, "Vocabulary: vocab.txt, vocab.json with its merges beside it, a SentencePiece *.model, or a folder with one.", section="Text")  # fmt: skip
    tokenizer: str = option("auto", "Kind of vocabulary; auto goes by the folder's settings or by the file.", choices=("auto", *TOKENIZERS))  # fmt: skip
    do_lower_case: bool | None = option(None, "Lower-case and strip accents. Must agree with the vocabulary. Default: as the vocabulary's folder says, or else yes, but for byte_bpe and sentencepiece.")  # fmt: skip
    clean: str = option("", "Comma-separated: wiki, html (take out markup), width (full-width letters and digits), control (control characters, odd blanks), traditional_to_simplified (OpenCC).", section="Cleaning")  # fmt: skip
    min_sentence_chars: int = option(0, "Drop shorter sentences.")
    min_document_chars: int = option(0, "Drop documents with fewer characters.")
    deduplicate: str = option("none", "Drop documents that stand in the corpus before: with the same words, or (near) with similar ones as well, found by MinHash. Reads the corpus twice.", choices=("none", "exact", "near"))  # fmt: skip
    near_duplicate_threshold: float = option(0.8, "Jaccard similarity of runs of words from which on documents count as near duplicates.")  # fmt: skip
    near_duplicate_ngram: int = option(5, "Length of these runs, in words; in Chinese in characters.")
    near_duplicate_seed: int = option(1, "Seed of MinHash.")
    do_whole_word_mask: bool | None = option(None, "Mark words, so that all pieces of a word are hidden together. Chinese needs a segmenter. Default: yes with --ngram above 1, else no.", section="Words")  # fmt: skip
    segmenter: str = option("none", "What tells words apart: jieba (its dictionary and rules in Rust), jieba_python (as published), lexicon (longest match in --lexicon), presegmented or whitespace (blanks), ltp:FOLDER (a local LTP model), MODULE:FUNCTION (your own Python function from a text to its words, which is run), or none.")  # fmt: skip
    lexicon: str = option("", "Files of words, one a line, with their frequency if you like: added to jieba's dictionary, or all there is for --segmenter=lexicon.")  # fmt: skip
    phrase_lexicon: str = option("", "Files of phrases, one a line. Writes phrase_start, for masks that hide phrases whole: the longest match is one unit, elsewhere each word.")  # fmt: skip
    entity_lexicon: str = option("", "Files of entities, one a line. Writes entity_start: the longest match is one unit, elsewhere each Chinese character and each English word.")  # fmt: skip
    packing: str = option("segment_pair", "segment_pair: two segments, for next sentence prediction (BERT). sentence_pair: two single sentences. sentence_order: two segments, swapped in half of the pairs (ALBERT). full_sentences: whole sentences up to the length, across documents. doc_sentences: the same within a document (RoBERTa). stream: contiguous runs, for causal models and memories (GPT, Transformer-XL). stream_bidirectional: a run and two segments, forwards and backwards (XLNet). dialogue: turns, one of them foreign in half of the examples (ERNIE). parallel: a text and its translation. paragraph: whole sentences of a document in two parts, and a text from farther away (ERNIE 2.0).", section="Examples", choices=tuple(PACKINGS))  # fmt: skip
    lone_sentences: str | None = option(None, "With --packing=sentence_order, a chunk of one sentence, which has no order: skip leaves it out; random, as ALBERT's script, takes a second segment from another document and labels it as swapped. Default: skip.", choices=("skip", "random"))  # fmt: skip
    max_seq_length: int = option(128, "Length of an example with its special tokens.", minimum=1)
    max_predictions_per_seq: int = option(
        20, "Most hidden tokens in an example; about max_seq_length * masked_lm_prob."
    )
    masked_lm_prob: float = option(0.15, "Share of tokens to hide.", maximum=1.0)
    short_seq_prob: float = option(0.1, "Share of documents cut into shorter examples (pairs of segments only).", maximum=1.0)  # fmt: skip
    dupe_factor: int | None = option(None, "Passes over the corpus with other pairs. Default 1; with static masking 10, as Google's.")  # fmt: skip
    masking: str = option("dynamic", "dynamic: clean records, masked anew in every epoch. static: Google's record layout.", choices=("dynamic", "static"))  # fmt: skip
    ngram: int = option(
        1,
        "With static masking: hide up to so many whole words in a row, as ALBERT's script (it says 3); tokens with --nodo_whole_word_mask.",
    )
    favor_shorter_ngram: bool = option(True, "Shorter n-grams are likelier than longer ones.")
    wwm_replace_unit: str = option("token", "With static masks of whole words: whether each token of a word is masked, kept or replaced for itself, as in Google's code, or all alike.", choices=("token", "word"))  # fmt: skip
    random_seed: int = option(12345, "Seed of all random choices.")
    num_shards: int = option(0, "Number of files; 0 chooses by the size of the corpus.", section="Output and work")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RecordOptions):
    """The records, where they are written, and who does the work."""

    JOB: ClassVar = "data_pipelines.pretraining.command:create_pretraining_data"

    output_dir: str = option(REQUIRED, "New folder for the records and their manifest.", section="Output and work")
    num_workers: int = option(1, "Processes. The records do not depend on it.", minimum=1)
    resume: bool = option(False, "Go on with an unfinished output_dir; finished shards are kept.")
    overwrite: bool = option(False, "Replace the records in output_dir.")
    task: str | None = option(None, "Make the shards of one task only: from 0 to num_tasks - 1. Finished shards are kept, as with --resume, and the last task writes the manifest. merge: join what tasks made in folders that were copied together.", section="Many machines (docs/distributed_data.md)")  # fmt: skip
    num_tasks: int | None = option(None, "Number of tasks that share the work.", minimum=1)
    runner: str = option("local", "local: processes of this machine. beam: an Apache Beam pipeline.", choices=("local", "beam"))  # fmt: skip
    beam_options: str = option("", "Options of the pipeline in one string, such as '--runner=FlinkRunner --flink_master=host:8081'. Without --runner it runs here.")  # fmt: skip
