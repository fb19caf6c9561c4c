"""Scores answers to questions about stories, task by task."""

import os
from collections import defaultdict

import numpy as np

from data_pipelines.corpora.babi import StoryQuestion, read_tasks, task_numbers
from xmodels.tasks.answer_story.answer import StoryAnswer
from xmodels.tasks.answer_story.pictures import draw
from xmodels.tasks.base.pictures import save
from xmodels.tasks.base.score import predict, print_pictures

FAILED_ABOVE = 5.0  # percent of errors; so bAbI counts failed tasks (Weston et al., 2015)


def evaluate(predictor, test_file: str, tasks: str | None, batch_size: int | None, plots: str | None) -> dict:
    """Prints and returns the error of each task, the mean error, the number of failed tasks, and mean steps where the
    network decides about them; arguments as in `launch/evaluate.py`.

    With `plots`, the first question of each task becomes a picture in that folder.
    """
    questions = [asked for each in read_tasks(test_file, task_numbers(tasks), "test").values() for asked in each]
    predictions = predict(
        predictor, [(asked.sentences, asked.question) for asked in questions], batch_size or 32, test_file
    )
    found = scores(predictions, questions)
    report(test_file, found)
    print_pictures(write_plots(plots, predictor, questions, predictions) if plots else ())
    return found


def scores(predictions: list[StoryAnswer], truth: list[StoryQuestion]) -> dict:
    """Returns {"tasks": {task: {"questions", "error" in percent, "steps", "steps_deviation"}}, "mean_error", "failed_tasks"}.

    Steps are means and deviations over all sentences and questions; None where the network does not decide about them.
    """
    by_task = defaultdict(list)
    for asked, answer in zip(truth, predictions, strict=True):
        by_task[asked.task].append((asked.answer == answer.answer, answer.steps))
    tasks = {}
    for task, rows in by_task.items():
        steps = None if rows[0][1] is None else np.concatenate([each for _, each in rows])
        tasks[task] = {
            "questions": len(rows),
            "error": 100.0 * (1.0 - sum(right for right, _ in rows) / len(rows)),
            "steps": None if steps is None else float(steps.mean()),
            "steps_deviation": None if steps is None else float(steps.std()),
        }
    errors = [each["error"] for each in tasks.values()]
    failed = sum(error > FAILED_ABOVE for error in errors)
    return {"tasks": tasks, "mean_error": float(np.mean(errors)), "failed_tasks": failed}


def report(test_file: str, found: dict) -> None:
    """Prints the table."""
    tasks, count = found["tasks"], sum(each["questions"] for each in found["tasks"].values())
    print(
        f"{test_file}: {count:,} questions, mean error {found['mean_error']:.2f} %, failed tasks (above "
        f"{FAILED_ABOVE:g} %): {found['failed_tasks']} of {len(tasks)}"
    )
    width = max(map(len, [*tasks, "task"]))
    print(f"  {'task':{width}}  questions  error %  steps")
    for name, each in tasks.items():
        steps = "" if each["steps"] is None else f"{each['steps']:.2f} ± {each['steps_deviation']:.2f}"
        print(f"  {name:{width}}  {each['questions']:9,}  {each['error']:7.2f}  {steps}".rstrip())


def write_plots(folder: str, predictor, questions, predictions) -> list[str]:
    """Returns a picture of the first question of each task; returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths: dict[str, str] = {}
    for asked, answer in zip(questions, predictions, strict=True):
        if asked.task in paths:
            continue
        story = (asked.sentences[-predictor.encoder.max_sentences :], asked.question)
        figure = draw(story, answer, predictor.attention(story), asked.answer)
        paths[asked.task] = save(figure, os.path.join(folder, f"{asked.task}.png"))
    return list(paths.values())
