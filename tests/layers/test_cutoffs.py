"""Clusters of an adaptive softmax: where the system puts them, what a config file may say, and vocabularies out of order."""

import itertools
import json
import types

import numpy as np
import pytest

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.records.source import RecordSource
from data_pipelines.text.train_kinds import train_tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from xmodels import systems
from xmodels.doctor.network import num_parameters
from xmodels.jobs.pretrain.network import make_config, warn_of_order
from xmodels.layers.adaptive import cutoffs_of
from xmodels.models.transformer_xl import SIZES, TransformerXL, TransformerXLConfig
from xmodels.training.recipe import Records

PLAIN = {
    "vocabulary_size": 60, "hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "cutoffs": [12, 30],
    "clamp_length": 40, "same_length": True,
}  # fmt: skip


def test_words_of_wikitext_get_the_clusters_of_the_paper_and_others_in_proportion():
    assert cutoffs_of(267_735) == cutoffs_of(267_740) == (20_000, 40_000, 200_000)
    assert cutoffs_of(33_278) == (2_000, 5_000, 25_000) and cutoffs_of(19_999) == ()
    for size in range(20_000, 1_000_000, 12_345):
        assert all(a < b for a, b in itertools.pairwise((0, *cutoffs_of(size), size)))


def test_the_system_chooses_them_by_the_vocabulary():
    system, records = systems.load("transformer_xl"), Records(32, 0)
    vocabulary = [""] * 20_000
    recipe = system.recipe(vocabulary, records, "tiny")
    assert recipe.backbone().config.cutoffs == cutoffs_of(20_000)
    assert system.recipe(vocabulary[:100], records, "tiny").backbone().config.cutoffs == ()


@pytest.mark.parametrize("division", [1, 2])
def test_the_doctor_counts_weights_of_clusters_as_they_are(division):
    config = TransformerXLConfig(60, 16, 3, 2, 32, cutoffs=(12, 30), embedding_division=division, embedding_dim=16)
    assert config.table_weights == sum(
        w.size for w in map(np.array, TransformerXL(config).initialize().embedding.weights)
    )
    heads = 16 * (16 + 5) + 60
    assert num_parameters(TransformerXL, config) == TransformerXL(config).initialize().count_params() + heads


def test_a_config_file_reaches_what_evaluation_needs_and_is_checked(tmp_path):
    path = tmp_path / "xl.json"
    options = types.SimpleNamespace(
        model_config_file=str(path), size="tiny", system="transformer_xl", set=None, mixer=None, recipe="published"
    )
    system = systems.load("transformer_xl")
    for values in (PLAIN, {"model": "transformer_xl", "config": PLAIN}):
        path.write_text(json.dumps(values))
        config = make_config(options, system, range(60))
        assert (config.cutoffs, config.clamp_length, config.same_length) == ((12, 30), 40, True)
    for change, said in (
        ({"cutoffs": [30, 12]}, "`cutoffs` must rise, and end below the vocabulary of 60. Found: .30, 12."),
        ({"cutoffs": [60]}, "must rise, and end below"),
        ({"tied_projections": "no"}, "a T or an F for each cluster. Found: 'no'"),
        ({"hidden_dim": 15, "num_heads": 3}, "`hidden_dim` must be even. Found: 15"),
        ({"memory": 3}, "Unknown keys: memory"),
    ):
        path.write_text(json.dumps(PLAIN | change))
        with pytest.raises(CheckpointError, match=said):
            make_config(options, system, range(60))


@pytest.fixture(scope="module")
def zipf(tmp_path_factory):
    """A text of 300 words, the n-th of which is 1 / n as frequent as the first."""
    folder = tmp_path_factory.mktemp("zipf")
    weights = 1 / np.arange(1, 301)
    words = np.random.default_rng(0).choice([f"w{i}" for i in range(300)], size=(400, 20), p=weights / weights.sum())
    (folder / "text.txt").write_text("\n\n".join(" ".join(line) for line in words))
    return folder


def records_of(folder, tokens, name):
    (folder / f"{name}.txt").write_text("".join(f"{token}\n" for token in tokens))
    settings = Settings(
        input_file=str(folder / "text.txt"),
        vocab_file=str(folder / f"{name}.txt"),
        packing="stream",
        max_seq_length=32,
        tokenizer="words",
    )
    create(settings, str(folder / name))
    return RecordSource(str(folder / name))


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_vocabularies_of_words_and_characters_stand_in_the_order_of_frequency(zipf, kind):
    tokens = train_tokenizer(kind, open_corpus(str(zipf / "text.txt"), "en"), 1000).vocabulary.tokens
    text = (zipf / "text.txt").read_text()
    units = text.split() if kind == "words" else list(text)
    counts = [units.count(token) for token in tokens if token not in (*SPECIAL_TOKENS, "▁")]
    assert counts == sorted(counts, reverse=True) and len(counts) > 5


def test_a_vocabulary_out_of_order_is_said(zipf, capsys):
    trained = train_tokenizer("words", open_corpus(str(zipf / "text.txt"), "en"), 1000).vocabulary.tokens
    config = TransformerXLConfig(len(trained), 16, 1, 2, 32, cutoffs=(40, 100))
    warn_of_order(config, records_of(zipf, trained, "sorted"))
    assert not capsys.readouterr().err
    backwards = records_of(zipf, [*SPECIAL_TOKENS, *trained[:4:-1]], "backwards")
    warn_of_order(config, backwards)
    said = capsys.readouterr()
    assert (
        "not sorted by frequency" in said.out + said.err and "cutoffs [] in --model_config_file" in said.out + said.err
    )
    warn_of_order(TransformerXLConfig(len(trained), 16, 1, 2, 32), backwards)
    assert not "".join(capsys.readouterr())


def test_words_parted_by_blanks_keep_their_signs_and_marks_of_the_unknown(tmp_path):
    (tmp_path / "wiki.txt").write_text("The <unk> rose by 1 @,@ 000 .\nThe <unk> fell by 1 @,@ 000 .\n")
    corpus = open_corpus(str(tmp_path / "wiki.txt"), "en")
    tokenizer = train_tokenizer("words", corpus, 100, do_lower_case=False, segmenter="presegmented")
    ids = tokenizer.encode("The <unk> fell by 1 @,@ 000 dollars .").ids
    assert [tokenizer.vocabulary.tokens[i] for i in ids] == "The [UNK] [UNK] by 1 @,@ 000 [UNK] .".split()
    assert tokenizer.describe()["segmenter"] == "presegmented"
    with pytest.raises(
        UsageError,
        match="--segmenter=presegmented: parts the words of --tokenizer=words and --tokenizer=word_characters",
    ):
        train_tokenizer("characters", corpus, 100, segmenter="presegmented")


@pytest.mark.parametrize("size", SIZES)
def test_the_config_of_every_size_is_read_back(size):
    config = TransformerXLConfig(100, **SIZES[size])
    assert TransformerXLConfig.from_json(config.to_json()) == config
