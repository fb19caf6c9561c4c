"""Answers questions about stories that people write."""

import csv
import os

from tqdm import tqdm

from data_pipelines.corpora.unanswered_stories import read_stories, split_story
from data_pipelines.errors import UsageError
from xmodels.export.story_answerer import StoryAnswer, StoryAnswerer


def predict(
    model_dir: str, text: str | None, text_pair: str | None, input_file: str | None, output_file: str | None,
    batch_size: int,
) -> None:  # fmt: skip
    """Prints or writes the answer to --text_pair about the story --text, or to each question of a file."""
    if text is not None and not text_pair:
        raise UsageError("--text: is the story here; give the question with --text_pair.")
    stories = [(split_story(text), text_pair)] if text is not None else read_stories(input_file)
    answerer = StoryAnswerer.load(model_dir)
    with tqdm(total=len(stories), desc="questions", unit="question", disable=len(stories) < 200) as progress:
        answers = answerer.answer(stories, batch_size, progress.update)
    if text is not None:
        _show(stories[0], answers[0])
    elif output_file:
        _write(output_file, stories, answers, answerer.labels)
    else:
        for (_, question), answer in zip(stories, answers, strict=True):
            print(f"{answer.answer}\t{answer.probabilities[answer.answer]:.4f}\t{question}")


def _show(story, answer: StoryAnswer) -> None:
    print(f"answer: {answer.answer}")
    for name, value in sorted(answer.probabilities.items(), key=lambda item: -item[1])[:10]:
        print(f"  {value:.4f}  {name}")
    if answer.steps is not None:
        print("steps:")
        for line, steps in zip([*story[0], story[1]][-len(answer.steps) :], answer.steps, strict=True):
            print(f"  {steps:g}  {line}")


def _write(path: str, stories, answers: list[StoryAnswer], labels) -> None:
    with open(f"{path}.partial", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["question", "label", *labels])
        for (_, question), answer in zip(stories, answers, strict=True):
            writer.writerow([question, answer.answer, *(f"{p:.6f}" for p in answer.probabilities.values())])
    os.replace(f"{path}.partial", path)
    print(f"{path}: {len(answers):,} answers.")
