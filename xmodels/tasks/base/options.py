"""Flags that several tasks take. `options.py` of a task declares its own, one dataclass a verb, with these as bases."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.layers.exits import EXIT_MODES
from xmodels.layers.poolings import CHOICES, JOINT

LABELS, HEAD = "Labels of texts (docs/classify.md)", "Head of the task"  # sections of `--help`
LANGUAGE_MODELS = "Language models (docs/evaluation.md)"
WORDS = "Vectors of words (docs/word_vectors.md)"
EARLY_EXIT = "Early exit (docs/fast_classify.md)"
TEACHER = "Learning from a teacher (docs/classify.md)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """The flags of a task for `xmodels finetune`; this base has none.

    Attributes:
        IS_DEFAULT: whether it is the task of a command that names none.
        JOINS: whether `multitask` can train the task together with others, so that a file of tasks may set these flags.
        COMPARES: whether a plan of `compare` may have it.
        NEEDS_PAIRS: whether an input is always two texts.
        HAS_ONE_OUTPUT: whether a head with one output, whose source says nothing of its task, may be of this one.
    """

    IS_DEFAULT: ClassVar[bool] = False
    JOINS: ClassVar[bool] = False
    COMPARES: ClassVar[bool] = False
    NEEDS_PAIRS: ClassVar[bool] = False
    HAS_ONE_OUTPUT: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropoutOptions:
    """Dropout of a head."""

    task_dropout: float | None = option(None, "Dropout before the task's layer. Default: that of the network; 0.1 for ALBERT.", section=HEAD, maximum=0.99, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolingOptions:
    """Which state a head reads, for tasks that read one per text."""

    pooling: str | None = option(None, "Hidden state that the head reads, for tasks that read one per text. published: as in the system's paper, such as BERT's pooler. first, last: the first or last token that is not padding. mean, max, attention (a mean with learned weights): over all tokens, including special ones. mean_sqrt_len: their sum divided by the root of their number. weighted_mean: later tokens count more. Concatenate several with +: mean+max. With mix: before it, such as mix:mean, of a learned mix of all layers. Default: the system's; for small masked language models mean+max (docs/probing.md).", section=HEAD, choices=CHOICES, joint=JOINT, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreezingOptions:
    """A head on a frozen network."""

    freeze_backbone: bool = option(False, "Train only the head, on a network that is frozen and runs without dropout. Give a larger learning_rate, such as 1e-3.", section=HEAD, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightedOptions:
    """Weights of labels."""

    class_weights: str | None = option(None, "Weights of labels in the loss. balanced: number of rows / (number of labels * rows with the label). LABEL:WEIGHT,...: as given, 1 for other labels. For multi_label: each label is balanced on its own, or WEIGHT applies to the rows that have it.", section=LABELS, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherOptions:
    """A network that has learnt the task before."""

    teacher: str | None = option(None, "Fine-tuned run or model folder of the same task, with the same labels. The network learns its answers beside the labels; it may be any other network with any vocabulary.", section=TEACHER, structural=True)  # fmt: skip
    distill_share: float = option(0.5, "Share of the loss that the teacher has; 1: labels count for nothing.", maximum=1.0, structural=True)  # fmt: skip
    distill_layers: str | None = option(None, "TinyBERT: before the task, let the layers learn from those of the teacher, in a run of its own in model_dir/teacher_layers: embeddings, hidden (states), attention (scores), separated by commas, or all. Both must read the same tokens.", structural=True)  # fmt: skip
    distill_layers_epochs: float = option(10.0, "Epochs of that phase.", structural=True)
    distill_layers_learning_rate: float | None = option(None, "Peak learning rate of that phase. Default: learning_rate.", structural=True)  # fmt: skip
    distill_layer_map: str = option("uniform", "From which of the teacher's N layers layer m of M learns. uniform: m N / M. top: m + N - M. bottom: m. Or pairs, such as 1:2,2:4, counted from 1.", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemperatureOptions(TeacherOptions):
    """A teacher that says probabilities."""

    distill_temperature: float = option(
        2.0, "Temperature at which both say their probabilities.", section=TEACHER, structural=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Windows over long texts."""

    doc_stride: int | None = option(None, "Tokens between the starts of two consecutive windows over a long text. Default: 128; for tag, and where windows are shorter, half a window.", minimum=1, section="Windows over long texts", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthOptions:
    """Tokens that a network reads at once."""

    max_seq_length: int | None = option(None, "Number of tokens that the network reads at once. Default: the length it was trained on, or all it can read.", section=LANGUAGE_MODELS, minimum=1)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExitOptions:
    """How texts leave a network early."""

    exit_mode: str | None = option(None, "exit: texts that have exited are not computed further. select: all layers are computed; the predictions are the same. Default: exit.", section=EARLY_EXIT, choices=EXIT_MODES)  # fmt: skip


def best_metric_option(help: str, choices: tuple[str, ...]) -> str | None:
    """Returns a field for the score that chooses the best epoch; the first choice is the default."""
    text = f"Score on eval_file that chooses the best epoch: {help} Default: the first."
    return option(None, text, section=LABELS, choices=choices, structural=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordOptions:
    """Which words of a file of vectors are asked.

    Attributes:
        READS_VECTORS: that `model_dir` may be such a file.
    """

    READS_VECTORS: ClassVar[bool] = True

    vocabulary_limit: int = option(0, "Keep only so many of the first words, which are the most frequent ones. 0: all.", section=WORDS, minimum=0)  # fmt: skip
    lower_case: bool = option(False, "Ignore the case of letters.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalogyOptions(WordOptions):
    """The same, and how analogies are answered."""

    method: str = option("add", "How analogies are answered. add: 3CosAdd (Mikolov et al., 2013). multiply: 3CosMul (Levy and Goldberg, 2014).", section=WORDS, choices=("add", "multiply"))  # fmt: skip
