"""Questions with choices, of which one is right."""

from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import shared_warning
from xmodels.jobs.choices import choice_source
from xmodels.jobs.finetuning import Data
from xmodels.jobs.finetuning_texts import TextFinetuning, token_rows, warn_unknown
from xmodels.tasks.choose import Choose
from xmodels.training.watching.progress import say


class Choices(TextFinetuning):
    """Files of `data_pipelines.corpora.choices`."""

    title = "Chooser of answers"
    keep = ("token_ids", "segment_ids", "padding_mask", "labels", "choice_weights", "example_weights")

    def read(self, tokenizer):
        options = self.options
        if options.data_dir or not options.train_file:
            raise UsageError(
                "--train_file=QUESTIONS: --task=choose learns from a file of questions (.jsonl, .json, .csv)."
            )
        source = choice_source(options.train_file, tokenizer, options.max_seq_length, self.reading)
        warn_unknown(options.train_file, source, tokenizer)
        most = source.arrays["choice_weights"].shape[1]
        held = {}
        for name, path in (("evaluation", options.eval_file), ("test", options.test_file)):
            if path:
                held[name] = choice_source(path, tokenizer, options.max_seq_length, self.reading)
                if warning := shared_warning(path, token_rows(held[name]), options.train_file, token_rows(source)):
                    say(warning)
        return Data(source, held, [], 0, f"{most} choices")

    def task(self, config, data):
        return Choose(config, data.labels, self.reading)
