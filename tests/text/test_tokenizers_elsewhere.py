"""transformers' own tokenizers cut all golden strings as ours do, from the folders that we write, but for what is named here."""

import json
import pathlib

import pytest

from tests.helpers.samples import SHARED
from xmodels import systems
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tokenizers"
SMALL = SHARED / "oracles/tokenizer_files/small"
IN_BRACKETS = (
    "<s>",
    "<|endoftext|>",
    "[MASK]",
    "<mask>",
    "<extra_id_0>",
)  # theirs reads special tokens in texts, ours never does
PIECES = {"tokenizer": "sentencepiece", "clean": True, "keep_accents": False, "part_digits": True}
FILES = {  # what is cut -> name of the file there, the file, settings
    "uncased": ("vocab.txt", GOLDEN / "wordpiece_uncased_vocab.txt", {"tokenizer": "wordpiece", "do_lower_case": True}),
    "cased": ("vocab.txt", GOLDEN / "wordpiece_cased_vocab.txt", {"tokenizer": "wordpiece", "do_lower_case": False}),
    "albert": ("spiece.model", SMALL / "unigram_albert.model", {**PIECES, "do_lower_case": True}),
    "xlnet": ("spiece.model", SMALL / "unigram_xlnet.model", {**PIECES, "do_lower_case": False}),
}
# As docs/guarantees.md says. Ours are the ids of the code of the authors and of the slow tokenizers (`test_tokenizers.py`).
LONG_WORD, HANGUL, VERTICAL_TAB = "a" * 101, {"한국어", "한국어 텍스트"}, "v\x0bt f\x0cf"
OTHERWISE = {"wordpiece": {LONG_WORD}, "sentencepiece": {*HANGUL, VERTICAL_TAB}}


def strings():
    lines = (GOLDEN / "bert_fast_uncased.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    return [text for text in texts if not any(each in text for each in IN_BRACKETS)]


def tokenizer_of(kind):
    name, path, settings = FILES[kind]
    return TokenizerFiles({name: path.read_bytes()}, settings)


def written(system, kind, target):
    """A folder of others, of a network with random weights; returns our tokenizer."""
    module, tokenizer = systems.load(system), tokenizer_of(kind)
    ours = tokenizer.open()
    config = systems.configuration(module, ours.vocabulary, "tiny")
    values = folder.values_of("backbone", module.MODEL(config).initialize())
    convert.save(Checkpoint(systems.model_of(module), config, values, tokenizer, system=system), target)
    return ours


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("system, kind", [
    ("bert", "uncased"), ("bert", "cased"), ("ernie", "uncased"), ("unilm", "uncased"), ("spanbert", "cased"),
    pytest.param("albert", "albert", marks=pytest.mark.shared_data),
    pytest.param("xlnet", "xlnet", marks=pytest.mark.shared_data),
])  # fmt: skip
def test_transformers_cuts_all_strings_alike(system, kind, tmp_path):
    import transformers

    ours = written(system, kind, f"hf:{tmp_path}/theirs")
    theirs = transformers.AutoTokenizer.from_pretrained(f"{tmp_path}/theirs")
    cut = {
        text: (theirs(text, add_special_tokens=False)["input_ids"], list(ours.encode(text).ids)) for text in strings()
    }
    assert len(cut) > 120
    assert {text for text, (there, here) in cut.items() if there != here} == OTHERWISE[FILES[kind][2]["tokenizer"]]
