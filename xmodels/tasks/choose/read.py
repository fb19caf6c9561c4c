"""Questions with choices, of which one is right: files of `data_pipelines.corpora.choices`."""

from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import shared_warning
from xmodels.tasks.base.read import Data, Survey
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.tasks.choose.packing import choice_source, read_questions
from xmodels.training.watching.progress import print_status


class Reader(TextReader):
    """A file of questions."""

    def training_file(self) -> str:
        options = self.options
        if options.data_dir or not options.train_file:
            raise UsageError(
                "--train_file=QUESTIONS: --task=choose learns from a file of questions (.jsonl, .json, .csv)."
            )
        return options.train_file

    def survey(self):
        verbs = {"evaluation": "evaluate", "test": "test"}
        files = [("train", self.training_file()), *((verbs[name], path) for name, path in self.evaluation_files())]
        counts = {verb: len(read_questions(path)[0]) for verb, path in files}
        return Survey(", ".join(f"{count:,} questions to {verb} on" for verb, count in counts.items()))

    def read(self, tokenizer):
        path, length = self.training_file(), self.options.max_seq_length
        source = choice_source(path, tokenizer, length, self.reading)
        warn_unknown(path, source, tokenizer)
        evaluation_sets = {}
        for name, other in self.evaluation_files():
            found = evaluation_sets[name] = choice_source(other, tokenizer, length, self.reading)
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
        return Data(source, evaluation_sets, [], 0, f"{source.arrays['choice_weights'].shape[1]} choices")
