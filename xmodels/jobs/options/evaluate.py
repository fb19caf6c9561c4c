"""The options of `xmodels evaluate`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option
from xmodels.layers.exits import EXIT_MODES
from xmodels.layers.poolings import POOLINGS
from xmodels.tasks.base import find


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A network and what to score it on. A task refuses options that are others'."""

    JOB: ClassVar = "xmodels.jobs.evaluate:evaluate"
    EARLY: ClassVar = "xmodels.jobs.early:using"
    NEEDS_TENSORFLOW: ClassVar = True

    task: str = option("auto", "What to score; auto: what the run was trained for.", section="Model and data", choices=("auto", *find.names()))  # fmt: skip
    model_dir: str = option(REQUIRED, "Run folder, a model folder that convert_checkpoint wrote, or hf:FOLDER.")
    test_file: str = option(REQUIRED, "Labelled rows: TSV, CSV or JSON lines. Of language_model: text, passages or questions; names or globs.")  # fmt: skip
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without header. Default: as given to finetune.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label.")
    batch_size: int | None = option(None, "Rows or windows at a time; with a memory, streams (default 1, which cuts nothing). Default: as fits.", minimum=1)  # fmt: skip
    form: str = option("text", "text: perplexity of running text. last_word: find the last word of each passage, as in LAMBADA. choice: which candidate fits the gap XXXXX, as in the Children's Book Test.", section="Language models (docs/evaluation.md)", choices=("text", "last_word", "choice"))  # fmt: skip
    detokenize: str = option("none", "Undo the tokenization of such a corpus before the network reads it; perplexity by word still counts its own words and line ends.", choices=("none", "wikitext", "ptb"))  # fmt: skip
    input_format: str = option("auto", "How to read running text. verbatim: files, or the texts of JSON lines, as they are. Others: documents, as create_pretraining_data reads them. auto: as the records of the run were made; without such, verbatim.", choices=("auto", "verbatim", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet"))  # fmt: skip
    max_seq_length: int | None = option(None, "Tokens that the network reads at once. Default: the length it was trained on, or all it can read.", minimum=1)  # fmt: skip
    stride: int | None = option(None, "Tokens from one window to the next; only what no window before has scored is scored. Default: half a window.", minimum=1)  # fmt: skip
    stop_word_filter: bool = option(False, "With last_word: no English stop word is an answer.")
    mem_length: str | None = option(None, "Transformer-XL: states that it remembers of each layer; several, such as 0,64,128, give a table. Default: as in training.")  # fmt: skip
    same_length: str | bool = option("auto", "Transformer-XL: every token sees equally many before it. auto: as in training.", choices=SWITCH)  # fmt: skip
    clamp_length: int | None = option(None, "Transformer-XL: distances beyond it count as it; 0 for no bound. Default: as in training.")  # fmt: skip
    tasks: str | None = option(None, "Numbers of the tasks, such as 1,2,3. Default: all that are there.", section="Stories (docs/universal_transformer.md)")  # fmt: skip
    plots: str | None = option(
        None, "Folder for pictures. Of stories: steps and attention, one of the first question of each task."
    )
    speed: str | None = option(None, "Speeds of early exit, a row of the table each. Default: 0,0.1,0.3,0.5,0.8.", section="Early exit (docs/fast_classify.md)")  # fmt: skip
    exit_mode: str | None = option(None, "exit: texts that left are computed no further. select: all layers are computed; the answers are equal. Default: exit.", choices=EXIT_MODES)  # fmt: skip
    answer_metric: str | None = option(None, "How answers are compared: as the official script of SQuAD 1.1, SQuAD 2.0 or CMRC 2018 does. Default: what the file looks like.", section="Answers in texts (docs/answer_span.md)", choices=("squad1", "squad2", "cmrc2018"))  # fmt: skip
    relevant_label: str | None = option(None, "The label of relevant candidates, where labels are names. Default: as given to finetune.", section="Rankings (docs/rank.md)")  # fmt: skip
    negative_column: str | None = option(None, "Column of a third text, which does not match the first.", section="Siamese networks (docs/siamese.md)")  # fmt: skip
    target_file: str | None = option(None, "References for test_file, line by line. Else test_file is a table: source and reference, by default the columns given to finetune, or its first two.", section="Translations (docs/translation.md)")  # fmt: skip
    target_column: str | None = option(None, "Column of the reference: its name, or its position from 0 in a file without header. Default: as given to finetune.")  # fmt: skip
    num_beams: int = option(1, "Above 1: beam search; 4 in the paper. 1: the likeliest token each time.", minimum=1)
    length_penalty: float | None = option(None, "Of beam search: alpha of ((5 + length) / 6) ** alpha, of BART the power of the length. Default: that of the system, 0.6 of the Transformer.")  # fmt: skip
    no_repeat_ngram_size: int = option(0, "No run of so many tokens comes twice in a translation; 0 for no such rule. 3 is usual for summaries.", minimum=0)  # fmt: skip
    min_new_tokens: int = option(0, "A translation does not end before it has so many tokens.", minimum=0)
    max_new_tokens: int | None = option(None, "Most tokens of a translation. Default: 50 more than of its source.", minimum=1)  # fmt: skip
    bleu_tokenize: str = option("auto", "How sacreBLEU cuts texts into words. auto: zh for Chinese references, else 13a.", choices=("auto", "13a", "intl", "zh", "char", "none"))  # fmt: skip
    rouge: bool = option(False, "Also ROUGE-1, -2 and -L, of summaries; needs the extra `rouge`.")
    lowercase: bool = option(False, "Compare without regard to case.")
    translations_file: str | None = option(None, "Also write the translations, one a line.")
    train_file: str | None = option(None, "Labelled rows on which the probe is fitted; test_file scores it.", section="Probes of frozen networks (docs/probing.md)")  # fmt: skip
    pooling: str | None = option(None, "Which state of a layer stands for a text; published: what the paper of the system reads. Default: first, last and mean, and published.", choices=tuple(p for p in POOLINGS if p != "attention"))  # fmt: skip
    layer: str | None = option(None, "Numbers of layers, such as 0,6,-1: 0 is the embedding, -1 the last one. Default: all.")  # fmt: skip
    random_init: bool = option(False, "Take only sizes and vocabulary from model_dir: the control experiment.")
    seed: int = option(12345, "Seed of random weights, and of the rows that are held out of train_file.")
    output_file: str | None = option(None, "Also write the scores as JSON.", section="Output")
