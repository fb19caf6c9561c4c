"""An encoder-decoder that translates: the folder of a run, read back."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from data_pipelines.ops.parallel import end_of
from data_pipelines.text.spelling import spell_out, spelling
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import PAD
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import EXTRA_TOKENS, write_targets
from xmodels.export.generator import GREEDY, model_folder, round_up
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.runs.loaded import read_tokenizer
from xmodels.tasks.base.run import TASK_FILE


class Translator:
    """Writes the target of each source with a network that can `start` and `decode`.

    Attributes:
        longest: tokens of a source, with its end token; longer ones lose their end.
        num_cut: sources that have lost theirs so far.
    """

    def __init__(self, backbone: Backbone, tokenizer: Tokenizer):
        self.backbone, self.tokenizer, self.objective = backbone, tokenizer, Seq2Seq()
        self.longest, self.num_cut = backbone.config.max_sequence_length, 0
        vocabulary = tokenizer.vocabulary
        self.end_id, self.pad_id = end_of(vocabulary), vocabulary[PAD]
        self.forbidden = tuple(i for i in vocabulary.special_ids if i != self.end_id)
        self.spelling = spelling(tokenizer)
        self._functions: dict = {}

    @classmethod
    def load(cls, path: str) -> "Translator":
        """Reads a run folder of an encoder-decoder, or a model folder.

        Raises:
            CheckpointError: the folder is not whole, or its network does not translate.
        """
        inner = model_folder(path)
        if not os.path.isfile(os.path.join(inner, folder.WEIGHTS)) and os.path.isdir(os.path.join(path, "checkpoints")):
            raise CheckpointError(
                f"{path}: this run is not finished, so nothing was handed over yet. Finish it with the same command, or take "
                f"its last state: xmodels average_checkpoints --model_dir={path} --last=1 --output_dir=NAME."
            )
        _, network = folder.read_config(inner)
        if not translates(network):
            raise CheckpointError(
                f"{path}: a {network.__name__} does not translate; train an encoder-decoder on parallel text, such as "
                "--system=transformer."
            )
        backbone, _ = folder.read_model(inner)
        return cls(backbone, read_tokenizer(inner))

    def logits(self, states):
        """(..., D) -> (..., V)"""
        return self.objective.logits(states, self.backbone)

    def source_ids(self, text: str) -> list[int]:
        """What the network reads of a text, with the end token."""
        ids = self.tokenizer.encode(text).ids
        self.num_cut += len(ids) >= self.longest
        return [*ids[: self.longest - 1], self.end_id]

    def generate(
        self, texts: Sequence[str], decoding: Decoding = GREEDY, max_new_tokens: int | None = None, seed: int = 0,
        batch_size: int = 32, progress: Callable[[int], None] = lambda num_texts: None,
    ) -> list[str]:  # fmt: skip
        """The translation of each text, in their order; of a text without pieces, such as a blank one, nothing.

        Texts of like length share a batch. Which ones do changes no translation, unless it is drawn.

        Args:
            max_new_tokens: most tokens of a translation; by default 50 more than of its source, as in the paper.
        """
        found, sources = [""] * len(texts), [self.source_ids(text) for text in texts]
        order = sorted((i for i, ids in enumerate(sources) if len(ids) > 1), key=lambda index: len(sources[index]))
        progress(len(texts) - len(order))
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            rows = self._translate([sources[place] for place in places], decoding, max_new_tokens, (seed, first))
            for place, row in zip(places, rows, strict=True):
                found[place] = self.spell(row)
            progress(len(places))
        return found

    def spell(self, target_ids: Sequence[int]) -> str:
        """The text of a target, up to its end token."""
        ids = list(target_ids)
        return spell_out(ids[: ids.index(self.end_id)] if self.end_id in ids else ids, self.spelling)

    def limit(self, length: int, max_new_tokens: int | None) -> int:
        """Most tokens of the translation of a source of so many tokens."""
        return min(max_new_tokens or length + EXTRA_TOKENS, self.longest - 1)

    def _translate(self, sources: list[list[int]], decoding: Decoding, max_new_tokens, seed) -> list[list[int]]:
        width = round_up(max(map(len, sources)), self.longest)
        token_ids = np.full((len(sources), width), self.pad_id, np.int32)
        for row, ids in zip(token_ids, sources, strict=True):
            row[: len(ids)] = ids
        lengths = np.array([len(ids) for ids in sources], np.int32)
        limits = np.array([self.limit(length, max_new_tokens) for length in lengths], np.int32)
        function = self._function(decoding, width, self.limit(width, max_new_tokens))
        targets, ends = (x.numpy() for x in function(token_ids, lengths, limits, np.array(seed, np.int32)))
        return [row[:end].tolist() for row, end in zip(targets, ends, strict=True)]

    def _function(self, decoding: Decoding, width: int, max_length: int):
        """The compiled function of some settings and shapes, for any number of rows."""
        key = decoding, width, max_length
        if key not in self._functions:
            rows = tf.TensorSpec([None], tf.int32)
            signature = tf.TensorSpec([None, width], tf.int32), rows, rows, tf.TensorSpec([2], tf.int32)
            self._functions[key] = tf.function(
                lambda *arguments: self.targets(*arguments, decoding, max_length), input_signature=signature
            )
        return self._functions[key]

    def targets(self, token_ids, lengths, limits, seed, decoding: Decoding, max_length):
        """`write_targets` of sources int (B, S), of which the first `lengths` (B,) tokens count."""
        decoding = decoding.forbidding(self.forbidden)
        features = {"token_ids": token_ids, "padding_mask": tf.sequence_mask(lengths, tf.shape(token_ids)[1])}
        return write_targets(
            self.backbone, self.logits, features, decoding, seed, self.pad_id, self.end_id, limits, max_length
        )  # fmt: skip


def translates(network: type[Backbone]) -> bool:
    """Whether a network writes targets of sources, token by token."""
    return "target_ids" in network.reads and hasattr(network, "start") and hasattr(network, "decode")


def is_translator(path: str) -> bool:
    """Whether a run or model folder holds a network that can translate, and was not fine-tuned to do something else."""
    if os.path.isfile(os.path.join(path, TASK_FILE)):
        return False
    config = os.path.join(model_folder(path), folder.CONFIG)
    name = folder.read_json(config).get("model") if os.path.isfile(config) else None
    return isinstance(name, str) and translates(folder.model_class(name))
