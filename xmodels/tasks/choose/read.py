"""Questions with choices, of which one is right: files of `data_pipelines.corpora.choices`, or records made of them."""

import os

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.finetuning.row_checks import shared_warning
from xmodels.tasks.base.read import Data, Survey, tells_cuts
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.tasks.choose.packing import TASK, choice_source, read_questions, recorded_source
from xmodels.training.watching.progress import print_status

VERBS = {"evaluation": "evaluate", "test": "test"}


class Reader(TextReader):
    """A file of questions, or records."""

    def survey(self):
        files = [("train", self.training_files())]
        files += [(VERBS[name], path) for name, path in self.evaluation_files() if not os.path.isdir(path)]
        counts = {verb: len(read_questions(path)[0]) for verb, path in files}
        return Survey(", ".join(f"{count:,} questions to {verb} on" for verb, count in counts.items()))

    def survey_records(self, tokenizer):
        _, count = self.check_records(TASK, tokenizer)
        return Survey(f"{count:,} questions", [], count)

    def read(self, tokenizer):
        path = self.training_files()
        source = self.source_of(path, tokenizer)
        warn_unknown(path, source, tokenizer)
        evaluation_sets = {}
        for name, other in self.evaluation_files():
            found = evaluation_sets[name] = self.source_of(other, tokenizer)
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
        return Data(source, evaluation_sets, [], 0, f"{source.arrays['choice_weights'].shape[1]} choices")

    def recorded_set(self, folder, tokenizer, labels):
        return self.source_of(folder, tokenizer)

    @tells_cuts("max_seq_length")
    def source_of(self, path: str, tokenizer) -> ArraySource:
        """Returns the questions of a file, or of a folder of records."""
        read = recorded_source if os.path.isdir(path) else choice_source
        return read(path, tokenizer, self.options.max_seq_length, self.reading)
