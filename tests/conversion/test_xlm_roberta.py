"""XLM-R: its SentencePiece model gets the ids of the network, and goes back as it was."""

import dataclasses
import io
import json
import pathlib

import keras
import numpy as np
import pytest
import sentencepiece

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.text.fairseq_pieces import from_fairseq, to_fairseq
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import values_of
from xmodels.models.xlm_roberta import XlmRoberta, XlmRobertaConfig
from xmodels.objectives.masked_lm import MaskedLM

CORPUS = pathlib.Path(__file__).parents[2] / "samples/zh/corpus.txt"
TEXTS = ("hello world", "今天天气很好。 the fox!", "Ünïcode ½ test", "  two  blanks", "☃ x", "")


@pytest.fixture(scope="module")
def model():
    """A model as the authors' code trains it."""
    texts = [*CORPUS.read_text("utf-8").splitlines()[:200], *["the quick brown fox says hello to the world"] * 20]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=written, vocab_size=900, model_type="unigram", character_coverage=0.98,
        hard_vocab_limit=False, unk_id=0, bos_id=1, eos_id=2, minloglevel=2,
    )  # fmt: skip
    return written.getvalue()


def test_ids_are_those_of_fairseq_and_the_model_comes_back(model):
    old = sentencepiece.SentencePieceProcessor(model_proto=model)
    new = sentencepiece.SentencePieceProcessor(model_proto=to_fairseq(model, "a"))
    assert [new.IdToPiece(i) for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert new.IdToPiece(len(new) - 1) == "<mask>" and len(new) == len(old) + 2
    assert (new.bos_id(), new.pad_id(), new.eos_id(), new.unk_id()) == (0, 1, 2, 3)
    for text in TEXTS:
        ids = old.encode(text)
        assert new.encode(text) == [3 if i == 0 else i + 1 for i in ids] and new.decode(new.encode(text)) == old.decode(
            ids
        )
    back = from_fairseq(to_fairseq(model, "a"), "a")
    again = sentencepiece.SentencePieceProcessor(model_proto=back)
    assert [again.IdToPiece(i) for i in range(len(again))] == [old.IdToPiece(i) for i in range(len(old))]
    assert from_fairseq(model, "a") is None


def test_models_in_another_order_are_refused(model):
    with pytest.raises(DataError, match="a: expected <unk>, <s>, </s> as its first pieces. Found: <s>, <pad>, </s>"):
        to_fairseq(to_fairseq(model, "a"), "a")
    with pytest.raises(DataError, match="a: not a SentencePiece model"):
        to_fairseq(b"no model at all", "a")


@pytest.fixture
def checkpoint(model):
    """A small network with this vocabulary."""
    tokenizer = TokenizerFiles({"spiece.model": to_fairseq(model, "a")}, {"tokenizer": "sentencepiece"}, "a")
    size = len(tokenizer.open().vocabulary)
    config = XlmRobertaConfig(size, 16, 2, 2, 24, max_sequence_length=40, initializer_stddev=0.3)
    keras.utils.set_random_seed(0)
    backbone, objective = XlmRoberta(config).initialize(), MaskedLM(config)
    states = backbone(backbone.tiny_batch())["sequence_output"]
    objective.head(states, np.zeros((1, 1), "int32"), token_embedding=backbone.embedding.token)
    values = values_of("backbone", backbone) | values_of(objective.prefix, objective)
    return Checkpoint("xlm_roberta", config, values, tokenizer, frozenset({"masked_lm"}))


def test_a_folder_of_hugging_face_brings_back_network_and_vocabulary(checkpoint, model, tmp_path):
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (stored["model_type"], stored["architectures"]) == ("xlm-roberta", ["XLMRobertaForMaskedLM"])
    written = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs/sentencepiece.bpe.model"))
    assert [written.IdToPiece(i) for i in range(3)] == ["<unk>", "<s>", "</s>"]
    (tmp_path / "theirs/tokenizer_config.json").write_text(
        '{"tokenizer_class": "XLMRobertaTokenizer"}'
    )  # as others have it
    again = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert again.config == checkpoint.config and again.heads == checkpoint.heads
    assert all((again.values[name] == value).all() for name, value in checkpoint.values.items())
    ours, theirs = (each.tokenizer.open() for each in (checkpoint, again))
    assert all(ours.encode(text).ids == theirs.encode(text).ids for text in TEXTS)


def test_a_vocabulary_that_transformers_would_read_otherwise_is_not_written(checkpoint, model, tmp_path):
    other = to_fairseq(model, "a").replace(b"<mask>", b"<musk>")
    files = TokenizerFiles({"spiece.model": other}, {"tokenizer": "sentencepiece"}, "folder")
    with pytest.raises(CheckpointError, match="folder: its SentencePiece model is not numbered as those of XLMRoberta"):
        convert.save(dataclasses.replace(checkpoint, tokenizer=files), f"hf:{tmp_path / 'theirs'}")


@pytest.mark.extra("torch", "transformers")
def test_transformers_reads_the_same_ids_and_computes_the_same(checkpoint, tmp_path):
    import torch
    import transformers

    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "theirs"))
    ours = checkpoint.tokenizer.open()
    for text in TEXTS:
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text).ids
    assert theirs.encode("a", "b")[:1] == [0] and theirs.encode("a", "b").count(2) == 3
    network = transformers.AutoModelForMaskedLM.from_pretrained(str(tmp_path / "theirs")).eval()
    batch = convert.example_batch(checkpoint.config)
    batch["token_ids"] = np.where(batch["padding_mask"], np.maximum(batch["token_ids"], 4), 1).astype("int32")
    ids, mask = (torch.from_numpy(batch[name].astype("int64")) for name in ("token_ids", "padding_mask"))
    with torch.no_grad():
        expected = network(input_ids=ids, attention_mask=mask).logits.numpy()
    original = convert.example_batch
    try:
        convert.example_batch = lambda config: batch
        found = convert.outputs(checkpoint)["masked_lm_logits"]
    finally:
        convert.example_batch = original
    np.testing.assert_allclose(found[batch["padding_mask"]], expected[batch["padding_mask"]], atol=1e-5)
