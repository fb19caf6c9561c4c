"""Small networks of random weights and their vocabulary, as model folders to fine-tune from."""

import keras

from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.xlnet import XLNet, XLNetConfig

NAMES, PLACES = ("ann", "bob", "car", "dan"), ("york", "rome", "bonn", "oslo")
WORDS = [
    *NAMES,
    *PLACES,
    "where",
    "who",
    "does",
    "live",
    "##s",
    "in",
    "?",
    ".",
    "and",
    "many",
    "words",
    "more",
    "ø",
    "北",
    "京",
    "e",
]
TOKENIZER = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS], "a test"))
# Weights of 0.02 hardly move a network this narrow, and whether it learns in 80 steps is then left to their seed.
DRAWN = {"dropout": 0.0, "initializer_stddev": 0.1}


def network(kind, path):
    """A small network of random weights, the same ones in every process, as a model folder."""
    keras.utils.set_random_seed(1)
    size = len(TOKENIZER.vocabulary)
    made = {
        "bert": lambda: Bert(BertConfig(size, 48, 2, 4, 96, max_sequence_length=32, attention_dropout=0.0, **DRAWN)),
        "roberta": lambda: Roberta(RobertaConfig(size, 48, 2, 4, 96, max_sequence_length=32, **DRAWN)),
        "xlnet": lambda: XLNet(XLNetConfig(size, 48, 2, 4, 96, attention_dropout=0.0, **DRAWN)),
        "gpt": lambda: Gpt(GptConfig(size, 48, 2, 4, 96, max_sequence_length=32, **DRAWN)),
    }[kind]()
    folder.write_model(str(path), made.initialize(), None, TOKENIZER.files(), TOKENIZER.describe(), kind)
    return path
