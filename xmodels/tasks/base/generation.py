"""What the tasks share that write text: the network of a system that says how it writes, and its compiled functions."""

from collections.abc import Callable, Sequence

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.text.spelling import spell_out, spelling
from xmodels.decoding.options import Decoding
from xmodels.runs.loaded import Identity, Loaded, identify
from xmodels.tasks.base.find import part

STEP = 16  # lengths are rounded to multiples of it
# Measured on a core: 70 to 270 texts of one length pay for the seconds of compiling (benchmarks/results/generation.md), and files have
# texts of several lengths.
COMPILED_FROM = 2000
GREEDY = Decoding(temperature=0.0)


class Generator:
    """Writes text with a network that can `start` and `decode`. Subclasses say what it reads before.

    Args:
        loaded: a network whose system has a `writing`.

    Attributes:
        task: the objective that turns states into tokens; it stands where other tasks have their head.
        end_id: the token that ends a text.
        forbidden: tokens that are never written: the other special ones, which stood in no text that was learnt.
        defaults: of `Decoding`, where `xmodels generate` is given nothing else.
        jit_compile: whether graphs are compiled by XLA: some seconds for each shape, and each token then takes less time.
    """

    defaults: dict
    jit_compile: bool = False

    def __init__(self, loaded: Loaded):
        self.backbone, self.tokenizer, self.task = loaded.backbone, loaded.tokenizer, loaded.objective()
        self.writing = loaded.writing
        vocabulary = self.tokenizer.vocabulary
        self.end_id = loaded.writing.end_id(vocabulary)
        self.forbidden = tuple(i for i in vocabulary.special_ids if i != self.end_id)
        self.spelling = spelling(self.tokenizer)
        self._functions: dict = {}

    def penalty(self, given: float | None) -> float:
        """The length penalty of beam search: what is given, or that of the system."""
        return self.writing.length_penalty if given is None else given

    def logits(self, states):
        """(..., D) -> (..., V)"""
        return self.task.logits(states, self.backbone)

    def spell(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, up to the one that ends it."""
        return spell_out(self.until_end(token_ids), self.spelling)

    def until_end(self, token_ids: Sequence[int]) -> list[int]:
        """The tokens before the one that ends a text."""
        ids = list(token_ids)
        return ids[: ids.index(self.end_id)] if self.end_id in ids else ids

    def compiled(self, key, make: Callable[[], Callable], signature=None):
        """The function of some settings and shapes; on TensorFlow as a graph."""
        if key not in self._functions:
            self._functions[key] = make()
            if keras.backend.backend() == "tensorflow":
                import tensorflow as tf

                self._functions[key] = tf.function(
                    self._functions[key],
                    input_signature=signature,
                    autograph=False,
                    jit_compile=self.jit_compile or None,
                )
        return self._functions[key]


def pays_to_compile(jit_compile: str | bool, texts: int) -> bool:
    """Whether graphs are compiled by XLA.

    Args:
        jit_compile: true or false, or "auto" for: where so many texts are written that it saves time.
        texts: how many are written.
    """
    chosen = str(jit_compile).lower()
    return texts >= COMPILED_FROM if chosen == "auto" else chosen == "true"


def load_generator(path: str):
    """The generator of a run or model folder, as the task of its system has it.

    Raises:
        CheckpointError: the folder is not whole, or its system does not generate.
    """
    return _answer(path).load(path)


def generator_class(path: str) -> type[Generator]:
    """The class of what `load_generator` gives; reads no weights."""
    return _answer(path).GENERATOR


def _answer(path: str):
    """The `answer` of the task in which the system of a checkpoint writes."""
    found = identify(path)
    if found.writing is None:
        raise refusal(found)
    return part(found.writing.task, "answer")


def refusal(found: Identity) -> CheckpointError:
    """What is wrong with a checkpoint that generates nothing."""
    return CheckpointError(
        f"{found.source}: a {found.network.__name__} does not generate text; train a causal system, such as --system=gpt2."
    )


def round_up(length: int, most: int) -> int:
    """So that texts of many lengths share few compiled functions."""
    return min(-(-length // STEP) * STEP, most)
