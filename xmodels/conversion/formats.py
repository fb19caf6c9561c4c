"""What a table says about the checkpoints of others of one network, and the registry of tables."""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.conversion import mixer_tables, tables
from xmodels.conversion.axes import axes_of, counts_of, lengths_of
from xmodels.conversion.format_types import TASK_CLASSES, Format, HuggingFace, KerasHub, Paddle, TensorFlow1
from xmodels.interfaces.reading import Reading
from xmodels.models.config import TokenConfig
from xmodels.objectives.base import Objective
from xmodels.tasks.base import find
from xmodels.tasks.base.published_head import PublishedHead

Variables = Mapping[str, tuple[str, str]]  # our name -> (their name, their axes)


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


def logits_of_states(head: Objective, outputs, batch, backbone):
    """Returns the logits of an objective that predicts a token from each state."""
    return head.logits(outputs["sequence_output"], backbone)


def logits_of_pairs(head: Objective, outputs, batch, backbone):
    """Returns the logits of an objective that says what two segments are to each other."""
    return head.head(outputs["pooled_output"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """How others name the weights and the configuration of one network.

    Attributes:
        config: the class of the configuration.
        objectives: what may stand beside the network from its pretraining.
        reading: how the tasks on top of the network read texts.
        further: our names of weights that no other format has.
        own_axes: the end of our name -> our axes, of weights that only this network has.
        own_lengths: configuration -> the lengths of further axes, or of those that are other ones than in `axes.lengths_of`.
        counts: configuration -> how many numbers each placeholder in the names takes: `{"block": 12}`.
        optional: a part of the network that a checkpoint may lack as a whole -> the prefix of its weights. It then gets
            initial values.
        lacks: configuration -> prefixes of the weights that networks of this configuration do not have, with or without the numbers
            that stand for placeholders.
        has_row: (configuration, our name with placeholders, their numbers) -> whether a network of this configuration has this weight
            under this name. Where layers of two kinds name a weight differently, it stands twice, with different placeholders.
    """

    config: type[TokenConfig]
    objectives: tuple[Head, ...]
    hugging_face: HuggingFace
    tensorflow1: TensorFlow1 | None = None
    paddle: Paddle | None = None
    keras_hub: KerasHub | None = None
    reading: Reading = dataclasses.field(default_factory=Reading)
    further: tuple[str, ...] = ()
    own_axes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    own_lengths: Callable[[Any], dict[str, int]] = lambda config: {}
    counts: Callable[[Any], dict[str, int]] = counts_of
    optional: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lacks: Callable[[Any], tuple[str, ...]] = lambda config: ()
    has_row: Callable[[Any, str, Mapping[str, int]], bool] = lambda config, ours, place: True

    @property
    def forms(self) -> dict[str, Format]:
        """The formats that the network has, by the prefixes of names of checkpoints."""
        forms = {"hf": self.hugging_face, "tf1": self.tensorflow1, "paddle": self.paddle, "keras_hub": self.keras_hub}
        return {kind: form for kind, form in forms.items() if form}

    @property
    def tasks(self) -> dict[str, PublishedHead]:
        """The tasks whose heads on top of this network other formats have."""
        return {name: head for name, head in published_heads().items() if head.kind in self.hugging_face.heads}

    @property
    def heads(self) -> tuple[Head, ...]:
        """What may stand beside the network."""
        return *self.objectives, *(_head_of_task(name, task, self.reading) for name, task in self.tasks.items())

    @functools.cached_property
    def axes(self) -> dict[str, str]:
        """Our name -> our axes, of every weight of the network and its heads."""
        own = {f"{name}.{end}": axes for name, task in self.tasks.items() for end, axes in task.axes.items()}
        names = [ours for form in self.forms.values() for ours in self.names_in(form)]
        return {ours: axes_of(ours, {**own, **self.own_axes}) for ours in (*names, *self.further)}

    def names_in(self, form: Format) -> dict[str, str]:
        """Returns our name -> theirs, of the network and all heads that a format has."""
        tasks = {
            name: form.heads.get(task.kind, {})
            for name, task in self.tasks.items()
            if task.is_usual or form.tells_problems
        }
        return {
            **form.names,
            **{f"objective.{name}.{ours}": theirs for name, head in tasks.items() for ours, theirs in head.items()},
        }

    def variables(self, form: Format) -> Variables:
        """Returns our name -> (their name, their axes), as `names_in`."""
        names = self.names_in(form)
        return {ours: (theirs, form.axes_of(ours, theirs, self.axes[ours])) for ours, theirs in names.items()}

    def lengths(self, config) -> dict[str, int]:
        """Returns the length of every axis but C, the classes, which only a checkpoint knows."""
        return lengths_of(config) | self.own_lengths(config)

    @property
    def shared_names(self) -> dict[str, set[str]]:
        """Hugging Face's names of the weights of each task whose head has a name in common with that of another task."""
        heads = {name: set(self.hugging_face.heads[task.kind].values()) for name, task in self.tasks.items()}
        return {
            name: own
            for name, own in heads.items()
            if any(own & other for another, other in heads.items() if another != name)
        }

    @property
    def classes(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Hugging Face's classes, and the heads that make a checkpoint theirs; the first whose heads are all present is written.

        Where nothing but the class tells what a head has learnt, it comes first, whatever else a checkpoint holds.
        """
        form, shared = self.hugging_face, self.shared_names
        of_tasks = {
            name: (form.family + form.endings[task.kind], frozenset({name})) for name, task in self.tasks.items()
        }
        told = [name for name, task in self.tasks.items() if name in shared and not (task.problem and task.is_usual)]
        usual = tuple(each for name, each in of_tasks.items() if name not in told)
        others = [usual if each == TASK_CLASSES else (each,) for each in form.architectures]
        return *(of_tasks[name] for name in told), *(each for group in others for each in group)

    @property
    def groups(self) -> dict[str, str]:
        """What a checkpoint may lack as a whole, -> the prefix of its weights. Parts of it are an error."""
        heads = {head.label: head.prefix for head in self.heads if any(n.startswith(head.prefix) for n in self.axes)}
        return {**self.optional, **heads}

    def is_task(self, label: str) -> bool:
        """Returns whether a head is that of a task, which a pretrained checkpoint is not expected to have."""
        return label in self.tasks


def _head_of_task(name: str, task: PublishedHead, reading: Reading) -> Head:
    return Head(
        name,
        lambda config, num_classes: task.make(config, num_classes, reading),
        lambda head, outputs, batch, backbone: task.logits(head, outputs, batch),
    )


@functools.cache
def published_heads() -> dict[str, PublishedHead]:
    """Returns the heads of tasks that other formats have. The folders of tasks are the registry."""
    files = {name: find.own(name, "convert") for name in find.names()}
    return {name: file.HEAD for name, file in files.items() if hasattr(file, "HEAD")}


def models_with_tables() -> list[str]:
    """Returns the networks for which there is a table. The folder is the registry."""
    return sorted(module.name for module in pkgutil.iter_modules(tables.__path__))


def has_table(model: str) -> bool:
    return model in models_with_tables()


def table_of(model: str, config: Any = None) -> Table:
    """Returns the `TABLE` of `xmodels/conversion/tables/<model>.py`.

    Args:
        config: of the network. Where its mixer has a table of its own, such as `xmodels/conversion/mixer_tables/longformer.py`, that
            one is returned.
    """
    if not has_table(model):
        known = ", ".join(models_with_tables())
        raise CheckpointError(f"No table says how to convert the model {model!r}. Known: {known}.")
    for module in _of_mixers():
        if (model, getattr(config, "mixer", None)) == (module.MODEL, module.MIXER):
            return module.TABLE
    return importlib.import_module(f"{tables.__name__}.{model}").TABLE


@functools.cache
def _of_mixers() -> list[Any]:
    """Returns the modules of the tables of networks with another mixer, which have `MODEL`, `MIXER` and `TABLE`."""
    found = sorted(module.name for module in pkgutil.iter_modules(mixer_tables.__path__))
    return [importlib.import_module(f"{mixer_tables.__name__}.{name}") for name in found]


def table_for(stored: Mapping[str, Any]) -> tuple[Table, str]:
    """Returns the table of the network that a config.json of Hugging Face describes, and our name of it."""
    model_type = str(stored["model_type"]) if stored.get("model_type") else None
    forms = {model: table_of(model).hugging_face for model in models_with_tables()}
    claimed = [model for model, form in forms.items() if form.claims and form.claims(stored)]
    for model in claimed or forms:
        form = forms[model]
        if form.untyped if model_type is None else form.fixed["model_type"] == model_type:
            return table_of(model), model
    others = {module.TABLE.hugging_face.fixed["model_type"]: module for module in _of_mixers()}
    if model_type in others:
        return others[model_type].TABLE, others[model_type].MODEL
    types = ", ".join(dict.fromkeys([*(form.fixed["model_type"] for form in forms.values()), *others]))
    raise CheckpointError(f"No table says how to convert the model type {model_type!r}. Known: {types}.")


def models_with(kind: str) -> dict[str, Any]:
    """Returns the networks of which there are checkpoints of a kind of format, such as `tf1`, and their names there."""
    forms = {model: table_of(model).forms.get(kind) for model in models_with_tables()}
    return {model: form for model, form in forms.items() if form}
