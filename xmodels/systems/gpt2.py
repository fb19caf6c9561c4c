"""GPT-2 (Radford et al., 2019): GPT with norms inside the residual branches and byte-level BPE, trained on more text."""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.gpt2 import SIZES, Gpt2, Gpt2Config
from xmodels.objectives.causal_lm import CausalLM
from xmodels.systems import gpt
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Gpt2, False
SMALL = small.ONE_LENGTH
READING, WRITING = gpt.READING, gpt.WRITING

RATES = {"base": 6e-4, "medium": 3e-4, "large": 2.5e-4, "xl": 1.5e-4}


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: Gpt2Config | None = None) -> Recipe:
    """Returns the recipe of section 2.3: 512 runs of 1,024 pieces. The paper gives no rate and no number of steps: these are of
    later reports on models of such sizes (Brown et al., 2020, table 2.1, and the optimizer and cosine of its appendix B)."""
    config = config or Gpt2Config(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Gpt2(config),
        objective=CausalLM,
        frame=frame_run(records.sequence_length),
        batch_size=512,
        num_steps=600_000,
        learning_rate=RATES.get(size, RATES["base"]),
        num_warmup_steps=2_000,
        optimizer="adamw",
        weight_decay=0.1,
        adam_beta2=0.95,
        adam_epsilon=1e-8,
        schedule="cosine",
        min_lr_ratio=0.1,
        packings=("stream",),
    )
