"""How much tokens take of each other: of XLNet, BART and T5 what transformers gives, and what the networks compute with."""

import numpy as np
import pytest
from keras import ops

from data_pipelines.text.frames import XLNET
from xmodels.conversion import convert, formats
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint

CLASSES = {"xlnet": "XLNetModel", "bart": "BartModel", "t5": "T5EncoderModel"}


def network(model):
    """A small network of random weights, and its checkpoint."""
    table = formats.table_of(model)
    sizes = {"hidden_dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 12, "dropout": 0.0}
    sizes |= {"attention_dropout": 0.0} if model == "xlnet" else {"max_sequence_length": 20}
    sizes |= {"head_dim": 4} if model == "t5" else {}
    backbone = folder.model_class(model)(table.config(vocabulary_size=23, **sizes)).initialize()
    random = np.random.default_rng(0)
    values = {
        n: random.normal(0, 0.5, v.shape).astype("float32") for n, v in folder.values_of("backbone", backbone).items()
    }
    folder.assign("backbone", backbone, values, "a test")
    return backbone, Checkpoint(model, backbone.config, values)


def features(model):
    """Two texts, of which the second is shorter."""
    real = np.ones((2, 7), bool)
    real[1, :3] = XLNET.pads_left and model != "xlnet"  # XLNet's padding stands on the left
    if model != "xlnet":
        real[1, 4:] = False
    ids = np.where(real, np.random.default_rng(1).integers(5, 23, (2, 7)), 1).astype("int32")
    found = {"token_ids": ids, "padding_mask": real}
    return found | {"segment_ids": np.array([[0, 0, 0, 1, 1, 1, 2]] * 2, "int32")} if model == "xlnet" else found


@pytest.mark.parametrize("model", CLASSES)
def test_tokens_take_of_real_tokens_alone_and_of_all_together_one(model):
    backbone, _ = network(model)
    batch = features(model)
    real = batch["padding_mask"]
    maps = [np.asarray(each) for each in backbone.attention_maps(batch)]
    assert [each.shape for each in maps] == [(2, 2, 7, 7)] * 2
    for each in maps:
        np.testing.assert_allclose(each.sum(-1), 1.0, atol=1e-5)
        of_padding = np.moveaxis(each, 1, 2)[real][
            ..., ~real[1]
        ]  # by real queries, of what is padding in the second text
        assert (of_padding[real[0].sum() :] == 0).all()
    rows = {name: ops.convert_to_tensor(value) for name, value in batch.items()}
    assert all(np.allclose(a, b) for a, b in zip(maps, backbone.attention_maps(rows), strict=True))


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("model", CLASSES)
def test_they_are_those_of_transformers(model, tmp_path):
    import torch
    import transformers

    backbone, ours = network(model)
    convert.save(ours, f"hf:{tmp_path}/theirs")
    theirs = (
        getattr(transformers, CLASSES[model])
        .from_pretrained(str(tmp_path / "theirs"), attn_implementation="eager")
        .eval()
    )
    batch = features(model)
    given = {
        "input_ids": torch.tensor(batch["token_ids"]).long(),
        "attention_mask": torch.tensor(batch["padding_mask"]).float(),
    }
    if model == "xlnet":
        given["token_type_ids"] = torch.tensor(batch["segment_ids"]).long()
    with torch.no_grad():
        found = theirs(**given, output_attentions=True)
    expected = found.encoder_attentions if model == "bart" else found.attentions
    real = batch["padding_mask"]
    for mine, other in zip(backbone.attention_maps(batch), expected, strict=True):
        mine, other = (
            np.moveaxis(np.asarray(each), 1, 2)[real] for each in (mine, other)
        )  # of padding itself they may differ
        np.testing.assert_allclose(mine, other, atol=1e-5)
