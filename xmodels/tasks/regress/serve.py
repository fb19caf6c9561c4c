"""Strings in, numbers out. The vocabulary and the tokenizer are part of the graph."""

from xmodels.tasks.base.signatures import Column
from xmodels.tasks.classify import serve


class Server(serve.TextServer):
    """A number of each text or pair."""

    title, model = "# A regression of texts exported by xmodels", "regression"
    answers = "that gives numbers to texts"

    def answer(self, text, text_pair=None):
        """Returns score float32 (B,) of one or two strings (B,)."""
        return {"score": self.outputs(self.tokens(text, text_pair))["scores"]}

    def columns(self):
        return [Column("score", "B")]

    def expected(self, row, prediction, found):
        return {"score": prediction}
