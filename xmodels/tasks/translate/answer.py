"""An encoder-decoder writes the targets of sources, such as translations: greedily, by draws, or by beam search."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from keras import ops
from tqdm.auto import tqdm

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import PAD
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import EXTRA_TOKENS, write_targets
from xmodels.interfaces.loaded import Loaded
from xmodels.models.config import LONGEST_ROW
from xmodels.tasks.base.generation import GREEDY, Generator, round_up, seed_of_batch
from xmodels.tasks.base.source import Source

TASK = "translate"


class Seq2SeqGenerator(Generator):
    """Writes the target of each source.

    Args:
        prefix: what stands before each text, such as "summarize: ".

    Attributes:
        positions: tokens of a source or a target, as many as the network reads.
        longest: tokens of a source, with those around it; longer ones lose their end.
        opening: the tokens with which a source begins.
        num_cut: sources that have lost theirs so far.
    """

    defaults: ClassVar[dict] = {"temperature": 0.0, "top_k": 0}

    def __init__(self, loaded: Loaded, prefix: str = ""):
        super().__init__(loaded)
        self.prefix = prefix
        vocabulary, positions = self.tokenizer.vocabulary, self.backbone.config.cut(LONGEST_ROW)
        self.positions = positions
        # Where a target needs positions too, a source leaves it a quarter.
        self.longest, self.num_cut = (positions - positions // 4 if self.writing.one_row else positions), 0
        self.start_id, self.pad_id = loaded.writing.start_id(vocabulary), vocabulary[PAD]
        self.opening = loaded.writing.opening_ids(vocabulary)

    def source_ids(self, text: str) -> list[int]:
        """Returns what the network reads of a text, with the tokens around it; nothing of a text without pieces."""
        ids = self.tokenizer.encode(text).ids
        if not ids:
            return []
        ids = self.tokenizer.encode(self.prefix + text).ids if self.prefix else ids
        framed = self.writing.add_special_tokens(ids, self.tokenizer.vocabulary, self.longest)
        self.num_cut += len(framed) < len(ids) + len(self.opening) + 1
        return framed

    def truncation_note(self) -> str | None:
        return (
            f"{self.num_cut:,} text(s) have more than the {self.longest} tokens that the network reads, and lost their end. "
            "Give shorter texts, such as single sentences."
            if self.num_cut
            else None
        )

    def generate(
        self, texts: Sequence[str], decoding: Decoding = GREEDY, max_new_tokens: int | None = None, seed: int = 0,
        batch_size: int = 32, progress: Callable[[int], None] = lambda num_texts: None,
    ) -> list[str]:  # fmt: skip
        """Returns the translation of each text, in their order; of a text without pieces, such as a blank one, nothing.

        Texts of like length share a batch. Which ones do changes no translation, unless it is drawn.

        Args:
            max_new_tokens: most tokens of a translation; by default 50 more than of its source, as in the paper.
        """
        found, sources = [""] * len(texts), [self.source_ids(text) for text in texts]
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda index: len(sources[index]))
        progress(len(texts) - len(order))
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            numbers = seed_of_batch(seed, first, self.positions)
            rows = self._translate([sources[place] for place in places], decoding, max_new_tokens, numbers)
            for place, row in zip(places, rows, strict=True):
                found[place] = self.spell(row)
            progress(len(places))
        return found

    def limit(self, length: int, max_new_tokens: int | None) -> int:
        """Returns most tokens of the translation of a source of so many tokens."""
        return min(max_new_tokens or length + EXTRA_TOKENS, self.most(length))

    def most(self, length):
        """Returns tokens of a target for which the network has positions, behind a source of so many; whole numbers or a
        tensor."""
        return self.positions - (length if self.writing.one_row else 1)

    def _translate(self, sources: list[list[int]], decoding: Decoding, max_new_tokens, seed) -> list[list[int]]:
        width = round_up(max(map(len, sources)), self.longest)
        token_ids = np.full((len(sources), width), self.pad_id, np.int32)
        for row, ids in zip(token_ids, sources, strict=True):
            row[: len(ids)] = ids
        lengths = np.array([len(ids) for ids in sources], np.int32)
        limits = np.array([self.limit(length, max_new_tokens) for length in lengths], np.int32)
        most = min(max_new_tokens or width + EXTRA_TOKENS, self.positions - 1)
        function = self._function(decoding, width, most)
        targets, ends = (
            ops.convert_to_numpy(x) for x in function(token_ids, lengths, limits, np.array(seed, np.int32))
        )
        return [row[:end].tolist() for row, end in zip(targets, ends, strict=True)]

    def _function(self, decoding: Decoding, width: int, max_length: int):
        """Returns the compiled function of some settings and shapes, for any number of rows."""
        import tensorflow as tf

        rows = tf.TensorSpec([None], tf.int32)
        signature = tf.TensorSpec([None, width], tf.int32), rows, rows, tf.TensorSpec([2], tf.int32)

        def make():
            return lambda *arguments: self.targets(*arguments, decoding, max_length)

        return self.compile((decoding, width, max_length), make, signature)

    def targets(self, token_ids, lengths, limits, seed, decoding: Decoding, max_length):
        """Returns `write_targets` of sources int (B, S), of which the first `lengths` (B,) tokens count."""
        token_ids, lengths, limits = (ops.cast(each, "int32") for each in (token_ids, lengths, limits))
        decoding = dataclasses.replace(
            decoding.forbidding(self.forbidden), ranked=self.writing.ranked, forces_end=self.writing.forces_end,
            first_id=self.writing.first_id(self.tokenizer.vocabulary),
        )  # fmt: skip
        place = ops.arange(ops.shape(token_ids)[1], dtype="int32")
        features = {"token_ids": token_ids, "padding_mask": place < ops.expand_dims(lengths, 1)}
        if self.writing.hidden:
            features["mask_ids"] = ops.full_like(lengths, self.tokenizer.vocabulary[self.writing.hidden])
        return write_targets(
            self.backbone, self.logits, features, decoding, seed, self.start_id, self.end_id, limits, max_length
        )  # fmt: skip


GENERATOR = Seq2SeqGenerator


def load(source: Source) -> Seq2SeqGenerator:
    """Reads a run folder of an encoder-decoder, or a model folder.

    Raises:
        CheckpointError: the folder is not whole, or its system does not translate.
    """
    found = source.identify()
    if found.writing is None or found.writing.task != TASK:
        raise CheckpointError(
            f"{source.path}: a {found.network.__name__} does not translate; train an encoder-decoder on parallel text, such as "
            "--system=transformer."
        )
    description = source.description()
    return Seq2SeqGenerator(source.load(), description.prefix if description else "")


def translations(
    generator: Seq2SeqGenerator,
    texts: Sequence[str],
    decoding: Decoding,
    batch_size: int,
    max_new_tokens: int | None = None,
) -> list[str]:
    """Returns the translation of each text, with a bar of progress where there are many; says where sources were cut."""
    with tqdm(total=len(texts), desc="texts", unit="text", disable=len(texts) < 200) as progress:
        found = generator.generate(texts, decoding, max_new_tokens, 0, batch_size, progress.update)
    if lost := generator.truncation_note():
        print(f"Note: {lost}", file=sys.stderr)
    return [one_line(each) for each in found]


def one_line(text: str) -> str:
    """Returns a translation without line breaks, which would be taken for its end."""
    return " ".join(text.split("\n")).replace("\r", " ")
