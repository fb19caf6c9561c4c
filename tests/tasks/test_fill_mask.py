"""`predict` fills the masks of texts with a pretrained masked language model."""

import json
import pathlib

import keras
import numpy as np
import pytest

import xmodels
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.plain_units import SPACE, CharacterTokenizer
from data_pipelines.text.vocabulary import MASK, SPECIAL_TOKENS, Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER, network
from tests.helpers.small_systems import small_recipe
from xmodels import systems
from xmodels.jobs.predict.fill_mask import load
from xmodels.models import folder
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.tasks.base.answer import Question
from xmodels.tasks.base.fill_mask import prefix_of

BYTES = ByteBpeTokenizer.read(str(pathlib.Path(__file__).parents[1] / "golden/tokenizers/byte_bpe_vocab.json"))
SYSTEMS = ("bert", "roberta", "spanbert", "albert", "ernie", "ernie2", "unilm")
TEXTS = [("ann lives in [MASK] .",), ("[MASK] and bob does [MASK] in rome",), ("北 [MASK]",)]


def pretrained(path, name, tokenizer=TOKENIZER):
    """The model folder of a small network of random weights with the head of its system."""
    keras.utils.set_random_seed(1)
    recipe = small_recipe(name, tokenizer.vocabulary, 2)
    backbone, objective = recipe.backbone().initialize(), recipe.objective()
    masked = next(part for part in objective.parts if isinstance(part, MaskedLM))
    states = {"sequence_output": np.zeros((1, 4, backbone.config.hidden_dim), np.float32)}
    masked.logits(states, {"mask_positions": np.array([[0]])}, backbone)  # builds the head
    path.mkdir()
    folder.write_model(str(path), backbone, together(masked), tokenizer.files(), tokenizer.describe(), name)
    return str(path)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SYSTEMS)
def test_candidates_are_the_likeliest_tokens_of_the_pretraining_head(tmp_path, name):
    predictor = load(pretrained(tmp_path / "model", name))
    found = predictor.predict(TEXTS, batch_size=2)
    assert [len(each.masks) for each in found] == [1, 2, 1]
    vocabulary, frame = TOKENIZER.vocabulary, systems.load(name).READING.frame
    (text,) = TEXTS[1]
    pieces = [
        vocabulary[MASK],
        *TOKENIZER.encode("and bob does").ids,
        vocabulary[MASK],
        *TOKENIZER.encode("in rome").ids,
    ]
    ids = [i for part in frame.of_texts(1) for i in (pieces if part.text == 0 else [vocabulary[part.role]])]
    row = {
        "token_ids": np.array([ids]), "segment_ids": np.zeros((1, len(ids)), int), "padding_mask": np.ones((1, len(ids)), bool),
        "mask_positions": np.flatnonzero(np.array(ids) == vocabulary[MASK])[None],
    }  # fmt: skip
    logits = predictor.task.logits(predictor.backbone(row), row, predictor.backbone)
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    for candidates, shares in zip(found[1].masks, expected, strict=True):
        order = np.argsort(-shares)[: len(candidates)]
        assert [each.token for each in candidates] == [vocabulary.tokens[i] for i in order]
        np.testing.assert_allclose([each.probability for each in candidates], shares[order], rtol=1e-4)
    first, second = (candidates[0].token for candidates in found[1].masks)
    assert found[1].filled.replace(" ", "") == text.replace(MASK, "{}").format(first, second).replace(" ", "").replace(
        "##", ""
    )


