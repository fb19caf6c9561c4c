"""The plan of a comparison: what a plan file may hold. The dataclasses are its schema; docs/compare.md shows an example."""

import dataclasses
from typing import Annotated, Any

from data_pipelines.options.input import LANGUAGES
from data_pipelines.schema import Constraint, Positive, one_of
from data_pipelines.text.tokenizer_settings import TOKENIZERS
from xmodels.tasks.base import find

Amount = Annotated[float, Constraint(lambda value: 0 < value < 1e30, "a number above 0")]
Candidates = Annotated[
    dict[str, list[float]],
    Constraint(lambda value: all(value.values()), "lists of numbers to choose from, none of them empty"),
]
Seeds = Annotated[
    list[int],
    Constraint(
        lambda value: bool(value) and len(set(value)) == len(value) and min(value) >= 0 and max(value) < 2**31,
        "a list of different whole numbers from 0 to 2147483647, at least one",
    ),
]
BEST = "best"  # the reference that is the arm with the best development scores
NAME = r"[^\W_][\w.-]*"  # of arms and tasks, which are parts of file names


@dataclasses.dataclass(frozen=True)
class Budget:
    """What each pretraining may cost; exactly one of these."""

    processor_minutes: Amount | None = None
    device_minutes: Amount | None = None
    flops: Amount | None = None
    tokens: Amount | None = None

    @property
    def kind(self) -> str:
        return next(iter(self.given))

    @property
    def amount(self) -> float:
        return self.given[self.kind]

    @property
    def given(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text to pretrain on and text that is held out; `flags` are those of how it is read, such as `input_format`.

    Attributes:
        train_target, heldout_target: the translations, for systems that learn from them.
    """

    train: str
    heldout: str
    train_target: str | None = None
    heldout_target: str | None = None
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Learnt from the training text; `flags` are those of `train_vocabulary`."""

    size: Positive
    tokenizer: one_of(*TOKENIZERS) = "wordpiece"
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """What all systems share. `flags` are those of `pretrain`; `tune` names numbers that held-out text chooses.

    Attributes:
        seeds: each is a pretraining of its own. The first one tunes; fine-tunings take them in turn, so that their spread holds both.
        evaluations: how often held-out text is scored on the way.
        probe_steps: of the short run that measures what a step costs.
    """

    max_seq_length: Positive
    train_batch_size: Positive
    seeds: Seeds = dataclasses.field(default_factory=lambda: [1])
    evaluations: Positive = 6
    eval_steps: Positive = 30
    probe_steps: Annotated[int, Constraint(lambda value: value >= 20, "a whole number from 20")] = 60
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)
    tune: Candidates = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class System:
    """One system, or a network without pretraining; what it leaves out is that of the plan.

    Attributes:
        system: as `pretrain --system` names it; by default the name of the arm.
        new: a network that is not pretrained, as `finetune --init_checkpoint=new:NAME` names it.
        averaged: whether its word vectors are averaged and read by logistic regression, instead of a fine-tuning.
        vectors: the system whose word vectors its table begins with.
        corpus: text of its own, such as translations; its vocabulary is that of this text and that of all.
        records, flags, finetune: flags of `create_pretraining_data`, `pretrain` and `finetune`, which go before those of all.
        tune, tune_finetuning: numbers that held-out text chooses, and those that development rows choose.
        max_steps: at most so many, even if that is less than the budget.
    """

    system: str | None = None
    size: str = "tiny"
    new: str | None = None
    averaged: bool = False
    vectors: str | None = None
    corpus: Corpus | None = None
    vocabulary: Vocabulary | None = None
    records: dict[str, Any] = dataclasses.field(default_factory=dict)
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)
    tune: Candidates | None = None
    finetune: dict[str, Any] = dataclasses.field(default_factory=dict)
    tune_finetuning: Candidates | None = None
    max_steps: Positive | None = None


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Arms beside the systems.

    Attributes:
        word_vectors: as a system, of skip-gram vectors that are averaged and read by logistic regression.
        random: systems whose networks are fine-tuned from random weights too.
    """

    majority: bool = True
    bag_of_words: bool = True
    word_vectors: System | None = None
    random: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Finetuning:
    """How each task is learnt. The first `tuning_seeds` of the seeds choose among `tune` by the development file."""

    seeds: Seeds
    tune: Candidates = dataclasses.field(default_factory=dict)
    tuning_seeds: Positive = 1
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Task:
    """Labelled rows, and the columns that `finetune` reads. `flags` go before those of all tasks."""

    train: str
    dev: str
    test: str
    task: one_of(*find.able("COMPARES")) = find.able("IS_DEFAULT")[0]
    text_column: str | int | None = None
    text_pair_column: str | int | None = None
    label_column: str | int | None = None
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)

    def columns(self) -> dict[str, str]:
        """Returns the flags that name columns."""
        named = {name: getattr(self, name) for name in ("text_column", "text_pair_column", "label_column")}
        return {name: str(value) for name, value in named.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Plan:
    """A whole comparison.

    Attributes:
        records: flags of `create_pretraining_data` for all systems.
        reference: the arm that all others are tested against; best: the one with the best development scores.
    """

    name: str
    budget: Budget
    corpus: Corpus
    vocabulary: Vocabulary
    pretraining: Pretraining
    systems: dict[str, System]
    finetuning: Finetuning
    tasks: dict[str, Task]
    language: one_of(*LANGUAGES) = "en"
    records: dict[str, Any] = dataclasses.field(default_factory=dict)
    baselines: Baselines = dataclasses.field(default_factory=Baselines)
    reference: str = BEST
