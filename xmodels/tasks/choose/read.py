"""Questions with choices, of which one is right: files of `data_pipelines.corpora.choices`, or records made of them."""

import os

from data_pipelines.batches.array_source import ArraySource
from xmodels.tasks.base.read import Data, Survey, tells_cuts
from xmodels.tasks.base.texts import TextReader
from xmodels.tasks.choose.packing import TASK, choice_source, read_questions, recorded_source


class Reader(TextReader):
    """A file of questions, or records."""

    def survey(self):
        count = lambda path: len(read_questions(path)[0])  # noqa: E731
        trained = f"{count(self.training_files()):,} questions to train on"
        return Survey(", ".join([trained, *self.count_evaluation(count)]))

    def survey_records(self, tokenizer):
        _, count = self.check_records(TASK, tokenizer)
        return Survey(f"{count:,} questions", [], count)

    def read(self, tokenizer):
        source = self.source_of(self.training_files(), tokenizer)
        sets = self.evaluation_sets(source, tokenizer, lambda path: self.source_of(path, tokenizer))
        return Data(source, sets, [], 0, f"{source.arrays['choice_weights'].shape[1]} choices")

    def recorded_set(self, folder, tokenizer, labels):
        return self.source_of(folder, tokenizer)

    @tells_cuts("max_seq_length")
    def source_of(self, path: str, tokenizer) -> ArraySource:
        """Returns the questions of a file, or of a folder of records."""
        read = recorded_source if os.path.isdir(path) else choice_source
        return read(path, tokenizer, self.options.max_seq_length, self.reading)
