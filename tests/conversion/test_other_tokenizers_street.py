"""From raw text to a SavedModel of raw strings with vocabularies that are no word pieces, by the same commands."""

import json

import pytest
import tensorflow as tf

from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from tests.helpers.samples import ROOT
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import read_ours
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.runs.fine_tuned import load_predictor

SAMPLES = ROOT / "samples/zh"
CORPUS = {"input_file": SAMPLES / "corpus.txt", "language": "zh"}
TEXTS = ["这家餐厅的菜很好吃。", "They walked 9,000 steps!"]


def small_network(vocabulary, path):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    values = {"vocab_size": len(open_tokenizer(str(vocabulary)).vocabulary), "max_position_embeddings": 64}
    path.write_text(json.dumps({**sizes, **values, "type_vocab_size": 2, "hidden_act": "gelu"}))
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "size", "serving_ops"),
    [("byte_bpe", 600, "core"), ("sentencepiece", 1400, "text")],
)
def test_from_text_to_a_served_model(kind, size, serving_ops, tmp_path, capsys):
    voc, records, run, tuned = (tmp_path / name for name in ("voc", "records", "run", "tuned"))
    assert invoke("train_vocabulary", **CORPUS, tokenizer=kind, vocab_size=size, output_file=voc) == 0
    made = {"vocab_file": voc, "output_dir": records, "segmenter": "jieba", "max_seq_length": 32}
    assert invoke("create_pretraining_data", "--do_whole_word_mask", **CORPUS, **made) == 0
    assert "words of more than one token" in capsys.readouterr().out
    config = small_network(voc, tmp_path / "config.json")
    steps = {"num_train_steps": 2, "train_batch_size": 8, "num_warmup_steps": 1, "eval_steps": 1}
    assert invoke("pretrain", system="bert_wwm", data_dir=records, model_dir=run, bert_config_file=config, **steps) == 0
    labelled = {"train_file": SAMPLES / "train.tsv", "max_seq_length": 32, "num_train_epochs": 0.5}
    assert invoke("finetune", init_checkpoint=run, model_dir=tuned, **labelled) == 0
    assert invoke("predict", model_dir=tuned, text=TEXTS[0]) == 0
    assert "label: " in capsys.readouterr().out

    assert invoke("export_model", model_dir=tuned, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["probabilities"].numpy()
    expected = [list(p.probabilities.values()) for p in load_predictor(str(tuned)).predict([(t,) for t in TEXTS])]
    assert abs(found - expected).max() < 1e-5

    assert invoke("convert_checkpoint", "--verify", f"--from={tuned}", f"--to=hf:{tmp_path / 'hf'}") == 0
    assert "no vocabulary" not in capsys.readouterr().out
    held = convert.load(f"hf:{tmp_path / 'hf'}").tokenizer.open()
    assert held.describe() == open_tokenizer(str(voc)).describe()


@pytest.mark.long
def test_what_cannot_be_served_is_said_in_one_line(tmp_path, capsys):
    voc = tmp_path / "voc"
    assert invoke("train_vocabulary", **CORPUS, tokenizer="sentencepiece", vocab_size=1400, output_file=voc) == 0
    tuned = tuned_from_nothing(voc, tmp_path)
    capsys.readouterr()
    assert invoke("export_model", model_dir=tuned, export_dir=tmp_path / "served", serving_ops="core") == 2
    said = capsys.readouterr().err.strip()
    assert "serving_ops=text" in said.replace(" ", "") and len(said.splitlines()) == 1


def tuned_from_nothing(voc, tmp_path):
    """A classifier from random weights with the vocabulary `voc`."""
    held = read_ours(str(voc))
    size = len(held.open().vocabulary)
    config = BertConfig(
        vocabulary_size=size, hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32, max_sequence_length=64
    )
    (tmp_path / "model").mkdir()
    write_model(str(tmp_path / "model"), Bert(config).initialize(), None, held.files, held.settings)
    labelled = {"train_file": SAMPLES / "train.tsv", "max_seq_length": 32, "num_train_epochs": 0.1}
    assert (
        invoke("finetune", "--random_init", init_checkpoint=tmp_path / "model", model_dir=tmp_path / "t", **labelled)
        == 0
    )
    return tmp_path / "t"
