"""Numbers of texts, or of pairs."""

from xmodels.tasks.base.forms import NumberForms
from xmodels.tasks.classify.answer import TextPredictor


class Predictor(NumberForms, TextPredictor):
    """Gives numbers, plain floats, to tuples of `num_texts` strings."""

    def predictions(self, inputs, features, outputs):
        return outputs["scores"].tolist()

    def pair_scores(self, query, texts, label=None):
        self.refuse_label(label)
        return self.predict([(query, text) for text in texts])
