"""The tokenizer of a network that reads no text, so that runs and model folders say so in the place of a vocabulary."""

from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary


class NoTokenizer(Tokenizer):
    """Has no tokens, writes no files, and cuts no text."""

    kind = "none"
    do_lower_case = None

    def __init__(self):
        self.vocabulary = Vocabulary([], "no vocabulary", required=())

    def encode_batch(self, texts):
        raise TypeError("This network reads no text.")

    def decode(self, ids):
        raise TypeError("This network writes no text.")

    def files(self):
        return {}

    def describe(self):
        return {"tokenizer": self.kind}
