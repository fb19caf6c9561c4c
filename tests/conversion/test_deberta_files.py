"""DeBERTa: its SentencePiece model gets a piece for masks, and goes back as it was; its folders say what ours can express."""

import dataclasses
import io
import json
import pathlib
import shutil

import numpy as np
import pytest
import sentencepiece

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.text.frames import BERT
from data_pipelines.text.masked_pieces import add_mask, drop_mask
from xmodels.conversion import convert
from xmodels.conversion.tokenizer_check import TEXTS
from xmodels.conversion.vocabularies import TokenizerFiles, read_hugging_face
from xmodels.models.folder import read_weights, write_weights

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN, CORPUS = ROOT / "tests/golden/encoders/deberta_v2", ROOT / "samples/zh/corpus.txt"


@pytest.fixture(scope="module")
def model():
    """A model as the authors' code trains it."""
    texts = [
        *CORPUS.read_text("utf-8").splitlines()[:200],
        *["the quick brown fox says hello, don't stop at 3.14"] * 20,
    ]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=written, vocab_size=900, model_type="unigram", character_coverage=0.98,
        hard_vocab_limit=False, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]",
        unk_piece="[UNK]", minloglevel=2,
    )  # fmt: skip
    return written.getvalue()


@pytest.fixture
def folder(model, tmp_path):
    """A folder as the authors have it, without a class of its tokenizer."""
    shutil.copytree(GOLDEN, tmp_path / "released")
    (tmp_path / "released/spm.model").write_bytes(model)
    (tmp_path / "released/tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    return tmp_path / "released"


def resize(folder, rows):
    """Gives the network of a folder a table of `rows` tokens."""
    values = dict(read_weights(str(folder / "model.safetensors")))
    for name in ("deberta.embeddings.word_embeddings.weight", "cls.predictions.bias"):
        values[name] = np.resize(values[name], (rows, *values[name].shape[1:]))
    write_weights(values, str(folder / "model.safetensors"), "pt")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": rows}))


def test_the_piece_of_masks_stands_at_the_end_and_the_model_comes_back(model):
    old = sentencepiece.SentencePieceProcessor(model_proto=model)
    new = sentencepiece.SentencePieceProcessor(model_proto=add_mask(model, "a"))
    assert len(new) == len(old) + 1 and new.IdToPiece(len(old)) == "[MASK]"
    assert [new.encode(text) for text in TEXTS] == [old.encode(text) for text in TEXTS]
    assert drop_mask(add_mask(model, "a"), "a") == model == drop_mask(model, "a")
    assert add_mask(add_mask(model, "a"), "a") == add_mask(model, "a")
    with pytest.raises(DataError, match="a: not a SentencePiece model"):
        add_mask(b"no model at all", "a")


def test_a_released_folder_is_read_with_its_vocabulary_and_written_as_such(folder, model, tmp_path):
    rows = len(sentencepiece.SentencePieceProcessor(model_proto=model)) + 100  # as many as released tables have
    resize(folder, rows)
    loaded = convert.load(f"hf:{folder}")
    vocabulary = loaded.tokenizer.open().vocabulary
    assert (vocabulary.tokens[0], vocabulary["[CLS]"], vocabulary["[SEP]"], vocabulary["[UNK]"]) == ("[PAD]", 1, 2, 3)
    assert vocabulary["[MASK]"] == len(vocabulary) - 1 == rows - 100 and loaded.config.suits(len(vocabulary))
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'theirs'}")
    assert (tmp_path / "theirs/spm.model").read_bytes() == model
    assert (
        json.loads((tmp_path / "theirs/tokenizer_config.json").read_text())["tokenizer_class"] == "DebertaV2Tokenizer"
    )
    again = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert again.tokenizer.files == loaded.tokenizer.files and again.config == loaded.config
    assert convert.verify(f"hf:{folder}", str(tmp_path / "ours"))["masked_lm_logits"] == 0


def test_files_of_the_authors_have_both_heads_and_positions_that_nobody_reads(folder):
    values = dict(read_weights(str(folder / "model.safetensors")))
    lm, width = "lm_predictions.lm_head.", values["deberta.embeddings.LayerNorm.weight"]
    for old, new in (
        ("cls.predictions.transform.dense", f"{lm}dense"), ("cls.predictions.transform.LayerNorm", f"{lm}LayerNorm")
    ):  # fmt: skip
        for end in ("weight", "bias"):
            values[f"{new}.{end}"] = values.pop(f"{old}.{end}")
    values[f"{lm}bias"] = values.pop("cls.predictions.bias")
    values["deberta.embeddings.position_embeddings.weight"] = np.ones((20, 8), "float32")
    for name, shape in (
        ("dense.weight", (8, 8)),
        ("dense.bias", (8,)),
        ("classifier.weight", (1, 8)),
        ("classifier.bias", (1,)),
    ):
        values[f"mask_predictions.{name}"] = np.full(shape, 0.1, "float32")
    values |= {f"mask_predictions.LayerNorm.{end}": width for end in ("weight", "bias")}
    write_weights(values, str(folder / "model.safetensors"), "pt")
    (folder / "spm.model").unlink()
    loaded = convert.load(f"hf:{folder}")
    assert loaded.heads == {"masked_lm", "replaced_tokens"}
    plain = convert.outputs(convert.load(f"hf:{GOLDEN}"))
    np.testing.assert_array_equal(convert.outputs(loaded)["masked_lm_logits"], plain["masked_lm_logits"])
    assert convert.outputs(loaded)["replaced_tokens_logits"].shape == plain["sequence_output"].shape[:2]


