"""Performer: parity with the reference, what its random features estimate and how well, and when they are drawn. The battery is
`test_mixers.py`."""

import functools
import pathlib
import shutil

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file

from tests.helpers.invocation import invoke
from xmodels.layers.attention.linear import LinearAttention
from xmodels.layers.attention.performer import OrthogonalRows, Performer, softmax_exponents
from xmodels.layers.attention.visible import Visible
from xmodels.layers.kernel_attention import attend_by_chunks, with_ones
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.training.step.renewal import Renewal

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "performer" / "favor_plus"


@functools.cache
def golden():
    found = {}
    for part in ("inputs", "outputs"):
        found |= dict(np.load(GOLDEN / f"{part}.npz"))
    return {name: x if x.ndim < 4 else x.transpose(0, 2, 1, 3) for name, x in found.items()}  # (B, L, H, K)


def golden_mixer(kernel):
    mixer = Performer(2, 16, num_features=20, kernel=kernel)
    mixer(np.zeros((1, 2, 16), "float32"))
    mixer.rows.assign(golden()["projection"])
    return mixer


@pytest.mark.parametrize("kernel", ["softmax", "relu"])
def test_features_are_those_of_the_reference(kernel):
    arrays, mixer = golden(), golden_mixer(kernel)
    found = mixer.query_features(arrays["query"]), mixer.key_features(arrays["key"], Visible())
    for each, name in zip(found, ("query", "key"), strict=True):
        np.testing.assert_allclose(each, arrays[f"{kernel}_features_{name}"], atol=1e-5)


@pytest.mark.parametrize("kernel", ["softmax", "relu", "elu1"])
def test_it_mixes_as_the_reference(kernel):
    arrays = golden()
    mixer = LinearAttention(2, 16) if kernel == "elu1" else golden_mixer(kernel)
    query, key, value = (arrays[name] for name in ("query", "key", "value"))
    np.testing.assert_allclose(mixer.mix(query, key, value, Visible()), arrays[f"{kernel}_attention"], atol=1e-4)
    # Causal, the reference lets later keys change the features of earlier ones, and weighs its epsilon by the query.
    query, key = mixer.query_features(query), mixer.key_features(key, Visible())
    sums = attend_by_chunks(query, key, with_ones(value), is_causal=True)
    found = sums[..., :-1] / (sums[..., -1:] + 1e-6 * ops.sum(query, axis=-1, keepdims=True))
    np.testing.assert_allclose(found, arrays[f"{kernel}_attention_causal"], atol=1e-4)


def test_rows_are_orthogonal_in_blocks_and_as_long_as_gaussian_ones():
    rows = np.array(OrthogonalRows(3)((1600, 16)))
    for block in rows.reshape(100, 16, 16):
        product = block @ block.T
        np.testing.assert_allclose(product - np.diag(np.diag(product)), 0, atol=1e-4)
    squares = (rows**2).sum(axis=1)  # chi squared with 16 degrees of freedom: mean 16, variance 32
    assert abs(squares.mean() - 16) < 4 * (32 / 1600) ** 0.5 and abs(squares.var() - 32) < 8
    again = np.array(OrthogonalRows(3)((1600, 16)))
    np.testing.assert_array_equal(rows, again)
    np.testing.assert_array_equal(np.array(OrthogonalRows(3)((5, 16))).shape, (5, 16))


def test_the_kernel_is_estimated_without_bias_and_better_than_by_independent_rows():
    width, draws = 16, 1000
    rng = np.random.default_rng(0)
    query, key = rng.normal(0, 0.5, (2, width)).astype("float32")
    exact = np.exp(query @ key / width**0.5)
    orthogonal = np.array(OrthogonalRows(1)((draws * width, width))).reshape(draws, width, width)
    independent = rng.normal(size=(draws, width, width)).astype("float32")

    def estimates(rows):
        scaled = np.stack([query, key]) * width**-0.25
        exponents = np.einsum("nmd,xd->xnm", rows, scaled) - (scaled**2).sum(axis=1)[:, None, None] / 2
        return np.exp(exponents).prod(axis=0).mean(axis=1)

    found, others = estimates(orthogonal), estimates(independent)
    assert abs(found.mean() - exact) < 3 * found.std() / draws**0.5
    assert ((found - exact) ** 2).mean() < 0.95 * ((others - exact) ** 2).mean()


