"""AWD-LSTMs of fastai and of Salesforce give their numbers here, and go back unchanged."""

import json
import pathlib
import pickle

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.invocation import invoke
from xmodels.conversion import convert
from xmodels.models import folder
from xmodels.objectives.tied_lm import TiedLM

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/awd_lstm/lm"
WORDS = ["xxunk", "xxpad", "xxbos", "\n", "xxfake", "xxfake", *(f"word{i}" for i in range(54))]


def salesforce():
    """The tensors of the golden, by the names of Salesforce's code."""
    return dict(np.load(GOLDEN / "weights.npz"))


def fastai(first_release=False):
    """The same by the names of fastai, with the copy of each dropped kernel, which does not count."""
    theirs = salesforce()
    copy = "0.encoder_with_dropout.embed.weight" if first_release else "0.encoder_dp.emb.weight"
    found = {"0.encoder.weight": theirs["encoder.weight"], copy: theirs["encoder.weight"]}
    found["1.decoder.weight"] = theirs["encoder.weight"]
    found |= {} if first_release else {"1.decoder.bias": theirs["decoder.bias"]}
    for name, value in theirs.items():
        layer, _, weight = name.removeprefix("rnns.").partition(".")
        if "weight_hh" in weight:
            found[f"0.rnns.{layer}.{'module.' if first_release else ''}{weight}_raw"] = value
            found |= {} if first_release else {f"0.rnns.{layer}.module.{weight}": np.zeros_like(value)}
        elif name.startswith("rnns."):
            found[f"0.rnns.{layer}.module.{weight}"] = value
    return found


def logits(source, **given):
    """The logits of the first segment of the golden, (L, B, V)."""
    loaded = convert.load(source, **given)
    backbone, head = folder.model_class(loaded.model)(loaded.config).initialize(), TiedLM(loaded.config)
    folder.assign("backbone", backbone, loaded.values, source)
    folder.assign(head.prefix, head, loaded.values, source)
    ids = np.load(GOLDEN / "inputs.npz")["token_ids"][0].T
    states = backbone({"token_ids": ids, "padding_mask": np.ones(ids.shape, bool)})["sequence_output"]
    return loaded, np.array(head.logits(states, backbone)).swapaxes(0, 1)


@pytest.mark.parametrize("kind", ["salesforce.npz", "fastai.safetensors", "pickle"])
def test_files_of_both_give_the_logits_of_the_original(kind, tmp_path):
    given = {}
    if kind == "pickle":
        torch = pytest.importorskip("torch")
        torch.save({"model": {n: torch.tensor(v) for n, v in fastai().items()}}, tmp_path / "wiki.pth")
        with pytest.raises(CheckpointError, match="wiki.pth: no pickle is loaded without `--allow_pickle`"):
            convert.load(f"fastai:{tmp_path}")
        given = {"allow_pickle": True}
    elif kind == "salesforce.npz":
        np.savez(tmp_path / kind, **salesforce())
    else:
        save_file(fastai(), tmp_path / kind)
    loaded, found = logits(f"fastai:{tmp_path}", **given)
    np.testing.assert_allclose(found, np.load(GOLDEN / "outputs.npz")["segment0/logits"], atol=1e-5)
    assert loaded.config.widths == (32, 32, 24) and loaded.system == "awd_lstm"
    assert "There is no itos.json beside" in loaded.warnings[0] and loaded.tokenizer is None


