"""Small networks of random weights under the names that pages use, in the working folder."""

import dataclasses
import pathlib
import shutil
import string

import keras
import numpy as np

from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.small_served import small_run
from xmodels.conversion import convert, sentence_transformers
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.objectives.masked_lm import MaskedLM

LETTERS = string.ascii_lowercase + string.digits
OTHERS = [*string.punctuation, *"怎么重置密码忘记办好坏天气很今饭菜吃。，？"]
PIECES = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *OTHERS]
TOKENIZER = WordPieceTokenizer(Vocabulary(PIECES, "a test"))
BYTES = ByteBpeTokenizer.read(str(pathlib.Path(__file__).parents[1] / "golden/tokenizers/byte_bpe_vocab.json"))
RANDOM = {"dropout": 0.0, "initializer_stddev": 0.1}


def write(path, backbone, tokenizer, system, objective=None):
    """Writes a model folder, or for `hf:FOLDER` one as Hugging Face has it."""
    folder = path.replace("hf:", "ours-")
    pathlib.Path(folder).mkdir()
    write_model(folder, backbone.initialize(), objective, tokenizer.files(), tokenizer.describe(), system)
    if path.startswith("hf:"):
        convert.save(convert.load(folder), path)


def bert(path, num_layers=2, system="bert", fills_masks=False):
    keras.utils.set_random_seed(1)
    config = BertConfig(len(PIECES), 16, num_layers, 2, 32, max_sequence_length=512, **RANDOM)
    backbone = Bert(config).initialize()
    write(path, backbone, TOKENIZER, system, masked_lm(backbone) if fills_masks else None)


def roberta(path):
    keras.utils.set_random_seed(1)
    config = RobertaConfig(len(BYTES.vocabulary), 16, 2, 2, 32, max_sequence_length=512, **RANDOM)
    backbone = Roberta(config).initialize()
    write(path, backbone, BYTES, "roberta", masked_lm(backbone))


def masked_lm(backbone):
    """The objective with a head that has its weights."""
    objective = MaskedLM(backbone.config)
    objective.logits(backbone(backbone.tiny_batch()), {"mask_positions": np.zeros((1, 1), int)}, backbone)
    return objective


def gpt2(path):
    keras.utils.set_random_seed(1)
    write(path, Gpt2(Gpt2Config(len(BYTES.vocabulary), 16, 2, 2, 32, **RANDOM)), BYTES, "gpt2")


def transformer_xl(path):
    keras.utils.set_random_seed(1)
    config = TransformerXLConfig(len(BYTES.vocabulary), 16, 2, 2, 32, memory_length=16, **RANDOM)
    write(path, TransformerXL(config), BYTES, "transformer_xl", AdaptiveLM(config))


def cross_encoder(path):
    """A folder as Hugging Face has it, of a network with one output for a pair of texts."""
    bert("plain-cross-encoder")
    plain, task = convert.load("plain-cross-encoder"), "objective.regress.head"
    head = {f"{task}.kernel": np.ones((16, 1), "float32"), f"{task}.bias": np.zeros(1, "float32")}
    convert.save(dataclasses.replace(plain, values=plain.values | head, heads=frozenset({"regress"})), path)


def sentence_encoder(path):
    """A folder as sentence-transformers has it."""
    bert("plain-encoder")
    made = sentence_transformers.SentenceEncoder(convert.load("plain-encoder"), "mean", 32, None, True)
    pathlib.Path(path).mkdir()
    sentence_transformers.write(path, made)


def classifier(path):
    """A run of `--task=classify`."""
    folder = pathlib.Path(f"made-{path}")
    folder.mkdir()
    shutil.move(small_run("classify", folder), path)


def command(verb, *arguments, **flags):
    assert invoke(verb, *arguments, **flags) == 0, f"{verb} {arguments} {flags}"
