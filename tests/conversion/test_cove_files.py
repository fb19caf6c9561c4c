"""The encoder of the released CoVe gives PyTorch's numbers here, and goes back unchanged."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from xmodels.conversion import convert
from xmodels.jobs.convert_checkpoint.options import Options
from xmodels.jobs.convert_checkpoint.run import convert_checkpoint
from xmodels.models import folder

WIDTH, UNITS, WORDS = 4, 3, ["the", "cat", "sat", "."]


def weights(seed=0):
    """Weights as `torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True)` has them."""
    draw, found = np.random.default_rng(seed), {}
    for layer, width in enumerate((WIDTH, 2 * UNITS)):
        for ending in ("", "_reverse"):
            shapes = {"weight_ih": (4 * UNITS, width), "weight_hh": (4 * UNITS, UNITS)}
            shapes |= {"bias_ih": (4 * UNITS,), "bias_hh": (4 * UNITS,)}
            found |= {f"{n}_l{layer}{ending}": draw.normal(size=s).astype("float32") for n, s in shapes.items()}
    return found


def released(path, values=None):
    path.mkdir()
    save_file(values or weights(), path / "wmtlstm.safetensors")
    table = np.random.default_rng(1).normal(size=(len(WORDS), WIDTH)).astype("float32")
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, table, strict=True)]
    (path / "glove.txt").write_text("\n".join(lines) + "\n")
    return f"cove:{path}", table


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, values, ending):
    """PyTorch's equations: gates in the order i, f, g, o, with two biases."""
    h = c = np.zeros(UNITS)
    states = []
    for row in x:
        gates = values[f"weight_ih_{ending}"] @ row + values[f"bias_ih_{ending}"]
        gates = gates + values[f"weight_hh_{ending}"] @ h + values[f"bias_hh_{ending}"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states)


def network(source, allow_pickle=False):
    loaded = convert.load(source, allow_pickle)
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, loaded.model)
    return backbone, loaded.tokenizer.open()


def test_states_are_those_of_pytorch_and_the_files_come_back(tmp_path, capsys):
    source, table = released(tmp_path / "given")
    backbone, tokenizer = network(source)
    ids = np.array([tokenizer.encode("The the cat nosuch sat .").ids])  # upper case is a word of its own
    found = np.array(backbone({"token_ids": ids, "padding_mask": np.ones(ids.shape, bool)})["sequence_output"])[0]
    zero = np.zeros(WIDTH)
    words = x = np.stack([zero, table[0], table[1], zero, table[2], table[3]])
    for layer in range(2):
        x = np.concatenate(
            [lstm(x, weights(), f"l{layer}"), lstm(x[::-1], weights(), f"l{layer}_reverse")[::-1]], axis=1
        )
    np.testing.assert_allclose(found, np.concatenate([words, x], axis=1), atol=1e-5)
    convert_checkpoint(Options(source=source, target=str(tmp_path / "ours"), verify=True))
    convert_checkpoint(Options(source=str(tmp_path / "ours"), target=f"cove:{tmp_path}/back", verify=True))
    assert capsys.readouterr().out.count("largest difference of sequence_output: 0\n") == 2
    back = load_file(tmp_path / "back" / "mt-lstm.safetensors")
    for name, value in weights().items():
        other = weights()[name.replace("bias_ih", "bias_hh")] if "bias" in name else 0.0
        np.testing.assert_allclose(back[name], 0.0 if "bias_hh" in name else value + other, atol=1e-6, err_msg=name)


def test_what_is_wrong_with_files_is_named(tmp_path):
    values = weights()
    del values["bias_hh_l1"]
    source, _ = released(tmp_path / "lacking", values)
    with pytest.raises(CheckpointError, match="bias_hh_l1"):
        convert.load(source)
    source, _ = released(tmp_path / "other", {"weight": np.zeros(3, "float32")})
    with pytest.raises(CheckpointError, match="it has no matrix weight_hh_l0"):
        convert.load(source)
    source, _ = released(tmp_path / "twice")
    (tmp_path / "twice" / "more.txt").write_text("a 1 2\n")
    with pytest.raises(CheckpointError, match=r"expected one file \*.txt, found glove.txt, more.txt"):
        convert.load(source)


def test_a_pickle_needs_leave(tmp_path):
    source, _ = released(tmp_path / "given")
    (tmp_path / "given" / "wmtlstm.safetensors").rename(tmp_path / "given" / "wmtlstm.pth")
    with pytest.raises(CheckpointError, match="no pickle is loaded without `--allow_pickle`"):
        convert.load(source)


@pytest.mark.extra("torch")
def test_states_are_those_of_a_network_of_pytorch(tmp_path):
    import torch

    torch.manual_seed(0)
    theirs = torch.nn.LSTM(WIDTH, UNITS, num_layers=2, bidirectional=True, batch_first=True)
    source, table = released(tmp_path / "given")
    (tmp_path / "given" / "wmtlstm.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "given" / "wmtlstm.pth")
    backbone, tokenizer = network(source, allow_pickle=True)
    ids = np.array([tokenizer.encode("sat the cat .").ids])
    found = np.array(backbone({"token_ids": ids, "padding_mask": np.ones(ids.shape, bool)})["encoder_output"])
    with torch.no_grad():
        expected, _ = theirs(torch.tensor(table[[2, 0, 1, 3]])[None])
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
