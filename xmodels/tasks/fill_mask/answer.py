"""The likeliest tokens for the masks of a text, from a network that was pretrained to predict masked tokens."""

import dataclasses
import re

import numpy as np
from keras import ops

from data_pipelines.errors import DataError
from data_pipelines.text.framing import max_text_tokens, pack_columns
from data_pipelines.text.spelling import spell_out, spelling
from data_pipelines.text.vocabulary import CONTINUATION, MASK, SPELLINGS
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.runs.loaded import Loaded
from xmodels.tasks.base import answer
from xmodels.tasks.base.run import OF_MODELS, Run, TaskDescription

TASK = "fill_mask"
SHOWN = 5  # candidates of a mask
EXCERPT = 40  # characters of a text in an error
WRITTEN = re.compile("|".join(map(re.escape, SPELLINGS[MASK])))  # a mask in a text, whatever the vocabulary calls it
CARRY_BLANKS = (
    "byte_bpe",
    "sentencepiece",
    "sentencepiece_pair",
    "characters",
)  # tokenizers whose tokens hold the blank before them
NO_PAIRS = "only single texts are filled. Leave it out"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A token for a mask, as it is shown, and its probability."""

    token: str
    probability: float


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The text with the likeliest token for each mask, each chosen by itself; and the candidates of each mask, the likeliest first."""

    filled: str
    masks: tuple[tuple[Candidate, ...], ...]


