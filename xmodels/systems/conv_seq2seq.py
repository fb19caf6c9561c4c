"""ConvS2S (Gehring et al., 2017): translation by gated convolutions, each layer of the decoder with attention."""

from data_pipelines.ops.parallel import end_of, frame_parallel
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.conv_seq2seq import SIZES, ConvSeq2Seq, ConvSeq2SeqConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = ConvSeq2Seq, False
READING = None
WRITING = Writing(objective=lambda config: Seq2Seq(0.0), task="translate", start=None, num_beams=5, length_penalty=1.0)


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: ConvSeq2SeqConfig | None = None
) -> Recipe:
    """Returns the recipe of section 4.2: Nesterov's accelerated gradient with momentum 0.99, 64 pairs, rate 0.25, norm of gradients
    at most 0.1. The paper divides the rate by ten once the perplexity of held-out text stops falling, until it is below 1e-4; here
    it falls along a cosine to nothing in as many steps as WMT's 4.5 million pairs need for 20 epochs."""
    config = config or ConvSeq2SeqConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: ConvSeq2Seq(config),
        objective=lambda: Seq2Seq(0.0),
        frame=frame_parallel(vocabulary, records.sequence_length, start=end_of(vocabulary)),
        batch_size=64,
        num_steps=1_400_000,
        learning_rate=0.25,
        num_warmup_steps=0,
        optimizer="sgd_nesterov",
        momentum=0.99,
        schedule="cosine",
        clip_norm=0.1,
        packings=("parallel",),
    )
