"""Records of every kind of vocabulary, and what reads them: inspection, pretraining, and the folders they leave."""

import json
import os

import numpy as np
import pytest

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import DataError
from data_pipelines.inspect.inspection import inspect_records
from data_pipelines.options.inspect_data import Options
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import open_tokenizer, read_tokenizer
from data_pipelines.text.train_kinds import train_tokenizer
from data_pipelines.text.vocabulary import EOS, MASK
from tests.helpers.samples import ROOT

SAMPLES = str(ROOT / "samples/zh/corpus.txt")
SIZES = {"byte_bpe": 420, "bpe": 1500, "sentencepiece": 1400, "characters": 1400, "words": 900}
FILES = {
    "byte_bpe": {"vocab.json", "merges.txt"},
    "bpe": {"vocab.json", "merges.txt"},
    "sentencepiece": {"spiece.model"},
}


def write_vocabulary(tokenizer, folder):
    os.makedirs(folder)
    for name, contents in tokenizer.files().items():
        (folder / name).write_bytes(contents)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer.describe()))
    return str(folder)


@pytest.fixture(scope="module", params=SIZES)
def made(request, tmp_path_factory):
    """(tokenizer, folder of records) of one kind."""
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = train_tokenizer(request.param, open_corpus(SAMPLES, "zh"), SIZES[request.param])
    values = {"language": "zh", "do_whole_word_mask": True, "segmenter": "jieba", "max_seq_length": 48}
    values |= {"max_predictions_per_seq": 8, "num_shards": 1}
    create(
        Settings(input_file=SAMPLES, vocab_file=write_vocabulary(tokenizer, folder / "voc"), **values),
        str(folder / "records"),
    )
    return tokenizer, str(folder / "records")


@pytest.mark.one_in(3)
def test_records_name_their_tokenizer_and_hold_its_files(made):
    tokenizer, records = made
    manifest = Manifest.read(records)
    assert manifest.settings.tokenizer == tokenizer.describe()
    assert manifest.settings.vocabulary_sha256 == tokenizer.sha256
    assert manifest.settings.vocabulary_size == len(tokenizer.vocabulary)
    assert manifest.settings.do_lower_case == tokenizer.do_lower_case
    held = {name for name in os.listdir(records) if name not in ("manifest.json", manifest.shards[0].name)}
    assert held == FILES.get(tokenizer.kind, {"vocab.txt"})
    again = read_tokenizer(records, manifest.settings.tokenizer)
    assert again.sha256 == tokenizer.sha256


def test_words_of_several_pieces_are_marked_and_the_text_is_there(made):
    tokenizer, records = made
    manifest = Manifest.read(records)
    counts = manifest.statistics
    share = counts["long_words"] / counts["words"]
    assert share == 0 if tokenizer.kind == "words" else share > 0.2
    assert counts.get("misaligned_sentences", 0) <= 0.35 * counts["sentences"]


@pytest.mark.one_in(3)
def test_inspection_shows_the_pieces(made, capsys):
    tokenizer, records = made
    inspect_records(Options(data_dir=records, verify=True, num_examples=1, num_statistics=64))
    shown = capsys.readouterr().out
    assert tokenizer.vocabulary.tokens[tokenizer.vocabulary[MASK]] in shown and "tokens hidden" in shown
    assert "are hidden whole" in shown


@pytest.mark.one_in(3)
def test_the_same_settings_give_the_same_records_from_a_file_as_from_a_folder(made, tmp_path):
    tokenizer, records = made
    name = {"sentencepiece": "spiece.model", "words": None}.get(tokenizer.kind, "vocab.txt")
    name = "vocab.json" if tokenizer.kind in ("byte_bpe", "bpe") else name
    if name is None:
        assert open_tokenizer(os.path.join(records, "vocab.txt"), "words").segmenter == "none"  # only folders know
        return
    stored = Manifest.read(records).settings.to_json()
    fields = {f: stored[f] for f in Settings.__dataclass_fields__ if f in stored}
    fields |= {"vocab_file": os.path.join(records, name), "tokenizer": tokenizer.kind, "do_lower_case": None}
    create(Settings(**fields), str(tmp_path / "again"))
    assert Manifest.read(str(tmp_path / "again")).shards == Manifest.read(records).shards


def test_a_vocabulary_without_a_mask_is_refused_with_the_role_that_lacks(tmp_path):
    tokenizer = train_tokenizer("byte_bpe", open_corpus(SAMPLES, "zh"), 300)
    ids = {t: i for i, t in enumerate(t for t in tokenizer.vocabulary.tokens if t != "<mask>")}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    (tmp_path / "merges.txt").write_bytes(tokenizer.files()["merges.txt"])
    with pytest.raises(DataError, match=r"has no mask token \(\[MASK\] or <mask>\)"):
        settings = Settings(
            input_file=SAMPLES, vocab_file=str(tmp_path / "vocab.json"), language="zh", masking="static", num_shards=1
        )
        create(settings, str(tmp_path / "records"))


@pytest.mark.long
def test_bert_learns_on_byte_pairs_and_its_folder_tokenizes_alike(tmp_path):
    from xmodels.jobs.pretrain import run as pretrain
    from xmodels.runs.loaded import read_tokenizer as read_model_tokenizer

    tokenizer = train_tokenizer("byte_bpe", open_corpus(SAMPLES, "zh"), 420)
    voc = write_vocabulary(tokenizer, tmp_path / "voc")
    values = {"language": "zh", "max_seq_length": 32, "max_predictions_per_seq": 5, "num_shards": 1}
    create(Settings(input_file=SAMPLES, vocab_file=voc, **values), str(tmp_path / "records"))
    config = {
        "vocab_size": len(tokenizer.vocabulary), "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 32, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.02,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    options = pretrain.Options(
        system="bert", data_dir=str(tmp_path / "records"), model_dir=str(tmp_path / "run"), num_train_steps=2,
        train_batch_size=8, num_warmup_steps=1, model_config_file=str(tmp_path / "config.json"),
    )  # fmt: skip
    means = pretrain.pretrain(options)
    assert np.isfinite(means["masked_lm_loss"] if "masked_lm_loss" in means else list(means.values())[0])
    for folder in (tmp_path / "run", tmp_path / "run" / "backbone"):
        again = read_model_tokenizer(str(folder))
        assert again.sha256 == tokenizer.sha256 and again.kind == "byte_bpe"
    assert RecordSource(str(tmp_path / "records")).num_examples > 0


def test_a_stream_over_bytes_is_the_running_text(tmp_path):
    """Between two sentences of a document stands a blank, as in the text that is continued later."""
    text = "It rained. We stayed here.\n\nThen the sun came. So we left."
    (tmp_path / "text.txt").write_text(text.replace(". ", ".\n"))
    tokenizer = train_tokenizer("byte_bpe", open_corpus(str(tmp_path / "text.txt"), "en"), 300)
    settings = Settings(
        input_file=str(tmp_path / "text.txt"),
        vocab_file=write_vocabulary(tokenizer, tmp_path / "voc"),
        packing="stream",
        max_seq_length=512,
    )
    create(settings, str(tmp_path / "records"))
    source = RecordSource(str(tmp_path / "records"))
    ids = np.concatenate([source.parse(item[None])["token_ids"][0] for _, item in source.in_order()]).tolist()
    end = tokenizer.vocabulary[EOS]
    first = ids.index(end)
    assert [tokenizer.decode(part) for part in (ids[:first], ids[first:])] == text.split("\n\n")
