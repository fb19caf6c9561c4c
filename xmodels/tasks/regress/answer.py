"""Numbers of texts, or of pairs."""

from xmodels.tasks.classify import answer


class Predictor(answer.Predictor):
    """Gives numbers, plain floats, to tuples of `num_texts` strings."""

    answers = "numbers"

    def predictions(self, inputs, features, outputs):
        return outputs["scores"].tolist()

    def pair_scores(self, query, texts, label=None):
        self.refuse_label(label)
        return self.predict([(query, text) for text in texts])

    def describe_prediction(self, asked, prediction):
        yield f"score: {prediction:.4f}"

    def line(self, asked, prediction):
        return f"{prediction:.4f}\t{' | '.join(asked)}"

    def header(self):
        return ["score"]

    def row(self, asked, prediction):
        return [f"{prediction:.6f}"]

    def record(self, asked, prediction):
        return {"texts": list(asked), "score": prediction}