def test_the_error_falls_with_the_root_of_the_number_of_features():
    width, length, sizes = 16, 32, (16, 64, 256, 1024)
    query, key, value = np.random.default_rng(0).normal(0, 0.25, (3, 1, length, 1, width)).astype("float32")
    weights = np.exp(np.einsum("blhk,bshk->bhls", query, key) / width**0.5)
    exact = np.einsum("bhls,bshk->blhk", weights / weights.sum(axis=-1, keepdims=True), value)
    errors = []
    for size in sizes:
        rows = np.array(OrthogonalRows(size)((20 * size, width))).reshape(20, size, width)
        found = []
        for each in rows:
            query_features, key_features = (np.exp(np.subtract(*softmax_exponents(x, each))) for x in (query, key))
            shares = np.einsum("blhm,bshm->bhls", query_features, key_features)
            shares /= shares.sum(axis=-1, keepdims=True)
            found.append(np.abs(np.einsum("bhls,bshk->blhk", shares, value) - exact).mean())
        errors.append(np.mean(found))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.42


def mixer_of(**numbers):
    keras.utils.set_random_seed(0)
    mixer = Performer(2, 16, **numbers)
    mixer(np.zeros((1, 2, 16), "float32"))
    return mixer


def test_the_number_of_features_follows_the_width_of_heads_or_the_number_given():
    assert tuple(mixer_of().rows.shape) == (16, 8)  # int(8 ln 8)
    assert tuple(mixer_of(num_features=5).rows.shape) == (5, 8)


def test_later_tokens_change_nothing_not_even_by_rounding():
    mixer = mixer_of()
    x = np.random.default_rng(0).normal(size=(1, 20, 16)).astype("float32")
    changed = x.copy()
    changed[:, 12:] *= 9.0
    visible = Visible(causal=True)
    np.testing.assert_array_equal(mixer(x, visible=visible)[:, :12], mixer(changed, visible=visible)[:, :12])


@pytest.mark.parametrize("kernel", ["softmax", "relu"])
def test_large_states_stay_finite(kernel):
    mixer = mixer_of(kernel=kernel)
    found = mixer(1e4 * np.random.default_rng(0).normal(size=(1, 9, 16)).astype("float32"))
    assert np.isfinite(found).all()


def gpt():
    config = GptConfig(50, 16, 2, 2, 32, mixer="performer", mixer_numbers={"redraw_every": 10})
    keras.utils.set_random_seed(0)
    return Gpt(config).initialize()


def rows_of(backbone):
    return [np.array(block.mixer.rows) for block in backbone.blocks]


def test_features_are_drawn_anew_when_they_are_due_and_again_after_a_resumption():
    network = gpt()
    first, renewal = rows_of(network), Renewal(network, seed=7)
    assert renewal.steps_to_next(0) == [10, 10] and renewal.steps_to_next(14) == [6, 6]
    renewal.before(9)
    np.testing.assert_array_equal(rows_of(network), first)
    renewal.before(20)
    later = rows_of(network)
    assert not np.isclose(later[0], first[0]).any() and not np.isclose(later[0], later[1]).any()
    resumed = gpt()
    Renewal(resumed, seed=7).before(25)
    np.testing.assert_array_equal(rows_of(resumed), later)
    Renewal(resumed, seed=8).before(25)
    assert not np.isclose(rows_of(resumed)[0], later[0]).any()


def test_features_that_are_never_drawn_anew_stay():
    network = Gpt(GptConfig(50, 16, 1, 2, 32, mixer="performer", mixer_numbers={"redraw_every": 0})).initialize()
    assert Renewal(network, seed=7).steps_to_next(5) == []


@pytest.mark.long
def test_an_interrupted_run_ends_with_the_weights_of_a_whole_one(tmp_path, stream_records):
    flags = {
        "system": "gpt2",
        "size": "tiny",
        "mixer": "performer",
        "set": "mixer.redraw_every=3",
        "data_dir": stream_records,
    }
    flags |= {"train_batch_size": 4, "eval_steps": 1, "num_train_steps": 7, "save_checkpoints_steps": 2}
    assert invoke("pretrain", model_dir=tmp_path / "whole", keep_checkpoint_max=9, **flags) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parted")
    for made in ("backbone", "checkpoints/step_00000007", "checkpoints/step_00000006"):
        shutil.rmtree(tmp_path / "parted" / made)
    assert invoke("pretrain", model_dir=tmp_path / "parted", keep_checkpoint_max=9, **flags) == 0
    whole, parted = (load_file(tmp_path / name / "backbone/weights.safetensors") for name in ("whole", "parted"))
    assert "backbone.blocks.1.mixer.rows" in whole and whole.keys() == parted.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(parted[name], value, err_msg=name)
