"""The numbers of small networks: where they hold, and where those of the papers do."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.records.source import RecordSource
from tests.helpers.invocation import invoke
from tests.helpers.samples import make_records
from xmodels import systems
from xmodels.interfaces.reading import numbers_for
from xmodels.jobs.pretrain import batches as pretraining_batches
from xmodels.jobs.pretrain import network as pretraining_network
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain import run as pretrain
from xmodels.jobs.pretrain.options import Options
from xmodels.jobs.pretrain.plan import STRUCTURAL, plan
from xmodels.jobs.pretrain.start import check_start
from xmodels.jobs.tpu_preflight.step import make_placeholder_vocabulary
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.runs import changed_flags
from xmodels.systems import ernie
from xmodels.tasks.base.texts import TextReader
from xmodels.training import small
from xmodels.training.devices import distribution
from xmodels.training.recipe import Records


def chosen(records=None, **changes):
    """The configuration and the recipe that flags lead to."""
    options = Options(**{"system": "bert", "size": "tiny", "data_dir": "records", "model_dir": "run", **changes})
    system, vocabulary = systems.load(options.system), make_placeholder_vocabulary(1000)
    config = pretraining_network.make_config(options, system, vocabulary)
    return config, pretraining_network.make_recipe(options, system, vocabulary, records or Records(128), config)


def test_sizes_below_base_have_numbers_of_their_own_and_others_those_of_the_paper():
    config, recipe = chosen()
    assert (config.dropout, config.attention_dropout, config.initializer_stddev) == (0.0, 0.0, 0.0601)
    assert (recipe.optimizer, recipe.learning_rate, recipe.batch_size) == ("muon", 4e-3, 16)
    mini, of_mini = chosen(size="mini")
    assert of_mini.learning_rate == pytest.approx(2e-3)
    assert mini.initializer_stddev == pytest.approx(config.initializer_stddev / 2**0.5, abs=1e-4)
    assert chosen(Records(512))[1].batch_size == 8  # rows enough for several devices
    for changes in ({"size": "base"}, {"recipe": "published"}):
        config, recipe = chosen(**changes)
        assert (config.dropout, config.initializer_stddev) == (0.1, 0.02)
        assert (recipe.optimizer, recipe.learning_rate, recipe.batch_size) == ("bert_adamw", 1e-4, 256)
    config, recipe = chosen(size="base", recipe="small")
    assert config.dropout == 0.0 and recipe.learning_rate == pytest.approx(4e-3 / 6)


def test_flags_win_over_both():
    config, recipe = chosen(set="dropout=0.3,initializer_stddev=0.5", learning_rate=1e-5, train_batch_size=7)
    assert (config.dropout, config.initializer_stddev, config.attention_dropout) == (0.3, 0.5, 0.0)
    assert (recipe.learning_rate, recipe.batch_size, recipe.optimizer) == (1e-5, 7, "muon")
    assert chosen(optimizer="lamb")[1].optimizer == "lamb"
    assert chosen(num_train_steps=1600)[1].num_warmup_steps == 96


def test_a_checkpoint_and_a_configuration_file_keep_the_numbers_of_the_paper():
    system = systems.load("bert")
    for given in ({"init_checkpoint": "run"}, {"model_config_file": "bert_config.json"}):
        options = Options(system="bert", model_dir="run", size="tiny", **given)
        assert pretraining_network.small_numbers(options, system) is None
        asked = dataclasses.replace(options, recipe="small")
        assert pretraining_network.small_numbers(asked, system) is small.MASKED


def test_records_have_one_vocabulary_and_distances_are_not_clamped_in_training(capsys):
    with pytest.raises(UsageError, match="target_vocabulary_size 900: records have one vocabulary"):
        chosen(system="transformer", set="target_vocabulary_size=900")
    config, _ = chosen(system="transformer", set="target_vocabulary_size=1000,share_embeddings=none")
    assert config.to_json()["share_embeddings"] == "none"
    config, _ = chosen(system="transformer")  # whose runs from before the field are resumed
    assert "share_embeddings" not in config.to_json()
    for given, warned in (("clamp_length=40", True), ("memory_length=40", False)):
        config, _ = chosen(system="transformer_xl", set=given)
        pretraining_network.warn_of_clamp(config)
        assert ("clamp_length=40 is for evaluation" in capsys.readouterr().out) == warned


def test_a_configuration_file_is_read_as_that_of_its_library(tmp_path):
    """Google's `gelu` is the approximation by tanh, Hugging Face's is not, and has the epsilon of its norms in the file."""
    values = {
        "vocab_size": 1000,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    values |= {"max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu"}
    for more, expected in (
        ({}, ("gelu_tanh", 1e-12)),
        ({"model_type": "bert", "layer_norm_eps": 1e-6}, ("gelu", 1e-6)),
    ):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values | more))
        config, _ = chosen(model_config_file=str(path))
        assert (config.activation, config.layer_norm_epsilon) == expected


def test_published_sizes_keep_the_numbers_of_their_paper():
    ours = {
        "tiny",
        "mini",
        "small",
        "medium",
    }  # narrower than `base`, but for the medium of GPT-2 and the small ones of T5 and DeBERTaV3
    for name in systems.names():
        system = systems.load(name)
        for size in system.SIZES if hasattr(system, "SMALL") else ():
            options = Options(system=name, model_dir="run", size=size)
            expected = size in ours and (name, size) not in (
                ("gpt2", "medium"),
                ("t5", "small"),
                ("deberta_v3", "small"),
            )
            assert (pretraining_network.small_numbers(options, system) is not None) == expected, (name, size)


def test_a_system_without_such_numbers_says_which_have_them():
    with pytest.raises(
        UsageError, match="--recipe=small: --system=skip_gram has the numbers of its paper only.* albert, bart, bert,"
    ):
        chosen(system="skip_gram", recipe="small")


@pytest.mark.parametrize(("length", "expected"), [(128, "32:0.5,128:0.5"), (512, "32:0.5,512:0.5"), (64, None)])
def test_long_records_are_cut_first(length, expected):
    assert small.MASKED.length_schedule(length) == expected


@pytest.mark.long
def test_a_run_says_whose_numbers_it_takes_and_begins_with_short_rows(zh_vocabulary, tmp_path, capsys, monkeypatch):
    records = make_records(tmp_path / "records", zh_vocabulary, packing="full_sentences")
    monkeypatch.setattr(small, "MASKED", dataclasses.replace(small.MASKED, shorter=(8, 0.5)))
    monkeypatch.setattr(systems.load("roberta_wwm"), "SMALL", small.MASKED)
    numbers = "num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32"
    flags = {
        "set": numbers,
        "num_train_steps": 4,
        "train_batch_size": 4,
        "eval_steps": 1,
        "log_steps": 1,
        "jit_compile": "false",
    }
    options = Options(system="roberta_wwm", size="tiny", data_dir=records, model_dir=str(tmp_path / "run"), **flags)
    pretrain.pretrain(options)
    said = capsys.readouterr()
    assert "Hyperparameters: those for small networks" in said.out + said.err
    assert "Rows of 8 tokens in steps 1 to 2 (16 rows), of 32 tokens in steps 3 to 4 (4 rows)" in said.out + said.err
    card = (tmp_path / "run/model_card.md").read_text("utf-8")
    assert "--recipe=published takes the paper's" in card
    pretrain.pretrain(options)  # the same command finds its run finished
    given = {"system": "roberta_wwm", "size": "tiny", "data_dir": records, "model_dir": tmp_path / "run", **flags}
    invoke("doctor", **given)
    assert f"{tmp_path / 'run'} is finished" in capsys.readouterr().out
    with pytest.raises(UsageError, match="length_schedule"):
        pretrain.pretrain(dataclasses.replace(options, length_schedule="none"))


@pytest.mark.parametrize(
    ("records", "flags", "expected"),
    [
        ({}, {}, "32:0.5,128:0.5"),
        ({"static": True}, {}, None),
        ({}, {"length_schedule": "none"}, None),
        ({}, {"length_schedule": "64:0.1,128:0.9"}, "64:0.1,128:0.9"),
        ({}, {"pack_rows": True}, None),
        ({}, {"num_train_steps": 1}, None),  # too few for two phases
        ({}, {"recipe": "published"}, None),
        ({"sequence_length": 32}, {}, None),
    ],
)
def test_the_schedule_of_small_networks_holds_where_records_and_flags_allow_it(records, flags, expected):
    assert chosen(Records(**{"sequence_length": 128, **records}), **flags)[1].length_schedule == expected


def test_positions_begin_as_sinusoids_as_large_as_tokens():
    for changes in ({"system": "bert"}, {"system": "albert"}, {"system": "roberta"}):
        config, recipe = chosen(**changes)
        table = named_weights(recipe.backbone())["embedding.position.embeddings"].numpy()
        assert np.sqrt((table**2).mean()) == pytest.approx(config.initializer_stddev, rel=1e-3)
        products = table[:100] @ table[:100].T
        for distance in (1, 5, 20):  # the same for all places
            found = np.diagonal(products, distance)
            assert found.std() < 1e-5 * found.mean()
        assert np.diagonal(products, 1).mean() > np.diagonal(products, 20).mean()


@pytest.mark.parametrize(
    ("width", "rate"), [(64, 3e-4), (128, 3e-4), (256, 1.5e-4), (512, 7.5e-5), (768, 5e-5), (1024, 5e-5)]
)
def test_fine_tuning_takes_a_larger_rate_for_narrower_networks(width, rate):
    config = dataclasses.replace(chosen()[0], hidden_dim=width)
    numbers = systems.load("bert").READING.numbers_for(config)
    assert numbers["learning_rate"] == pytest.approx(rate)
    assert {**numbers, "learning_rate": 5e-5} == systems.load("bert").READING.numbers
    muon = systems.load("gpt").READING.numbers_for(config, "muon")
    assert "adam_epsilon" not in muon or width >= 768
    assert muon["optimizer"] == ("muon" if width < 768 else "adamw")
    assert muon["learning_rate"] == pytest.approx(2e-3 * min(1, 128 / width) if width < 768 else 6.25e-5)


@pytest.mark.parametrize("name", ["t5", "bart", "mass"])
def test_encoder_decoders_have_numbers_for_small_networks_in_pretraining_and_fine_tuning(name):
    packing = {"packing": "full_sentences"}
    config, recipe = chosen(Records(128, **packing), system=name)
    assert (recipe.optimizer, recipe.learning_rate, recipe.batch_size, recipe.num_steps) == ("muon", 4e-3, 16, 20_000)
    assert config.dropout == 0.0
    published = systems.load(name).WRITING.numbers
    assert numbers_for(published, config)["learning_rate"] == max(3e-4, published["learning_rate"])
    muon = numbers_for(published, config, "muon")
    assert (muon["optimizer"], muon["learning_rate"], muon["lr_schedule"]) == ("muon", 2e-3, published["lr_schedule"])


class Reads(TextReader):
    def __init__(self, **options):
        given = {"init_checkpoint": "", "optimizer": None, "learning_rate": None, "freeze_backbone": False}
        self.options = SimpleNamespace(**given | options)


def test_fine_tuning_takes_the_optimizer_that_trained_the_network_where_no_flag_says_otherwise(tmp_path):
    (tmp_path / "run" / "backbone").mkdir(parents=True)
    (tmp_path / "run" / "config.json").write_text(json.dumps({"settings": {"optimizer": "muon"}}), "utf-8")
    run, network, other = (str(tmp_path / name) for name in ("run", "run/backbone", "other"))
    for options, expected in (
        ({"init_checkpoint": run}, "muon"),
        ({"init_checkpoint": network}, "muon"),
        ({"init_checkpoint": f"{network}/"}, "muon"),
        ({"init_checkpoint": other}, None),
        ({"init_checkpoint": "hf:bert"}, None),
        ({"init_checkpoint": run, "learning_rate": 1e-4}, None),
        ({"init_checkpoint": run, "freeze_backbone": True}, None),
        ({"init_checkpoint": run, "optimizer": "adamw"}, "adamw"),
        ({"init_checkpoint": other, "optimizer": "muon", "learning_rate": 1e-4}, "muon"),
    ):
        assert Reads(**options).usual_optimizer() == expected, options


def test_adamw_has_a_rate_of_its_own():
    bert = systems.load("bert")
    for flags, rate in (
        ({}, 4e-3),
        ({"optimizer": "adamw"}, 2e-3),
        ({"optimizer": "adamw", "learning_rate": 1e-3}, 1e-3),
    ):
        options = Options(system="bert", size="tiny", model_dir="run", **flags)
        config = systems.configuration(bert, make_placeholder_vocabulary(1000), "tiny")
        found = pretraining_network.make_recipe(options, bert, make_placeholder_vocabulary(1000), Records(), config)
        assert found.learning_rate == pytest.approx(rate)


def test_a_masking_rate_that_is_given_has_the_slots_it_needs(zh_vocabulary, records, static_records):
    bert = systems.load("bert")
    options = Options(system="bert", model_dir="run", data_dir=records, set="masking_rate=0.5")
    source = RecordSource(records)
    found = pretraining_records.record_sizes(options, source, bert)
    assert (found.masking_rate, found.num_predictions) == (0.5, 16)
    assert pretraining_records.record_sizes(dataclasses.replace(options, set=None), source, bert).num_predictions == 6
    fewer = dataclasses.replace(options, max_predictions_per_seq=9)
    assert pretraining_records.record_sizes(fewer, source, bert).num_predictions == 9
    with pytest.raises(UsageError, match="--set=masking_rate=0.5: masks stand in the records already"):
        pretraining_records.record_sizes(options, RecordSource(static_records), bert)


def test_small_masked_networks_hide_more_of_usual_records(records, static_records, zh_vocabulary, tmp_path):
    usual, other = RecordSource(records), make_records(tmp_path / "other", zh_vocabulary, masked_lm_prob=0.2)
    options = Options(system="bert", size="tiny", model_dir="run", data_dir=records)

    def sizes(system="bert", source=usual, **changes):
        found = pretraining_records.record_sizes(dataclasses.replace(options, **changes), source, systems.load(system))
        return found.masking_rate, found.num_predictions

    assert sizes() == sizes("albert") == (0.4, 13)
    kept = 0.15, 6
    assert sizes(size="base") == sizes(recipe="published") == sizes(init_checkpoint="run") == kept
    assert sizes(max_predictions_per_seq=9) == (0.15, 9)
    assert sizes(set="masking_rate=0.15") == kept
    drawn = 0.15, ernie.slots(0.15, 32)  # units that are drawn one by one need more room than their share
    assert drawn[1] > 6 and sizes("ernie2") == sizes("ernie", task_data="dialogue:folder") == drawn
    assert sizes("ernie", size="base") == drawn and sizes("ernie", max_predictions_per_seq=9) == (0.15, 9)
    pairs = SimpleNamespace(**vars(usual) | {"manifest": SimpleNamespace(settings=dataclasses.replace(
        usual.manifest.settings, packing="parallel"))})  # fmt: skip
    assert sizes("unilm", pairs) == kept
    assert sizes(source=RecordSource(other)) == (0.2, 6)
    assert sizes(source=RecordSource(static_records))[1] == 6


def test_units_that_are_drawn_one_by_one_have_room_in_short_phases_too():
    system = systems.load("ernie")
    options = Options(system="ernie", model_dir="run", data_dir="records")
    assert pretraining_batches.most_predictions(options, system, 0.4, 32, 19) == ernie.slots(0.4, 32) > 19
    asked = dataclasses.replace(options, max_predictions_per_seq=75)
    assert pretraining_batches.most_predictions(asked, system, 0.4, 32, 19) == 19
    assert pretraining_batches.most_predictions(options, systems.load("bert"), 0.4, 32, 19) == 19


def test_a_network_with_other_tables_is_another_network():
    config = systems.configuration(systems.load("transformer"), make_placeholder_vocabulary(1000), "tiny")
    loaded = Checkpoint("transformer", config, {})
    other = dataclasses.replace(config, share_embeddings="none")
    with pytest.raises(CheckpointError, match="is of another size .share_embeddings all there, none here"):
        check_start(loaded, "run", systems.load("transformer").MODEL, other, None)


@pytest.mark.parametrize(
    ("flags", "settings"),
    [({}, {"masking_rate": 0.15}), ({}, {}), ({"set": "masking_rate=0.3"}, {"masking_rate": 0.3})],
    ids=["of today", "that did not store it", "of a flag"],
)
def test_a_run_is_not_resumed_with_another_share_of_masks(flags, settings):
    run = {"records": {"masked_lm_prob": 0.15}}
    began, now = run | {"flags": flags, "settings": settings}, run | {"flags": flags, "settings": {"masking_rate": 0.4}}
    with pytest.raises(UsageError, match=r"begun with other settings \(masking_rate: 0.\d+ then, 0.4 now\)"):
        changed_flags.compare("run", began, now, STRUCTURAL)
    same = run | {"flags": flags, "settings": {"masking_rate": settings.get("masking_rate", 0.15)}}
    assert changed_flags.compare("run", began, same, STRUCTURAL) == {}


@pytest.mark.parametrize(
    "system", ["bert", *(pytest.param(name, marks=pytest.mark.long) for name in ("roberta", "ernie"))]
)
def test_networks_that_learn_from_other_masks_are_scored_by_the_same(system, records, tmp_path):
    def batches(**changes):
        options = Options(
            system=system,
            size="tiny",
            model_dir=str(tmp_path),
            data_dir=records,
            distribution_strategy="one_device",
            train_batch_size=8,
            **changes,
        )
        made = plan(options, systems.load(system), distribution.choose("one_device"))
        whole, scored = made.batches, next(iter(made.scored_batches().values()))
        return (list(each.once(8)) for each in (whole, scored))

    def share(found):
        return sum(float(np.sum(batch["label_weights"])) for batch in found) / tokens

    def hidden(found):
        return [np.array(batch["labels"])[np.array(batch["label_weights"]) > 0] for batch in found]

    (trained, scored), (_, usual) = batches(), batches(recipe="published")
    tokens = sum(float(np.sum(batch["padding_mask"])) for batch in scored)
    assert share(trained) > 2 * share(scored)
    for ours, theirs in zip(hidden(scored), hidden(usual), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_held_out_records_are_like_those_of_the_training(zh_vocabulary, records, tmp_path):
    source = RecordSource(records)
    for changes, said in (
        ({"packing": "full_sentences"}, "packing is full_sentences"),
        ({"segmenter": "none", "do_whole_word_mask": False}, "segmenter is none"),
    ):
        folder = make_records(tmp_path / said.split()[-1], zh_vocabulary, **changes)
        with pytest.raises(DataError, match=f"{said}, that of the records"):
            pretraining_records.open_held_out(Options(system="bert", model_dir="run", eval_data_dir=folder), source)
