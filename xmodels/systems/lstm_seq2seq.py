"""LSTM encoder-decoder (Ramachandran et al., 2017) that begins as two language models, `--init_encoder` and `--init_decoder`.

Records of --packing=parallel are translated. Plain text of both languages, --task_data=source:FOLDER,target:FOLDER of records of
--packing=stream, trains the language models beside.
"""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.parallel import end_of, frame_parallel
from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.lstm_seq2seq import SIZES, LstmSeq2Seq, LstmSeq2SeqConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.objectives.side_lm import SourceLM, TargetLM
from xmodels.training.curriculum import Curriculum, PretrainingTask
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = LstmSeq2Seq, False
READING = None
WRITING = Writing(objective=lambda config: Seq2Seq(0.0), task="translate", start=None, num_beams=10)
TRANSLATION, SOURCE, TARGET = "translation", "source", "target"


@dataclasses.dataclass(frozen=True)
class Options:
    """`lm_weight` is the weight of the losses of the language models, of --task_data."""

    lm_weight: float = 1.0

    def __post_init__(self):
        if not 0 <= self.lm_weight <= 1000:
            raise ValueError("`lm_weight` must be from 0 to 1000.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: LstmSeq2SeqConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns a recipe of ours: Adam, peak 5e-4, which falls in a line, 128 pairs a step. As many steps translate as predict tokens
    of each plain text: the paper adds the three losses. Targets begin with the token that stands between texts in streams."""
    options = options or Options()
    config = config or LstmSeq2SeqConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    frame = frame_parallel(vocabulary, records.sequence_length, start=end_of(vocabulary))
    tasks = {TRANSLATION: PretrainingTask(lambda: Seq2Seq(0.0), frame)}
    for name, text in records.labelled.items():
        if name not in (SOURCE, TARGET) or not text.is_plain:
            raise UsageError(
                f"--task_data={name}:...: --system=lstm_seq2seq reads plain text beside the pairs, records of "
                "`create_pretraining_data --packing=stream`: --task_data=source:FOLDER,target:FOLDER."
            )
        tasks[name] = PretrainingTask(
            _language_model(name, config, options), frame_run(text.sequence_length), True, ("stream",)
        )
    first = tasks[TRANSLATION]
    return Recipe(
        backbone=lambda: LstmSeq2Seq(config),
        objective=first.objective,
        frame=first.frame,
        batch_size=128,
        num_steps=100_000 * len(tasks),
        learning_rate=5e-4,
        num_warmup_steps=0,
        optimizer="adam",
        schedule="linear",
        clip_norm=5.0,
        packings=("parallel",),
        curriculum=Curriculum(tasks, tuple(tasks), "joint", by_examples=False) if len(tasks) > 1 else None,
    )


def _language_model(name: str, config: LstmSeq2SeqConfig, options: Options):
    if name == SOURCE:
        return lambda: SourceLM(config, options.lm_weight)
    return lambda: TargetLM(options.lm_weight)
