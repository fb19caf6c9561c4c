"""A causal network that continues texts: the folder of a run, read back."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.spelling import spell_out, spelling
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import EOS, SEP
from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.options import Decoding
from xmodels.decoding.sampling import generate
from xmodels.export.causal import generates, objective_of
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.runs.loaded import BACKBONE_FOLDER, read_tokenizer

GREEDY = Decoding(temperature=0.0)
# Tokens of a prompt that are read at once where the past cannot go back; few shapes, so few functions.
SEGMENTS = (256, 16, 1)


class Generator:
    """Continues texts with a network that can `decode`.

    Args:
        max_length: tokens of a text with its prompt; a longer prompt loses its beginning.
        objective: gives the logits of states.
    """

    def __init__(self, backbone: Backbone, tokenizer: Tokenizer, max_length: int, objective: Objective):
        self.backbone, self.tokenizer, self.max_length = backbone, tokenizer, max_length
        self.objective = objective
        self.rewinds = backbone.rewinds
        vocabulary = tokenizer.vocabulary
        self.end_id = vocabulary[EOS if EOS in vocabulary else SEP]  # as streams of records end their documents
        # The others never stood in the text that it learnt from.
        self.forbidden = tuple(i for i in vocabulary.special_ids if i != self.end_id)
        self.spelling = spelling(tokenizer)
        self._functions: dict = {}

    @classmethod
    def load(cls, path: str, max_length: int | None = None) -> "Generator":
        """Reads a run folder of a causal system, or a model folder.

        Raises:
            CheckpointError: the folder is not whole, or its network does not generate.
            UsageError: `max_length` is more than the network reads.
        """
        path = model_folder(path)
        config, network = folder.read_config(path)
        if not generates(network):
            raise CheckpointError(
                f"{path}: a {network.__name__} does not generate text; train a causal system, such as --system=gpt2."
            )
        longest = config.max_sequence_length
        if max_length is not None and max_length > longest:
            raise UsageError(f"--max_length={max_length}: the network reads at most {longest} tokens.")
        backbone, heads = folder.read_model(path)
        objective = objective_of(backbone, heads, os.path.join(path, folder.WEIGHTS))
        return cls(backbone, read_tokenizer(path), max_length or longest, objective)

    def logits(self, states):
        """(..., D) -> (..., V)"""
        return self.objective.logits(states, self.backbone)

    def prompt_ids(self, prompt: str) -> list[int]:
        """What the network reads of a prompt; of an empty one the token that ends documents, so that one begins."""
        return self.tokenizer.encode(prompt).ids[-(self.max_length - 1) :] or [self.end_id]

    def generate(
        self, prompts: Sequence[str], decoding: Decoding = GREEDY, max_new_tokens: int = 64, seed: int = 0,
        batch_size: int = 16, progress: Callable[[int], None] = lambda num_texts: None,
    ) -> list[str]:  # fmt: skip
        """The continuation of each prompt, without the prompt.

        Texts depend on the seed, their place in their batch and the prompts beside them; equal calls give equal texts.
        """
        found: list[str] = []
        for first in range(0, len(prompts), batch_size):
            ids = [self.prompt_ids(prompt) for prompt in prompts[first : first + batch_size]]
            if decoding.num_beams > 1:
                rows = [self._search(row, decoding, max_new_tokens) for row in ids]
            else:
                rows = self._continue(ids, decoding, max_new_tokens, (seed, first))
            found += [spell_out(row, self.spelling) for row in rows]
            progress(len(ids))
        return found

    def _continue(self, prompts: list[list[int]], decoding: Decoding, max_new_tokens: int, seed) -> list[list[int]]:
        width = round_up(max(map(len, prompts)), self.max_length)
        length = min(width + max_new_tokens, self.max_length)
        token_ids = np.zeros((len(prompts), width), np.int32)
        for row, ids in zip(token_ids, prompts, strict=True):
            row[: len(ids)] = ids
        lengths = np.array([len(ids) for ids in prompts], np.int32)
        function = self._function((decoding, len(prompts), width, length), lambda: self._sampler(decoding, length))
        read = None if self.rewinds else self._read(token_ids[:, : lengths.min()], length)
        texts, ends = (x.numpy() for x in function(token_ids, lengths, np.array(seed, np.int32), read))
        stops = np.minimum(ends, lengths + max_new_tokens)
        return [row[a:b].tolist() for row, a, b in zip(texts, lengths, stops, strict=True)]

    def _sampler(self, decoding: Decoding, length: int):
        filters = [*Decoding(0.0, forbidden=self.forbidden).filters(), *decoding.filters()]

        def function(token_ids, lengths, seed, read):
            *read, past = read or (self.backbone.start(token_ids.shape[0], length),)
            return generate(
                self.backbone.decode, self.logits, past, token_ids, lengths, length, self.end_id,
                pick=decoding.pick(seed), filters=filters, read=read or None,
            )  # fmt: skip

        return function

    def _read(self, token_ids: np.ndarray, length: int):
        """How many tokens (B, R) were read, in segments; the state (B, D) of the last; and the past that they leave."""
        rows, count = token_ids.shape
        past, states, place = self._function(("start", rows, length), lambda: self._starter(rows, length))(), None, 0
        while place < count:
            size = next(size for size in SEGMENTS if size <= count - place)
            read = self._function(("read", rows, size, length), lambda: self.backbone.decode)
            states, past = read(tf.constant(token_ids[:, place : place + size]), past, tf.constant(place))
            place += size
        return tf.constant(count), None if states is None else states[:, -1], past

    def _starter(self, rows: int, length: int):
        def function():
            return self.backbone.start(rows, length)

        return function

    def _search(self, prompt: list[int], decoding: Decoding, max_new_tokens: int) -> list[int]:
        """Beam search; one prompt at a time, as prompts of one batch would have to be of one length."""
        steps = min(max_new_tokens, self.max_length - len(prompt))
        if steps < 1:
            return []
        past, ids = None, np.array([prompt], np.int32)
        if not self.rewinds:
            ids, past = ids[:, -1:], self._read(ids[:, :-1], len(prompt) + steps)[-1]
        width, first = ids.shape[1], tf.constant(len(prompt) - ids.shape[1])
        function = self._function((decoding, width, steps), lambda: self._searcher(decoding, width, steps))
        found = function(ids, past, first).numpy()[0, 0, 1:].tolist()  # with zeros behind the end, and 0 may be a word
        return found[: found.index(self.end_id)] if self.end_id in found else found

    def _searcher(self, decoding: Decoding, length: int, steps: int):
        (forbid,) = Decoding(0.0, forbidden=self.forbidden).filters() or [lambda logits, *_: logits]

        def function(prompt, past, first):
            if past is None:
                past = self.backbone.start(1, length + steps)
            if length > 1:
                _, past = self.backbone.decode(prompt[:, :-1], past, 0)

            def step(token_ids, position, past):
                token = tf.gather(token_ids, [position], axis=1)
                states, past = self.backbone.decode(token, past, first + length - 1 + position)
                return forbid(self.logits(states[:, 0]), token_ids, position), past

            penalty = gnmt_penalty(decoding.length_penalty)
            ids, _ = beam_search(step, past, prompt[:, -1], decoding.num_beams, steps, self.end_id, penalty)
            return ids

        return function

    def _function(self, key, make):
        """The compiled function of some settings and shapes."""
        if key not in self._functions:
            self._functions[key] = tf.function(make())
        return self._functions[key]


def continues_texts(path: str) -> bool:
    """Whether a run or model folder holds a network that can continue texts."""
    path = model_folder(path)
    return os.path.isfile(os.path.join(path, folder.CONFIG)) and generates(folder.read_config(path)[1])


def model_folder(path: str) -> str:
    """Where the network of a run lies; of a model folder the folder itself."""
    inner = os.path.join(path, BACKBONE_FOLDER)
    return inner if os.path.isdir(inner) else path


def round_up(length: int, most: int, step: int = 16) -> int:
    """So that prompts of many lengths share few compiled functions."""
    return min(-(-length // step) * step, most)
