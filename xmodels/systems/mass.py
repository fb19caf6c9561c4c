"""MASS (Song et al., 2019): an encoder-decoder whose decoder predicts the fragment that is masked in the encoder.

Make its records with --packing=full_sentences or doc_sentences.
"""

import dataclasses

from data_pipelines.ops.compose import compose
from data_pipelines.ops.fragment import MASKED, PREVIOUS, attend_to, mask_fragment
from data_pipelines.ops.joined import join_segments
from data_pipelines.text.vocabulary import CLS, SEP, Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.mass import SIZES, Mass, MassConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Mass, False
SMALL = small.ONE_LENGTH
READING = None
WRITING = Writing(
    objective=lambda config: Seq2Seq(),
    task="translate",
    start=CLS,
    end=(SEP,),
    opening=CLS,
    opens_targets=False,
    num_beams=5,
    length_penalty=1.0,
    # Of the released command for summaries, but for its 4,000 steps of warm-up, here a share.
    numbers={
        "learning_rate": 5e-4,
        "warmup_proportion": 0.1,
        "optimizer": "adamw",
        "lr_schedule": "inverse_sqrt",
        "weight_decay": 0.0,
        "adam_epsilon": 1e-8,
        "clip_norm": 0.0,
    },
)
FRAMED = 2  # `[CLS]` and `[SEP]`


@dataclasses.dataclass(frozen=True)
class Options:
    """What is hidden, and who may see that something is.

    Attributes:
        fragment: the share of a text, or of each window, that is hidden; the paper tries .1 to .9 and takes .5.
        window: hide a fragment in each run of so many tokens; None: one in the whole text. The program for summaries has 64.
        min_length: of shorter texts, and of what a window holds of one if it is shorter, nothing is hidden or learnt.
        first_input: what the decoder reads before a fragment: "previous", the token that stands there, or "mask".
        mask_rate, random_rate: the shares of hidden tokens that become `[MASK]`, and a random token; others stay.
        encoder_attend_masked, cross_attend_masked: whether encoder and decoder see `[MASK]`. The defaults are those of translation
            without pairs; the released program for summaries shows it to both, that for translation with pairs to neither.
    """

    fragment: float = 0.5
    window: int | None = None
    min_length: int = 5
    first_input: str = PREVIOUS
    mask_rate: float = 0.8
    random_rate: float = 0.1
    encoder_attend_masked: bool = True
    cross_attend_masked: bool = False

    def __post_init__(self):
        if not 0 < self.fragment <= 1:
            raise ValueError("`fragment` must be above 0, at most 1.")
        if self.window is not None and not self.fragment * self.window >= 1:
            raise ValueError("`fragment` of a `window` must be at least one token.")
        if self.min_length < 1 or (self.window is not None and self.window < self.min_length):
            raise ValueError("`min_length` must be at least 1, and no more than a `window`.")
        if self.first_input not in (PREVIOUS, MASKED):
            raise ValueError(f"`first_input` must be {PREVIOUS!r} or {MASKED!r}. Received: {self.first_input!r}.")
        if min(self.mask_rate, self.random_rate) < 0 or self.mask_rate + self.random_rate > 1:
            raise ValueError("`mask_rate` and `random_rate` must not be negative, nor more than 1 together.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: MassConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the released command for summaries: 4,096 texts a step, 125,000 steps, Adam with beta2 0.98 and decay 0.01, peak
    5e-4 after 10,000 steps, falling to 0 in a line, without clipping."""
    options = options or Options()
    config = config or MassConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    rates = options.mask_rate, options.random_rate
    hide = mask_fragment(
        vocabulary, records.sequence_length, options.fragment, options.window, options.first_input, rates,
        options.min_length,
    )  # fmt: skip
    corrupt = compose(hide, attend_to(vocabulary, options.encoder_attend_masked, options.cross_attend_masked))
    return Recipe(
        backbone=lambda: Mass(config),
        objective=lambda: Seq2Seq(0.0, corrupt),
        frame=join_segments(records.sequence_length - FRAMED, vocabulary[SEP]),
        batch_size=4096,
        num_steps=125_000,
        learning_rate=5e-4,
        num_warmup_steps=10_000,
        optimizer="adamw",
        adam_beta2=0.98,
        schedule="linear",
        clip_norm=0.0,
        packings=("full_sentences", "doc_sentences", "segment_pair", "sentence_pair"),
    )
