"""The questions of bAbI 1 to 3 for `universal_transformer_babi`. Stories of task 3 are made up where its training file is missing."""

import dataclasses
import functools

from benchmarks.reproductions import moved_things
from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.babi import StoryQuestion, read_tasks, task_files
from data_pipelines.errors import DataError
from data_pipelines.finetuning.stories import StoryEncoder, answer_ids, answers_of, vocabulary_of

TASKS, SENTENCES, WORDS = (1, 2, 3), 130, 8
DEV = 10  # one part in so many of the training questions is held out
STORIES = 1  # the seed of made-up stories


@dataclasses.dataclass(frozen=True)
class Data:
    """Questions by task, and what turns them into arrays."""

    train: list[StoryQuestion]
    dev: dict[str, list[StoryQuestion]]
    test: dict[str, list[StoryQuestion]]
    made_up: bool  # the training stories of task 3

    @functools.cached_property
    def encoder(self) -> StoryEncoder:
        return StoryEncoder(vocabulary_of(self.train), SENTENCES, WORDS)

    @functools.cached_property
    def labels(self) -> list[str]:
        return answers_of(self.train)

    def source(self, questions: list[StoryQuestion]) -> ArraySource:
        arrays = self.encoder.arrays([(asked.sentences, asked.question) for asked in questions])
        return ArraySource({**arrays, "labels": answer_ids(questions, self.labels)}, "bAbI")


def read(folder: str, most: int, most_of_3: int) -> Data:
    """Questions of a folder of bAbI; so many of each task for training and the curves, and so many of task 3."""
    found = {}
    for task in TASKS:
        wanted = most_of_3 if task == 3 else most
        if task == 3 and not is_there(folder, 3):
            found["qa3"] = moved_things.stories(wanted, STORIES)
        else:
            found |= read_tasks(folder, (task,), "train", wanted)
    test = read_tasks(folder, TASKS, "test")
    cut = {task: len(questions) - len(questions) // DEV for task, questions in found.items()}
    train = [asked for task, questions in found.items() for asked in questions[: cut[task]]]
    dev = {task: questions[cut[task] :] for task, questions in found.items()}
    return Data(train, dev, test, not is_there(folder, 3))


def is_there(folder: str, task: int) -> bool:
    try:
        return bool(task_files(folder, (task,), "train"))
    except DataError:
        return False