def head_of(heads: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights of the head that predicts masked tokens, by their names in `MaskedLM`.

    Args:
        heads: the weights of a checkpoint, of which those of objectives and tasks begin with `objective.`.

    Returns:
        {} if there is no such head, or if a task was learnt, which answers then.
    """
    if {name.split(".")[1] for name in heads if name.startswith("objective.")} & set(OF_MODELS):
        return {}
    ends = ".head.bias", ".head.dense.kernel", ".head.norm.gamma"
    for name in heads:
        start = name.removesuffix(ends[0])
        if name.endswith(ends[0]) and start.endswith("masked_lm") and all(start + end in heads for end in ends):
            return {n.removeprefix(start): value for n, value in heads.items() if n.startswith(f"{start}.")}
    return {}


class Predictor(answer.Predictor):
    """Fills the masks of texts. An input is a tuple of one text, in which masks are written `[MASK]` or as the vocabulary has them.

    Args:
        loaded: a network with the head of `head_of`.
    """

    answers = "texts"

    def __init__(self, loaded: Loaded):
        length = loaded.backbone.config.max_sequence_length
        prefix = MaskedLM(loaded.backbone.config).prefix
        heads = {f"{prefix}{name}": value for name, value in head_of(loaded.heads).items()}
        self.frame = loaded.reading.frame
        description = TaskDescription(TASK, [], 1, length)
        super().__init__(Run(description, loaded.backbone, heads, loaded.tokenizer, loaded.reading, loaded.path))

    def make_task(self, run):
        return MaskedLM(run.backbone.config)

    def prepare(self):
        self.mask_id = self.tokenizer.vocabulary[MASK]
        self.written = self.tokenizer.vocabulary.tokens[self.mask_id]
        self.carries_blanks = self.tokenizer.kind in CARRY_BLANKS
        self.spelling = spelling(self.tokenizer)

    def as_input(self, text):
        return (text,)

    def example(self):
        return (MASK,)

    def parts(self, text: str) -> list[str]:
        """Returns what stands between the masks and around them, without blanks before masks if tokens hold the blank before them."""
        *before, last = WRITTEN.split(text)
        return [*(part.rstrip() if self.carries_blanks else part for part in before), last]

    def features(self, inputs):
        """token_ids and segment_ids int32, padding_mask bool, (B, L); and `mask_positions` int32 (B, P), 0 behind the last one."""
        rows, counts = [], []
        for (text,) in inputs:
            first, *others = [pieces.ids for pieces in self.tokenizer.encode_batch(self.parts(text))]
            ids = [*first, *(i for other in others for i in (self.mask_id, *other))]
            room = max_text_tokens(1, self.max_sequence_length, self.frame)
            if not others:
                raise self._bad(text, f"has no mask. Write {self.written} where a token is missing")
            if self.mask_id in ids[room:]:
                raise self._bad(text, f"has a mask behind the {room:,} tokens that the network reads. Shorten it")
            rows.append(ids)
            counts.append(len(others))
        features = pack_columns([rows], self.tokenizer.vocabulary, self.max_sequence_length, self.frame)
        positions = np.zeros((len(rows), max(counts)), np.int32)
        for row, ids in zip(positions, features["token_ids"], strict=True):
            places = np.flatnonzero(ids == self.mask_id)
            row[: len(places)] = places
        return {**features, "mask_positions": positions}

    def _bad(self, text: str, reason: str) -> DataError:
        return DataError(f"The text {text if len(text) <= EXCERPT else f'{text[:EXCERPT]}…'!r} {reason}.")

    def size(self, asked):
        return len(asked[0])

    def answer(self, features):
        outputs = self.backbone({n: v for n, v in features.items() if n != "mask_positions"})
        logits = self.task.logits(outputs, features, self.backbone)  # (B, P, V)
        probabilities, tokens = ops.top_k(ops.softmax(logits), min(SHOWN, logits.shape[-1]))
        return {"probabilities": probabilities, "tokens": tokens}

    def predictions(self, inputs, features, outputs):
        rows = zip(inputs, outputs["tokens"].tolist(), outputs["probabilities"].tolist(), strict=True)
        return [self._prediction(text, tokens, shares) for (text,), tokens, shares in rows]

    def _prediction(self, text: str, tokens: list[list[int]], shares: list[list[float]]) -> Prediction:
        first, *others = self.parts(text)
        filled, masks = first, []
        for part, ids, probabilities in zip(others, tokens, shares, strict=False):  # without the masks that pad a row
            masks.append(tuple(Candidate(self.shown_token(i), p) for i, p in zip(ids, probabilities, strict=True)))
            filled = self._joined(filled, ids[0]) + part
        return Prediction(filled.strip(), tuple(masks))

    def shown_token(self, token_id: int) -> str:
        """Returns a token without the marks of byte BPE and SentencePiece; one that continues a word keeps its `##`."""
        token = self.tokenizer.vocabulary.tokens[token_id]
        return token if token.startswith(CONTINUATION) else spell_out([token_id], self.spelling) or token

    def _joined(self, text: str, token_id: int) -> str:
        if self.carries_blanks:
            return text + (
                self.spelling[token_id].decode(errors="replace") or self.tokenizer.vocabulary.tokens[token_id]
            )
        token = self.shown_token(token_id)
        return text.rstrip() + token.removeprefix(CONTINUATION) if token.startswith(CONTINUATION) else text + token

    def inputs(self, question):
        self.refuse(question, ("text_pair", "text_pair_column"), NO_PAIRS)
        if question.text is not None:
            return [(question.text,)]
        if not question.input_file.endswith(".txt"):
            return (row.texts for row in answer.each_row(question.input_file, self.columns_of(question)))
        return ((line,) if line else None for line in answer.each_line(question.input_file))

    def shown(self, asked, prediction):
        yield prediction.filled
        for number, candidates in enumerate(prediction.masks, 1):
            yield f"mask {number}:"
            yield from (f"  {each.probability:.4f}  {each.token}" for each in candidates)

    def line(self, asked, prediction):
        return f"{prediction.filled}\t{self._listed(prediction)}"

    def header(self):
        return ["filled", "candidates", "text"]

    def row(self, asked, prediction):
        return [prediction.filled, self._listed(prediction), asked[0]]

    def record(self, asked, prediction):
        return {"text": asked[0], **dataclasses.asdict(prediction)}

    def _listed(self, prediction: Prediction) -> str:
        return " | ".join(
            ", ".join(f"{each.token} {each.probability:.4f}" for each in candidates) for candidates in prediction.masks
        )
