"""The states of texts by a network that does not learn: of each token or pooled, layer by layer or combined, from one pass."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from keras import ops
from tqdm.auto import tqdm

from data_pipelines.errors import UsageError
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.open_words import spell_tokens
from xmodels.interfaces.loaded import Loaded
from xmodels.interfaces.reading import STATELESS
from xmodels.tasks.base.answer import compile_answer, without_padding
from xmodels.tasks.base.readouts import layer_numbers, reading_of, tokens_of

WINDOW = 32  # batches whose texts are in memory at once, sorted by length


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which states.

    Attributes:
        layers: as the flag names them, such as `-1,-2`.
        pooling: one of `STATELESS`; None for one vector a token.
        combine: `none`, `concat` or `mix`.
        weights: of the layers of a mix, as the flag names them; None for 1 each.
    """

    layers: str
    pooling: str | None = None
    combine: str = "none"
    weights: str | None = None

    @property
    def names(self) -> list[str]:
        """What the arrays are called: the layers as they were named, or the combination."""
        return [part.strip() for part in self.layers.split(",")] if self.combine == "none" else [self.combine]

    def factors(self) -> list[float]:
        """Returns the weights of a mix. Raises a UsageError where they are no numbers, or not as many as layers."""
        count = self.layers.count(",") + 1
        if self.weights is not None and self.combine != "mix":
            raise UsageError(f"--layer_weights={self.weights}: belongs to --combine=mix. Leave it out, or mix.")
        try:
            found = [1.0] * count if self.weights is None else [float(part) for part in self.weights.split(",")]
        except ValueError:
            found = []
        if len(found) != count or not np.isfinite(found).all():
            raise UsageError(
                f"--layer_weights={self.weights}: expected {count} numbers with commas between, for --layers={self.layers}."
            )
        return found


@dataclasses.dataclass(frozen=True)
class TextStates:
    """A text as the network read it.

    Attributes:
        tokens: its pieces and the special tokens around them.
        spans: of each token the first and one past the last character of the text; None of special tokens.
        values: by name float32 (T, D), or (D,) where states are pooled.
        cut: how many pieces did not fit.
    """

    text: str
    tokens: list[str]
    spans: list[tuple[int, int] | None]
    values: dict[str, np.ndarray]
    cut: int


class FrozenNetwork:
    """Reads texts and gives states.

    Args:
        loaded: any network that reads texts.
        wanted: which states.
        max_sequence_length: counts special tokens; longer texts are cut.

    Raises:
        UsageError: the network shows no such layer, or weights do not suit the layers.
    """

    def __init__(self, loaded: Loaded, wanted: Wanted, max_sequence_length: int):
        self.backbone, self.tokenizer, self.wanted = loaded.backbone, loaded.tokenizer, wanted
        if "character_ids" in self.backbone.reads:
            self.tokenizer = spell_tokens(self.tokenizer)
        self.frame = reading_of(loaded)[0].frame
        self.max_sequence_length = max_sequence_length
        self.factors = wanted.factors()
        shown = len(self.backbone.hidden_states(self.backbone.tiny_batch()))
        self.numbers = layer_numbers("layers", wanted.layers, shown)
        self._answer = compile_answer(self._states)

    def _states(self, batch) -> dict:
        """Returns (B, L, D) or (B, D) of each name."""
        layers = self.backbone.hidden_states(batch)
        found = [ops.cast(tokens_of(layers[number]), "float32") for number in self.numbers]
        if self.wanted.pooling is not None:
            found = [STATELESS[self.wanted.pooling](states, batch["padding_mask"]) for states in found]
        if self.wanted.combine == "concat":
            found = [ops.concatenate(found, axis=-1)]
        elif self.wanted.combine == "mix":
            found = [sum(factor * states for factor, states in zip(self.factors, found, strict=True))]
        return dict(zip(self.wanted.names, found, strict=True))

    def read(self, texts: Iterable[str], batch_size: int) -> Iterator[TextStates]:
        """Yields the states of texts, in their order, in memory that does not grow with their number."""
        texts = iter(texts)
        with tqdm(desc="texts", unit="text", mininterval=1) as progress:
            while window := list(itertools.islice(texts, WINDOW * batch_size)):
                yield from self._window(window, batch_size)
                progress.update(len(window))

    def _window(self, texts: list[str], batch_size: int) -> list[TextStates]:
        pieces = self.tokenizer.encode_batch(texts)
        arrays = pack_ids(
            [each.ids for each in pieces], None, self.tokenizer.vocabulary, self.max_sequence_length, self.frame
        )
        order, found = np.argsort(arrays["padding_mask"].sum(axis=1), kind="stable"), [None] * len(texts)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = without_padding({name: value[rows] for name, value in arrays.items()})
            states = self._answer(batch)
            for place, row in enumerate(rows):
                real = batch["padding_mask"][place]
                values = {n: x[place] if self.wanted.pooling else x[place][real] for n, x in states.items()}
                found[row] = self._text(texts[row], pieces[row], batch["token_ids"][place][real], values)
        return found

    def _text(self, text: str, pieces, token_ids: np.ndarray, values) -> TextStates:
        capacity, names = max_text_tokens(1, self.max_sequence_length, self.frame), self.tokenizer.vocabulary.tokens
        spans: list = []
        for part in self.frame.of_texts(1):
            spans += [None] if part.text is None else pieces.spans[:capacity]
        return TextStates(text, [names[i] for i in token_ids], spans, values, max(0, len(pieces.ids) - capacity))
