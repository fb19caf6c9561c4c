"""Some examples of a run, as `training.samples` has them: with what the network predicts, or without."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.runs import sight, spans
from xmodels.training.watching.samples import ARROW, pieces

COUNT = 4  # examples at an evaluation
# How a token with the label 1 is written, and what that means.
MARKED = {
    "capital_labels": (str.capitalize, "coloured: words that the text or the network capitalizes"),
    "repeated_labels": (
        lambda token: f"{token}+",
        "coloured, with a +: tokens that also occur elsewhere in their document",
    ),
}
SPARE = "[no token]"  # a row of the network that no token has


def make_sampler(
    learner, first: Callable[[], dict[str, tf.Tensor]], tokenizer: Tokenizer, labels: list[str] | None = None,
    stream: str | None = None,
) -> Callable[[], list]:  # fmt: skip
    """Returns a function that predicts some examples, always the same ones.

    Args:
        first: gives a batch of these examples; called once, when they are predicted first.
        labels: names of the labels, where the examples have one each.
        stream: the name of that of which the examples are; the first one by default.
    """
    objective = learner.streams[stream].objective if stream else learner.first_objective
    backbone = learner.backbone

    def predictions_of(batch):
        return objective.predictions(objective.forward(backbone, batch, training=False), batch, backbone)

    predict = tf.function(functools.partial(predictions_of), autograph=False)  # a partial, as in `StreamPass`
    cached: list[dict] = []

    def sample() -> list[dict]:
        if not cached:
            batch = first()
            cached.append({**batch, **objective.target_visibility(batch)})
        with learner.averaged_weights():
            predictions = {name: value.numpy() for name, value in predict(cached[0]).items()}
        return examples(cached[0], predictions, tokenizer, classes_of(objective, labels))

    return sample


def join_samplers(samplers: Mapping[str, Callable[[], list]], note: str = "") -> Callable[[], list]:
    """Gives the examples of all samplers; of several, each says of which task it is.

    Args:
        samplers: by the name of the task.
        note: what people should know of all examples; it goes with the first one.
    """

    def sample() -> list[dict]:
        found = [
            {**({"task": task} if len(samplers) > 1 else {}), **example}
            for task, each in samplers.items()
            for example in each()
        ]
        return [{"note": note, **found[0]}, *found[1:]] if note and found else found

    return sample


def first_batch(batches: Batches, count: int = COUNT) -> dict[str, tf.Tensor]:
    """Returns the first examples of a source."""
    return next(iter(dataclasses.replace(batches, batch_size=count, grouping=None).once(1)))


def classes_of(objective, labels: list[str] | None = None) -> dict[str, tuple[str, Sequence[str]]]:
    """Returns what the numbers of an example mean: {feature: (title, the name of each value)}; `labels` as in `make_sampler`."""
    return {**({"labels": ("label", labels)} if labels else {}), **objective.classes}


def examples(
    batch: dict, predictions: dict, tokenizer: Tokenizer, classes: Mapping[str, tuple[str, Sequence[str]]]
) -> list[dict]:
    """Returns the examples of a batch, those left out that only fill it up.

    Args:
        batch: its features, and what `Objective.target_visibility` adds.
        predictions: {name of a feature: what the network thinks it is}; may be empty.
        classes: of `classes_of`.
    """
    values = {name: value.numpy() for name, value in batch.items()}
    rows = [
        row
        for row, weight in enumerate(values["example_weights"].reshape(len(values["padding_mask"]), -1)[:, 0])
        if weight
    ]
    return [_example({n: v[row] for n, v in values.items()}, {n: v[row] for n, v in predictions.items()},
                     tokenizer, classes) for row in rows]  # fmt: skip


def _example(values: dict, predictions: dict, tokenizer: Tokenizer, classes) -> dict:
    real = values["padding_mask"].astype(bool)
    ids = values["token_ids"][real] if "token_ids" in values else real.nonzero()[0][:0]
    ids = ids[ids > 0] if ids.ndim > 1 else ids  # of a story: the words of all its sentences
    tokens = [_text(tokenizer, i) for i in ids]
    answers = {
        title: _pair(name, values, predictions, names)
        for name, (title, names) in classes.items()
        if name in values and values[name].ndim == 0
    }
    if "start_positions" in values:
        every = [_text(tokenizer, i) for i in values["token_ids"]]
        answers["answer"] = [_span(values, every), _span(predictions, every) if predictions else None]
    if "labels" in values and values["labels"].ndim == 0 and values["labels"].dtype.kind == "f":
        prediction = predictions.get("labels")
        answers["score"] = [f"{values['labels']:.3g}", None if prediction is None else f"{prediction:.3g}"]
    return {**_show_example(values, predictions, tokens, tokenizer), "answers": answers}


def _show_example(values: dict, predictions: dict, tokens: list[str], tokenizer: Tokenizer) -> dict:
    """Returns the pieces of an example, and the table that goes with some."""
    slots = _slots(values, predictions.get("labels"), tokenizer) if "label_weights" in values else {}
    if "target_ids" in values:  # an answer of its own
        answer = pieces([truth for truth, _ in slots.values()], _keep_predicted(slots))
        return {"pieces": [*pieces(tokens, {}), ARROW, *answer], **_fragments(values, slots)}
    if "mask_positions" in values:
        return _show_hidden(values, predictions, slots, tokens, tokenizer)
    if labels := [name for name in MARKED if name in values]:
        return {
            "pieces": pieces(tokens, _mark_labels(tokens, labels[0], values, predictions)),
            "note": MARKED[labels[0]][1],
        }
    # The labels are the tokens that follow.
    following = {slot + 1: pair for slot, pair in _keep_predicted(slots).items() if slot + 1 < len(tokens)}
    return {"pieces": pieces(tokens, following)}


def _fragments(values: dict, slots: dict) -> dict:
    """Returns a note of the places that the decoder fills, where it is told them."""
    is_packed = "pack_ids" in values  # its targets count from their own beginning
    if "target_position_ids" not in values or is_packed or not slots:
        return {}
    places = [int(values["target_position_ids"][slot]) + 2 for slot in slots]  # the token behind, counted from 1
    written = " and ".join(f"{run[0]} to {run[-1]}" for run in spans.runs(places))
    return {"note": f"the fragment: tokens {written} of the encoder's input"}


def _show_hidden(values: dict, predictions: dict, slots: dict, tokens: list[str], tokenizer: Tokenizer) -> dict:
    """Returns the pieces of a text with hidden tokens, and what their objective has to show besides. `slots` are of `_slots`."""
    hidden = {int(values["mask_positions"][slot]): pair for slot, pair in slots.items()}
    if hidden and "span_labels" in predictions:
        named = [int(predictions["span_labels"][slot]) for slot in slots]
        beside = [_text(tokenizer, identity) if identity >= 0 else None for identity in named]
        return spans.show_spans(tokens, hidden, dict(zip(hidden, beside, strict=True)))
    if hidden and "target_visibility" in values:
        return sight.show_sight(tokens, hidden, values["target_visibility"][list(slots), : len(tokens)])
    return {"pieces": pieces(tokens, hidden)}


def _mark_labels(tokens: list[str], name: str, values: dict, predictions: dict) -> dict[int, tuple[str, str | None]]:
    """Returns {place of a token: (as its label writes it, as the predicted one does)}, where one of both is 1."""
    real = values["padding_mask"].astype(bool)
    truth, predicted = values[name][real], predictions[name][real] if name in predictions else None

    def label_text(place: int, label: int) -> str:
        return MARKED[name][0](tokens[place]) if label == 1 else tokens[place]

    return {
        place: (label_text(place, label), None if predicted is None else label_text(place, predicted[place]))
        for place, label in enumerate(truth)
        if label == 1 or (label == 0 and predicted is not None and predicted[place] == 1)
    }


def _span(places: dict, tokens: list[str]) -> str:
    """Returns the tokens from `start_positions` to `end_positions`; one that stands for all is none of the text."""
    return " ".join(tokens[int(places["start_positions"]) : int(places["end_positions"]) + 1]) or "nothing"


def _slots(values: dict, predictions, tokenizer: Tokenizer) -> dict[int, tuple[str, str | None]]:
    """Returns {slot of the labels: (truth, prediction)}, for labels that have a weight."""
    used = [slot for slot, weight in enumerate(values["label_weights"]) if weight]
    return {
        slot: (
            _text(tokenizer, values["labels"][slot]),
            None if predictions is None else _text(tokenizer, predictions[slot]),
        )
        for slot in used
    }


def _keep_predicted(slots: dict) -> dict:
    """Returns the slots that have a prediction; of a text that is not hidden the others are no news."""
    return {slot: pair for slot, pair in slots.items() if pair[1] is not None}


def _pair(name: str, values: dict, predictions: dict, names) -> list:
    prediction = predictions.get(name)
    return [names[int(values[name])], None if prediction is None else names[int(prediction)]]


def _text(tokenizer: Tokenizer, identity) -> str:
    """Returns a token as the vocabulary writes it; of byte-level vocabularies in characters."""
    if int(identity) >= len(tokenizer.vocabulary):
        return SPARE
    token = tokenizer.vocabulary.tokens[int(identity)]
    if tokenizer.kind != "byte_bpe" or int(identity) in tokenizer.vocabulary.special_ids:
        return token
    text = tokenizer.decode([int(identity)])
    return f"Ġ{text[1:]}" if text.startswith(" ") else text