def test_files_keep_their_blank_lines_and_bad_texts_are_named(tmp_path, capsys):
    model, lines = pretrained(tmp_path / "model", "bert"), tmp_path / "texts.txt"
    lines.write_text("who lives in [MASK] ?\n\n<mask> lives in oslo .\n")
    assert invoke("predict", model_dir=model, input_file=lines, output_file=tmp_path / "filled.jsonl") == 0
    first, blank, last = map(json.loads, (tmp_path / "filled.jsonl").read_text().splitlines())
    assert blank is None and first["text"] == "who lives in [MASK] ?" and len(last["masks"]) == 1
    assert first["filled"].startswith("who lives in ") and MASK not in first["filled"]
    assert [set(each) for each in first["masks"][0]] == [{"token", "probability"}] * 5
    predictor = load(model)
    with pytest.raises(DataError, match=r"The text 'ann lives' has no mask. Write \[MASK\] where"):
        predictor.predict([("ann lives",)])
    with pytest.raises(DataError, match="has a mask behind the 62 tokens that the network reads"):
        predictor.predict([("ann " * 62 + MASK,)])
    with pytest.raises(UsageError, match="--speed: a masked language model"):
        predictor.adjust(exit_mode=None, speed=0.5)
    with pytest.raises(DataError, match="expected a tuple of one text"):
        predictor.predict([(f"ann {MASK}", "bob")])
    (tmp_path / "table.tsv").write_text(f"sentence1\tsentence2\nann {MASK}\tbob\n")
    assert list(predictor.inputs(Question(input_file=str(tmp_path / "table.tsv")))) == [(f"ann {MASK}",)]
    for name, text in (("unmasked.txt", f"ann {MASK}\n\nbob\n"), ("unmasked.tsv", f"text\n{MASK}\nbob\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=f"{name}, line 3: The text 'bob' has no mask"):
            list(predictor.inputs(Question(input_file=str(tmp_path / name))))
    with pytest.raises(UsageError, match="--text_pair: only single texts are filled"):
        predictor.inputs(Question(text="ann [MASK]", text_pair="bob"))
    capsys.readouterr()
    assert invoke("predict", model_dir=model, text=f"ann {MASK}") == 0
    assert "\nmask 1:\n  0." in capsys.readouterr().out


def test_byte_bpe_reads_a_mask_without_the_blank_before_it(tmp_path):
    predictor = load(pretrained(tmp_path / "model", "roberta", BYTES))
    ((*first, _),) = predictor.features([("An apple <mask>",)])["token_ids"].tolist()
    place = first.index(predictor.mask_id)
    assert first[1:place] == BYTES.encode("An apple").ids
    (found,) = predictor.predict([("An apple <mask> red",)])
    assert found.filled == f"An apple{found.masks[0][0].token} red"


def test_characters_keep_the_blanks_around_a_mask(tmp_path):
    tokenizer = CharacterTokenizer(Vocabulary([*SPECIAL_TOKENS, SPACE, *"itrans"]))
    predictor = load(pretrained(tmp_path / "model", "bert", tokenizer))
    for text, expected in (
        ("it [MASK]ains", "it▁[ains"),
        ("it rain[MASK] in", "it▁rain[▁in"),
        ("[MASK] [MASK] it", "[▁[▁it"),
    ):
        (row,) = predictor.features([(text,)])["token_ids"]
        assert (
            "".join(tokenizer.vocabulary.tokens[i][0] for i in row[1:] if i > 3 or i == predictor.mask_id) == expected
        )


def test_a_network_with_a_task_answers_that_and_a_causal_one_fills_nothing(tmp_path, capsys):
    head = [f"objective.masked_lm.head.{end}" for end in ("bias", "dense.kernel", "norm.gamma")]
    assert prefix_of(head) == "objective.masked_lm"
    assert prefix_of(["backbone.x", *head[:2]]) is prefix_of([*head, "objective.classify.head.bias"]) is None
    network("gpt", tmp_path)
    assert load(str(tmp_path)) is None
    assert invoke("predict", model_dir=tmp_path, text=MASK) == 4
    assert "learnt no task" in capsys.readouterr().err
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    assert invoke("predict", model_dir=tmp_path / "run", text=MASK) == 4
    assert "this run is not finished" in capsys.readouterr().err


def test_python_and_the_folder_of_hugging_face_fill_alike(tmp_path):
    model = pretrained(tmp_path / "model", "bert")
    assert invoke("convert_checkpoint", **{"from": model, "to": f"hf:{tmp_path / 'hf'}"}) == 0
    (text,) = TEXTS[0]
    (found,) = xmodels.load(model).predict([text])
    (again,) = xmodels.load(f"hf:{tmp_path / 'hf'}").predict([text])
    assert found.filled == again.filled
    both = ([c.probability for c in each.masks[0]] for each in (found, again))
    np.testing.assert_allclose(*both, rtol=1e-5)
