"""Labels of single texts, or of pairs."""

from data_pipelines.corpora.tables import Columns
from data_pipelines.errors import UsageError
from data_pipelines.labelled_rows import check_labels, check_texts, shared_warning, unknown_warning
from data_pipelines.text.letter_case import case_warning
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels.jobs.finetuning import Data, Finetuning
from xmodels.jobs.labelled import labelled_source, recorded_source
from xmodels.models.folder import model_class
from xmodels.tasks.classify import Classify
from xmodels.tasks.find import reading_class
from xmodels.training.progress import say


class Labels(Finetuning):
    """Rows of texts with a label: a table, or records made of one."""

    title = "Text classifier"
    keep = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")
    reading = None

    def prepare(self, loaded, tokenizer):
        reading = reading_class(model_class(loaded.model))
        if reading is None:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.options.task} cannot be learnt by a network "
                f"of --system={loaded.model}, which does not say how it reads labelled texts. Take a BERT."
            )
        self.reading = reading(tokenizer.vocabulary)
        return loaded, tokenizer

    def read(self, tokenizer):
        options, frame = self.options, self.reading.frame
        if (options.train_file is None) == (options.data_dir is None):
            raise UsageError("--train_file=TABLE or --data_dir=RECORDS: give one of them to learn from.")
        trained_on, length = options.train_file or options.data_dir, options.max_seq_length
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        if options.data_dir:
            source, labels, num_texts = recorded_source(options.data_dir, tokenizer, length, frame=frame)
        else:
            source, labels, num_texts = labelled_source(options.train_file, columns, tokenizer, length, frame=frame)
        check_labels(trained_on, labels, source.num_examples, options.label_column)
        warn_unknown(trained_on, source, tokenizer)
        held = {}
        for name, path in (("evaluation", options.eval_file), ("test", options.test_file)):
            if path:
                held[name], _, found = labelled_source(path, columns, tokenizer, length, labels, frame)
                check_texts(path, found, trained_on, num_texts)
                if warning := shared_warning(path, token_rows(held[name]), trained_on, token_rows(source)):
                    say(warning)
        return Data(source, held, labels, num_texts, f"{len(labels)} labels")

    def task(self, config, data):
        return Classify(config, data.labels, self.reading)


def token_rows(source) -> list[bytes]:
    """The real tokens of each row."""
    arrays = source.arrays
    return [ids[real].tobytes() for ids, real in zip(arrays["token_ids"], arrays["padding_mask"], strict=True)]


def warn_unknown(path: str, source, tokenizer: Tokenizer) -> None:
    """Says where much of the text has no piece, or where the case of letters contradicts the vocabulary."""
    real = source.arrays["token_ids"][source.arrays["padding_mask"]]
    unknown = int((real == tokenizer.vocabulary.roles.get(UNKNOWN, -1)).sum())
    for warning in (
        case_warning(tokenizer, "the vocabulary"),
        unknown_warning(path, unknown, len(real), tokenizer.do_lower_case),
    ):
        if warning:
            say(warning)
