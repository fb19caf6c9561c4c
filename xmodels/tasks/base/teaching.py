"""Rows of texts that a network learns from a teacher, one that has learnt the same task: its layers first, then its answers."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from tqdm.auto import tqdm

from data_pipelines.errors import UsageError
from data_pipelines.text.cuts import count_cuts
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import first_difference
from xmodels.models.backbone import Backbone
from xmodels.models.folder import build_with, values_of
from xmodels.tasks.base.layer_maps import ATTENTION, EMBEDDINGS, HIDDEN, map_layers, parse_map, parse_parts
from xmodels.tasks.base.rows import RowReader
from xmodels.tasks.base.task import Task
from xmodels.tasks.base.teacher_layers import Layers, TeacherLayers, show_layers
from xmodels.training.finetuning import LANGUAGE_MODEL, TASK, FineTuning, teacher_layers_phase
from xmodels.training.watching.progress import print_status

NO_COMMON = "Leave out --distill_layers: answers of a teacher need no common vocabulary."
ANSWERS_ALONE = "Leave out --distill_layers: answers of a teacher are learnt by any network."
OF_LAYERS = ("distill_layers_epochs", "distill_layers_learning_rate", "distill_layer_map")
OTHERS = {"lora_rank": "trains adapters alone", "freeze_backbone": "keeps the network as it is"}


class TaughtReader(RowReader):
    """A `RowReader` of a task that takes --teacher.

    Attributes:
        teaching: the predictor of --teacher; None before it is opened, and where there is none.
        distilled_class: the task that learns from a teacher beside the labels; it reads what `arrays_of_teacher` returns.
    """

    teaching = None
    distilled_class: ClassVar[type[Task]]

    def __init__(self, name, options):
        super().__init__(name, options)
        if "teacher" in self.own_flags:
            check_flags(options, self.own_flags)

    def use_teacher(self, load, tokenizer):
        temperature = getattr(self.options, "distill_temperature", 1.0)
        if not temperature > 0:
            raise UsageError(f"--distill_temperature={temperature:g}: must be above 0; 2 is usual.")
        self.teaching = load(self.options.teacher)
        if self.teaching.task.label != self.name:
            raise UsageError(
                f"--teacher={self.options.teacher}: has learnt --task={self.teaching.task.label}, not --task={self.name}."
            )
        if self.options.distill_layers:
            self._check_reads_alike(tokenizer)

    def arrays_of_teacher(self, answers: Sequence, labels: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns what the teacher says of N rows as arrays (N, ...); `answers` are those of its predictor."""
        raise NotImplementedError

    @property
    def learns_answers(self) -> bool:
        """Whether the teacher's answers are learnt in this phase."""
        return self.teaching is not None and self.learns == TASK

    def derived_arrays(self, path, rows, labels):
        """Returns what the teacher says of the rows."""
        if self.teaching is None:
            return {}
        if rows is None:
            raise UsageError(
                f"--teacher={self.options.teacher}: reads texts, and {path} holds records. Name the table that they were made of."
            )
        if self.task_class.names_labels and set(self.teaching.labels) != set(labels):
            raise UsageError(
                f"--teacher={self.options.teacher}: its labels are {', '.join(sorted(self.teaching.labels))[:200]}, and those of the "
                f"rows {', '.join(labels)[:200]}. They must be the same."
            )
        if not self.learns_answers:
            return {}
        bar = tqdm(total=len(rows), desc=f"teacher on {path}", unit="text", mininterval=1)
        with bar as progress, count_cuts() as cuts:  # the network's own are counted outside
            answers = self.teaching.predict([row.texts for row in rows], progress=progress.update)
        if message := cuts.message(path, f"the {self.teaching.max_sequence_length} tokens that --teacher reads"):
            print_status(message)
        return self.arrays_of_teacher(answers, labels)

    def _check_reads_alike(self, tokenizer: Tokenizer) -> None:
        """Raises a UsageError unless the teacher reads the same tokens at the same places."""
        flag, theirs = f"--teacher={self.options.teacher}", self.teaching.tokenizer
        ours = f"--init_checkpoint={self.options.init_checkpoint}"
        pieces, own = theirs.vocabulary.tokens, tokenizer.vocabulary.tokens
        if (place := first_difference(own, pieces)) is not None:
            differs = (
                f"has {len(pieces):,} pieces, and that of {ours} {len(own):,}"
                if place == min(len(pieces), len(own))
                else f"has {pieces[place]!r} at the place {place}, and that of {ours} {own[place]!r}"
            )
            raise UsageError(
                f"{flag}: its vocabulary {differs}; --distill_layers compares tokens one by one. {NO_COMMON}"
            )
        said, own_said = ({**each.describe(), "frame": None} for each in (theirs, tokenizer))
        if said != own_said:
            names = sorted(name for name in {**said, **own_said} if said.get(name) != own_said.get(name))
            raise UsageError(
                f"{flag}: its tokenizer has {names[0]}={said.get(names[0])}, and that of {ours} {own_said.get(names[0])}; "
                f"--distill_layers compares tokens one by one. {NO_COMMON}"
            )
        if self.teaching.task.reading.frame != self.reading.frame:
            raise UsageError(
                f"{flag}: a {type(self.teaching.backbone).__name__} reads texts between other special tokens than the network of "
                f"{ours}; --distill_layers compares tokens one by one. {NO_COMMON}"
            )
        config, length = self.teaching.backbone.config, self.options.max_seq_length
        if not config.reads(length):
            raise UsageError(
                f"{flag}: reads at most {config.longest} tokens, and --max_seq_length is {length}. Give --max_seq_length="
                f"{config.longest}, or leave out --distill_layers."
            )

    def extend(self, recipe: FineTuning) -> FineTuning:
        """Lets the layers of the teacher be learnt before the task, where --distill_layers asks for it."""
        recipe, options = super().extend(recipe), self.options
        if "teacher" not in self.own_flags or not options.distill_layers:
            return recipe
        if recipe.phases:
            name = recipe.phases[-1].name
            raise UsageError(
                f"--distill_layers={options.distill_layers}: comes before the task, and so does the phase {name} of this network. "
                f"Leave one of the two out{', such as by --language_model_epochs=0' if name == LANGUAGE_MODEL else ''}."
            )
        phase = teacher_layers_phase(options.distill_layers_epochs, options.distill_layers_learning_rate)
        return recipe.then(phase)

    def teacher_layers(self, backbone):
        return learn_layers(self.options, backbone, self.teaching.backbone)


