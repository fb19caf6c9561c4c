"""The states of a frozen network, one for each text: of each layer, by each pooling."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
from tqdm.auto import tqdm

from data_pipelines.errors import UsageError
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.open_words import spell_tokens
from xmodels.interfaces.loaded import Loaded
from xmodels.interfaces.reading import SAME, STATELESS, Reading, mean_of_states, plain_reading
from xmodels.layers.pooling import pooling_of
from xmodels.layers.poolings import PUBLISHED
from xmodels.tasks.base.answer import compile_answer, without_padding

POOLINGS = ("first", "last", "mean")  # of each layer, where nothing else is asked for
Readout = tuple[int | None, str]  # a layer, None for what the paper of the system reads, and a pooling


@dataclasses.dataclass(frozen=True)
class Asked:
    """Which readouts: `pooling` is one, or None for `POOLINGS` and what the paper reads; `layer` numbers, or None for all."""

    pooling: str | None = None
    layer: str | None = None

    def layers(self, count: int) -> list[int]:
        """Returns the layers of a network that shows so many, the embedding among them.

        Raises:
            UsageError: a layer is no number, or the network has no such one.
        """
        return list(range(count)) if self.layer is None else sorted(set(layer_numbers("layer", self.layer, count)))

    @property
    def poolings(self) -> tuple[str, ...]:
        return POOLINGS if self.pooling is None else (self.pooling,) if self.pooling != PUBLISHED else ()

    @property
    def published(self) -> bool:
        """Whether what the paper reads is asked for; a network whose paper reads nothing has no such readout."""
        return self.pooling == PUBLISHED or (self.pooling is None and self.layer is None)


def layer_numbers(flag: str, given: str, count: int) -> list[int]:
    """Returns the layers that a flag names, such as `-1,-2`, in its order, counted from 0, the embedding.

    Args:
        count: layers that the network shows, the embedding among them.

    Raises:
        UsageError: a layer is no number, or the network has no such one.
    """
    parts = [part.strip() for part in given.split(",")]
    if not all(part.removeprefix("-").isdecimal() and -count <= int(part) < count for part in parts):
        raise UsageError(
            f"--{flag}={given}: the network shows {count} layers; expected numbers from 0, the embedding, to {count - 1}, "
            "such as 0,1; -1 is the last one."
        )
    return [int(part) % count for part in parts]


def reading_of(loaded: Loaded) -> tuple[Reading, bool]:
    """Returns how texts enter the network, and whether its paper says which state answers.

    Special tokens that only fine-tuning adds, as GPT's, mean nothing to a network that has not seen them: then texts stand as in a
    network that is asked about none.
    """
    vocabulary, reading = loaded.tokenizer.vocabulary, loaded.reading
    if reading is None or any(token not in vocabulary for token in reading.added_tokens):
        return plain_reading(loaded.network, vocabulary, bool(loaded.writing)), False
    return reading.with_pooling(None), True


class Readouts:
    """Reads texts with a network that does not learn.

    Args:
        loaded: any network that reads texts.
        asked: which readouts.
        max_sequence_length: counts special tokens; longer texts are cut.
    """

    def __init__(self, loaded: Loaded, asked: Asked, max_sequence_length: int):
        self.backbone, self.tokenizer, self.asked = loaded.backbone, loaded.tokenizer, asked
        if "character_ids" in self.backbone.reads:
            self.tokenizer = spell_tokens(self.tokenizer)
        self.max_sequence_length = max_sequence_length
        self.reading, answers = reading_of(loaded)
        if asked.pooling == PUBLISHED and not answers:
            raise UsageError(
                f"--pooling={PUBLISHED}: no paper says which state of a {type(loaded.backbone).__name__} without fine-tuning answers "
                f"about a text. Take one of {', '.join(STATELESS)}."
            )
        # Where the last layer is what a call returns, a state that has a name stands in the table already.
        named = self.reading.summary in (*SAME, mean_of_states) and not loaded.network.encodes
        self.published = asked.published and answers and (asked.pooling == PUBLISHED or not named)
        self._answer = compile_answer(self._states)

    def of_texts(self, texts: Sequence[tuple[str, ...]], batch_size: int = 32) -> dict[Readout, np.ndarray]:
        """Returns each readout of N texts, or pairs: float32 (N, D)."""
        arrays = pack_texts(texts, self.tokenizer, self.max_sequence_length, self.reading.frame)
        order = np.argsort(arrays["padding_mask"].sum(axis=1), kind="stable")
        found: dict[str, np.ndarray] = {}
        with tqdm(total=len(order), desc="texts", unit="text", disable=len(order) < 200) as progress:
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = without_padding({name: value[rows] for name, value in arrays.items()})
                for name, states in self._answer(batch).items():
                    if name not in found:
                        found[name] = np.empty((len(order), states.shape[1]), np.float32)
                    found[name][rows] = states
                progress.update(len(rows))
        return {_key(name): value for name, value in found.items()}

    def _states(self, batch) -> dict:
        """Returns (B, D) of each readout, by `layer/pooling`."""
        found, mask = {}, batch["padding_mask"]
        if self.asked.poolings:
            layers = self.backbone.hidden_states(batch)
            for layer in self.asked.layers(len(layers)):
                states = tokens_of(layers[layer])
                for name in self.asked.poolings:
                    pool, _ = pooling_of(name, states.shape[-1])
                    found[f"{layer}/{name}"] = pool(states, mask)
        if self.published:
            found[f"/{PUBLISHED}"] = self.reading.summary(self.reading.outputs(self.backbone, batch, False), batch)
        return {name: keras.ops.cast(state, "float32") for name, state in found.items()}


def tokens_of(states):
    """Returns (B, L, D), the states of a layer. XLNet shows two streams, of which the one that sees its own token counts."""
    return states["content"] if isinstance(states, dict) else states


def _key(name: str) -> Readout:
    layer, _, pooling = name.partition("/")
    return (int(layer) if layer else None), pooling
