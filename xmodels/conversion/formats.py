"""What a table says about somebody else's checkpoints: the names of tensors, and of what a configuration holds."""

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import BERT, Frame
from xmodels.conversion import tables
from xmodels.models.config import TokenConfig
from xmodels.objectives.base import Objective

Variables = Mapping[str, tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Format:
    """The names of one kind of checkpoint.

    Attributes:
        variables: our name -> (their name, their axes). Placeholders such as `{block}` count what `Table.counts` says, and a
            name that ends in `[1/3]` is the second third of the last axis of a tensor, `[:1/3]` of its first, and one in `[1]` the
            second row of its first.
        settings: the key in their config.json -> our field.
        activations: their name -> ours. The first that fits is written. Empty where networks have no choice.
        activation_key: the key of the activation in their config.json.
        fixed: keys of their config.json that may hold this value only.
        implied: from what their config.json holds, those of our fields that it does not name.
        derived: the keys of their config.json that follow from several of our fields; the inverse of `implied`.
        complete: fills in what their config.json may leave out.
        left_out: those of our fields, and the weights that they make, that the format has no place for and whose loss changes
            nothing of what it can say.
        unsaid: our fields of which their config.json says nothing, as they do not change what a network computes. They are
            read as our defaults.
    """

    variables: Variables
    settings: Mapping[str, str]
    activations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    activation_key: str = "hidden_act"
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    implied: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda stored: {}
    derived: Callable[[Any], dict[str, Any]] = lambda config: {}
    complete: Callable[[dict], dict] = dict
    left_out: frozenset[str] = frozenset()
    unsaid: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class HuggingFace(Format):
    """The names in folders of the `transformers` library. `fixed` holds the `model_type`.

    Attributes:
        architectures: the class that `transformers` builds for a set of heads; the first whose heads are all present is
            written.
        prefix, bare_parts: a checkpoint of the network alone begins with one of `bare_parts`, without `prefix`.
        old_endings: endings of names that older files have, -> the present ones.
        buffers: patterns of names that hold no weights.
        tied: a copy of a tensor -> the name under which it counts.
        claims: tells the folders of a network from those of another one with the same `model_type`, by their config.json.
        untyped: whether folders that name no `model_type`, as those of 2018, are of this kind.
        continues: whether the network continues texts, so that its folder names the tokens with which they begin and end.
        frame: where special tokens stand around its texts.
        byte_bpe_class, sentence_piece_class: the class of its tokenizer, where that is BPE over bytes, or SentencePiece.
        pairs_models: whether its tokenizer has a SentencePiece model for each side, so that one is written twice.
        decoder_start: the role of the token that a decoder reads first; None where there is no encoder beside it.
        forced: ids of its config.json that say how each text that it writes begins and ends -> roles of these tokens.
        refined: (configuration, tensors) -> the configuration, with what only the tensors tell.
        doubts: from what their config.json holds, what of it is probably not as the network was trained.
    """

    architectures: tuple[tuple[str, frozenset[str]], ...]
    prefix: str
    bare_parts: tuple[str, ...]
    old_endings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    tied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    claims: Callable[[Mapping[str, Any]], bool] | None = None
    untyped: bool = False
    continues: bool = False
    frame: Frame = BERT
    byte_bpe_class: str = "PreTrainedTokenizerFast"
    sentence_piece_class: str = "AlbertTokenizer"
    pairs_models: bool = False
    decoder_start: str | None = None
    forced: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refined: Callable[[Any, Mapping[str, np.ndarray]], Any] = lambda config, found: config
    doubts: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda stored: ()

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
        renamed: patterns of the beginnings of names that depend on the task -> those of `variables`.
    """

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
        other_heads: a pattern of names of heads that have no place here, where `variables` does not have them.
    """

    config_file: str
    reversed_classes: frozenset[str] = frozenset()
    other_heads: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class KerasHub(Format):
    """The names in presets of KerasHub. Layers are counted as `layers/transformer_encoder_{block}`, from 0.

    Attributes:
        class_name: of the network.
        tokenizer_class: of its tokenizer; `word_pieces`, `byte_bpe` and `sentence_pieces` say of which kind.
        classifier: the class of a classifier, whose head has the names below `task/`; None where ours is another.
        masked_lm: likewise of a masked language model.
        num_sentinels: tokens behind those of a SentencePiece model, which its tokenizer does not know, where there are rows for them.
        positions: names of tables that lack the rows before the first position.
        folded: our name of a table of one row that is added everywhere -> that of the table that holds it as well there.
    """

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


@dataclasses.dataclass(frozen=True)
class Head:
    """What a checkpoint may hold beside the network.

    Attributes:
        label: the label of the objective or task.
        make: (configuration, number of classes) -> the objective.
        logits: (objective, outputs of the network, batch, network) -> what `verify` compares.
    """

    label: str
    make: Callable[[TokenConfig, int], Objective]
    logits: Callable[[Objective, Mapping[str, Any], Mapping[str, Any], Any], Any]

    @property
    def prefix(self) -> str:
        """Leads the names of its weights."""
        return f"objective.{self.label}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """How others name the weights and the configuration of one network.

    Attributes:
        config: the class of the configuration.
        axes: our name -> our axes, of every weight of the network and its heads.
        lengths: configuration -> the length of every axis but C, the classes, which only a checkpoint knows.
        counts: configuration -> how many numbers each placeholder in the names takes: `{"block": 12}`.
        heads: what may stand beside the network.
        optional: a part of the network that a checkpoint may lack as a whole -> the prefix of its weights. It then gets
            initial values.
        lacks: configuration -> prefixes of the weights that networks of this configuration do not have, with or without the numbers
            that stand for placeholders.
    """

    config: type[TokenConfig]
    axes: Mapping[str, str]
    lengths: Callable[[Any], dict[str, int]]
    counts: Callable[[Any], dict[str, int]]
    heads: tuple[Head, ...]
    hugging_face: HuggingFace
    tensorflow1: TensorFlow1 | None = None
    paddle: Paddle | None = None
    keras_hub: KerasHub | None = None
    optional: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lacks: Callable[[Any], tuple[str, ...]] = lambda config: ()

    @property
    def groups(self) -> dict[str, str]:
        """What a checkpoint may lack as a whole, -> the prefix of its weights. Parts of it are an error."""
        heads = {head.label: head.prefix for head in self.heads if any(n.startswith(head.prefix) for n in self.axes)}
        return {**self.optional, **heads}

    def is_task(self, label: str) -> bool:
        """Returns whether a head has classes, which a pretrained checkpoint is not expected to have."""
        return any("C" in axes for name, axes in self.axes.items() if name.startswith(f"objective.{label}."))


def models_with_tables() -> list[str]:
    """Returns the networks for which there is a table. The folder is the registry."""
    return sorted(module.name for module in pkgutil.iter_modules(tables.__path__))


def has_table(model: str) -> bool:
    return model in models_with_tables()


def table_of(model: str) -> Table:
    """Returns the `TABLE` of `xmodels/conversion/tables/<model>.py`."""
    if not has_table(model):
        known = ", ".join(models_with_tables())
        raise CheckpointError(f"No table says how to convert the model {model!r}. Known: {known}.")
    return importlib.import_module(f"{tables.__name__}.{model}").TABLE


def table_for(stored: Mapping[str, Any]) -> tuple[Table, str]:
    """Returns the table of the network that a config.json of Hugging Face describes, and our name of it."""
    model_type = str(stored["model_type"]) if stored.get("model_type") else None
    forms = {model: table_of(model).hugging_face for model in models_with_tables()}
    claimed = [model for model, form in forms.items() if form.claims and form.claims(stored)]
    for model in claimed or forms:
        form = forms[model]
        if form.untyped if model_type is None else form.fixed["model_type"] == model_type:
            return table_of(model), model
    types = ", ".join(dict.fromkeys(form.fixed["model_type"] for form in forms.values()))
    raise CheckpointError(f"No table says how to convert the model type {model_type!r}. Known: {types}.")


def tensorflow1_forms() -> dict[str, TensorFlow1]:
    """Returns the networks of which there are TensorFlow 1 checkpoints, and their names there."""
    forms = {model: table_of(model).tensorflow1 for model in models_with_tables()}
    return {model: form for model, form in forms.items() if form}


def keras_hub_forms() -> dict[str, KerasHub]:
    """Returns the networks of which there are presets of KerasHub, and their names there."""
    forms = {model: table_of(model).keras_hub for model in models_with_tables()}
    return {model: form for model, form in forms.items() if form}


def paddle_model() -> str:
    """Returns the network of which there are folders of PaddlePaddle; their configuration does not tell it."""
    return next(model for model in models_with_tables() if table_of(model).paddle)


def head_classes(family: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Returns the classes of `transformers` whose heads have the names of a classifier's. One that is found is the class,
    whatever else a checkpoint holds, as nothing but the class tells them apart."""
    return (
        (f"{family}ForTokenClassification", frozenset({"tag"})),
        (f"{family}ForMultipleChoice", frozenset({"choose"})),
        (f"{family}ForSequenceClassification", frozenset({"regress"})),
        (f"{family}ForSequenceClassification", frozenset({"multi_label"})),
    )


def numbered_blocks(ours: str, theirs: str, rows: Variables) -> dict[str, tuple[str, str]]:
    """Returns the rows of a part that is there several times: puts both prefixes, with their placeholders, before the names."""
    return {ours + name: (theirs + their_name, axes) for name, (their_name, axes) in rows.items()}
