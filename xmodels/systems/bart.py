"""BART (Lewis et al., 2019): an encoder-decoder that reconstructs a text from a corrupted one.

Its vocabulary is GPT-2's byte-level BPE with fairseq's special tokens: `xmodels train_vocabulary --tokenizer=byte_bpe`. Make its
records with --packing=full_sentences.
"""

import dataclasses

from data_pipelines.ops.cloze import ordinary_ids
from data_pipelines.ops.compose import Op, compose
from data_pipelines.ops.infilling import infill_text, keep_target, permute_sentences
from data_pipelines.ops.joined import frame_denoising, join_segments, mark_sentences
from data_pipelines.ops.token_noise import delete_tokens, replace_tokens, rotate_document
from data_pipelines.text.vocabulary import CLS, MASK, SEP, Vocabulary
from xmodels.interfaces.reading import BART_READING
from xmodels.interfaces.writing import Writing
from xmodels.models.bart import SIZES, Bart, BartConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Bart, False
SMALL = small.ONE_LENGTH
READING = BART_READING
WRITING = Writing(
    objective=lambda config: Seq2Seq(),
    task="translate",
    start=SEP,
    end=(SEP,),
    opening=CLS,
    ranked=True,
    forces_end=True,
    length_penalty=1.0,
    # fairseq's README for summaries.
    numbers={
        "learning_rate": 3e-5,
        "warmup_proportion": 0.025,
        "optimizer": "adamw",
        "lr_schedule": "linear",
        "weight_decay": 0.01,
        "adam_epsilon": 1e-8,
        "clip_norm": 0.1,
    },
)
FRAMED = 2  # `<s>` and `</s>`


@dataclasses.dataclass(frozen=True)
class Options:
    """The noises of section 2.2, in the order in which they are applied; 0 leaves one out. The defaults are those of the large
    network (section 5): all sentences in a new order, and 30 % of the words hidden.

    Attributes:
        permutation: the share of the sentences that change places.
        infilling: the share of the words that is hidden, in spans of which each becomes one mask.
        mean_span_length: of infilling, in words.
        mask_random: the share of the masks of infilling in whose place a random token stands, 0.1 in fairseq's recipe.
        deletion: the share of the tokens that vanishes.
        masking: the share of the tokens that a mask replaces, one each.
        rotation: the share of the texts that begin at another token.
    """

    permutation: float = 1.0
    infilling: float = 0.3
    mean_span_length: float = 3.0
    mask_random: float = 0.0
    deletion: float = 0.0
    masking: float = 0.0
    rotation: float = 0.0

    def __post_init__(self):
        if not self.mean_span_length > 0:
            raise ValueError("`mean_span_length` must be above 0.")
        for name, value in dataclasses.asdict(self).items():
            if name != "mean_span_length" and not 0 <= value <= 1:
                raise ValueError(f"`{name}` must lie between 0 and 1.")

    def noises(self, vocabulary: Vocabulary) -> list[Op]:
        """Returns the ops in their order."""
        mask = vocabulary[MASK]
        every = (
            (self.permutation, lambda: compose(mark_sentences(vocabulary), permute_sentences(self.permutation))),
            (self.infilling, lambda: self._infilling(vocabulary)),
            (self.deletion, lambda: delete_tokens(self.deletion)),
            (self.masking, lambda: replace_tokens(mask, self.masking)),
            (self.rotation, lambda: rotate_document(self.rotation)),
        )
        return [make() for share, make in every if share]

    def _infilling(self, vocabulary: Vocabulary) -> Op:
        drawable = ordinary_ids(vocabulary) if self.mask_random else None
        mask = vocabulary[MASK]
        return infill_text(mask, self.infilling, self.mean_span_length, drawable=drawable, random=self.mask_random)


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BartConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 5: batch 8,000, 500,000 steps. The paper gives no rate: 4e-4 and its warm-up are those of
    fairseq's recipes for RoBERTa large, Adam's numbers too."""
    options = options or Options()
    config = config or BartConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = compose(keep_target, *options.noises(vocabulary), frame_denoising(vocabulary, records.sequence_length))
    return Recipe(
        backbone=lambda: Bart(config),
        objective=lambda: Seq2Seq(0.0, corrupt),
        frame=join_segments(records.sequence_length - FRAMED, vocabulary[SEP]),
        batch_size=8000,
        num_steps=500_000,
        learning_rate=4e-4,
        num_warmup_steps=30_000,
        optimizer="adamw",
        schedule="linear",
        adam_beta2=0.98,
        clip_norm=0.0,
        packings=("full_sentences", "doc_sentences", "segment_pair", "sentence_pair"),
    )
