"""Hugging Face's ALBERT on the batches of the effects that compare ALBERTs: what a known implementation gives at this budget.

Each arm reads the batches of ours. Sharing half of a block is not a number there, so the modules of the other blocks are replaced by
those of the first one; all modes begin with the weights of a network that shares none.
"""

import functools
import os

from benchmarks.reproductions import peer_bert
from benchmarks.reproductions.peer_bert import Architecture

NAME = "Hugging Face's ALBERT"
ATTENTION, FEEDFORWARD = ("attention",), ("ffn", "ffn_output", "full_layer_layer_norm")
SHARED = {"all": ATTENTION + FEEDFORWARD, "attention": ATTENTION, "feedforward": FEEDFORWARD, "none": ()}
SECOND = {"order": "sentence_order_labels", "next_sentence": "next_sentence_labels", "neither": None}


def share(modules: tuple[str, ...], encoder) -> None:
    """Has all blocks use these modules of the first one."""
    first, *others = (group.albert_layers[0] for group in encoder.encoder.albert_layer_groups)
    for block in others:
        for name in modules:
            setattr(block, name, getattr(first, name))


def architecture(arm: str, second: str | None, modules: tuple[str, ...] = ()) -> Architecture:
    return Architecture(
        f"{peer_bert.NAME.replace('bert', 'albert')} {arm}", "AlbertForPreTraining", "AlbertModel", "albert",
        lambda model, states, pooled: (model.predictions(states), model.sop_classifier(pooled)),
        second, functools.partial(share, modules),
    )  # fmt: skip


def of_effect(effect: str) -> dict[str, Architecture]:
    """The arms of an effect."""
    if effect == "sharing":
        return {mode: architecture(mode, SECOND["order"], modules) for mode, modules in SHARED.items()}
    return {arm: architecture(arm, label) for arm, label in SECOND.items()}


def results(effect: str, runs: dict[str, str], folder: str, tasks: dict, tuning: dict) -> dict:
    """What the arms reach, as the numbers of a comparison: `objectives` with losses of tokens, and `scores` of tasks.

    Args:
        runs: the pretrainings of ours by arm. What is done in `folder` is not repeated.
        tasks, tuning: as of `peer_bert.scores`.
    """
    found = {"objectives": {}, "scores": {task: {} for task in tasks}}
    initial = None
    if effect == "sharing":
        made, _ = peer_bert.prepared(runs["none"], os.path.join(folder, "unused"))
        initial = os.path.join(folder, "initial")
        if not os.path.isdir(initial):
            peer_bert.write_initial(made, runs["none"], folder)
    for arm, peer in of_effect(effect).items():
        own = os.path.join(folder, arm)
        checkpoint = os.path.join(own, "pretrained")
        peer_bert.pretrain(runs[arm], own, checkpoint, peer, initial)
        reached = peer_bert.read_results(own)
        found["objectives"][arm] = {"token_losses": [reached["masked_lm"]], "accuracies": [reached["accuracy"]]}
        for task, files in tasks.items():
            found["scores"][task][arm] = peer_bert.tuned(own, task, arm, checkpoint, files, tuning, peer)
    return found
