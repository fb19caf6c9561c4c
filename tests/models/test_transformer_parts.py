"""Encoders and decoders that begin as BERT, RoBERTa, GPT or GPT-2: what they take over computes what it did."""

import dataclasses

import numpy as np
import pytest

from xmodels.layers.attention.visible import Visible
from xmodels.models import bert
from xmodels.models.backbone import named_weights
from xmodels.models.bart import Bart, BartConfig
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.evolved_transformer import EvolvedTransformer
from xmodels.models.folder import name_of
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.models.marian import Marian
from xmodels.models.mass import Mass, MassConfig
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.transformer import Transformer, TransformerConfig
from xmodels.models.transformer_pre_norm import PreNormTransformer
from xmodels.objectives.causal_lm import CausalLM
from xmodels.systems import bert2bert

V = 20
SIZES = {"num_layers": 2, "num_heads": 2, "intermediate_dim": 16, "max_sequence_length": 8}
SAME = {"activation": "gelu", "layer_norm_epsilon": 1e-5, "dropout": 0.0, "attention_dropout": 0.0}
TOKENS = np.array([[4, 7, 9, 2, 0, 0], [5, 3, 6, 8, 11, 2]])
REAL = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
BATCH = {"token_ids": TOKENS, "padding_mask": REAL, "target_ids": TOKENS[:, ::-1].copy()}
TEXT = {"token_ids": BATCH["target_ids"], "padding_mask": np.ones_like(REAL)}
GPT_LIKE = {"position": "learned", "attention_bias": True, "share_embeddings": "none", "start": "token"}


def drawn(network, seed):
    network.initialize()
    for i, variable in enumerate(network.weights):
        variable.assign(np.random.default_rng([seed, i]).normal(0, 0.4, variable.shape))
    return network


def made(kind, config, seed=0, **numbers):
    return drawn(kind(config(V, 8, **SIZES | SAME | numbers)), seed)


def begin(network, part, other):
    """Gives a part of a network the weights of the other one; returns what was taken over."""
    values = {f"backbone.{name}": np.array(value) for name, value in named_weights(other).items()}
    found = type(network).adopt_part(
        part, network.config, name_of(type(other)), other.config, values, f"--init_{part}=run"
    )
    assert all(there == here for there, here in (found.sizes | found.settings).values())
    weights = {f"backbone.{name}": variable for name, variable in named_weights(network).items()}
    for name, value in found.values.items():
        weights[name].assign(value)  # raises where shapes differ
    return found


def silence(network):
    """Lets the attention of the decoder to the source give zeros."""
    for block in network.decoder_blocks:
        for weight in (block.cross.merge.kernel, block.cross.merge.bias):
            weight.assign(np.zeros(weight.shape))


@pytest.mark.parametrize(("kind", "config"), [(Bert, BertConfig), (Roberta, RobertaConfig)])
@pytest.mark.parametrize(("network", "sizes"), [(Bart, BartConfig), (Mass, MassConfig)])
def test_an_encoder_that_begins_as_a_masked_language_model_computes_its_states(kind, config, network, sizes):
    other, found = made(kind, config, 1), made(network, sizes)
    begin(found, "encoder", other)
    features = {**BATCH, "segment_ids": np.zeros_like(TOKENS)}
    expected = np.array(other({name: features[name] for name in other.reads})["sequence_output"])
    np.testing.assert_allclose(np.array(found.encode(BATCH))[REAL], expected[REAL], atol=2e-5)


def test_a_decoder_that_begins_as_a_masked_language_model_is_one_that_sees_no_future():
    """Its norms of the attention to the source have no counterpart, so with them blocks are compared up to the self-attention."""
    other, found = made(Bert, BertConfig, 1), made(Bart, BartConfig)
    begin(found, "decoder", other)
    first = other.embed(TEXT | {"segment_ids": np.zeros_like(TOKENS)})
    x = found.embedding.target(BATCH["target_ids"])
    np.testing.assert_allclose(x, first, atol=1e-5)
    for block, theirs in zip(found.decoder_blocks, other.blocks, strict=True):
        seen = Visible(causal=True)
        np.testing.assert_allclose(
            block.mixer_norm(x + block.mixer(x, visible=seen)),
            theirs.mixer_norm(x + theirs.mixer(x, visible=seen)),
            atol=1e-5,
        )
        np.testing.assert_allclose(block.feedforward(x), theirs.feedforward(x), atol=1e-5)
        x = theirs(x, visible=seen)


