"""Some examples of a run, as `training.samples` has them: with what the network predicts, or without."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.training.watching.samples import pieces

COUNT = 4  # examples at an evaluation
SPARE = "[no token]"  # a row of the network that no token has


def sampler(
    learner, first: Callable[[], dict[str, tf.Tensor]], tokenizer: Tokenizer, labels: list[str] | None = None
) -> Callable[[], list]:
    """A function that predicts some examples, always the same ones.

    Args:
        first: gives a batch of these examples; called once, when they are predicted first.
        labels: names of the labels, where the examples have one each.
    """
    objective, backbone = learner.objective, learner.backbone
    predict = tf.function(
        lambda batch: objective.predictions(objective.forward(backbone, batch, training=False), batch, backbone),
        autograph=False,
    )
    held: list[dict] = []

    def sample() -> list[dict]:
        if not held:
            held.append(first())
        with learner.averaged():
            predictions = {name: value.numpy() for name, value in predict(held[0]).items()}
        return examples(held[0], predictions, tokenizer, classes_of(objective, labels))

    return sample


def first_batch(batches: Batches, count: int = COUNT) -> dict[str, tf.Tensor]:
    """The first examples of a source."""
    return next(iter(dataclasses.replace(batches, batch_size=count, grouping=None).once(1)))


def classes_of(objective, labels: list[str] | None = None) -> dict[str, tuple[str, Sequence[str]]]:
    """What the numbers of an example mean: {feature: (title, the name of each value)}; `labels` as in `sampler`."""
    return {**({"labels": ("label", labels)} if labels else {}), **objective.classes}


def examples(
    batch: dict, predictions: dict, tokenizer: Tokenizer, classes: Mapping[str, tuple[str, Sequence[str]]]
) -> list[dict]:
    """The examples of a batch, those left out that only fill it up.

    Args:
        predictions: {name of a feature: what the network thinks it is}; may be empty.
        classes: of `classes_of`.
    """
    values = {name: value.numpy() for name, value in batch.items()}
    rows = [
        row
        for row, weight in enumerate(values["example_weights"].reshape(len(values["token_ids"]), -1)[:, 0])
        if weight
    ]
    return [_example({n: v[row] for n, v in values.items()}, {n: v[row] for n, v in predictions.items()},
                     tokenizer, classes) for row in rows]  # fmt: skip


def _example(values: dict, predictions: dict, tokenizer: Tokenizer, classes) -> dict:
    ids = values["token_ids"][values["padding_mask"].astype(bool)]
    ids = ids[ids > 0] if ids.ndim > 1 else ids  # of a story: the words of all its sentences
    tokens = [_text(tokenizer, i) for i in ids]
    slots = _slots(values, predictions.get("labels"), tokenizer) if "label_weights" in values else {}
    if "target_ids" in values:  # an answer of its own
        shown = [*pieces(tokens, {}), " ⇒ ", *pieces([truth for truth, _ in slots.values()], _guessed(slots))]
    elif "mask_positions" in values:
        shown = pieces(tokens, {int(values["mask_positions"][slot]): pair for slot, pair in slots.items()})
    else:  # the labels are the tokens that follow
        shown = pieces(tokens, {slot + 1: pair for slot, pair in _guessed(slots).items() if slot + 1 < len(tokens)})
    answers = {
        title: _pair(name, values, predictions, names)
        for name, (title, names) in classes.items()
        if name in values and values[name].ndim == 0
    }
    return {"pieces": shown, "answers": answers}


def _slots(values: dict, predictions, tokenizer: Tokenizer) -> dict[int, tuple[str, str | None]]:
    """{slot of the labels: (truth, guess)}, for labels that have a weight."""
    used = [slot for slot, weight in enumerate(values["label_weights"]) if weight]
    return {
        slot: (
            _text(tokenizer, values["labels"][slot]),
            None if predictions is None else _text(tokenizer, predictions[slot]),
        )
        for slot in used
    }


def _guessed(slots: dict) -> dict:
    """The slots that somebody guessed; of a text that is not hidden the others are no news."""
    return {slot: pair for slot, pair in slots.items() if pair[1] is not None}


def _pair(name: str, values: dict, predictions: dict, names) -> list:
    guess = predictions.get(name)
    return [names[int(values[name])], None if guess is None else names[int(guess)]]


def _text(tokenizer: Tokenizer, identity) -> str:
    """A token as the vocabulary writes it; of byte-level vocabularies in characters."""
    if int(identity) >= len(tokenizer.vocabulary):
        return SPARE
    token = tokenizer.vocabulary.tokens[int(identity)]
    if tokenizer.kind != "byte_bpe" or int(identity) in tokenizer.vocabulary.special_ids:
        return token
    text = tokenizer.decode([int(identity)])
    return f"Ġ{text[1:]}" if text.startswith(" ") else text
