"""States of a frozen network as files: the states of the network, token by token and pooled, of every kind of file and system."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER, network
from xmodels.interfaces.reading import STATELESS
from xmodels.runs.loaded import load

TEXTS = ["ann lives in york. 北京", "", "who does bob? " + "more " * 40, "dan"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("features")
    (path / "bert").mkdir()
    (path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return network("bert", path / "bert"), path / "texts.txt"


@pytest.fixture
def without_graphs():
    """Here functions run operation by operation, which takes no trace."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def extract(made, tmp_path, name="out.jsonl", expected=0, **flags):
    path = tmp_path / name
    assert invoke("extract_features", model_dir=made[0], input_file=made[1], output_file=path, **flags) == expected
    return path


def states_of(folder, text, length=32):
    """The states of the network, layer by layer, (T, D) each, and the pieces."""
    loaded, pieces = load(str(folder)), TOKENIZER.encode(text)
    roles = loaded.tokenizer.vocabulary
    ids = np.array([[roles["[CLS]"], *pieces.ids[: length - 2], roles["[SEP]"]]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids >= 0}
    return [np.array(x[0]) for x in loaded.backbone.hidden_states(batch)], ids[0], pieces


def test_each_token_has_its_states_and_its_place_in_the_text(made, tmp_path, capsys):
    lines = [json.loads(line) for line in extract(made, tmp_path, layers="-1,0", batch_size=2).open(encoding="utf-8")]
    assert [(line["linex_index"], line["text"]) for line in lines] == [(i, t.strip()) for i, t in enumerate(TEXTS)]
    assert "1 were longer than --max_seq_length=32 and lost 14 pieces" in capsys.readouterr().out
    for line in lines:
        layers, ids, pieces = states_of(made[0], line["text"])
        assert [each["token"] for each in line["features"]] == [TOKENIZER.vocabulary.tokens[i] for i in ids]
        places = [(each["start"], each["end"]) for each in line["features"]]
        assert places[0] == places[-1] == (None, None) and places[1:-1] == list(map(tuple, pieces.spans[:30]))
        for place, each in enumerate(line["features"]):
            assert [layer["index"] for layer in each["layers"]] == [-1, 0]
            for layer in each["layers"]:
                np.testing.assert_allclose(layer["values"], layers[layer["index"]][place], atol=2e-5)


@pytest.mark.usefixtures("without_graphs")
def test_all_kinds_of_files_hold_the_same(made, tmp_path):
    import pyarrow.parquet

    expected = [states_of(made[0], text.strip())[0] for text in TEXTS]
    with np.load(extract(made, tmp_path, "out.npz", layers="1,2"), allow_pickle=False) as found:
        assert set(found) == {"layer_1", "layer_2", "offsets", "starts", "ends"}
        np.testing.assert_array_equal(np.diff(found["offsets"]), [len(each[0]) for each in expected])
        assert len(found["starts"]) == found["offsets"][-1] and found["starts"][0] == found["ends"][0] == -1
        np.testing.assert_allclose(found["layer_2"], np.concatenate([each[2] for each in expected]), atol=2e-5)
    again = extract(made, tmp_path, "again.npz", layers="1,2")
    assert again.read_bytes() == (tmp_path / "out.npz").read_bytes()
    table = pyarrow.parquet.read_table(extract(made, tmp_path, "out.parquet", layers="1,2")).to_pylist()
    for row, each in zip(table, expected, strict=True):
        np.testing.assert_allclose(row["layer_1"], each[1], atol=2e-5)
        assert len(row["tokens"]) == len(row["starts"]) == len(each[1])
    pooled = [
        np.stack([np.array(STATELESS["max"](x[None], np.ones((1, len(x)), bool)))[0] for x in each])
        for each in expected
    ]
    found = np.load(extract(made, tmp_path, "out.npy", layers="2,1", pooling="max"), allow_pickle=False)
    np.testing.assert_allclose(found, np.stack(pooled)[:, [2, 1]], atol=2e-5)
    with np.load(extract(made, tmp_path, "pooled.npz", layers="2", pooling="max")) as one:
        np.testing.assert_allclose(one["layer_2"], found[:, 0], atol=1e-6)
    rows = pyarrow.parquet.read_table(extract(made, tmp_path, "pooled.parquet", layers="2", pooling="max")).to_pylist()
    np.testing.assert_allclose([row["layer_2"] for row in rows], found[:, 0], atol=1e-6)
    lines = [json.loads(line) for line in extract(made, tmp_path, layers="2", pooling="max").open(encoding="utf-8")]
    np.testing.assert_allclose([line["layers"][0]["values"] for line in lines], found[:, 0], atol=1e-6)


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_layers_are_put_side_by_side_or_summed(made, tmp_path):
    expected = [states_of(made[0], text.strip())[0] for text in TEXTS]
    first = np.stack([[layer[0] for layer in each] for each in expected])  # (N, layers, D)
    side = np.load(extract(made, tmp_path, "a.npy", layers="-1,0", combine="concat", pooling="first"))
    np.testing.assert_allclose(side, np.concatenate([first[:, 2], first[:, 0]], axis=1), atol=2e-5)
    total = np.load(extract(made, tmp_path, "b.npy", layers="-1,0", combine="mix", pooling="first"))
    np.testing.assert_allclose(total, first[:, 2] + first[:, 0], atol=2e-5)
    mixed = np.load(
        extract(made, tmp_path, "c.npy", layers="-1,0", combine="mix", layer_weights="0.25,-2", pooling="first")
    )
    np.testing.assert_allclose(mixed, 0.25 * first[:, 2] - 2 * first[:, 0], atol=2e-5)
    last = np.load(extract(made, tmp_path, "d.npy", layers="-1", pooling="last"))
    np.testing.assert_allclose(last, [each[-1][-1] for each in expected], atol=2e-5)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("kind", ["xlnet", pytest.param("gpt", marks=pytest.mark.long)])
def test_networks_that_frame_otherwise_stand_by_their_tokens(kind, made, tmp_path):
    (tmp_path / kind).mkdir()
    other = network(kind, tmp_path / kind), made[1]
    alone = tmp_path / "alone.txt"
    alone.write_text(TEXTS[0] + "\n", encoding="utf-8")
    lines = [json.loads(line) for line in extract(other, tmp_path, layers="-1").open(encoding="utf-8")]
    one = extract((other[0], alone), tmp_path, "one.jsonl", layers="-1")
    (single,) = map(json.loads, one.open(encoding="utf-8"))
    for found, expected in zip(lines[0]["features"], single["features"], strict=True):  # padding changes nothing
        np.testing.assert_allclose(found["layers"][0]["values"], expected["layers"][0]["values"], atol=2e-5)
        if found["start"] is not None:
            surface = TEXTS[0][found["start"] : found["end"]]
            assert found["token"] in (surface, f"##{surface}", "[UNK]")


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("x.txt", {}, "expected a name that ends in .jsonl"),
        ("x.npy", {}, "texts have different numbers of tokens"),
        ("x.npz", {"layers": "-1,7"}, "--layers=-1,7: the network shows 3 layers"),
        ("x.npz", {"layers": "-1,2", "layer_weights": "1,2"}, "belongs to --combine=mix"),
        ("x.npz", {"layers": "-1,2", "combine": "mix", "layer_weights": "1,nan"}, "expected 2 numbers"),
        ("x.npz", {"layers": "-1", "max_seq_length": 64}, "the network reads at most 32 tokens"),
    ],
)
def test_what_cannot_be_had_is_refused(made, tmp_path, capsys, name, flags, message):
    extract(made, tmp_path, name, 2, **flags)
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.extra("torch", "transformers")
def test_the_states_are_those_of_hugging_face(made, tmp_path):
    import torch
    from transformers import BertModel

    folder = tmp_path / "hf"
    assert invoke("convert_checkpoint", f"--from={made[0]}", f"--to=hf:{folder}") == 0
    lines = [
        json.loads(line) for line in extract((f"hf:{folder}", made[1]), tmp_path, layers="0,1,2").open(encoding="utf-8")
    ]
    theirs = BertModel.from_pretrained(folder).eval()
    for line in lines:
        ids = torch.tensor([[TOKENIZER.vocabulary[each["token"]] for each in line["features"]]])
        with torch.no_grad():
            expected = theirs(input_ids=ids, output_hidden_states=True).hidden_states
        for layer in range(3):
            found = [each["layers"][layer]["values"] for each in line["features"]]
            np.testing.assert_allclose(found, expected[layer][0].numpy(), atol=2e-5)
