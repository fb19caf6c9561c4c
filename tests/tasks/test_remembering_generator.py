"""A Transformer-XL continues texts with the states that it carries, as if it read them anew token by token."""

import itertools
import json
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import CheckpointError
from data_pipelines.text.spelling import spell_out
from data_pipelines.text.train_kinds import train_tokenizer
from tests.helpers.invocation import invoke
from xmodels.decoding.options import Decoding
from xmodels.models.folder import write_model
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.runs.fine_tuned import load_generator as load
from xmodels.tasks.base.generation import GREEDY
from xmodels.tasks.language_model import answer as generators

TEXT = "The cat sat on the mat .\nA dog , a cat and the rat ran .\nThe mat was on the dog .\n" * 3
PROMPTS = ["the cat", "", "a dog , a cat and the rat sat on the mat , and the cat", "dog"]
SMALL = {"dropout": 0.0, "memory_length": 6, "cutoffs": (7, 12), "embedding_division": 2, "tied_projections": "FFF"}


def noisy(layer, seed=0):
    """A layer whose weights are far from their beginning; but for what would prefer some tokens whatever the text."""
    rng = np.random.default_rng(seed)
    for variable in layer.weights:
        if "bias" not in variable.name and variable.name != "beta":
            variable.assign_add(rng.normal(0, 0.5, variable.shape))
    return layer


def write_run(path, kind, **more):
    """A folder as pretraining leaves it, with weights that speak clearly."""
    (path / "text.txt").write_text(TEXT)
    tokenizer = train_tokenizer(kind, open_corpus(str(path / "text.txt"), "en"), 100, min_frequency=1)
    size = len(tokenizer.vocabulary)
    config = TransformerXLConfig(size, 16, 2, 2, 32, **SMALL | more)
    backbone, objective = noisy(TransformerXL(config).initialize(), 4), noisy(AdaptiveLM(config), 4)
    (path / "run" / "backbone").mkdir(parents=True)
    write_model(str(path / "run" / "backbone"), backbone, objective, tokenizer.files(), tokenizer.describe())
    return str(path / "run")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("remembering"), "words")


def read(generator, ids, past=None):
    """The log-probabilities behind a text that the network itself reads, token by token with the memory of its training;
    and that memory."""
    backbone = generator.backbone
    past = past or backbone.initial_memory(1)
    for token in ids:
        outputs = backbone({"token_ids": np.array([[token]]), **past})
        past = {name: outputs[name] for name in past}
    logs = np.array(generator.logits(outputs["sequence_output"]))[0, -1]
    logs[list(generator.forbidden)] = -1e9
    return logs - np.log(np.exp(logs).sum()), past


def by_hand(generator, prompt, steps):
    """Greedily, but that no two tokens follow one another twice."""
    ids, found = generator.prompt_ids(prompt), []
    logs, past = read(generator, ids)
    while len(found) < steps and generator.end_id not in found:
        logs[[after for token, after in itertools.pairwise(ids) if token == ids[-1]]] = -1e9
        found.append(int(logs.argmax()))
        ids.append(found[-1])
        logs, past = read(generator, found[-1:], past)
    return spell_out(found, generator.spelling)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "more", [{}, {"same_length": True}, {"pre_norm": True, "untied_biases": True}, {"clamp_length": 3}]
)
@pytest.mark.parametrize("pieces", [(9,), (4, 4, 1), (1,) * 9])
def test_decoding_equals_reading_token_by_token_with_a_memory(more, pieces):
    keras.utils.set_random_seed(1)  # rounding grows with the weights
    backbone = noisy(
        TransformerXL(TransformerXLConfig(20, 16, 2, 2, 32, **{**SMALL, "memory_length": 4, **more})).initialize()
    )
    token_ids = np.random.default_rng(0).integers(20, size=(2, 9)).astype("int32")
    past, expected = backbone.initial_memory(2), []
    for i in range(9):
        outputs = backbone({"token_ids": token_ids[:, i : i + 1], **past})
        past = {name: outputs[name] for name in past}
        expected.append(outputs["sequence_output"])
    states, found, place = backbone.start(2, 100), [], 0
    for size in pieces:
        made, states = backbone.decode(token_ids[:, place : place + size], states, place)
        found.append(made)
        place += size
    np.testing.assert_allclose(ops.concatenate(found, axis=1), ops.concatenate(expected, axis=1), atol=1e-4)


