"""A recipe: this network, that objective, these numbers."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from data_pipelines.ops.compose import Op
from data_pipelines.text.similar_words import SimilarWords
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.training.curriculum import Curriculum
from xmodels.training.optimizers.optimization import Optimization

SMALLEST_LAMB_BATCH = 384  # of the published trainings by LAMB: the second phase of BERT-wwm-ext (Cui et al., 2019)
# Layouts of one or two segments, BERT's first.
ONE_OR_TWO_SEGMENTS = ("segment_pair", "sentence_pair", "sentence_order", "full_sentences", "doc_sentences")
BERT_RATE = 1e-4  # peak of BERT's AdamW (Devlin et al., 2018, appendix A.2)


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Records of --task_data: labelled ones of one or two texts, dialogues, or streams of plain text.

    Attributes:
        labels: their names, in the order of their ids; of dialogues and plain text none.
        sequence_length: with special tokens.
        units: as of `Records`.
        is_plain: whether they are streams of plain text.
    """

    labels: tuple[str, ...]
    sequence_length: int
    units: tuple[str, ...] = ()
    is_plain: bool = False


@dataclasses.dataclass(frozen=True)
class Records:
    """What the records are like.

    Attributes:
        sequence_length: L, with special tokens.
        num_predictions: P, the most tokens hidden in an example.
        masking_rate: the share of tokens that the training hides.
        static: the masks stand in the records already.
        replace_unit: "token" or "word": what is masked, kept or replaced as one, where whole words are hidden.
        units: the features of the records that say where units of words open: `word_start` and its kin.
        packing: the value of `create_pretraining_data --packing` that made them.
        language: of the text, "en" or "zh"; None where nothing says.
        capitals: whether they say of words in lower case which were written with a capital.
        labelled: {name of a task: its records}, of --task_data.
        word_counts: counts how often each id occurs in the records, (V,); None where there are no records.
        similar_words: (how many of each word, the smallest cosine) -> similar words by the vectors of a file; None without one.
    """

    sequence_length: int = 128
    num_predictions: int = 20
    masking_rate: float = 0.15
    static: bool = False
    replace_unit: str = "token"
    units: tuple[str, ...] = ("word_start",)
    packing: str = "segment_pair"
    language: str | None = None
    capitals: bool = True
    labelled: Mapping[str, Pairs] = dataclasses.field(default_factory=dict)
    word_counts: Callable[[], np.ndarray] | None = None
    similar_words: Callable[[int, float], SimilarWords] | None = None


@dataclasses.dataclass(frozen=True)
class Recipe(Optimization):
    """How a published system is trained; the numbers of its optimizer and schedule are those of `Optimization`.

    Attributes:
        backbone: makes the network; called inside the scope of the strategy.
        objective: makes the objective; likewise.
        frame: the op that turns clean records into framed batches.
        batch_size: examples a step.
        clip_norm: gradients are scaled down to this global norm.
        packings: values of `create_pretraining_data --packing` whose records it reads. By default those of one or two
            segments in no order.
        row_length: tokens of a row, where the frame makes it another than that of the records.
        length_schedule: phases of shorter rows, as `--length_schedule` takes them; None for rows of one length.
        origin: whose the numbers are: "published", the paper's, or "small", those of `training.small`.
        note: what the plan of a run says beside the numbers.
        curriculum: the tasks of a system that learns several in batches of their own; `objective` and `frame` are those of the
            first one then. None for one objective.
    """

    backbone: Callable[[], Backbone]
    objective: Callable[[], Objective]
    frame: Op | None
    batch_size: int
    clip_norm: float = 1.0
    packings: tuple[str, ...] = ONE_OR_TWO_SEGMENTS
    row_length: int | None = None
    length_schedule: str | None = None
    origin: str = "published"
    note: str = ""
    curriculum: Curriculum | None = None

    def override(self, **values: Any) -> "Recipe":
        """Returns the recipe with other numbers; None keeps the paper's.

        Of another number of steps the warm-up keeps its share; another optimizer has its own numbers.
        """
        given = {name: value for name, value in values.items() if value is not None}
        if "num_steps" in given:
            share = self.num_warmup_steps / self.num_steps
            given.setdefault("num_warmup_steps", round(share * given["num_steps"]))
        return self.replace(**given)

    def adapt_to_batch(self, learning_rate: float | None) -> "Recipe":
        """Returns the recipe with BERT's AdamW where its own optimizer is LAMB and the batch is smaller than LAMB is meant for.

        LAMB scales each layer's step to the norm of its weights, which is too far for the noisy gradients of few examples.

        Args:
            learning_rate: the peak that the user asks for; None for that of BERT.
        """
        if not self.optimizer.startswith("lamb") or self.batch_size >= SMALLEST_LAMB_BATCH:
            return self
        return dataclasses.replace(self, optimizer="bert_adamw", learning_rate=learning_rate or BERT_RATE)