def check_flags(options, own_flags) -> None:
    """Raises a UsageError where flags of the layers of a teacher contradict each other."""
    given = options.distill_layers
    if not given:
        if extra := next((name for name in OF_LAYERS if getattr(options, name) != own_flags[name].default), None):
            raise UsageError(f"--{extra}: is of --distill_layers, which is not given. Give it, or leave the flag out.")
        return
    parse_parts(given)
    if not options.teacher:
        raise UsageError(f"--distill_layers={given}: needs a --teacher, whose layers are learnt.")
    parse_map(options.distill_layer_map)
    if not options.distill_layers_epochs > 0:
        raise UsageError(
            f"--distill_layers_epochs={options.distill_layers_epochs:g}: must be more than 0; 10 is usual."
        )
    if other := next((name for name in OTHERS if getattr(options, name)), None):
        raise UsageError(
            f"--distill_layers={given}: lets the layers learn, and --{other} {OTHERS[other]}. Leave one of the two out."
        )


def learn_layers(options, backbone: Backbone, teacher: Backbone) -> TeacherLayers:
    """Returns the objective by which a network learns from the layers of a teacher. It has a copy of the teacher, made where this is
    called: inside of the strategy, with its precision.

    Args:
        options: of `finetune`, with `distill_layers`, `distill_layer_map`, `init_checkpoint` and `teacher`.

    Raises:
        UsageError: a network shows no layers or scores, or their numbers do not go together.
    """
    parts = parse_parts(options.distill_layers)
    copy = build_with(type(teacher), teacher.config, values_of("backbone", teacher), options.teacher)
    copy.trainable = False
    ours, theirs = (show_layers(network, network.tiny_batch()) for network in (backbone, copy))
    named = {
        f"--init_checkpoint={options.init_checkpoint}": (backbone, ours),
        f"--teacher={options.teacher}": (copy, theirs),
    }
    for flag, (network, shown) in named.items():
        check_shows(flag, network, shown, parts)
    if ATTENTION in parts and ours.num_heads != theirs.num_heads:
        raise UsageError(
            f"--distill_layers={options.distill_layers}: attention is learnt head by head; the network has {ours.num_heads} heads, "
            f"the teacher {theirs.num_heads}. Take a network with as many, or --distill_layers={EMBEDDINGS},{HIDDEN}."
        )
    pairs = map_layers(options.distill_layer_map, ours.count, theirs.count)
    widths = (ours.width, theirs.width) if HIDDEN in parts else None
    of_embeddings = tuple(shown.states[0].shape[-1] for shown in (ours, theirs)) if EMBEDDINGS in parts else None
    return TeacherLayers(copy, parts, pairs, widths, of_embeddings)


def check_shows(flag: str, network: Backbone, shown: Layers, parts: Sequence[str]) -> None:
    """Raises a UsageError where a network lacks what the parts compare. `flag` names the network."""
    kind = type(network).__name__
    if not shown.count or shown.width is None:
        raise UsageError(
            f"{flag}: a {kind} shows no layers of one width, which --distill_layers compares. {ANSWERS_ALONE}"
        )
    if ATTENTION in parts and shown.num_heads is None:
        raise UsageError(
            f"{flag}: the attention of this {kind} has no scores for every two tokens. Take --distill_layers={EMBEDDINGS},{HIDDEN}."
        )
