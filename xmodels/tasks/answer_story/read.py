"""Questions about stories, as bAbI asks them: one task, or several jointly."""

import collections
import functools
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.babi import StoryQuestion, read_tasks, split_off, task_numbers
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.stories import StoryEncoder, answer_ids, answers_of, vocabulary_of
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.kinds import tokenizer_of_records
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import model_class
from xmodels.models.story_transformer import STORY
from xmodels.tasks.base import read
from xmodels.tasks.base.new import NEW, network_of, new_network
from xmodels.tasks.base.read import Data, Survey
from xmodels.tasks.base.records import check_recorded, recorded_batches

TASK = "answer_story"  # of the records
SPLITS = {"evaluation": "valid", "test": "test"}  # as bAbI names its files


class Reader(read.Reader):
    """Files of bAbI. The network begins with random weights, as `--init_checkpoint=new:NETWORK` says, or with those of a run."""

    numbers: ClassVar[dict] = {
        "learning_rate": 1e-3, "warmup_proportion": 0.05, "optimizer": "adam", "lr_schedule": "bert_linear",
    }  # fmt: skip
    refused: ClassVar[dict] = dict.fromkeys(
        ("text_column", "text_pair_column", "label_column", "vocab_file"),
        "it reads bAbI's files by --train_file",
    )

    def __init__(self, name, options):
        super().__init__(name, options)
        if not 0 <= options.held_out < 1 or (options.held_out and options.eval_file):
            raise UsageError(f"--held_out={options.held_out:g}: a share below 1, and only without --eval_file.")
        if bool(options.train_file) == bool(options.data_dir):
            raise UsageError(
                "--train_file: name bAbI's folder, such as tasks_1-20_v1-2/en-10k, or its training files; or records by --data_dir."
            )
        for flag in ("tasks", "questions_per_task", "held_out") if options.data_dir else ():
            if getattr(options, flag):
                raise UsageError(
                    f"--{flag}: chooses among files. Make records of those that you want, and leave it out."
                )

    def begin(self):
        """Returns a new network with the words of the training stories, where one is asked for."""
        options = self.options
        if not self.is_new:
            return None
        if options.data_dir:
            tokenizer = tokenizer_of_records(options.data_dir, Manifest.read(options.data_dir).settings)
        else:
            questions = [asked for each in self.training.values() for asked in each]
            tokenizer = vocabulary_of(questions, options.do_lower_case is not False)
        return Checkpoint(*new_story_network(options, tokenizer.vocabulary), {}), tokenizer

    def prepare(self, loaded, tokenizer):
        if model_class(loaded.model).reads is not STORY:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: {loaded.model} does not read stories. A new network that "
                f"does: --init_checkpoint={NEW}story_universal_transformer."
            )
        self.encoder = StoryEncoder(tokenizer, self.options.max_seq_length - 1, loaded.config.max_sentence_length)
        return loaded, tokenizer

    @functools.cached_property
    def training(self) -> dict[str, list[StoryQuestion]]:
        """The questions of the training files by task, with those of `held_out`."""
        return self._tasks(self.options.train_file, "train")

    def _tasks(self, pattern: str, split: str) -> dict[str, list[StoryQuestion]]:
        most = self.options.questions_per_task if split == "train" else None
        return read_tasks(pattern, task_numbers(self.options.tasks), split, most)

    def questions(self) -> tuple[list[StoryQuestion], dict[str, list[StoryQuestion]]]:
        """Returns what is learnt from, and what is scored, by its name."""
        options, train, evaluation_sets = self.options, [], {}
        for questions in self.training.values():
            first, last = split_off(questions, options.held_out)
            train.extend(first)
            if last:
                evaluation_sets.setdefault("evaluation", []).extend(last)
        if not train:
            raise UsageError(f"--held_out={options.held_out:g}: leaves no story to learn from.")
        for name, path in self.evaluation_files():
            tasks = self._tasks(path, SPLITS[name])
            evaluation_sets[name] = [question for each in tasks.values() for question in each]
        return train, evaluation_sets

    def survey(self):
        train, evaluation_sets = self.questions()
        labels = answers_of(train)
        for questions in evaluation_sets.values():
            answer_ids(questions, labels)
        summary = [f"{len(train):,} questions to train on, {len(labels)} answers"]
        summary += [f"{len(questions):,} for {name}" for name, questions in evaluation_sets.items()]
        return Survey(", ".join(summary), labels, len(train))

    def survey_records(self, tokenizer):
        manifest = Manifest.read(self.options.data_dir)
        labels = check_recorded(self.options.data_dir, manifest, TASK, tokenizer, None)
        return Survey(
            f"{manifest.num_examples:,} questions to train on, {len(labels)} answers", labels, manifest.num_examples
        )

    def read(self, tokenizer):
        if self.options.data_dir:
            return self._recorded(tokenizer)
        train, evaluation_sets = self.questions()
        labels = answers_of(train)
        sources = {name: self._source(questions, labels) for name, questions in evaluation_sets.items()}
        return Data(
            self._source(train, labels), sources, labels, 2, f"{', '.join(self.training)}: {len(labels)} answers"
        )

    def _recorded(self, tokenizer) -> Data:
        """Records to learn from; what is scored are records too."""
        folder = self.options.data_dir
        source, labels = recorded_source(folder, tokenizer, self.encoder, None)
        sets = {
            name: recorded_source(path, tokenizer, self.encoder, labels)[0] for name, path in self.evaluation_files()
        }
        return Data(source, sets, labels, 2, f"{folder}: {len(labels)} answers")

    def _source(self, questions, labels) -> ArraySource:
        stories = [(asked.sentences, asked.question) for asked in questions]
        arrays = self.encoder.arrays(stories)
        name = ", ".join(collections.Counter(asked.task for asked in questions))
        return ArraySource({**arrays, "labels": answer_ids(questions, labels)}, name)

    def task(self, config, data):
        return self.task_class(config, data.labels, self.options.ponder_weight)


def recorded_source(
    folder: str, tokenizer, encoder: StoryEncoder, labels: list[str] | None
) -> tuple[ArraySource, list[str]]:
    """Records of `create_finetuning_data --task=answer_story` as the stories that they were made of, and their labels."""
    manifest = Manifest.read(folder)
    names = check_recorded(folder, manifest, TASK, tokenizer, labels)
    stories, answers = [], []
    for parsed in recorded_batches(folder, manifest):
        for ids, lengths in zip(parsed["token_ids"], parsed["segment_lengths"][:, :, 0], strict=True):
            stories.append([row[:length].tolist() for row, length in zip(ids, lengths, strict=True) if length])
        answers.append(parsed["labels"])
    return ArraySource({**encoder.packed(stories), "labels": np.concatenate(answers).astype(np.int32)}, folder), names


def new_story_network(options, vocabulary):
    """Returns the name and the configuration of the network that `--init_checkpoint=new:NAME/SIZE` asks for; its positions are
    places."""
    name, network, _ = network_of(options)
    if network.reads is not STORY:
        raise UsageError(
            f"--init_checkpoint={options.init_checkpoint}: {name} does not read stories. Try story_universal_transformer."
        )
    return new_network(options, vocabulary, max_sequence_length=options.max_seq_length)
