"""ERNIE 2.0 (Sun et al., 2020): continual multi-task learning of seven tasks, each added to those before it.

Each batch is of one task, of which an embedding tells the network. --task_schedule and --task_steps of `pretrain` say when. Records of
--packing=paragraph give the five tasks of plain text; discourse and relevance need labelled pairs, --task_data.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import Op, compose
from data_pipelines.ops.corruption import mask_units
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.paragraphs import (
    MOST_PARTS,
    frame_distance,
    frame_paragraph,
    frame_reordered,
    of_task,
    permutations,
)
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.bert import SIZES as BERT_SIZES
from xmodels.models.ernie import Ernie, ErnieConfig
from xmodels.objectives.base import Objective
from xmodels.objectives.capitals import Capitals
from xmodels.objectives.discourse_relation import DiscourseRelation
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.relevance import Relevance
from xmodels.objectives.repeated_tokens import RepeatedTokens
from xmodels.objectives.sentence_distance import SentenceDistance
from xmodels.objectives.sentence_reordering import SentenceReordering
from xmodels.systems import bert, ernie
from xmodels.training import small
from xmodels.training.curriculum import Curriculum, PretrainingTask
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Ernie, False
SMALL = small.CONTINUAL
READING, WRITING = bert.READING, None
slots = ernie.slots  # each unit is drawn by itself here too
WANTED = {  # by tasks that not all records give
    "capitals": "records of a language with capitals and of a vocabulary in lower case",
    "discourse": "labelled pairs, of --task_data=discourse:FOLDER",
    "relevance": "labelled pairs, of --task_data=relevance:FOLDER",
}
# In the order of their rows in the table of tasks, of which the released networks have 16.
TASKS = "masking", "capitals", "token_document", "reordering", "distance", "discourse", "relevance"
STEPS = 50_000  # of each task, in the paper's comparison of schedules

# The released English networks. Those of trials have the shapes of BERT's.
SIZES = {
    name: {**size, "num_segments": 4, "num_tasks": 16, "max_sequence_length": 512, "activation": "gelu"}
    for name, size in BERT_SIZES.items()
}


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`reordering_parts`: into how many parts sentence reordering cuts a paragraph, at most; the paper does not say."""

    reordering_parts: int = 3

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.reordering_parts <= MOST_PARTS:
            raise ValueError(f"`reordering_parts` must be 1 to {MOST_PARTS}.")


def knowledge_units(features):
    """Phrases (without them words) and entities as units of one masking: a unit opens where both do. Writes word_start (B, L)."""
    starts = features.get("phrase_start", features["word_start"])
    return {**features, "word_start": tf.cast(starts * features.get("entity_start", 1), tf.int32)}


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: ErnieConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of the paper: batches of 393,216 tokens, here 768 rows of 512; AdamW with beta2 0.98, peak 5e-5, of
    Chinese 1.28e-4, after 4,000 steps, then falling with the root of the step. 50,000 steps a task, as in its comparison of
    schedules."""
    options = options or Options()
    config = config or ErnieConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    tasks = _tasks(vocabulary, records, config, options)
    first = tasks["masking"]
    # What the released networks learnt, as far as plain text gives it: capitals mean nothing in Chinese.
    usual = TASKS[:4] if records.capitals else ("masking", "reordering", "distance")
    usual = [*usual, *records.labelled]
    return Recipe(
        backbone=lambda: Ernie(config),
        objective=first.objective,
        frame=first.frame,
        batch_size=768,
        num_steps=STEPS * len(usual),
        learning_rate=1.28e-4 if records.language == "zh" else 5e-5,
        num_warmup_steps=4_000,
        optimizer="adamw",
        schedule="noam",
        weight_decay=0.01,
        adam_beta2=0.98,
        packings=("paragraph",),
        curriculum=Curriculum(
            tasks, tuple(usual), missing={name: wanted for name, wanted in WANTED.items() if name not in tasks}
        ),
    )


def _tasks(vocabulary, records: Records, config: ErnieConfig, options: Options) -> dict[str, PretrainingTask]:
    length, parts = records.sequence_length, options.reordering_parts
    corrupt = mask_units(vocabulary, "word_start", options.rate(records), records.num_predictions)
    paragraph = frame_paragraph(vocabulary, length)

    def reordering():
        if config.num_segments < parts:
            raise UsageError(
                f"--system=ernie2: {parts} parts of a paragraph need {parts} segments; the network has {config.num_segments}. "
                f"Give --set=num_segments={parts}, or --set=reordering_parts={config.num_segments}."
            )
        return SentenceReordering(config, permutations(parts))

    made = {
        "masking": (lambda: MaskedLM(config, corrupt), compose(paragraph, knowledge_units)),
        "capitals": (lambda: Capitals(config), paragraph),
        "token_document": (lambda: RepeatedTokens(config), paragraph),
        "reordering": (reordering, frame_reordered(vocabulary, length, parts)),
        "distance": (lambda: SentenceDistance(config), frame_distance(vocabulary, length)),
    }
    tasks = {name: _task(name, config, objective, frame) for name, (objective, frame) in made.items()}
    if not records.capitals:
        del tasks["capitals"]
    relations = {"discourse": (DiscourseRelation, "connective"), "relevance": (Relevance, "relevance")}
    for name, pairs in records.labelled.items():
        if name not in relations:
            raise UsageError(
                f"--task_data={name}:...: --system=ernie2 has no such task. Known: {', '.join(relations)}."
            )
        if not pairs.labels:
            raise UsageError(
                f"--task_data={name}:...: these records are {'plain text' if pairs.is_plain else 'dialogues'}; --system=ernie2 learns "
                f"{name} from labelled pairs."
            )
        kind, title = relations[name]
        frame = frame_pair(vocabulary, pairs.sequence_length)
        tasks[name] = _task(
            name, config, lambda kind=kind, title=title, names=pairs.labels: kind(config, title, names), frame, True
        )
    return tasks


def _task(
    name: str, config: ErnieConfig, made: Callable[[], Objective], frame: Op, labelled: bool = False
) -> PretrainingTask:
    """Returns a task whose batches say so on each token; its row must be in the table of the network."""
    row = TASKS.index(name)

    def objective():
        if config.num_tasks and config.num_tasks <= row:
            raise UsageError(
                f"--system=ernie2: the task {name} has row {row} in the table of tasks, and `num_tasks` of the network is "
                f"{config.num_tasks}. It must be {row + 1} at least: --set=num_tasks={row + 1}; {len(TASKS)} rows hold all tasks."
            )
        return made()

    return PretrainingTask(objective, compose(frame, of_task(row)), labelled)
