"""Strings in, numbers out. The vocabulary and the tokenizer are part of the graph."""

from xmodels.tasks.base.signatures import Column
from xmodels.tasks.classify import serve


class Server(serve.TextServer):
    """A number of each text or pair."""

    title, model = "# A regression of texts exported by xmodels", "regression"
    answers = "that gives numbers to texts"
    numbers = ("scores",)

    def answer(self, text, text_pair=None):
        """Returns score float32 (B,) of one or two strings (B,)."""
        return self.write(self.outputs(self.tokens(text, text_pair)))

    def write(self, numbers, *texts):
        return {"score": numbers["scores"]}

    def from_served(self, found, inputs):
        return {"scores": found["score"]}

    def columns(self):
        return [Column("score", "B")]

    def expected(self, row, prediction, found):
        return {"score": prediction}
