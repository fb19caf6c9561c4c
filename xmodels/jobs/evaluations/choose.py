"""Scores a network that chooses one of several answers."""

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from data_pipelines.corpora.choices import read_choices
from data_pipelines.errors import DataError
from data_pipelines.files import write_json
from xmodels.export.task_file import read_run
from xmodels.jobs.apply import check_output
from xmodels.jobs.choices import pack_choices, right_choice

LISTED = 5  # questions that were answered wrongly


def evaluate(model_dir: str, test_file: str, batch_size: int | None, output_file: str | None) -> dict:
    """Prints and returns accuracy and loss, and what chance would give; arguments as in `launch/evaluate.py`."""
    check_output(output_file)
    questions = list(read_choices(test_file))
    if not questions:
        raise DataError(f"{test_file}: holds no questions.")
    truth = np.array([right_choice(asked) for asked in questions])
    probabilities = choose(model_dir, questions, batch_size or 16)
    right = np.array([each.argmax() == answer for each, answer in zip(probabilities, truth, strict=True)])
    given = np.array([each[answer] for each, answer in zip(probabilities, truth, strict=True)])
    scores = {
        "accuracy": float(right.mean()),
        "loss": float(-np.log(np.maximum(given, 1e-30)).mean()),
        "chance": float(np.mean([1 / len(asked.choices) for asked in questions])),
    }
    print(f"{test_file}: {len(questions):,} questions, accuracy {scores['accuracy']:.4f}, loss {scores['loss']:.4f}")
    print(f"  choosing by chance would score {scores['chance']:.4f}")
    for place in np.flatnonzero(~right)[:LISTED]:
        asked, chosen = questions[place], int(probabilities[place].argmax())
        print(
            f"  wrong: {asked.question:.60}  chose {asked.choices[chosen]!r:.40}, right is {asked.choices[truth[place]]!r:.40}"
        )
    if output_file:
        write_json(output_file, scores)
    return scores


def choose(model_dir: str, questions, batch_size: int) -> list[np.ndarray]:
    """The probability of each choice of each question, float32 (its number of choices,)."""
    run = read_run(model_dir)
    task = run.make_task()

    @tf.function(reduce_retracing=True)
    def answer(features):
        return task.predict(task.forward(run.backbone, features, training=False))["probabilities"]

    found = []
    for first in tqdm(range(0, len(questions), batch_size), unit="batch", disable=len(questions) < 20 * batch_size):
        asked = questions[first : first + batch_size]
        features = pack_choices(asked, run.tokenizer, run.description.max_sequence_length, run.reading)
        if not found:
            task.forward(run.backbone, features)  # builds the head
            run.assign(task)
        rows = answer({name: tf.constant(value) for name, value in features.items()}).numpy()
        found += [row[: len(each.choices)] for row, each in zip(rows, asked, strict=True)]
    return found