def test_a_network_that_learnt_with_the_decoder_of_masks_is_written_without_it(tmp_path):
    loaded = convert.load(f"hf:{GOLDEN}")
    name = "objective.masked_lm.mask_decoder.position.embeddings"
    trained = dataclasses.replace(loaded, values={**loaded.values, name: np.ones((20, 8), "float32")})
    convert.save(trained, str(tmp_path / "ours"))
    again = convert.load(str(tmp_path / "ours"))
    assert name in again.values and again.heads == {"masked_lm"}
    convert.save(again, f"hf:{tmp_path / 'theirs'}")
    assert convert.verify(str(tmp_path / "ours"), f"hf:{tmp_path / 'theirs'}")["masked_lm_logits"] == 0
    assert set(convert.load(f"hf:{tmp_path / 'theirs'}").values) == set(loaded.values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"relative_attention": False}, "`relative_attention` = False; only True is supported"),
        ({"relative_attention": None, "model_type": "deberta"}, "model type 'deberta'"),
        ({"pos_att_type": "c2p|p2p"}, "`pos_att_type` = 'c2p|p2p'. Known: c2p|p2c, c2p, p2c"),
        ({"pos_att_type": None}, "`pos_att_type` = None"),
        ({"norm_rel_ebd": "batch_norm"}, "`norm_rel_ebd` = 'batch_norm'. Known: layer_norm, none"),
        ({"embedding_size": 4}, "`embedding_size` = 4; only 8 is supported"),
        ({"attention_head_size": 3}, "`attention_head_size` = 3; only 4"),
        ({"pooler_hidden_act": "tanh"}, "`pooler_hidden_act` = 'tanh'"),
        ({"conv_groups": 2}, "`conv_groups` = 2"),
        ({"conv_kernel_size": 2}, "`conv_kernel_size` must be odd. Found: 2"),
        ({"position_buckets": "many"}, "`position_buckets` must be a whole number"),
        ({"position_buckets": 1}, "`position_buckets` must be 0 or at least 2"),
    ],
)  # fmt: skip
def test_what_our_network_cannot_say_is_refused_by_name(folder, values, message):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(CheckpointError, match=message.replace("|", r"\|")):
        convert.load(f"hf:{folder}")


def test_a_tokenizer_that_parts_at_marks_is_refused(folder):
    (folder / "tokenizer_config.json").write_text('{"split_by_punct": true}')
    with pytest.raises(CheckpointError, match="tokenizer_config.json: `split_by_punct` = True; no tokenizer of ours"):
        convert.load(f"hf:{folder}")


@pytest.mark.extra("torch", "transformers")
def test_transformers_cuts_alike_but_for_what_its_fifth_version_normalises_otherwise(folder, tmp_path):
    """Its class puts NFC in the place of what the model says, which is NFKC, and takes the sign of blanks for a blank."""
    import transformers

    ours = read_hugging_face(str(folder), BERT, 0)
    form = convert.formats.table_of("deberta_v2").hugging_face
    (tmp_path / "written").mkdir()
    convert.hugging_face.write_hugging_face(str(tmp_path / "written"), ours, 20, form)
    shutil.copy(folder / "config.json", tmp_path / "written")
    for path in (folder, tmp_path / "written"):
        theirs = transformers.AutoTokenizer.from_pretrained(str(path))
        assert type(theirs).__name__ == "DebertaV2Tokenizer"
        assert theirs.mask_token_id == ours.open().vocabulary["[MASK]"] == len(theirs) - 1
        same = [text for text in TEXTS if not any(char in text for char in "\u3000ﬁ▁")]
        assert len(same) >= len(TEXTS) - 3
        for text in same:
            assert theirs.encode(text, add_special_tokens=False) == ours.open().encode(text).ids, text
        found = theirs("hello", "the fox")
        kept = TokenizerFiles(ours.files, ours.settings).open()
        first, second = kept.encode("hello").ids, kept.encode("the fox").ids
        assert found["input_ids"] == [1, *first, 2, *second, 2]


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize(("buckets", "most"), [(256, 512), (8, 40), (3, 20), (0, 30), (256, 300), (4, 3)])
def test_buckets_of_distances_are_those_of_transformers(buckets, most):
    import torch
    from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

    from xmodels.layers.attention.disentangled import rows_of

    length = torch.zeros(1, most, 1)
    theirs = build_relative_position(length, length, buckets or -1, most)[0].numpy()
    span = buckets or most
    distances = np.arange(most)[:, None] - np.arange(most)
    np.testing.assert_array_equal(rows_of(distances, buckets, most), np.clip(theirs + span, 0, 2 * span - 1))
