"""ERNIE 1.0 (Sun et al., 2019): BERT that masks characters or words, then phrases, then entities, and also learns from dialogues.

The three are stages of one run. Phrases and entities are marked in the records by --phrase_lexicon and --entity_lexicon of
`create_pretraining_data`; without phrases, the words of --segmenter are phrases. Records of --packing=dialogue train the dialogue
language model: masks alike, roles in place of segments, and the question whether all turns are of one dialogue. They are what a run
learns from, or by --task_data=dialogue:FOLDER batches among batches of text.
"""

import dataclasses
import functools
import math

from data_pipelines.errors import UsageError
from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_units
from data_pipelines.ops.curriculum import in_stages
from data_pipelines.ops.framing import frame_dialogue, frame_pair
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.ernie import SIZES, Ernie, ErnieConfig
from xmodels.objectives.base import together
from xmodels.objectives.dialogue import Dialogue
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.curriculum import Curriculum, PretrainingTask
from xmodels.training.recipe import Pairs, Recipe, Records

MODEL, NEEDS_WORDS = Ernie, False
SMALL = small.MASKED
READING, WRITING = bert.READING, None
NUM_ROLES = 2  # who asks and who answers
TEXT, DIALOGUE = "text", "dialogue"  # tasks of a run that learns both


def slots(rate: float, length: int) -> int:
    """Returns room for what is hidden of a row in nearly all draws: each unit is drawn by itself, so it is more or less than
    `rate` of them. Three standard deviations above the mean, of units of two tokens."""
    mean = rate * length
    return min(length - 2, math.ceil(mean + 3 * math.sqrt(2 * mean * (1 - rate))))


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`stages` are the shares of the steps that hide characters (of text that is not Chinese words), phrases and entities; 0 leaves a
    stage out. None: equal shares, without entities where the records mark none."""

    stages: tuple[float, ...] | None = None

    def __post_init__(self):
        super().__post_init__()
        given = self.stages
        if given is not None and (len(given) != 3 or min(given) < 0 or not 0 < sum(given) < float("inf")):
            raise ValueError(
                "`stages` must be three numbers, of characters or words, phrases and entities, none below 0 and one above."
            )


def configuration(vocabulary: Vocabulary, size: str) -> ErnieConfig:
    """Returns the network of a size, with a table of roles for dialogues."""
    return ErnieConfig(vocabulary_size=len(vocabulary), num_roles=NUM_ROLES, **SIZES[size])


def stages(records: Records, shares: tuple[float, ...] | None) -> dict[str, tuple[str | None, float]]:
    """Returns {what is hidden: (the feature that is 1 where a unit opens, None for tokens; the share of the steps)}.

    The units of the first stage are the characters of Chinese, which are its tokens, and the words of other languages (section 3.2.1).
    Stages of the same units are one.

    Raises:
        UsageError: entities are asked for, and the records mark none.
    """
    phrases = "phrase_start" if "phrase_start" in records.units else "word_start"
    marked = "entity_start" in records.units
    if shares is None:
        shares = (1.0, 1.0, float(marked))
    if shares[2] and not marked:
        raise UsageError(
            f"--set=stages={','.join(map(str, shares))}: the records mark no entities. Make them with --entity_lexicon=FILE of "
            "`create_pretraining_data`, or leave the stage out: --set=stages=1,1,0."
        )
    basic = ("tokens", None) if records.language == "zh" else ("words", "word_start")
    units = basic, (phrases.replace("_start", "s"), phrases), ("entities", "entity_start")
    found: dict[str, tuple[str | None, float]] = {}
    for (name, unit), share in zip(units, shares, strict=True):
        if share:
            found[name] = unit, found.get(name, (unit, 0.0))[1] + share
    return found


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: ErnieConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the released script: batches of 8,192 tokens on each device, here eight of them, AdamW with bias correction, peak
    1e-4 after 5,000 of 1,000,000 steps."""
    options = options or Options()
    config = config or configuration(vocabulary, size)
    chosen = stages(records, options.stages)
    rate = options.rate(records)
    masks = [mask_units(vocabulary, unit, rate, records.num_predictions) for unit, _ in chosen.values()]
    corrupt = None if records.static else in_stages(masks, [share for _, share in chosen.values()])
    total = sum(share for _, share in chosen.values())
    summary = ", ".join(f"{name} {share / total:.0%}" for name, (_, share) in chosen.items())

    def make_masked_lm() -> MaskedLM:
        return MaskedLM(config, corrupt)

    if records.labelled:
        make_masked_lm = functools.cache(make_masked_lm)  # one head for both tasks

    def make_task(second: type, framed, length: int, labelled: bool = False) -> PretrainingTask:
        frame = rename_classic() if records.static else framed(vocabulary, length)
        return PretrainingTask(lambda: together(make_masked_lm(), second(config)), frame, labelled)

    def dialogue(length: int, labelled: bool) -> PretrainingTask:
        if config.num_roles is None:
            raise UsageError("--system=ernie: dialogues need a network with roles, --set=num_roles=2.")
        return make_task(Dialogue, frame_dialogue, length, labelled)

    if records.packing == DIALOGUE:
        first = dialogue(records.sequence_length, False)
    else:
        first = make_task(NextSentence, frame_pair, records.sequence_length)
    tasks = {}
    for name, others in records.labelled.items():
        check_dialogues(name, records, others)
        tasks = {TEXT: first, DIALOGUE: dialogue(others.sequence_length, True)}
    return Recipe(
        backbone=lambda: Ernie(config),
        objective=first.objective,
        frame=first.frame,
        batch_size=128,
        num_steps=1_000_000,
        learning_rate=1e-4,
        num_warmup_steps=5_000,
        optimizer="adamw",
        packings=("segment_pair", "sentence_pair", "dialogue"),
        note="" if records.static else f"Masked in stages: {summary}; in evaluations {[*chosen][-1]}.",
        curriculum=Curriculum(tasks, tuple(tasks), "joint") if tasks else None,
    )


def check_dialogues(name: str, records: Records, others: Pairs) -> None:
    """Raises a UsageError where --task_data names no dialogues that go with the text."""
    flag = f"--task_data={name}:..."
    if name != DIALOGUE or others.labels or others.is_plain:
        raise UsageError(
            f"{flag}: --system=ernie has one further task, --task_data=dialogue:FOLDER, with records of `create_pretraining_data "
            "--packing=dialogue`."
        )
    if records.static or records.packing == DIALOGUE:
        found = "static, so their masks stand in them" if records.static else "dialogues too"
        raise UsageError(f"{flag}: the records of --data_dir are {found}. Take records of text with --masking=dynamic.")
    if set(others.units) != set(records.units):
        raise UsageError(
            f"{flag}: the dialogues mark {', '.join(others.units)}, the text {', '.join(records.units)}. Make both with the same "
            "--segmenter, --phrase_lexicon and --entity_lexicon."
        )
