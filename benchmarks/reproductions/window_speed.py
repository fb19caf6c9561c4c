"""Time per token of evaluation: states that are kept, against a window that slides by one token."""

import statistics
import time

import numpy as np
import tensorflow as tf

from benchmarks.reproductions.stream_models import SHAPE
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.objectives.causal_lm import CausalLM

VOCABULARY = 100  # about that of characters, so that the last layer hides nothing


def vanilla(length: int):
    """A call that predicts one token from a window of `length`, and how many tokens that is."""
    backbone = Gpt(GptConfig(VOCABULARY, max_sequence_length=length, activation="relu", **SHAPE)).initialize()
    objective = CausalLM()

    @tf.function
    def step(token_ids):
        batch = {"token_ids": token_ids, "padding_mask": tf.ones_like(token_ids, tf.bool)}
        return objective.logits(backbone(batch)["sequence_output"][:, -1], backbone)

    token_ids = tf.constant(np.random.default_rng(0).integers(VOCABULARY, size=(1, length)), tf.int32)
    return lambda: step(token_ids).numpy(), 1


def recurrent(memory_length: int, segment: int):
    """A call that predicts `segment` tokens with a full memory, which it moves on."""
    backbone = TransformerXL(TransformerXLConfig(VOCABULARY, memory_length=memory_length, **SHAPE)).initialize()
    objective = AdaptiveLM(backbone.config)
    past = backbone.initial_memory(1)
    memory, filled = tf.Variable(past["memory"]), tf.Variable([memory_length])

    @tf.function
    def step(token_ids):
        outputs = backbone({"token_ids": token_ids, "memory": memory.value(), "memory_filled": filled.value()})
        memory.assign(outputs["memory"])
        return objective.logits(outputs["sequence_output"], backbone)

    token_ids = tf.constant(np.random.default_rng(0).integers(VOCABULARY, size=(1, segment)), tf.int32)
    return lambda: step(token_ids).numpy(), segment


def seconds(length: int, segments: dict[str, int], rounds: int, least: float = 0.3) -> dict[str, float]:
    """Processor seconds for a token by each way, medians of rounds in which the ways take turns."""
    ways = {"vanilla": vanilla(length)} | {name: recurrent(length, size) for name, size in segments.items()}
    calls = {}
    for name, (call, _) in ways.items():
        call(), call()
        begun = time.process_time()
        call()
        calls[name] = max(1, int(least / max(1e-4, time.process_time() - begun)))
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (call, tokens) in ways.items():
            begun = time.process_time()
            for _ in range(calls[name]):
                call()
            found[name].append((time.process_time() - begun) / calls[name] / tokens)
    return {name: statistics.median(values) for name, values in found.items()}
