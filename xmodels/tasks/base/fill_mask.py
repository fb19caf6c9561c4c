"""The likeliest tokens for the masks of a text, from a network that was pretrained to predict masked tokens."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from keras import ops

from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.framing import max_text_tokens, pack_columns
from data_pipelines.text.plain_units import SPACE
from data_pipelines.text.spelling import spelling
from data_pipelines.text.vocabulary import CONTINUATION, MASK, SPELLINGS
from xmodels.interfaces.loaded import Loaded
from xmodels.models.config import LONGEST_ROW
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.tasks.base import answer, find
from xmodels.tasks.base.description import Run, TaskDescription

SHOWN = 5  # candidates of a mask
EXCERPT = 40  # characters of a text in an error
WRITTEN = re.compile("|".join(map(re.escape, SPELLINGS[MASK])))  # a mask in a text, whatever the vocabulary calls it
AT_ENDS = re.compile(r"^\s+|\s+$")  # blanks of a part of a text
CARRY_BLANKS = ("byte_bpe", "sentencepiece", "sentencepiece_pair")  # tokenizers whose tokens hold the blank before them
ENDS = ".head.bias", ".head.dense.kernel", ".head.norm.gamma"  # of the names of the weights of a `MaskedLMHead`


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A token for a mask, as it is shown, and its probability."""

    token: str
    probability: float

    @property
    def score(self) -> float:
        """What candidates are compared by."""
        return self.probability


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The text with the likeliest token for each mask, each chosen by itself; and the candidates of each mask, the likeliest first."""

    filled: str
    masks: tuple[tuple[Any, ...], ...]


def prefix_of(names: Iterable[str]) -> str | None:
    """Returns what the names of the head that predicts masked tokens begin with, such as `objective.masked_lm`.

    Args:
        names: of the weights of a checkpoint, of which those of objectives and tasks begin with `objective.`.

    Returns:
        None if there is no such head, or if a task was learnt, which answers then.
    """
    own = {name for name in names if name.startswith("objective.")}
    if {name.split(".")[1] for name in own} & set(find.names("head")):
        return None
    starts = (name.removesuffix(ENDS[0]) for name in sorted(own) if name.endswith(f"masked_lm{ENDS[0]}"))
    return next((start for start in starts if all(start + end in own for end in ENDS)), None)


class Predictor(answer.Predictor):
    """Fills the masks of texts. An input is a tuple of one text, in which masks are written `[MASK]` or `<mask>`.

    Args:
        loaded: a network with a head that `prefix_of` finds.
    """

    answers = "texts"
    candidate: ClassVar[type] = Candidate  # (token, number)

    def __init__(self, loaded: Loaded):
        self.frame = loaded.reading.frame
        description = TaskDescription("fill_mask", [], 1, loaded.backbone.config.cut(LONGEST_ROW))
        heads = self.heads_of(loaded)
        super().__init__(Run(description, loaded.backbone, heads, loaded.tokenizer, loaded.reading, loaded.path))

    def heads_of(self, loaded: Loaded) -> dict:
        """Returns the weights of the head, by the names that `make_task` gives them."""
        prefix, own = prefix_of(loaded.heads), MaskedLM(loaded.backbone.config).prefix
        return {
            f"{own}{name.removeprefix(prefix)}": value
            for name, value in loaded.heads.items()
            if name.startswith(f"{prefix}.")
        }

    def make_task(self, run):
        return MaskedLM(run.backbone.config)

    def prepare(self):
        vocabulary = self.tokenizer.vocabulary
        self.mask_id, self.written = vocabulary[MASK], vocabulary.tokens[vocabulary[MASK]]
        self.carries_blanks = self.tokenizer.kind in CARRY_BLANKS
        self.spelling = spelling(self.tokenizer)

    def adjust(self, **values):
        for flag, value in values.items():
            if value is not None:
                raise UsageError(f"--{flag}: a masked language model that fills masks has no such flag. Leave it out.")

    def example(self):
        return (MASK,)

    def features(self, inputs):
        """Returns token_ids and segment_ids int32, padding_mask bool, (B, L); and `mask_positions` int32 (B, P), 0 behind the
        last one."""
        room = max_text_tokens(1, self.max_sequence_length, self.frame)
        rows = [self._ids(asked, room) for asked in inputs]
        features = pack_columns([rows], self.tokenizer.vocabulary, self.max_sequence_length, self.frame)
        places = [np.flatnonzero(row == self.mask_id) for row in features["token_ids"]]
        positions = np.zeros((len(rows), max(map(len, places))), np.int32)
        for row, own in zip(positions, places, strict=True):
            row[: len(own)] = own
        return {**features, "mask_positions": positions}

    def _ids(self, asked, room: int) -> list[int]:
        """Returns the ids of a text with its masks, without the frame, which leaves `room` for them.

        Raises:
            DataError: it is not one text, or has no mask, or one that is cut off.
        """
        if isinstance(asked, str) or len(asked) != 1:
            raise DataError(
                f"Found {asked!r:.80}, expected a tuple of one text, whose masks are written {self.written}."
            )
        (text,) = asked
        first, *others = self._parts(text)
        if not others:
            raise DataError(self._without_mask(text))
        ids = [*self._encoded(first), *(i for part in others for i in (self.mask_id, *self._encoded(part, True)))]
        if self.mask_id in ids[room:]:
            raise DataError(
                f"{_excerpt(text)} has a mask behind the {room:,} tokens that the network reads. Shorten it."
            )
        return ids

    def _without_mask(self, text: str) -> str:
        return f"{_excerpt(text)} has no mask. Write {self.written} where a token is missing."

    def _parts(self, text: str) -> list[str]:
        """Returns what stands between the masks and around them, without blanks before masks if tokens hold the blank before them."""
        *before, last = WRITTEN.split(text)
        return [*(part.rstrip() if self.carries_blanks else part for part in before), last]

    def _encoded(self, part: str, follows: bool = False) -> list[int]:
        """Returns the ids of a part of a text as they are inside of the text.

        Args:
            follows: whether it stands behind a mask.
        """
        if self.tokenizer.kind == "characters":  # blanks at the ends would be dropped
            part = AT_ENDS.sub(self.tokenizer.blank, part)
        ids = list(self.tokenizer.encode(part).ids)
        # SentencePiece begins each text with a blank, as a piece of its own before a full stop.
        alone = follows and ids and self.tokenizer.vocabulary.tokens[ids[0]] == SPACE and not part[:1].isspace()
        return ids[1:] if alone and self.carries_blanks else ids

    def size(self, asked):
        return len(asked[0])

    def batch_of(self, features):
        positions = features["mask_positions"]
        return {
            **super().batch_of(features),
            "mask_positions": positions[:, : max(1, int((positions > 0).sum(1).max()))],
        }

    def answer(self, features):
        outputs = self.backbone({name: value for name, value in features.items() if name != "mask_positions"})
        logits = self.task.logits(outputs, features, self.backbone)[..., : len(self.spelling)]  # (B, P, V)
        probabilities, tokens = ops.top_k(ops.softmax(logits), min(SHOWN, len(self.spelling)))
        return {"scores": probabilities, "tokens": tokens}

    def predictions(self, inputs, features, outputs):
        rows = zip(inputs, outputs["tokens"].tolist(), outputs["scores"].tolist(), strict=True)
        return [self._prediction(text, tokens, shares) for (text,), tokens, shares in rows]

    def _prediction(self, text: str, tokens: list[list[int]], shares: list[list[float]]) -> Prediction:
        filled, *others = self._parts(text)
        masks = []
        for part, ids, probabilities in zip(others, tokens, shares, strict=False):  # without the masks that pad a row
            candidates = zip(map(self.shown_token, ids), probabilities, strict=True)
            masks.append(tuple(self.candidate(*each) for each in candidates))
            token = masks[-1][0].token
            filled = filled.rstrip() if token.startswith(CONTINUATION) else filled
            filled += token.removeprefix(CONTINUATION) + part
        return Prediction(filled.strip(), tuple(masks))

    def shown_token(self, token_id: int) -> str:
        """Returns a token as it stands in a text, with the blank before it if it holds one; the `##` of word pieces stays."""
        token = self.tokenizer.vocabulary.tokens[token_id]
        return (self.spelling[token_id].decode(errors="replace") if self.carries_blanks else "") or token

    def inputs(self, question):
        self.refuse(question, ("text_pair", "text_pair_column"), "only single texts are filled. Leave it out")
        if question.text is not None:
            return [(question.text,)]
        path = question.input_file
        if path.endswith(".txt"):
            return self._texts_of(path, enumerate(answer.each_line(path), 1))
        return self._texts_of(path, ((row.line, row.texts[0]) for row in self.table_rows(question)))

    def _texts_of(self, path: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str] | None]:
        """Yields the texts of a file; None for a blank line of a text file.

        Args:
            lines: number and text of each.

        Raises:
            DataError: a text has no mask; its line is named.
        """
        for number, text in lines:
            is_blank = not text and path.endswith(".txt")
            if not is_blank and not WRITTEN.search(text):
                raise DataError(f"{path}, line {number}: {self._without_mask(text)}")
            yield None if is_blank else (text,)

    def describe_prediction(self, asked, prediction):
        yield prediction.filled
        for number, candidates in enumerate(prediction.masks, 1):
            yield f"mask {number}:"
            yield from (f"  {each.score:.4f}  {each.token}" for each in candidates)

    def line(self, asked, prediction):
        return f"{prediction.filled}\t{_listed(prediction)}"

    def header(self):
        return ["filled", "candidates", "text"]

    def row(self, asked, prediction):
        return [prediction.filled, _listed(prediction), asked[0]]

    def record(self, asked, prediction):
        return {"text": asked[0], **dataclasses.asdict(prediction)}


def _excerpt(text: str) -> str:
    return f"The text {text if len(text) <= EXCERPT else f'{text[:EXCERPT]}…'!r}"


def _listed(prediction: Prediction) -> str:
    return " | ".join(
        ", ".join(f"{each.token} {each.score:.4f}" for each in candidates) for candidates in prediction.masks
    )
