"""Numbers of sets of vectors."""

from xmodels.tasks.classify_sets.answer import SetPredictor


class Predictor(SetPredictor):
    """Gives sets numbers."""

    answers = "numbers"

    def predictions(self, inputs, features, outputs):
        return outputs["scores"].tolist()

    def line(self, asked, prediction):
        return f"{prediction:.4f}\t{len(asked)} vectors"

    def header(self):
        return ["score"]

    def row(self, asked, prediction):
        return [f"{prediction:.6f}"]
