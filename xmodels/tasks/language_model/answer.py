"""A causal network continues texts: token by token, greedily, by draws, or by beam search."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from keras import ops

from data_pipelines.errors import UsageError
from data_pipelines.text.spelling import spell_out
from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.memory import memory_for, side_by_side
from xmodels.decoding.options import Decoding
from xmodels.decoding.sampling import generate
from xmodels.interfaces.loaded import Loaded
from xmodels.models.config import LONGEST_ROW
from xmodels.tasks.base.generation import GREEDY, STEP, Generator, refusal_error, round_up, seed_of_batch
from xmodels.tasks.base.source import Source

TASK = "language_model"
# Tokens of a prompt that are read at once where the past cannot go back; few shapes, so few functions.
SEGMENTS = (256, 16, 1)


class TextGenerator(Generator):
    """Continues prompts.

    Args:
        max_length: tokens of a text with its prompt; a longer prompt loses its beginning. By default as many as the network
            reads.

    Attributes:
        crowded: prompts so far that left less room in `max_length` than was asked for.
    """

    defaults: ClassVar[dict] = {"temperature": 1.0, "top_k": 40}

    def __init__(self, loaded: Loaded, max_length: int | None = None):
        super().__init__(loaded)
        self.max_length = max_length or self.backbone.config.cut(LONGEST_ROW)
        self.rewinds, self.crowded = self.backbone.rewinds, set()

    def prompt_ids(self, prompt: str) -> list[int]:
        """Returns what the network reads of a prompt; of an empty one the token that ends documents, so that one begins."""
        return self._cut(self.tokenizer.encode(prompt).ids)

    def _cut(self, ids: list[int]) -> list[int]:
        return ids[-(self.max_length - 1) :] or [self.end_id]

    def truncation_note(self) -> str | None:
        return (
            f"{len(self.crowded):,} prompt(s) leave less room than was asked for in the {self.max_length:,} tokens that the network "
            "reads: texts end there, and prompts that fill them lose their beginning. Shorten the prompts, or ask for fewer tokens."
            if self.crowded
            else None
        )

    def generate(
        self, prompts: Sequence[str], decoding: Decoding = GREEDY, max_new_tokens: int = 64, seed: int = 0,
        batch_size: int = 16, progress: Callable[[int], None] = lambda num_texts: None,
    ) -> list[str]:  # fmt: skip
        """Returns the continuation of each prompt, without the prompt.

        Texts depend on the seed, their place in their batch and the prompts beside them; equal calls give equal texts.
        """
        if decoding.num_beams > 1 and (decoding.repetition_penalty != 1 or decoding.no_repeat_ngram_size):
            raise UsageError(
                "Beam search takes no repetition_penalty and no no_repeat_ngram_size where a prompt is continued."
            )
        if decoding.min_new_tokens:
            raise UsageError("min_new_tokens: holds where a text answers a text, not where a prompt is continued.")
        found: list[str] = []
        for first in range(0, len(prompts), batch_size):
            asked = prompts[first : first + batch_size]
            whole = [self.tokenizer.encode(prompt).ids for prompt in asked]
            room = self.max_length - max_new_tokens
            self.crowded |= {text for text, each in zip(asked, whole, strict=True) if max(1, len(each)) > room}
            ids = [self._cut(each) for each in whole]
            if decoding.num_beams > 1:
                rows = self._search(ids, decoding, max_new_tokens)
            else:
                rows = self._continue(ids, decoding, max_new_tokens, seed_of_batch(seed, first, self.max_length))
            found += [spell_out(row, self.spelling) for row in rows]
            progress(len(ids))
        return found

    def _padded(self, prompts: list[list[int]], max_new_tokens: int):
        """Prompts as int (B, P), how long each is, and the most tokens of a text with its prompt."""
        width = round_up(max(map(len, prompts)), self.max_length)
        token_ids = np.zeros((len(prompts), width), np.int32)
        for row, ids in zip(token_ids, prompts, strict=True):
            row[: len(ids)] = ids
        lengths = np.array([len(ids) for ids in prompts], np.int32)
        return token_ids, lengths, min(width + max_new_tokens, self.max_length)

    def _continue(self, prompts: list[list[int]], decoding: Decoding, max_new_tokens: int, seed) -> list[list[int]]:
        token_ids, lengths, length = self._padded(prompts, max_new_tokens)
        slots = token_ids.shape[1] + min(max_new_tokens, self.max_length) if self.backbone.places_texts else None
        key = decoding, *token_ids.shape, length, slots
        function = self.compile(key, lambda: self._sampler(decoding, length, slots))
        read = None if self.rewinds else self._read(token_ids[:, : lengths.min()], length)
        found = function(token_ids, lengths, lengths + max_new_tokens, np.array(seed, np.int32), read)
        texts, ends = (ops.convert_to_numpy(x) for x in found)
        return [row[a:b].tolist() for row, a, b in zip(texts, lengths, ends, strict=True)]

    def _sampler(self, decoding: Decoding, length: int, slots: int | None):
        filters = [*Decoding(0.0, forbidden=self.forbidden).filters(), *decoding.filters()]

        def function(token_ids, lengths, limits, seed, read):
            *read, past = read or (self.backbone.start(token_ids.shape[0], slots or length),)
            return generate(
                self.backbone.decode, self.logits, past, token_ids, lengths, length, self.end_id,
                pick=decoding.pick(seed), filters=filters, read=read or None, limits=limits, slots=slots,
            )  # fmt: skip

        return function

    def _read(self, token_ids: np.ndarray, length: int):
        """Returns how many tokens (B, R) were read, in segments; the state (B, D) of the last; and the past that they leave."""
        rows, count = token_ids.shape
        past, states, place = self.compile(("start", rows, length), lambda: self._starter(rows, length))(), None, 0
        while place < count:
            size = next(size for size in SEGMENTS if size <= count - place)
            read = self.compile(("read", rows, size, length), lambda: self.backbone.decode)
            states, past = read(
                ops.convert_to_tensor(token_ids[:, place : place + size]), past, ops.convert_to_tensor(place, "int32")
            )
            place += size
        return ops.convert_to_tensor(count, "int32"), None if states is None else states[:, -1], past

    def _starter(self, rows: int, length: int):
        def function():
            return self.backbone.start(rows, length)

        return function

    def _search(self, prompts: list[list[int]], decoding: Decoding, max_new_tokens: int) -> list[list[int]]:
        if max_new_tokens < 1:
            return [[] for _ in prompts]
        token_ids, lengths, length = self._padded(prompts, max_new_tokens)
        if self.backbone.places_texts:
            return self._search_side_by_side(token_ids, lengths, decoding, max_new_tokens)
        known = (int(lengths.min()) - 1) // STEP * STEP  # tokens that no beam changes; few numbers, so few functions
        key = decoding, *token_ids.shape, length, known
        function = self.compile(key, lambda: self._searcher(decoding, length, known))
        past = None if self.rewinds else self._read(token_ids[:, : lengths.min() - 1], length)[-1]
        limits = np.minimum(lengths + max_new_tokens, length) - 1
        texts = ops.convert_to_numpy(function(token_ids, lengths, limits, past))[:, 0]
        return [
            self.until_end(row[start : stop + 1].tolist())
            for row, start, stop in zip(texts, lengths, limits, strict=True)
        ]

    def _search_side_by_side(self, token_ids, lengths, decoding: Decoding, max_new_tokens: int) -> list[list[int]]:
        """Does the same for networks with `places_texts`: each text goes on behind its own last token, from the first step on."""
        max_new_tokens = min(max_new_tokens, self.max_length)
        key = decoding, *token_ids.shape, max_new_tokens, "side by side"
        function = self.compile(key, lambda: self._side_by_side(decoding, token_ids.shape[1], max_new_tokens))
        limits = np.minimum(max_new_tokens, self.max_length - lengths)
        texts = ops.convert_to_numpy(function(token_ids, lengths, limits))[:, 0]
        return [self.until_end(row[1 : stop + 1].tolist()) for row, stop in zip(texts, limits, strict=True)]

    def _side_by_side(self, decoding: Decoding, width: int, max_new_tokens: int):
        forbid = self._forbid()

        def function(token_ids, lengths, limits):
            lengths = ops.cast(lengths, "int32")
            memory = side_by_side(decoding.num_beams, width, lengths - 1, max_new_tokens, self.max_length - 1)
            past = self._read_prompts(memory, token_ids)
            last = ops.take_along_axis(ops.cast(token_ids, "int32"), ops.expand_dims(lengths - 1, 1), axis=1)[:, 0]

            def step(texts, position, state):
                states, state = memory.read(self.backbone.decode, ops.take(texts, position, axis=1), state, position)
                return forbid(self.logits(states), texts, position), state

            ids, _ = beam_search(
                step, past, last, decoding.num_beams, max_new_tokens, self.end_id, gnmt_penalty(decoding.length_penalty),
                limits=limits, memory=memory,
            )  # fmt: skip
            return ids

        return function

    def _read_prompts(self, memory, token_ids):
        """Returns the past of beams after all prompts (B, P), which are read at once."""
        rows, width = token_ids.shape
        return memory.past_of(
            lambda slots: self.backbone.start(rows, slots),
            lambda past: self.backbone.decode(token_ids, past, 0)[1],
            width,
        )

    def _forbid(self):
        """Returns the filter of tokens that no text holds."""
        (forbid,) = Decoding(0.0, forbidden=self.forbidden).filters() or [lambda logits, *_: logits]
        return forbid

    def _searcher(self, decoding: Decoding, length: int, known: int):
        forbid = self._forbid()

        def function(token_ids, lengths, limits, past):
            memory = memory_for(self.backbone, decoding.num_beams, length, known, ops.min(lengths) - 1)
            if past is None:
                # What stands behind a short prompt is replaced before anything looks at it.
                past = self._read_prompts(memory, token_ids)

            def step(token_ids, position, state):
                tokens = ops.take(token_ids, position, axis=1)
                states, state = memory.read(self.backbone.decode, tokens, state, position)
                return forbid(self.logits(states), token_ids, position), state

            prompts = ops.pad(token_ids, [[0, 0], [0, length - token_ids.shape[1]]]), lengths
            penalty = gnmt_penalty(decoding.length_penalty)
            ids, _ = beam_search(
                step, past, None, decoding.num_beams, length - 1, self.end_id, penalty, limits=limits, prompts=prompts,
                memory=memory,
            )  # fmt: skip
            return ids

        return function


GENERATOR = TextGenerator


def load(source: Source, max_length: int | None = None) -> TextGenerator:
    """Reads a run folder of a causal system, or a model folder.

    Raises:
        CheckpointError: the folder is not whole, or its system does not continue texts.
        UsageError: `max_length` is more than the network reads.
    """
    found = source.identify()
    if found.writing is None or found.writing.task != TASK:
        raise refusal_error(found)
    loaded = source.load()
    config = loaded.backbone.config
    if not config.reads(max_length or 0):
        raise UsageError(f"--max_length={max_length}: the network reads at most {config.longest} tokens.")
    return TextGenerator(loaded, max_length)
