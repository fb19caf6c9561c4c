"""Networks of OPUS-MT: a Marian in the folder of Hugging Face, with a SentencePiece model for each side and one list of pieces.

`test_encoder_decoder_transformers` compares with `transformers` itself.
"""

import io
import json

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text.kinds import open_for_records, open_tokenizer
from data_pipelines.text.spelling import spell_out, spelling
from data_pipelines.text.tokenizer_settings import PAIR
from tests.helpers.samples import ROOT
from xmodels.conversion import convert
from xmodels.conversion.tokenizer_writing import as_pair
from xmodels.conversion.vocabularies import TokenizerFiles, read_hugging_face
from xmodels.layers.positions import concatenated_sinusoid
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.marian import SIZES, Marian, MarianConfig
from xmodels.runs.loaded import load

SAMPLES = {"source.spm": "samples/zh/corpus.txt", "target.spm": "README.md"}
TEXTS = (
    "我们去爬山。", ">>eng<< 今天天气很好。", "", " two  blanks ☃ snow", "a >>eng<< b", ">>xxx<<知道", ">> a << b << c", ">>eng",
    "行\n>>eng<<",
)  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """A folder as OPUS-MT's: the pieces of both sides in one list, with a language code, padding last."""
    path, ids = tmp_path_factory.mktemp("opus"), {"</s>": 0, "<unk>": 1}
    for name, samples in SAMPLES.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter((ROOT / samples).read_text(encoding="utf-8").splitlines()),
            model_writer=model, vocab_size=1500, minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
        (path / name).write_bytes(model.getvalue())
        side = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        for piece in map(side.IdToPiece, range(3, side.GetPieceSize())):
            ids.setdefault(piece, len(ids))
    for token in (">>eng<<", "<pad>"):
        ids[token] = len(ids)
    (path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return path


def test_each_side_is_cut_by_its_model_and_numbered_by_the_list(vocabulary):
    tokenizer = open_tokenizer(str(vocabulary))
    ids, unknown = tokenizer.vocabulary.ids, 1
    for text in TEXTS:
        for name, encode in zip(PAIR, (tokenizer.encode_batch, tokenizer.encode_targets), strict=True):
            side = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary / name))
            cut = text.find("<<") + 2 if text.startswith(">>") and "<<" in text else 0
            pieces = [text[:cut]] * bool(cut) + side.encode(text[cut:], out_type=str)
            (found,) = encode([text])
            assert found.ids == [ids.get(piece, unknown) for piece in pieces], text
            assert len(found.spans) == len(found.word_start) == len(pieces)
    code = tokenizer.encode(TEXTS[1])
    assert (code.ids[0], code.spans[0], code.word_start[:2]) == (ids[">>eng<<"], (0, 7), [1, 1])
    target = "two friends walk."
    (pieces,) = tokenizer.encode_targets([target])
    assert tokenizer.decode([*pieces.ids, 0]) == target == spell_out(pieces.ids, spelling(tokenizer))


def test_the_graph_cuts_sources_alike(vocabulary):
    tokenizer = open_tokenizer(str(vocabulary))
    found = GraphTokenizer(tokenizer).tokenize(tf.constant(TEXTS)).to_list()
    assert found == [tokenizer.encode(text).ids for text in TEXTS]
    with pytest.raises(UsageError, match="needs the op of tensorflow-text"):
        GraphTokenizer(tokenizer, "core")