def test_a_text_within_the_memory_equals_one_pass_without():
    backbone = noisy(TransformerXL(TransformerXLConfig(20, 16, 2, 2, 32, **SMALL)).initialize())
    token_ids = np.random.default_rng(0).integers(20, size=(2, 7)).astype("int32")
    states, _ = backbone.decode(token_ids, backbone.start(2, 7), 0)
    np.testing.assert_allclose(states, backbone({"token_ids": token_ids})["sequence_output"], atol=2e-5)


@pytest.mark.parametrize("segments", [(4, 1), pytest.param((1,), marks=pytest.mark.long)])
def test_continuations_are_those_without_a_cache_however_prompts_are_read(run, segments, monkeypatch):
    monkeypatch.setattr(generators, "SEGMENTS", segments)
    generator = load(run)
    found = generator.generate(PROMPTS, Decoding(temperature=0.0, no_repeat_ngram_size=2), 10)
    assert found == [by_hand(generator, prompt, 10) for prompt in PROMPTS]
    assert len(generator.prompt_ids(PROMPTS[2])) > 2 * SMALL["memory_length"] and len(set(found)) > 2


@pytest.mark.long
def test_a_beam_finds_the_likeliest_text_and_draws_keep_to_their_filters(run):
    generator = load(run)
    tokens = [i for i in range(len(generator.tokenizer.vocabulary)) if i not in generator.forbidden]
    first, past = read(generator, generator.prompt_ids(PROMPTS[2]))
    # Of two tokens at most; finished texts are preferred to those that are cut, as in the search.
    end, others = generator.end_id, [i for i in tokens if i != generator.end_id]
    scores = {(end,): first[end]} | {(i, end): first[i] + read(generator, [i], past)[0][end] for i in others}
    wide = Decoding(num_beams=100, length_penalty=0.0)  # so that no candidate is cut
    best = spell_out(max(scores, key=scores.get), generator.spelling)
    assert generator.generate([PROMPTS[2]], wide, 2) == [best]
    assert generator.generate(PROMPTS, Decoding(top_k=1), 8) == generator.generate(PROMPTS, GREEDY, 8)
    assert generator.generate(PROMPTS, Decoding(top_p=1e-6), 8) == generator.generate(PROMPTS, GREEDY, 8)
    hot = Decoding(temperature=20.0, top_k=0)  # nearly even, however sure the small network is
    one, again, other = (generator.generate(["the"] * 4, hot, 8, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_beams_of_prompts_beside_each_other_are_those_of_each_alone(run):
    generator, beams = load(run), Decoding(num_beams=3, length_penalty=1.0)
    found = generator.generate(PROMPTS, beams, 5)
    assert found == [generator.generate([prompt], beams, 5)[0] for prompt in PROMPTS]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_command_spells_with_blanks(kind, tmp_path, capsys):
    path = write_run(tmp_path, kind, cutoffs=(), embedding_division=1)
    assert invoke("generate", model_dir=path, prompt="the cat", max_new_tokens=30, top_p=0.99) == 0
    more = capsys.readouterr().out.split("▸")[1].strip("\n")
    assert more and "▁" not in more and "[" not in more
    generator = load(path)
    assert spell_out(generator.prompt_ids("the cat sat, a dog"), generator.spelling) == "the cat sat, a dog"
    assert invoke("generate", model_dir=path, prompt="the cat", max_new_tokens=5, num_beams=2) == 0


@pytest.mark.long
def test_an_export_continues_texts_as_the_run_does(run, tmp_path, monkeypatch):
    from xmodels.tasks.language_model import serve

    monkeypatch.setattr(serve, "LONGEST", 24)  # it compares itself with the run, to the last token
    flags = {"model_dir": run, "export_dir": tmp_path / "export", "serving_ops": "core"}
    assert invoke("export_model", **flags) == 0
    assert "at most 24 tokens" in (tmp_path / "export/README.md").read_text()


def test_a_folder_without_its_softmax_is_refused(run, tmp_path):
    generator = load(run)
    tokenizer = generator.tokenizer
    write_model(str(tmp_path), generator.backbone, None, tokenizer.files(), tokenizer.describe())
    with pytest.raises(CheckpointError, match=r"missing \(.*objective.adaptive_lm.head.bias_0"):
        load(str(tmp_path))
    assert json.loads(pathlib.Path(tmp_path, "config.json").read_text())["model"] == "transformer_xl"
