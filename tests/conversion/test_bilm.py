"""Networks of bilm-tf give its numbers here, and go back unchanged."""

import json
import pathlib

import h5py
import numpy as np
import pytest

from data_pipelines.errors import CheckpointError
from xmodels.conversion import convert
from xmodels.jobs.convert_checkpoint.options import Options
from xmodels.jobs.convert_checkpoint.run import convert_checkpoint
from xmodels.layers.scalar_mix import ScalarMix
from xmodels.models import folder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "elmo"
CASES = "bilm_two_layers", "bilm_no_skip_tanh"


def bilm_folder(case, path, **changed):
    """The files of bilm-tf with the weights of a golden."""
    stored = json.loads((GOLDEN / case / "config.json").read_text())["hyperparameters"]
    options = {
        "bidirectional": True,
        "char_cnn": {
            "activation": stored["activation"], "embedding": {"dim": stored["char_embedding_dim"]},
            "filters": stored["filters"], "max_characters_per_token": 50, "n_characters": 262, "n_highway": stored["num_highway"],
        },
        "lstm": {
            "cell_clip": stored["cell_clip"], "dim": stored["lstm_dim"], "n_layers": stored["num_layers"],
            "proj_clip": stored["projection_clip"], "projection_dim": stored["projection_dim"],
            "use_skip_connections": stored["skip_connections"],
        },
    }  # fmt: skip
    options["char_cnn"] |= changed
    (path / "small_options.json").write_text(json.dumps(options))
    with h5py.File(path / "small_weights.hdf5", "w") as file:
        for name, value in np.load(GOLDEN / case / "weights.npz").items():
            if not name.startswith("elmo_"):
                file[name] = value
    return f"bilm:{path}"


def network(source):
    loaded = convert.load(source)
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, loaded.model)
    return backbone


def layers(backbone, characters, memory=None):
    """The layers of bilm-tf, (B, 3, W, D), and the memory behind them."""
    features = {"character_ids": characters, "padding_mask": (characters > 0).any(-1)}
    found = np.stack([np.array(x) for x in backbone.hidden_states({**features, **(memory or {})})], axis=1)
    after = backbone({**features, **(memory or backbone.initial_memory(len(characters)))})["memory"]
    return found[:, :, 1:-1], {"memory": after}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_layers_and_mix_are_those_of_bilm(case, tmp_path):
    backbone = network(bilm_folder(case, tmp_path))
    inputs, outputs, weights = (np.load(GOLDEN / case / f"{n}.npz") for n in ("inputs", "outputs", "weights"))

    def compare(found, name):
        real = outputs[f"{name.removeprefix('fresh/')}/mask"][:, None, :, None].astype(bool)
        np.testing.assert_allclose(np.where(real, found, 0), np.where(real, outputs[f"{name}/layers"], 0), atol=1e-5)

    first, memory = layers(backbone, inputs["char_ids_first"])
    compare(first, "first")
    compare(layers(backbone, inputs["char_ids_second"])[0], "fresh/second")
    compare(layers(backbone, inputs["char_ids_second"], memory)[0], "second")
    np.testing.assert_allclose(
        np.array(backbone.embedding(inputs["char_ids_first"]))[0], outputs["first/token_embeddings"][0], atol=1e-5
    )
    mix = ScalarMix(3)
    mix.shares.assign(weights["elmo_W"])
    mix.gamma.assign(weights["elmo_gamma"])
    mask = outputs["first/mask"][..., None].astype(bool)
    mixed = np.array(mix(list(np.moveaxis(first, 1, 0))))
    np.testing.assert_allclose(np.where(mask, mixed, 0), np.where(mask, outputs["first/mix"], 0), atol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_a_network_goes_back_unchanged(case, tmp_path, capsys):
    for name in ("given", "again"):
        (tmp_path / name).mkdir()
    source = bilm_folder(case, tmp_path / "given")
    convert_checkpoint(Options(source=source, target=str(tmp_path / "ours"), verify=True))
    assert "largest difference of sequence_output: 0" in capsys.readouterr().out
    convert_checkpoint(Options(source=str(tmp_path / "ours"), target=f"bilm:{tmp_path}/back", verify=True))
    with h5py.File(tmp_path / "back" / "weights.hdf5") as file:
        for name, value in np.load(GOLDEN / case / "weights.npz").items():
            if not name.startswith("elmo_"):
                np.testing.assert_allclose(file[name], value, atol=1e-6, err_msg=name)
    assert convert.load(f"bilm:{tmp_path}/back").config == convert.load(source).config


def test_what_is_wrong_with_files_is_named(tmp_path):
    source = bilm_folder(CASES[0], tmp_path)
    with h5py.File(tmp_path / "small_weights.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
    with pytest.raises(CheckpointError, match="b_proj"):
        convert.load(source)
    bilm_folder(CASES[0], tmp_path, max_characters_per_token=20)
    with pytest.raises(CheckpointError, match="`max_characters_per_token` must be 50. Found: 20"):
        convert.load(source)
    bilm_folder(CASES[0], tmp_path, filters=[[1, 4, 5]])
    with pytest.raises(CheckpointError, match="small_options.json: not the options of a bilm-tf network"):
        convert.load(source)
    (tmp_path / "other_options.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"expected one file \*options.json, found other_options.json, small_options"
    ):
        convert.load(source)


@pytest.mark.parametrize("kind", ["link", "external", "virtual"])
def test_numbers_in_other_files_are_not_read(kind, tmp_path):
    source, secret = bilm_folder(CASES[0], tmp_path), tmp_path / "secret.bin"
    secret.write_bytes(np.zeros(16, "f4").tobytes())
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file["numbers"] = np.zeros(16, "f4")
    with h5py.File(tmp_path / "small_weights.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
        if kind == "link":
            file["CNN_proj/b_proj"] = h5py.ExternalLink(str(tmp_path / "elsewhere.h5"), "numbers")
        elif kind == "external":
            file.create_dataset("CNN_proj/b_proj", (16,), "f4", external=[(str(secret), 0, 64)])
        else:
            layout = h5py.VirtualLayout((16,), "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "elsewhere.h5"), "numbers", (16,))
            file.create_virtual_dataset("CNN_proj/b_proj", layout)
    with pytest.raises(CheckpointError, match="CNN_proj/b_proj"):
        convert.load(source)