def test_a_decoder_that_begins_as_gpt2_writes_as_gpt2_while_the_source_says_nothing():
    other, found = made(Gpt2, Gpt2Config, 1), made(PreNormTransformer, TransformerConfig, **GPT_LIKE)
    begin(found, "decoder", other)
    silence(found)
    expected = np.array(CausalLM().logits(other(TEXT)["sequence_output"], other))
    np.testing.assert_allclose(found.logits(found(BATCH)["sequence_output"]), expected, rtol=1e-4, atol=1e-4)
    past = found.start(BATCH, 6)
    for place in range(6):
        states, past = found.decode(BATCH["target_ids"][:, place : place + 1], past, place)
        np.testing.assert_allclose(np.array(found.logits(states))[:, 0], expected[:, place], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "kind", "config"), [(Transformer, Gpt, GptConfig), (PreNormTransformer, Gpt2, Gpt2Config)]
)
def test_an_encoder_that_begins_as_a_causal_language_model_sees_both_sides_with_its_weights(network, kind, config):
    other, found = made(kind, config, 1), made(network, TransformerConfig, **GPT_LIKE)
    begin(found, "encoder", other)
    expected = np.array(other(BATCH, visible=Visible(REAL))["sequence_output"])
    np.testing.assert_allclose(np.array(found.encode(BATCH))[REAL], expected[REAL], atol=2e-5)


def test_both_parts_of_bart_may_begin_as_one_bert_but_not_as_two():
    found, one, other = made(Bart, BartConfig), made(Bert, BertConfig, 1), made(Bert, BertConfig, 2)
    parts = [begin(found, "encoder", one), begin(found, "decoder", one), begin(found, "decoder", other)]
    shared = parts[0].values.keys() & parts[1].values.keys()
    assert shared == {"backbone.embedding.token.embeddings"}
    (name,) = shared
    assert np.array_equal(parts[0].values[name], parts[1].values[name])
    assert not np.array_equal(parts[0].values[name], parts[2].values[name])


def test_bert2bert_of_a_size_takes_over_the_bert_of_that_size_without_further_flags():
    for name, size in bert.SIZES.items():
        ours, theirs = MassConfig(V, **bert2bert.SIZES[name]), BertConfig(V, **size)
        shared = ours.values().keys() & theirs.values().keys()
        assert {"num_layers", "num_heads", "max_sequence_length", "activation", "layer_norm_epsilon"} <= shared
        assert {field: ours.values()[field] for field in shared} == {field: theirs.values()[field] for field in shared}
    other, found = (
        drawn(Bert(BertConfig(V, **bert.SIZES["tiny"])), 1),
        drawn(Mass(MassConfig(V, **bert2bert.SIZES["tiny"])), 0),
    )
    for part in ("encoder", "decoder"):
        begin(found, part, other)
    expected = np.array(other({**TEXT, "token_ids": TOKENS, "segment_ids": np.zeros_like(TOKENS)})["sequence_output"])
    np.testing.assert_allclose(found.encode(BATCH | {"padding_mask": np.ones_like(REAL)}), expected, atol=1e-4)


def test_sizes_that_differ_are_told_and_more_positions_than_needed_are_cut():
    short = made(Bart, BartConfig, max_sequence_length=4)
    assert (
        len(begin(short, "encoder", made(Bert, BertConfig, 1)).values["backbone.embedding.source_position.embeddings"])
        == 6
    )
    config = BartConfig(
        V, 12, **SIZES | {"max_sequence_length": 16, "num_layers": 3}, decoder_num_heads=4, scale_embedding=True
    )
    other = made(Bert, BertConfig, 1)
    values = {f"backbone.{name}": np.array(value) for name, value in named_weights(other).items()}
    found = Bart.adopt_part("decoder", config, "bert", other.config, values, "run")
    assert {name: pair for name, pair in found.sizes.items() if pair[0] != pair[1]} == {
        "hidden_dim": (8, 12), "decoder_num_heads": (2, 4), "num_decoder_layers": (2, 3), "max_sequence_length": (8, 16),
        "scale_embedding": (False, True),
    }  # fmt: skip
    plain = dataclasses.replace(TransformerConfig(V, 8, **SIZES), share_embeddings="all")
    gpt = made(Gpt, GptConfig, 1)
    values = {f"backbone.{name}": np.array(value) for name, value in named_weights(gpt).items()}
    found = Transformer.adopt_part("decoder", plain, "gpt", gpt.config, values, "run")
    assert {name for name, (there, here) in found.sizes.items() if there != here} == {
        "position", "attention_bias", "share_embeddings",
    }  # fmt: skip
    assert found.settings["start"] == ("token", "zero")


def test_what_a_network_inherits_does_not_make_its_parts_begin_so():
    assert "begins_as" in vars(Transformer) and "begins_as" in vars(PreNormTransformer)
    assert not [kind for kind in (Marian, EvolvedTransformer) if "begins_as" in vars(kind)]
