"""Words with tags as of `tag`, and texts without: the two streams of Cross-View Training."""

import dataclasses

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.conll import read_conll
from data_pipelines.errors import DataError, UsageError
from xmodels.layers.views import USUAL
from xmodels.models.folder import model_class
from xmodels.tasks.base.answer import plain_lines
from xmodels.tasks.cvt_tag.cross_views import CrossViews, CrossViewsOfTasks
from xmodels.tasks.tag import read
from xmodels.tasks.tag.words import Words, encode_words, pack_words, windows_of, words_of
from xmodels.training.finetuning import OtherExamples

UNLABELLED = "unlabelled"  # the name of the stream, in logs


class Reader(read.Reader):
    """Steps on tagged sentences and on texts without tags alternate."""

    def __init__(self, name, options):
        super().__init__(name, options)
        if options.views and not options.unlabelled_file:
            raise UsageError(
                f"--views={options.views}: what they see is learnt from texts without tags. Add --unlabelled_file."
            )

    @property
    def views(self) -> tuple[str, ...]:
        """The names in --views, each once."""
        return tuple(dict.fromkeys((self.options.views or USUAL).split(",")))

    def prepare(self, loaded, tokenizer):
        if not hasattr(model_class(loaded.model), "views"):
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} needs a network whose parts see parts of a "
                f"text, such as new:cvt; this one is of the kind {loaded.model}. Take new:cvt, or --task=tag."
            )
        return super().prepare(loaded, tokenizer)

    def extend(self, recipe):
        if not self.options.unlabelled_file:
            return recipe
        others = OtherExamples(lambda task: CrossViews(task, self.views), Reader.unlabelled, together=CrossViewsOfTasks)
        return dataclasses.replace(recipe, streams={**recipe.streams, UNLABELLED: others})

    def texts(self) -> list:
        """Returns the texts of --unlabelled_file: strings, or lists of words.

        Raises:
            DataError: the file cannot be read, or holds no text.
        """
        path, column = self.options.unlabelled_file, self.options.text_column
        if path.endswith(".txt"):
            return [line for line in plain_lines(path) if line]
        found = [each.words for each in read_conll(path, None if column is None else int(column))]
        if not found:
            raise DataError(f"{path}: holds no text; expected a word a line, or in a .txt a text a line.")
        return found

    def unlabelled(self, tokenizer) -> ArraySource:
        """Returns the windows of the texts of --unlabelled_file as arrays."""
        path, options = self.options.unlabelled_file, self.options
        texts = [words_of(x, tokenizer) if isinstance(x, str) else Words.joined(x) for x in self.texts()]
        rows = encode_words(texts, tokenizer)
        made = windows_of(rows, options.doc_stride, options.max_seq_length, self.reading.frame)
        arrays = pack_words(
            [each for parts in made for each in parts], tokenizer, options.max_seq_length, self.reading.frame
        )
        arrays.pop("word_ids")
        if not arrays["label_weights"].any():
            raise DataError(f"{path}: holds no word that the tokenizer knows.")
        return ArraySource(arrays, path)

    def survey(self):
        found = super().survey()
        if not self.options.unlabelled_file:
            return found
        return dataclasses.replace(found, summary=f"{found.summary}, {len(self.texts()):,} texts without tags")
