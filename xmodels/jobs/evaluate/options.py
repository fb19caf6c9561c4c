"""The options of `xmodels evaluate`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option
from xmodels.layers.exits import EXIT_MODES
from xmodels.layers.poolings import JOINT, POOLINGS
from xmodels.tasks.base import find


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A network and the data to score it on. A task refuses options of other tasks."""

    JOB: ClassVar = "xmodels.jobs.evaluate.run:evaluate"
    EARLY: ClassVar = "xmodels.jobs.early:using"
    NEEDS_TENSORFLOW: ClassVar = True

    task: str = option("auto", "Task to score; auto: the task that the run was trained for.", section="Model and data", choices=("auto", *find.names()))  # fmt: skip
    model_dir: str = option(REQUIRED, "Run folder, a model folder that convert_checkpoint wrote, or hf:FOLDER.")
    test_file: str = option(REQUIRED, "Labelled rows: TSV, CSV or JSON lines. For language_model: text, passages or questions, as names or globs.")  # fmt: skip
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: as given to finetune.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label.")
    batch_size: int | None = option(None, "Batch size: rows or windows; for networks with a memory, streams (default 1, which is exact). Default: chosen to fit.", minimum=1)  # fmt: skip
    form: str = option("text", "text: perplexity of running text. last_word: predict the last word of each passage, as in LAMBADA. choice: which candidate fits the gap XXXXX, as in the Children's Book Test.", section="Language models (docs/evaluation.md)", choices=("text", "last_word", "choice"))  # fmt: skip
    detokenize: str = option("none", "Undo the tokenization of such a corpus before the network reads it. Word perplexity still counts the words and line ends of the file.", choices=("none", "wikitext", "ptb"))  # fmt: skip
    input_format: str = option("auto", "How to read running text. verbatim: files, or the texts of JSON lines, as they are. Other formats: documents, as create_pretraining_data reads them. auto: as the records of the run were made; without records, verbatim.", choices=("auto", "verbatim", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet"))  # fmt: skip
    max_seq_length: int | None = option(None, "Number of tokens that the network reads at once. Default: the length it was trained on, or all it can read.", minimum=1)  # fmt: skip
    stride: int | None = option(None, "Tokens between the starts of two windows. In each window only tokens that no earlier window has scored are scored. Default: half a window.", minimum=1)  # fmt: skip
    stop_word_filter: bool = option(False, "With --form=last_word: predict no English stop words.")
    mem_length: str | None = option(None, "Transformer-XL: length of the memory in tokens. Several lengths, such as 0,64,128, give a table. Default: as in training.")  # fmt: skip
    same_length: str | bool = option("auto", "Transformer-XL: every token sees the same number of tokens before it. auto: as in training.", choices=SWITCH)  # fmt: skip
    clamp_length: int | None = option(None, "Transformer-XL: larger distances are treated as this one; 0: no bound. Default: as in training.")  # fmt: skip
    tasks: str | None = option(None, "Numbers of the tasks to score, such as 1,2,3. Default: all tasks in the files.", section="Stories (docs/universal_transformer.md)")  # fmt: skip
    plots: str | None = option(
        None, "Folder for pictures. For stories: steps and attention for the first question of each task."
    )
    speed: str | None = option(None, "Early exit speeds, comma-separated; each gives a row of the table. Default: 0,0.1,0.3,0.5,0.8.", section="Early exit (docs/fast_classify.md)")  # fmt: skip
    exit_mode: str | None = option(None, "exit: texts that have exited are not computed further. select: all layers are computed; the predictions are the same. Default: exit.", choices=EXIT_MODES)  # fmt: skip
    answer_metric: str | None = option(None, "Official script that defines how answers are compared: that of SQuAD 1.1, SQuAD 2.0 or CMRC 2018. Default: detected from the file.", section="Answers in texts (docs/answer_span.md)", choices=("squad1", "squad2", "cmrc2018"))  # fmt: skip
    relevant_label: str | None = option(None, "If labels are names: the label of relevant candidates. Default: as given to finetune.", section="Rankings (docs/rank.md)")  # fmt: skip
    negative_column: str | None = option(None, "Column of a third text that does not match the first.", section="Siamese networks (docs/siamese.md)")  # fmt: skip
    target_file: str | None = option(None, "File with the references for test_file, line by line. Without it, test_file is a table of source and reference, by default in the columns given to finetune, or the first two.", section="Translations (docs/translation.md)")  # fmt: skip
    target_column: str | None = option(None, "Column of the reference: its name, or its position from 0 in a file without a header. Default: as given to finetune.")  # fmt: skip
    num_beams: int = option(
        1, "Number of beams. Above 1: beam search; 4 in the paper. 1: the most likely token each time.", minimum=1
    )
    length_penalty: float | None = option(None, "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART the exponent of the length. Default: that of the system, 0.6 for the Transformer.")  # fmt: skip
    no_repeat_ngram_size: int = option(0, "No n-gram of this many tokens occurs twice in a translation; 0: no such rule. 3 is usual for summaries.", minimum=0)  # fmt: skip
    min_new_tokens: int = option(0, "Minimum number of tokens of a translation.", minimum=0)
    max_new_tokens: int | None = option(None, "Maximum number of tokens of a translation. Default: 50 more than its source has.", minimum=1)  # fmt: skip
    bleu_tokenize: str = option("auto", "Tokenizer of sacreBLEU. auto: zh for Chinese references, else 13a.", choices=("auto", "13a", "intl", "zh", "char", "none"))  # fmt: skip
    rouge: bool = option(False, "Also compute ROUGE-1, -2 and -L, for summaries; needs the extra `rouge`.")
    lowercase: bool = option(False, "Ignore case in the comparison.")
    translations_file: str | None = option(None, "Also write the translations to this file, one a line.")
    train_file: str | None = option(None, "Labelled rows on which the probe is fitted. It is scored on test_file.", section="Probes of frozen networks (docs/probing.md)")  # fmt: skip
    pooling: str | None = option(None, "State of a layer that represents a text. published: the one that the system's paper reads. Several side by side: mean+max, which finetune reads of small masked language models. Default: first, last and mean, and published.", choices=tuple(p for p in POOLINGS if p != "attention"), joint=JOINT)  # fmt: skip
    layer: str | None = option(None, "Layers to probe, such as 0,6,-1: 0 is the embedding, -1 the last layer. Default: all.")  # fmt: skip
    random_init: bool = option(
        False, "Control experiment: use random weights, and take only sizes and vocabulary from model_dir."
    )
    seed: int = option(12345, "Random seed of random weights, and of the rows that are held out from train_file.")
    output_file: str | None = option(None, "Also write the scores to this file as JSON.", section="Output")