def test_words_keep_their_rows_and_new_tokens_begin_as_the_mean_of_all(tmp_path):
    save_file(fastai(), tmp_path / "lm.safetensors")
    (tmp_path / "itos.json").write_text(json.dumps(WORDS), encoding="utf-8")
    loaded, found = logits(f"fastai:{tmp_path}")
    vocabulary = loaded.tokenizer.open().vocabulary
    assert vocabulary.tokens == [
        "[UNK]", "[PAD]", "[SEP]", "[unused3]", "xxfake", "[unused5]", *WORDS[6:], "[CLS]", "[MASK]",
    ]  # fmt: skip
    table = loaded.values["backbone.embedding.embeddings"]
    np.testing.assert_allclose(table[60:], np.repeat(table[:60].mean(axis=0, keepdims=True), 2, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found[..., :60], np.load(GOLDEN / "outputs.npz")["segment0/logits"], atol=1e-5)


def test_a_file_of_the_first_release_has_no_bias_and_only_raw_kernels(tmp_path):
    found = fastai(first_release=True)
    save_file(found, tmp_path / "fwd_wt103.safetensors")
    loaded, _ = logits(f"fastai:{tmp_path / 'fwd_wt103.safetensors'}")
    assert not loaded.values["objective.tied_lm.bias"].any()
    np.testing.assert_array_equal(
        loaded.values["backbone.recurrent_layers.1.steps.cell.recurrent.kernel"],
        found["0.rnns.1.module.weight_hh_l0_raw"].T,
    )


def test_what_is_written_is_read_again_and_has_the_names_of_fastai(tmp_path, capsys):
    save_file(fastai(), tmp_path / "lm.safetensors")
    (tmp_path / "itos.txt").write_text("\n".join([*WORDS[:3], *(f"w{i}" for i in range(57))]) + "\n", encoding="utf-8")
    to_ours = {"from": f"fastai:{tmp_path}", "to": tmp_path / "ours"}
    assert invoke("convert_checkpoint", **to_ours) == 0
    assert invoke("convert_checkpoint", **{"from": tmp_path / "ours", "to": f"fastai:{tmp_path / 'back'}"}) == 0
    back = load_file(tmp_path / "back/model.safetensors")
    assert back.keys() == fastai().keys() and json.loads((tmp_path / "back/itos.json").read_text())[:3] == WORDS[:3]
    first, second = convert.load(str(tmp_path / "ours")), convert.load(f"fastai:{tmp_path / 'back'}")
    assert first.values.keys() == second.values.keys() and first.config == second.config
    for name, value in first.values.items():
        np.testing.assert_array_equal(second.values[name], value, err_msg=name)
    assert first.tokenizer.open().vocabulary.tokens == second.tokenizer.open().vocabulary.tokens
    capsys.readouterr()
    assert invoke("convert_checkpoint", **{"from": tmp_path / "ours", "to": f"fastai:{tmp_path / 'back'}"}) != 0
    assert "exists already" in capsys.readouterr().err


def without(name):
    return {n: v for n, v in fastai().items() if n != name}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (lambda: {"encoder.weight": np.ones((4, 2), "float32")}, "expected the tensors of an AWD-LSTM, encoder.weight and rnns.0"),
        (lambda: without("0.rnns.1.module.bias_ih_l0"), r"missing \(1\): rnns.1.bias_ih_l0"),
        (lambda: fastai() | {"0.rnns.2.layers.0.linear.weight": np.ones(2, "float32")}, r"unexpected \(1\): rnns.2.layers"),
        (lambda: fastai() | {"0.rnns.1.weight_hh_l0_raw": np.ones((128, 31), "float32")}, r"\[128, 31\] in the file"),
        (lambda: fastai() | {"1.decoder.weight": np.ones((60, 24), "float32")}, "decoder.weight differs from encoder.weight"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tensors, message, tmp_path):
    save_file({n: np.ascontiguousarray(v) for n, v in tensors().items()}, tmp_path / "lm.safetensors")
    with pytest.raises(CheckpointError, match=message) as error:
        convert.load(f"fastai:{tmp_path}")
    assert str(error.value).startswith(str(tmp_path / "lm.safetensors"))


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("itos.json", b'{"a": 1}', "itos.json: expected a list of words"),
        ("itos.json", b"[1", "itos.json: not a list of words in JSON"),
        ("itos.txt", b"a\nb\n", "itos.txt: 2 words, and the table of .* has 60 rows"),
        ("itos.txt", b"\xff\n", "itos.txt: not UTF-8"),
        ("itos_wt103.pkl", pickle.dumps(WORDS), "itos_wt103.pkl: no pickle is loaded without `--allow_pickle`"),
    ],
)
def test_lists_of_words_that_do_not_fit_are_named(name, contents, message, tmp_path):
    save_file(fastai(), tmp_path / "lm.safetensors")
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(CheckpointError, match=message):
        convert.load(f"fastai:{tmp_path}")


def test_pickles_of_words_are_read_where_that_is_allowed_and_run_no_code(tmp_path):
    save_file(fastai(), tmp_path / "lm.safetensors")
    (tmp_path / "itos_wt103.pkl").write_bytes(pickle.dumps(WORDS))
    found = convert.load(f"fastai:{tmp_path}", allow_pickle=True).tokenizer.open().vocabulary
    assert found.tokens[6:60] == WORDS[6:]
    (tmp_path / "itos_wt103.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(CheckpointError, match="it names os.system, and words need no class"):
        convert.load(f"fastai:{tmp_path}", allow_pickle=True)


def test_a_folder_says_which_file_it_lacks_or_has_twice(tmp_path):
    with pytest.raises(
        CheckpointError, match="expected a file of tensors that ends in one of .safetensors, .npz, .pth"
    ):
        convert.load(f"fastai:{tmp_path}")
    for name in ("fwd", "bwd"):
        save_file(fastai(), tmp_path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="several files of tensors, bwd.safetensors, fwd.safetensors. Name one"):
        convert.load(f"fastai:{tmp_path}")