def test_a_folder_that_lacks_a_file_or_has_another_list_is_refused(vocabulary, tmp_path):
    def copied(name):
        (tmp_path / name).mkdir()
        for file in vocabulary.iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        return tmp_path / name

    path = copied("no_target")
    (path / "target.spm").unlink()
    with pytest.raises(DataError, match=r"target\.spm: no such file"):
        open_tokenizer(str(path))
    with pytest.raises(
        CheckpointError, match=r"target\.spm: missing. The vocabulary is vocab.json, source.spm and target"
    ):
        read_hugging_face(str(path))
    path = copied("other")
    (path / "vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3}))
    with pytest.raises(DataError, match=r"has 2 of the 1,500 pieces of .*source\.spm"):
        open_tokenizer(str(path))
    path = copied("no_padding")
    (path / "vocab.json").write_text((vocabulary / "vocab.json").read_text().replace("<pad>", "<other>"))
    with pytest.raises(DataError, match=r"lacks \[PAD\]"):
        open_tokenizer(str(path))
    with pytest.raises(UsageError, match="a SentencePiece model each, so no records are made"):
        open_for_records(str(vocabulary / "vocab.json"))
    with pytest.raises(UsageError, match="not lower-cased"):
        open_tokenizer(str(vocabulary), do_lower_case=True)


def test_positions_are_sines_and_then_cosines():
    found, place = np.array(concatenated_sinusoid(ops.arange(5), 6)), np.arange(5.0)
    rates = [10_000 ** (-2 * j / 6) for j in range(3)]
    expected = np.stack([f(place * rate) for f in (np.sin, np.cos) for rate in rates], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    batch = concatenated_sinusoid(ops.reshape(ops.arange(6), (2, 3)), 6)
    np.testing.assert_allclose(np.array(batch)[1, 0], expected[3], atol=1e-6)


SETTINGS = {
    "model_type": "marian", "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "max_position_embeddings": 40,
    "activation_function": "swish", "scale_embedding": True, "eos_token_id": 0, "normalize_embedding": False,
    "static_position_embeddings": True, "share_encoder_decoder_embeddings": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def theirs(vocabulary, tmp_path_factory):
    """A folder of `MarianMTModel` with random weights, and these."""
    size = len(json.loads((vocabulary / "vocab.json").read_text()))
    config = MarianConfig(
        size, 16, 1, 4, 24, 40, num_decoder_layers=2, decoder_num_heads=2, decoder_intermediate_dim=20
    )
    rng = np.random.default_rng(0)
    shapes = folder.values_of("backbone", Marian(config).initialize())
    values = {name: rng.normal(0, 0.3, value.shape).astype("float32") for name, value in shapes.items()}
    path = tmp_path_factory.mktemp("theirs") / "opus"
    convert.save(Checkpoint("marian", config, values), f"hf:{path}")
    for file in vocabulary.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    numbers = {"vocab_size": size, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    (path / "config.json").write_text(json.dumps(SETTINGS | numbers))
    return path, config, values


def test_weights_have_the_names_of_marian(theirs):
    path, config, values = theirs
    tensors = load_file(path / "model.safetensors")
    assert np.array_equal(tensors["model.shared.weight"], values["backbone.embedding.token.embeddings"])
    assert tensors["final_logits_bias"].shape == (1, config.vocabulary_size)
    kernel = values["backbone.decoder_blocks.1.cross.query.kernel"]
    assert np.array_equal(tensors["model.decoder.layers.1.encoder_attn.q_proj.weight"], kernel.reshape(16, 16).T)
    assert not [name for name in tensors if "embed_positions" in name or "layernorm_embedding" in name]
    loaded = convert.load(f"hf:{path}")
    assert loaded.config == config and loaded.tokenizer.kind == "sentencepiece_pair"
    assert all(np.array_equal(values[name], value) for name, value in loaded.values.items())


@pytest.mark.parametrize(
    ("key", "value"), [("share_encoder_decoder_embeddings", False), ("normalize_embedding", True), ("normalize_before", True)]
)  # fmt: skip
def test_a_marian_that_is_computed_otherwise_is_refused(theirs, tmp_path, key, value):
    path, _, _ = theirs
    for file in path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    stored = json.loads((path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | {key: value}))
    with pytest.raises(CheckpointError, match=key):
        convert.load(f"hf:{tmp_path}")


def test_the_first_state_of_the_encoder_is_a_scaled_row_and_its_position(theirs):
    _, config, values = theirs
    network = Marian(config).initialize()
    folder.assign("backbone", network, values, "theirs")
    ids = np.array([[5, 9, 2]])
    signal = np.array(concatenated_sinusoid(ops.arange(3), 16))
    expected = values["backbone.embedding.token.embeddings"][ids] * 4.0 + signal
    np.testing.assert_allclose(np.array(network.embedding(ids, ids > 0)), expected, atol=1e-5)
    states = keras.random.normal((2, 16), seed=1)
    with_bias = np.array(network.logits(states))
    plain = np.array(states) @ values["backbone.embedding.token.embeddings"].T
    np.testing.assert_allclose(with_bias - plain, np.tile(values["backbone.output_bias.bias"], (2, 1)), atol=1e-4)


def test_it_is_converted_and_translates_whole(theirs, tmp_path):
    path, _, _ = theirs
    convert.save(convert.load(f"hf:{path}"), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    assert max(convert.verify(f"hf:{path}", f"hf:{tmp_path / 'back'}").values()) == 0
    for name in PAIR:
        assert (tmp_path / "back" / name).read_bytes() == (path / name).read_bytes()
    stored = json.loads((tmp_path / "back/config.json").read_text())
    size = stored["vocab_size"]
    assert (stored["decoder_start_token_id"], stored["eos_token_id"], stored["pad_token_id"]) == (size - 1, 0, size - 1)
    assert json.loads((tmp_path / "back/tokenizer_config.json").read_text())["tokenizer_class"] == "MarianTokenizer"
    held = load(f"hf:{path}")
    assert (held.writing.start_id(held.tokenizer.vocabulary), held.writing.end_id(held.tokenizer.vocabulary)) == (
        size - 1,
        0,
    )


def test_one_model_is_written_as_both_sides(tmp_path):
    files = {"spiece.model": (ROOT / "tests/golden/t5/unigram.model").read_bytes()}
    found = TokenizerFiles(files, {"tokenizer": "sentencepiece"})
    pair, one = as_pair(found).open(), found.open()
    for text in ("The keeper walks.", "我们去爬山。"):
        assert pair.encode(text).ids == one.encode(text).ids == pair.encode_targets([text])[0].ids
    config = MarianConfig(len(one.vocabulary), 16, 1, 2, 24)
    values = folder.values_of("backbone", Marian(config).initialize())
    convert.save(Checkpoint("marian", config, values, found), f"hf:{tmp_path / 'theirs'}")
    assert {name for name in ("vocab.json", *PAIR, "spiece.model") if (tmp_path / "theirs" / name).exists()} == {
        "vocab.json",
        *PAIR,
    }
    assert convert.load(f"hf:{tmp_path / 'theirs'}").tokenizer.kind == "sentencepiece_pair"


@pytest.mark.long
def test_base_is_as_large_as_the_published_one():
    """Of opus-mt-en-de Hugging Face counts 74,410,496 weights: two tables of 512 positions too, but not the bias of the logits."""
    found = sum(
        weight.shape.num_elements() for weight in Marian(MarianConfig(58_101, **SIZES["base"])).initialize().weights
    )
    assert found == 74_410_496 - 2 * 512 * 512 + 58_101
