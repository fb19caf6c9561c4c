"""Networks of the released context2vec give the numbers of Chainer here, and go back unchanged."""

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError
from xmodels.conversion import convert
from xmodels.jobs.convert_checkpoint.options import Options
from xmodels.jobs.convert_checkpoint.run import convert_checkpoint
from xmodels.models import folder

UNIT, WORDS = 3, ["<UNK>", "<BOS>", "<EOS>", "the", "cat", "sat", "mat"]


def released(path, deep="yes", **changed):
    """A folder as the released code writes it, with random weights."""
    path.mkdir()
    draw, wide = np.random.default_rng(0), 2 * UNIT
    shapes = {"l2r_embed/W": (len(WORDS), UNIT), "r2l_embed/W": (len(WORDS), UNIT), "loss_func/W": (len(WORDS), wide)}
    for name in ("l2r_1", "r2l_1"):
        shapes |= {
            f"{name}/upward/W": (4 * wide, UNIT),
            f"{name}/upward/b": (4 * wide,),
            f"{name}/lateral/W": (4 * wide, wide),
        }
    if deep == "yes":
        shapes |= {"l3/W": (2 * wide, 2 * wide), "l3/b": (2 * wide,), "l4/W": (wide, 2 * wide), "l4/b": (wide,)}
    else:
        shapes |= {"lp_l2r/W": (UNIT, wide), "lp_l2r/b": (UNIT,), "lp_r2l/W": (UNIT, wide), "lp_r2l/b": (UNIT,)}
    arrays = {name: draw.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    with open(path / "net", "wb") as file:
        np.savez(file, **arrays)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, arrays["loss_func/W"], strict=True)]
    (path / "net.targets").write_text("\n".join([f"{len(WORDS)} {wide}", *lines]) + "\n")
    settings = {
        "model_file": "net",
        "words_file": "net.targets",
        "unit": UNIT,
        "deep": deep,
        "drop_ratio": 0.0,
    } | changed
    (path / "net.params").write_text("".join(f"{name}\t{value}\n" for name, value in settings.items()) + "#\tby hand\n")
    return f"context2vec:{path}", arrays


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def walk(arrays, name, table, ids):
    """The states of a Chainer LSTM: a cell holds candidate, input, forget and output unit by unit."""
    h = c = np.zeros(2 * UNIT)
    states = []
    for i in ids:
        gates = (
            arrays[f"{name}/upward/W"] @ arrays[table][i] + arrays[f"{name}/upward/b"] + arrays[f"{name}/lateral/W"] @ h
        )
        candidate, put, forget, out = gates.reshape(-1, 4).T
        c = np.tanh(candidate) * sigmoid(put) + c * sigmoid(forget)
        h = sigmoid(out) * np.tanh(c)
        states.append(h)
    return states


def vectors(arrays, ids, deep):
    """What the released code says of each place of a sentence of ids."""
    ahead = walk(arrays, "l2r_1", "l2r_embed/W", [1, *ids[:-1]])
    behind = walk(arrays, "r2l_1", "r2l_embed/W", [2, *ids[:0:-1]])[::-1]
    if deep == "yes":
        both = (np.concatenate(each) for each in zip(ahead, behind, strict=True))
        hidden = (np.maximum(arrays["l3/W"] @ x + arrays["l3/b"], 0) for x in both)
        return np.stack([arrays["l4/W"] @ x + arrays["l4/b"] for x in hidden])
    halves = [
        [arrays[f"{name}/W"] @ x + arrays[f"{name}/b"] for x in states]
        for name, states in (("lp_l2r", ahead), ("lp_r2l", behind))
    ]
    return np.concatenate(halves, axis=1)


@pytest.mark.parametrize("deep", ["yes", "no"])
def test_vectors_are_those_of_chainer_and_the_files_come_back(deep, tmp_path, capsys):
    source, arrays = released(tmp_path / "given", deep)
    loaded = convert.load(source)
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, loaded.model)
    vocabulary = loaded.tokenizer.open().vocabulary
    sentence = ["the", "cat", "[UNK]", "sat", "mat"]
    ids = [vocabulary[token] for token in ("[CLS]", *sentence, "[SEP]")]
    found = backbone({"token_ids": np.array([ids]), "padding_mask": np.ones((1, len(ids)), bool)})["sequence_output"]
    theirs = [WORDS.index(word) if word in WORDS else 0 for word in sentence]
    np.testing.assert_allclose(np.array(found)[0, 1:-1], vectors(arrays, theirs, deep), atol=1e-5)
    convert_checkpoint(Options(source=source, target=str(tmp_path / "ours"), verify=True))
    convert_checkpoint(Options(source=str(tmp_path / "ours"), target=f"context2vec:{tmp_path}/back", verify=True))
    assert capsys.readouterr().out.count("largest difference of sequence_output: 0\n") == 2
    with np.load(tmp_path / "back" / "context2vec.model") as file:
        assert set(file) == set(arrays)
        for name in file:
            np.testing.assert_array_equal(file[name], arrays[name], err_msg=name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"deep": "perhaps"}, "expected `model_type` lstm_context and `deep` yes or no. Found: 'lstm_context' and 'perhaps'"),
        ({"unit": "many"}, "`unit` and `drop_ratio` must be numbers"),
        ({"unit": 4}, "shape"),
        ({"model_file": "../net"}, "`model_file` must name a file of the same folder. Found: '../net'"),
        ({"words_file": "gone"}, "`words_file` must name a file of the same folder. Found: 'gone'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_files_is_named(changed, message, tmp_path):
    source, _ = released(tmp_path / "given", **changed)
    with pytest.raises(CheckpointError, match=message):
        convert.load(source)


def test_an_npz_with_pickles_or_in_an_unknown_compression_is_refused(tmp_path):
    source, arrays = released(tmp_path / "given")
    whole = (tmp_path / "given" / "net").read_bytes()
    with open(tmp_path / "given" / "net", "wb") as file:
        np.savez(file, **arrays | {"l3/b": np.array([{}], dtype=object)})
    with pytest.raises(CheckpointError, match="not a readable file of numpy arrays"):
        convert.load(source)
    first = whole.index(b"PK\x01\x02") + 10  # where the list of entries names the compression of the first
    (tmp_path / "given" / "net").write_bytes(whole[:first] + b"\x63\x00" + whole[first + 2 :])
    with pytest.raises(CheckpointError, match="compression"):
        convert.load(source)
