"""Scores answers to questions about stories, task by task."""

import os
from collections import defaultdict

import numpy as np
from tqdm import tqdm

from data_pipelines.corpora.babi import StoryQuestion, read_tasks, task_numbers
from data_pipelines.errors import UsageError
from data_pipelines.files import write_json
from xmodels.export.story_answerer import StoryAnswer, StoryAnswerer
from xmodels.jobs.apply import check_output
from xmodels.jobs.story_pictures import draw

FAILED_ABOVE = 5.0  # percent of errors; so bAbI counts failed tasks (Weston et al., 2015)


def evaluate(
    model_dir: str,
    test_file: str,
    tasks: str | None,
    batch_size: int | None,
    output_file: str | None,
    plots: str | None,
) -> dict:
    """Prints and returns the error of each task, the mean error, the number of failed tasks, and mean steps where the
    network decides about them; arguments as in `launch/evaluate.py`.

    With `plots`, the first question of each task becomes a picture in that folder.
    """
    check_output(output_file)
    if plots and os.path.isfile(plots):
        raise UsageError(f"--plots={plots}: is a file. Name a folder for the pictures.")
    answerer = StoryAnswerer.load(model_dir)
    found = read_tasks(test_file, task_numbers(tasks), "test")
    questions = [asked for each in found.values() for asked in each]
    with tqdm(total=len(questions), desc="questions", unit="question", disable=len(questions) < 200) as progress:
        stories = [(asked.sentences, asked.question) for asked in questions]
        answers = answerer.answer(stories, batch_size or 32, progress.update)
    scores = score(questions, answers)
    report(test_file, scores)
    if output_file:
        write_json(output_file, scores)
    if plots:
        for path in write_plots(plots, answerer, questions, answers):
            print(f"  picture: {path}")
    return scores


def score(questions: list[StoryQuestion], answers: list[StoryAnswer]) -> dict:
    """{"tasks": {task: {"questions", "error" in percent, "steps", "steps_deviation"}}, "mean_error", "failed_tasks"}.

    Steps are means and deviations over all sentences and questions; None where the network does not decide about them.
    """
    by_task = defaultdict(list)
    for asked, answer in zip(questions, answers, strict=True):
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


def report(test_file: str, scores: dict) -> None:
    """Prints the table."""
    tasks, count = scores["tasks"], sum(each["questions"] for each in scores["tasks"].values())
    print(
        f"{test_file}: {count:,} questions, mean error {scores['mean_error']:.2f} %, failed tasks (above "
        f"{FAILED_ABOVE:g} %): {scores['failed_tasks']} of {len(tasks)}"
    )
    width = max(map(len, [*tasks, "task"]))
    print(f"  {'task':{width}}  questions  error %  steps")
    for name, each in tasks.items():
        steps = "" if each["steps"] is None else f"{each['steps']:.2f} ± {each['steps_deviation']:.2f}"
        print(f"  {name:{width}}  {each['questions']:9,}  {each['error']:7.2f}  {steps}".rstrip())


def write_plots(folder: str, answerer: StoryAnswerer, questions, answers) -> list[str]:
    """A picture of the first question of each task; returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths: dict[str, str] = {}
    for asked, answer in zip(questions, answers, strict=True):
        if asked.task in paths:
            continue
        story = (asked.sentences[-answerer.encoder.max_sentences :], asked.question)
        paths[asked.task] = os.path.join(folder, f"{asked.task}.png")
        draw(story, answer, answerer.attention(story), asked.answer).savefig(paths[asked.task], dpi=110)
    return list(paths.values())
