"""Kinds of checkpoints of others: the names of tensors, and of what a configuration holds."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from data_pipelines.text.frames import BERT, Frame
from xmodels.conversion.axes import find_axes
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS


@dataclasses.dataclass(frozen=True)
class Format:
    """The names of one kind of checkpoint.

    Attributes:
        names: our name -> theirs, of the network and the heads of its pretraining. Placeholders such as `{block}` count what
            `Table.counts` says, and a name that ends in `[1/3]` is the second third of the last axis of a tensor, `[:1/3]` of its
            first, and one in `[1]` the second row of its first.
        settings: the key in their config.json -> our field.
        heads: the kind of the head of a task (`PublishedHead.kind`) -> its names, ours without `objective.TASK.`.
        transposed: a pattern of their names of kernels that are (outputs, inputs); "" if none is.
        heads_apart: whether heads and their widths are axes of their own, as here.
        other_axes: the end of our name -> their axes, of weights that lie otherwise than these two say.
        activations: their name -> ours. The first that fits is written. Empty where networks have no choice.
        activation_key: the key of the activation in their config.json.
        fixed: keys of their config.json that may hold this value only.
        infer_fields: from what their config.json holds, those of our fields that it does not name.
        infer_settings: the keys of their config.json that follow from several of our fields; the inverse of `infer_fields`.
        complete: fills in what their config.json may leave out.
        left_out: those of our fields, and the weights that they make, that the format has no place for and whose loss changes
            nothing of what it can say.
        unsaid: our fields of which their config.json says nothing, as they do not change what a network computes. They are
            read as our defaults.
    """

    tells_problems: ClassVar[bool] = False  # whether it says what a head has learnt whose kind several tasks have

    names: Mapping[str, str]
    settings: Mapping[str, str]
    heads: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    transposed: str = ""
    heads_apart: bool = False
    other_axes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    activations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    activation_key: str = "hidden_act"
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    infer_fields: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda stored: {}
    infer_settings: Callable[[Any], dict[str, Any]] = lambda config: {}
    complete: Callable[[dict], dict] = dict
    left_out: frozenset[str] = frozenset()
    unsaid: tuple[str, ...] = ()

    def axes_of(self, ours: str, theirs: str, axes: str) -> str:
        """Returns the axes of a weight in this format.

        Args:
            axes: those of ours.
        """
        if other := find_axes(ours, self.other_axes):
            return other
        if not self.heads_apart:
            axes = axes.replace("H K", "HK").replace("G J", "GJ")
        if ours.endswith("kernel") and self.transposed and re.search(self.transposed, theirs):
            axes = " ".join(reversed(axes.split()))
        return axes


TASK_CLASSES = ("", frozenset())  # in `HuggingFace.architectures`, in place of the classes for usual heads of tasks


ENDINGS = {
    SEQUENCE: "ForSequenceClassification",
    TOKENS: "ForTokenClassification",
    CHOICE: "ForMultipleChoice",
    SPAN: "ForQuestionAnswering",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HuggingFace(Format):
    """The names in folders of the `transformers` library. `fixed` holds the `model_type`.

    Attributes:
        architectures: the class that `transformers` builds for a set of heads of the pretraining; the first whose heads are all
            present is written. TASK_CLASSES stands where those for tasks come.
        family: how the names of classes for tasks begin.
        endings: the kind of the head of a task -> how they end.
        prefix, bare_parts: a checkpoint of the network alone begins with one of `bare_parts`, without `prefix`.
        old_endings: endings of names that older files have, -> the present ones.
        buffers: patterns of names that hold no weights.
        tied: a copy of a tensor -> the name under which it counts.
        spares: a tensor that counts only where another one is missing -> that one. It is written as its copy.
        claims: tells the folders of a network from those of another one with the same `model_type`, by their config.json.
        untyped: whether folders that name no `model_type`, as those of 2018, are of this kind.
        continues: whether the network continues texts, so that its folder names the tokens with which they begin and end.
        frame: where special tokens stand around its texts.
        byte_bpe_class, sentence_piece_class: the class of its tokenizer, where that is BPE over bytes, or SentencePiece.
        pairs_models: whether its tokenizer has a SentencePiece model for each side, so that one is written twice.
        decoder_start: the role of the token that a decoder reads first; None where there is no encoder beside it.
        forced: ids of its config.json that say how each text that it writes begins and ends -> roles of these tokens.
        refine: (configuration, tensors) -> the configuration, with what only the tensors tell.
        warnings: from what their config.json holds, what of it is probably not as the network was trained.
    """

    tells_problems: ClassVar[bool] = True

    architectures: tuple[tuple[str, frozenset[str]], ...]
    prefix: str
    bare_parts: tuple[str, ...]
    transposed: str = r"\.weight(\[|$)"
    family: str = ""
    endings: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(ENDINGS))
    old_endings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    tied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    spares: Mapping[str, str] = dataclasses.field(default_factory=dict)
    claims: Callable[[Mapping[str, Any]], bool] | None = None
    untyped: bool = False
    continues: bool = False
    frame: Frame = BERT
    byte_bpe_class: str = "PreTrainedTokenizerFast"
    sentence_piece_class: str = "AlbertTokenizer"
    pairs_models: bool = False
    decoder_start: str | None = None
    forced: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refine: Callable[[Any, Mapping[str, np.ndarray]], Any] = lambda config, found: config
    warnings: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda stored: ()

    def is_buffer(self, name: str) -> bool:
        """Returns whether a name of theirs holds no weights."""
        return any(re.fullmatch(pattern, name) for pattern in self.buffers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorFlow1(Format):
    """The names in a folder of a TensorFlow 1 checkpoint.

    Attributes:
        config_file: the file of the configuration, which tells the network.
        checkpoint: the prefix of the files of weights that is written.
        sentence_pieces: how the original code reads a SentencePiece model that lies beside the checkpoint.
        vocabulary_files: our names of the files of a vocabulary -> those of the original code, where they differ.
        renamed: patterns of the beginnings of names that depend on the task -> those of `names`.
    """

    transposed: str = "output_weights$"
    config_file: str
    checkpoint: str
    sentence_pieces: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocabulary_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paddle(Format):
    """The names in a folder of PaddlePaddle's static graphs, as Baidu released them in 2019.

    Attributes:
        config_file: the file of the configuration.
        reversed_classes: our names of weights whose last axis counts two classes the other way round.
        other_heads: a pattern of names of heads that have no place here, where `names` does not have them.
    """

    config_file: str
    reversed_classes: frozenset[str] = frozenset()
    other_heads: str | None = None


KERAS_HUB_NUMBERS = (
    "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "max_sequence_length",
)  # fmt: skip


def dropout_of_all(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the dropout of attention, which is that of everything in KerasHub."""
    return {"attention_dropout": stored.get("dropout", 0.1)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class KerasHub(Format):
    """The names in presets of KerasHub, which calls most numbers as we do.

    Layers are counted as `layers/transformer_encoder_{block}`, from 0.

    Attributes:
        class_name: of the network.
        tokenizer_class: of its tokenizer; `word_pieces`, `byte_bpe` and `sentence_pieces` say of which kind.
        classifier: the class of a classifier, whose head has the names below `task/`; None where ours is another.
        masked_lm: likewise of a masked language model.
        num_sentinels: tokens behind those of a SentencePiece model, which its tokenizer does not know, where there are rows for them.
        positions: names of tables that lack the rows before the first position.
        folded: our name of a table of one row that is added everywhere -> that of the table that holds it as well there.
    """

    settings: Mapping[str, str] = dataclasses.field(default_factory=lambda: {name: name for name in KERAS_HUB_NUMBERS})
    heads_apart: bool = True
    infer_fields: Callable[[Mapping[str, Any]], dict[str, Any]] = dropout_of_all
    unsaid: tuple[str, ...] = ("attention_dropout", "initializer_stddev")
    class_name: str
    tokenizer_class: str
    word_pieces: bool = False
    byte_bpe: bool = False
    sentence_pieces: bool = False
    classifier: str | None = None
    masked_lm: str | None = None
    num_sentinels: int = 0
    positions: tuple[str, ...] = ()
    folded: Mapping[str, str] = dataclasses.field(default_factory=dict)
