"""Labels of single texts, or of pairs."""

from data_pipelines.corpora.tables import Columns
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import check_labels, check_texts, shared_warning
from xmodels.jobs.finetuning import Data
from xmodels.jobs.finetuning_texts import TextFinetuning, token_rows, warn_unknown
from xmodels.jobs.labelled import labelled_source, recorded_source
from xmodels.tasks.classify import Classify
from xmodels.training.watching.progress import say


class Labels(TextFinetuning):
    """Rows of texts with a label: a table, or records made of one."""

    title = "Text classifier"
    keep = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")
    task_class = Classify
    orders = None

    def read(self, tokenizer):
        options = self.options
        if (options.train_file is None) == (options.data_dir is None):
            raise UsageError("--train_file=TABLE or --data_dir=RECORDS: give one of them to learn from.")
        trained_on = options.train_file or options.data_dir
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        length, read_as = options.max_seq_length, {"frame": self.reading.frame, "orders": self.orders}
        if options.data_dir:
            source, labels, num_texts = recorded_source(options.data_dir, tokenizer, length, **read_as)
        else:
            source, labels, num_texts = labelled_source(options.train_file, columns, tokenizer, length, **read_as)
        check_labels(trained_on, labels, source.num_examples, options.label_column)
        warn_unknown(trained_on, source, tokenizer)
        held = {}
        for name, path in (("evaluation", options.eval_file), ("test", options.test_file)):
            if path:
                held[name], _, found = labelled_source(path, columns, tokenizer, length, labels, **read_as)
                check_texts(path, found, trained_on, num_texts)
                if warning := shared_warning(path, token_rows(held[name]), trained_on, token_rows(source)):
                    say(warning)
        return Data(source, held, labels, num_texts, f"{len(labels)} labels")

    def task(self, config, data):
        return self.task_class(config, data.labels, self.reading)
