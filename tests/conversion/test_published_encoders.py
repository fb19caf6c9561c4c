"""ELECTRA, DistilBERT, MPNet, ModernBERT and DeBERTa give what `transformers` gives, from its folders and in them."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError
from xmodels.conversion import convert

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "encoders"
NAMES = ("electra", "distilbert", "mpnet", "modernbert", "deberta_v2", "deberta_v2_apart")
GIVEN = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}
LONGER = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
CLASSES = {
    "electra": ("Electra", ("ForPreTraining", "ForMultipleChoice", *LONGER)),
    "distilbert": ("DistilBert", ("ForMultipleChoice", *LONGER)),
    "mpnet": ("MPNet", LONGER),  # its choices read a pooler
    "modernbert": ("ModernBert", ("ForMaskedLM", "ForSequenceClassification", "Model")),
    "deberta_v2": ("DebertaV2", ("ForMultipleChoice", *LONGER)),
    "deberta_v2_apart": ("DebertaV2", LONGER[:2]),
}


def batch_of(given):
    """The inputs of a golden as a batch of ours; every place is predicted."""
    batch = {GIVEN[name]: np.array(given[name]).astype("int32") for name in GIVEN if name in given}
    places = np.broadcast_to(np.arange(batch["token_ids"].shape[1], dtype="int32"), batch["token_ids"].shape)
    return {**batch, "padding_mask": batch["padding_mask"] > 0, "mask_positions": places}


@pytest.mark.parametrize("name", NAMES)
def test_folders_of_transformers_give_their_outputs_and_come_back_as_they_were(name, tmp_path, monkeypatch):
    expected = np.load(GOLDEN / name / "expected.npz")
    batch = batch_of(expected)
    monkeypatch.setattr(convert, "example_batch", lambda config: batch)
    loaded = convert.load(f"hf:{GOLDEN / name}")
    assert loaded.model == name.removesuffix("_apart") and len(loaded.heads) == 1
    found, real = convert.outputs(loaded), batch["padding_mask"]
    np.testing.assert_allclose(found["sequence_output"][real], expected["states"][real], atol=2e-6)
    (head,) = loaded.heads
    np.testing.assert_allclose(found[f"{head}_logits"][real], expected["logits"][real], atol=4e-6)

    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'theirs'}")
    again = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert again.config == loaded.config and again.heads == loaded.heads
    assert all((again.values[key] == value).all() for key, value in loaded.values.items())


@pytest.fixture
def changed(tmp_path):
    """A function that copies a golden with other values in its config.json."""

    def make(name, **values):
        shutil.copytree(GOLDEN / name, tmp_path / name)
        path = tmp_path / name / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return f"hf:{tmp_path / name}"

    return make


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("modernbert", {"layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]}, "`layer_types`"),
        ("modernbert", {"classifier_pooling": "mean"}, "`classifier_pooling` = 'mean'; only 'cls'"),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "`rope_type` 'yarn'"),
        ("modernbert", {"local_attention": "wide"}, "`window` must be a whole number"),
        ("electra", {"summary_activation": "tanh"}, "`summary_activation` = 'tanh'"),
        ("distilbert", {"activation": "silu"}, "`activation` = 'silu'. Known: gelu, relu"),
    ],
)  # fmt: skip
def test_what_our_network_cannot_say_is_refused_by_name(changed, name, values, message):
    with pytest.raises(CheckpointError, match=message):
        convert.load(changed(name, **values))


def test_files_of_2024_say_the_layers_of_modernbert_in_other_words(changed):
    old = {"global_attn_every_n_layers": 3, "global_rope_theta": 5000.0, "local_rope_theta": 300.0}
    config = convert.load(changed("modernbert", layer_types=None, rope_parameters=None, **old)).config
    assert (config.global_every, config.global_theta, config.local_theta, config.window) == (3, 5000.0, 300.0, 3)


@pytest.mark.one_in(2)
@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize(("name", "ending"), [(n, ending) for n, (_, endings) in CLASSES.items() for ending in endings])
def test_every_class_of_transformers_computes_the_same_from_what_we_write(name, ending, tmp_path, monkeypatch):
    import torch
    import transformers

    family = CLASSES[name][0]
    stored = json.loads((GOLDEN / name / "config.json").read_text())
    labels = {"id2label": {0: "O", 1: "B-PER"}, "label2id": {"O": 0, "B-PER": 1}}  # names of tags, with any class
    config = getattr(transformers, f"{family}Config")(**{**stored, **labels, "architectures": None})
    network = getattr(transformers, family + ending)(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.4)
    network.tie_weights()
    network.save_pretrained(str(tmp_path / "theirs"))

    given = np.load(GOLDEN / name / "expected.npz")
    inputs = {key: torch.from_numpy(given[key]) for key in GIVEN if key in given}
    inputs = {key: value[None] for key, value in inputs.items()} if ending == "ForMultipleChoice" else inputs
    batch = batch_of(given)
    monkeypatch.setattr(convert, "example_batch", lambda config: batch)
    loaded = convert.load(f"hf:{tmp_path / 'theirs'}")
    found = convert.outputs(loaded)
    found = next((value for key, value in found.items() if key.endswith("_logits")), found["sequence_output"])

    convert.save(loaded, f"hf:{tmp_path / 'written'}")
    written, report = type(network).from_pretrained(str(tmp_path / "written"), output_loading_info=True)
    assert all("pooler" in key for key in (*report["missing_keys"], *report["unexpected_keys"]))
    real = batch["padding_mask"]
    for each in (network, written.eval()):
        with torch.no_grad():
            given = each(**inputs)
        expected = {"Model": "last_hidden_state", "ForQuestionAnswering": None}.get(ending, "logits")
        expected = given[expected] if expected else torch.stack([given["start_logits"], given["end_logits"]], dim=-1)
        expected = expected.numpy().reshape(found.shape)
        where = real if expected.shape[:2] == real.shape else slice(None)
        np.testing.assert_allclose(found[where], expected[where], atol=4e-6)
