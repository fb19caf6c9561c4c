"""The base of tasks that generate text: a network with the `writing` of its system, and its compiled functions."""

from collections.abc import Callable, Sequence

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.text.spelling import spell_out, spelling
from xmodels.decoding.options import Decoding
from xmodels.interfaces.loaded import Identity, Loaded
from xmodels.layers.attention.writing import assigned_slices
from xmodels.tasks.base.answer import overflow_error

STEP = 16  # lengths are rounded up to multiples of this
# Measured on one core: compilation pays off from 70 to 270 texts of one length (benchmarks/results/generation.md), and files have
# texts of several lengths.
COMPILED_FROM = 2000
GREEDY = Decoding(temperature=0.0)
NOT_FINITE = "The network answers NaN or infinity."


class Generator:
    """Generates text with a network that has `start` and `decode`. Subclasses define what the network reads first.

    Args:
        loaded: a network whose system has a `writing`.

    Attributes:
        task: the objective that computes logits from states, in place of the head of other tasks.
        end_id: the token that ends a text.
        forbidden: ids that are never generated: the other special tokens, which are not part of texts in training, and rows without
            a token.
        defaults: default values of `Decoding` for `xmodels generate`.
        jit_compile: whether graphs are compiled with XLA, which takes some seconds for each shape and makes each token faster.
    """

    defaults: dict
    jit_compile: bool = False

    def __init__(self, loaded: Loaded):
        self.backbone, self.tokenizer, self.task = loaded.backbone, loaded.tokenizer, loaded.objective()
        self.writing = loaded.writing
        vocabulary = self.tokenizer.vocabulary
        self.end_id = loaded.writing.end_id(vocabulary)
        spare = range(len(vocabulary), self.backbone.config.vocabulary_size)
        self.forbidden = (*(i for i in vocabulary.special_ids if i != self.end_id), *spare)
        self.spelling = spelling(self.tokenizer)
        self._functions: dict = {}

    def truncation_note(self) -> str | None:
        """Returns what the texts so far have lost for want of positions, and what to change; None for nothing."""
        raise NotImplementedError

    def penalty(self, given: float | None) -> float:
        """Returns the length penalty of beam search: `given`, or by default that of the system."""
        return self.writing.length_penalty if given is None else given

    def logits(self, states):
        """Returns the logits of the next token: (..., D) -> (..., V). With TensorFlow the graph ends where one is not finite."""
        return finite_logits(self.task.logits(states, self.backbone))

    def spell(self, token_ids: Sequence[int]) -> str:
        """Returns the text of tokens, up to the end token."""
        return spell_out(self.until_end(token_ids), self.spelling)

    def until_end(self, token_ids: Sequence[int]) -> list[int]:
        """Returns the tokens before the end token."""
        ids = list(token_ids)
        return ids[: ids.index(self.end_id)] if self.end_id in ids else ids

    def compile(self, key, make: Callable[[], Callable], signature=None):
        """Returns the function for `key` (settings and shapes), made on first use; with TensorFlow it is a graph."""
        if key not in self._functions:
            self._functions[key] = made = make()
            if keras.backend.backend() == "tensorflow":
                import tensorflow as tf

                self._functions[key] = tf.function(
                    made if self.jit_compile else assigned_slices()(made),
                    input_signature=signature,
                    autograph=False,
                    jit_compile=self.jit_compile or None,
                )
        return report_overflow(self._functions[key])


def finite_logits(logits):
    """Returns the logits; with TensorFlow, NaN and infinity end the graph that computes them."""
    if keras.backend.backend() != "tensorflow":
        return logits
    import tensorflow as tf

    sums = tf.reduce_sum(tf.cast(logits, tf.float32), axis=-1)  # of far fewer numbers, finite where all logits are
    with tf.control_dependencies([tf.debugging.check_numerics(sums, NOT_FINITE)]):
        return tf.identity(logits)


def report_overflow(function: Callable) -> Callable:
    """Wraps a function so that logits that are not finite raise a CheckpointError."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    def reported(*arguments):
        try:
            return function(*arguments)
        except tf.errors.InvalidArgumentError as error:
            if NOT_FINITE in str(error):
                raise overflow_error("the logits of a token") from None
            raise

    return reported


def pays_to_compile(jit_compile: str | bool, texts: int) -> bool:
    """Returns whether to compile graphs with XLA.

    Args:
        jit_compile: true or false, or "auto" to compile if there are enough texts to save time.
        texts: the number of texts to generate.
    """
    chosen = str(jit_compile).lower()
    return texts >= COMPILED_FROM if chosen == "auto" else chosen == "true"


def refusal_error(found: Identity) -> CheckpointError:
    """Returns the error for a checkpoint that does not generate text."""
    return CheckpointError(
        f"{found.source}: a {found.network.__name__} does not generate text; train a causal system, such as --system=gpt2."
    )


def round_up(length: int, most: int) -> int:
    """Rounds a length up to a multiple of `STEP`, at most `most`, so that many lengths share few compiled functions."""
    return min(-(-length // STEP) * STEP, most)


def seed_of_batch(seed: int, first: int, length: int) -> tuple[int, int]:
    """Returns the seed of the batch that begins with text number `first`. A draw at a position adds the position to the second
    number, so batches are apart by as much as their `length` positions at least, and no two draw the same numbers."""
    return seed, first * length % 2**31
