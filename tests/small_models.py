"""Small networks of random weights and their vocabulary, as model folders to fine-tune from."""

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


def network(kind, path):
    """A small network of random weights as a model folder."""
    size = len(TOKENIZER.vocabulary)
    made = {
        "bert": lambda: Bert(
            BertConfig(size, 48, 2, 4, 96, max_sequence_length=32, dropout=0.0, attention_dropout=0.0)
        ),
        "roberta": lambda: Roberta(RobertaConfig(size, 48, 2, 4, 96, max_sequence_length=32, dropout=0.0)),
        "xlnet": lambda: XLNet(XLNetConfig(size, 48, 2, 4, 96, dropout=0.0, attention_dropout=0.0)),
        "gpt": lambda: Gpt(GptConfig(size, 48, 2, 4, 96, max_sequence_length=32, dropout=0.0)),
    }[kind]()
    folder.write_model(str(path), made.initialize(), None, TOKENIZER.files(), TOKENIZER.describe(), kind)
    return path
