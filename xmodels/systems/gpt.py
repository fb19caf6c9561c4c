"""GPT (Radford et al., 2018): a causal language model; fine-tuning updates all of its weights."""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.frames import GPT, GPT_TOKENS
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import Reading, as_published, last_token, normal
from xmodels.interfaces.writing import Writing
from xmodels.models.gpt import SIZES, Gpt, GptConfig
from xmodels.objectives.causal_lm import CausalLM
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Gpt, False
SMALL = small.ONE_LENGTH
# Sections 3.3 and 4.1, and the code of the authors: `_start_ A _delimiter_ B _classify_`, and the state of the last token.
READING = Reading(
    frame=GPT,
    summary=last_token,
    added_tokens=GPT_TOKENS,
    asks_first=True,
    make_initializer=normal,
    default_pooling=as_published,
    numbers={
        "learning_rate": 6.25e-5, "warmup_proportion": 0.002, "optimizer": "adamw", "adam_epsilon": 1e-8,
        "lr_schedule": "gpt_linear", "auxiliary_lm_weight": 0.5,
    },
)  # fmt: skip
WRITING = Writing(objective=lambda config: CausalLM())


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: GptConfig | None = None) -> Recipe:
    """Returns the recipe of section 4.1: 64 runs of 512 pieces, Adam with weight decay 0.01, peak 2.5e-4 after 2,000 steps,
    cosine to 0, 100 epochs.

    An epoch of the books of the paper is about a billion pieces, so that many epochs are about 3,000,000 steps.
    """
    config = config or GptConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Gpt(config),
        objective=CausalLM,
        frame=frame_run(records.sequence_length),
        batch_size=64,
        num_steps=3_000_000,
        learning_rate=2.5e-4,
        num_warmup_steps=2_000,
        optimizer="adamw",
        adam_epsilon=1e-8,
        schedule="cosine",
        packings=("stream",),
    )
