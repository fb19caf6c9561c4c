"""Rows of two texts with a label, as of `classify`: the hypothesis and the premise."""

from data_pipelines.errors import UsageError
from xmodels.tasks.classify import read


class Reader(read.Reader):
    """Labels of pairs, for networks that tell the texts of a pair apart by segments."""

    def prepare(self, loaded, tokenizer):
        loaded, tokenizer = super().prepare(loaded, tokenizer)
        segments = [part.segment for part in self.reading.frame.parts if part.text is not None]
        if segments[:2] != [0, 1]:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} tells the two texts of a pair apart by their "
                f"segments, which a network of the kind {loaded.model} does not have. Take one of BERT, ALBERT, ERNIE or XLNet, or "
                "--task=classify."
            )
        return loaded, tokenizer

    def check_pairs(self, path, num_texts):
        if num_texts < 2:
            raise UsageError(
                f"{path}: has one text in a row, but --task={self.name} reads one text of a pair against the other. Name the column "
                "of the second with --text_pair_column, or take --task=classify."
            )
