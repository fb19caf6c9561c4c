"""BERT2BERT (Rothe et al., 2020): an encoder-decoder of BERT's blocks that begins as BERT on both sides, and learns from pairs.

`--init_encoder=RUN --init_decoder=RUN` give the weights; records are those of --packing=parallel.
"""

from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.text.vocabulary import CLS, Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models import bert
from xmodels.models.mass import Mass, MassConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Mass, False
READING = None
WRITING = Writing(objective=lambda config: Seq2Seq(0.0), task="translate", start=CLS, opening=CLS, opens_targets=False)

# BERT's, with its activation, norms and dropout, so that each size takes over the BERT of its name.
OF_BERT = {name: getattr(bert.BertConfig, name) for name in ("activation", "layer_norm_epsilon", "attention_dropout")}
SIZES = {name: {**size, **OF_BERT, "max_sequence_length": 512} for name, size in bert.SIZES.items()}


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: MassConfig | None = None) -> Recipe:
    """Returns a recipe of ours: BERT's AdamW, peak 5e-5 after a tenth of 100,000 steps, then falling in a line, 128 pairs a step.
    Sources are `[CLS] text [SEP]`, as BERT has read them; the decoder reads `[CLS]` before a target, which ends with `[SEP]`."""
    config = config or MassConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    begin = vocabulary[CLS]
    return Recipe(
        backbone=lambda: Mass(config),
        objective=lambda: Seq2Seq(0.0),
        frame=frame_parallel(vocabulary, records.sequence_length, start=begin, opening=begin),
        batch_size=128,
        num_steps=100_000,
        learning_rate=5e-5,
        num_warmup_steps=10_000,
        optimizer="bert_adamw",
        schedule="linear",
        packings=("parallel",),
    )
