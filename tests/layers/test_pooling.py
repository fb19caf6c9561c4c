"""Readouts of fine-tuned networks: padding counts nowhere, the choice is kept with the network, and other formats refuse it."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.corpora.choices import ChoiceQuestion
from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from tests.helpers.small_systems import is_table_of_words, small_sizes
from tests.tasks.test_xlnet_finetuning import PLAIN, QUICK, TOKENIZER
from xmodels import systems
from xmodels.conversion import convert
from xmodels.interfaces.reading import STATELESS, Reading, plain_reading
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.layers.pooling import AttentionPooling, pooling_of
from xmodels.layers.poolings import POOLINGS
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.config import AttentionConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.runs.loaded import load as load_network
from xmodels.systems import bert
from xmodels.tasks.base.find import names, task_class
from xmodels.tasks.base.task import SummaryTask
from xmodels.tasks.choose.packing import pack_choices
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.classify.task import Classify

KEPT = "attention+max"
ALL_STATES = ("san", "fast_classify")  # read more than one state, of networks with segments or with layers in a row
SMALL = {"hidden_dim": 32, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64}
EVERY = {**STATELESS, "attention": AttentionPooling(3)}
STATES = np.random.default_rng(0).normal(size=(3, 5, 3)).astype("float32")
RIGHT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)


def on_the_left(states, mask):
    """The same rows, with their padding before them."""
    moved = [np.roll(row, len(row) - real.sum(), axis=0) for row, real in zip(states, mask, strict=True)]
    return np.stack(moved), mask[:, ::-1]


@pytest.mark.parametrize("name", EVERY)
def test_padding_counts_nowhere_on_either_side(name):
    EVERY["attention"].query.assign([0.3, -1.0, 2.0])
    alone = [np.array(EVERY[name](STATES[i : i + 1, :n], np.ones((1, n), bool)))[0] for i, n in ((0, 3), (1, 5))]
    for states, mask in ((STATES, RIGHT), on_the_left(STATES, RIGHT)):
        noisy = np.where(mask[..., None], states, 1e6).astype("float32")
        found = np.array(EVERY[name](noisy, mask))
        np.testing.assert_allclose(found[:2], alone, rtol=1e-6, atol=1e-6)
        assert np.isfinite(found[2]).all()  # a row that is all padding


def test_each_pooling_is_what_it_is_called():
    real = STATES[0, :3]
    found = {name: np.array(pool(STATES, RIGHT))[0] for name, pool in STATELESS.items()}
    expected = {"first": real[0], "last": real[2], "mean": real.mean(0), "max": real.max(0)}
    expected |= {"mean_sqrt_len": real.sum(0) / 3**0.5, "weighted_mean": (real[0] + 2 * real[1] + 3 * real[2]) / 6}
    assert set(expected) == set(STATELESS)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)
    fresh = AttentionPooling(3)
    np.testing.assert_allclose(fresh(STATES, RIGHT)[0], real.mean(0), rtol=1e-5)  # it begins as the mean
    fresh.query.assign([100.0, 0, 0])
    np.testing.assert_allclose(fresh(STATES, RIGHT)[0], real[real[:, 0].argmax()], rtol=1e-4)


def test_several_poolings_stand_side_by_side():
    pool, layer = pooling_of("max+attention+first", 3)
    expected = np.concatenate([STATELESS["max"](STATES, RIGHT), layer(STATES, RIGHT), STATES[:, 0]], axis=1)
    np.testing.assert_allclose(pool(STATES, RIGHT)[:2], expected[:2], rtol=1e-6)
    assert pooling_of("mean+max", 3)[1] is None
    assert pooling_of("mean", 3)[0](STATES, RIGHT).shape == (3, 3)
    for wrong in ("mean+mean", "mean+", "published+mean", "median", ""):
        with pytest.raises(UsageError, match=r"--pooling=.*expected one of published, first"):
            Reading().with_pooling(wrong)


def test_a_mix_of_layers_is_learned_by_the_task_alone():
    config = BertConfig(20, **SMALL | {"num_layers": 2}, dropout=0.0, initializer_stddev=0.5)
    backbone = Bert(config).initialize()
    backbone.trainable = False
    task = Classify(config, "ab", Reading().with_pooling("mix:mean"))
    batch = {"token_ids": np.array([[3, 4, 5], [6, 7, 0]]), "padding_mask": np.array([[1, 1, 1], [1, 1, 0]], bool)}
    batch |= {
        "segment_ids": np.zeros((2, 3), int),
        "labels": np.array([0, 1]),
        "example_weights": np.ones(2, "float32"),
    }

    def state():
        return np.array(task.summarized(backbone, batch)[1])

    layers = np.stack(backbone.hidden_states(batch))  # (3, B, L, D)
    means = np.stack([layers[:, 0].mean(axis=1), layers[:, 1, :2].mean(axis=1)], axis=1)  # (3, B, D)
    np.testing.assert_allclose(state(), means.mean(axis=0), atol=1e-5)
    task.layer_mix.shares.assign([0.0, 0.0, 50.0])
    np.testing.assert_allclose(state(), means[2], atol=1e-5)
    task.layer_mix.shares.assign([0.0, 1.0, 0.0])
    with tf.GradientTape() as tape:
        loss = task.score(task.forward(backbone, batch), batch, backbone)[0]["classify"][0]
    gradients = tape.gradient(loss, [task.layer_mix.shares.value, task.layer_mix.gamma.value])
    assert all(np.abs(gradient).max() > 1e-5 for gradient in gradients) and not backbone.trainable_variables
    assert task.pooling == "mix:mean" and Reading(mixes=True).with_pooling("mean").mixes is False


def test_a_pooling_that_the_paper_reads_is_no_other():
    config = AttentionConfig(9, 8, 1, 1, 8)
    same = {"roberta": "first", "gpt": "last", "xlnet": "last", "bart": "last", "bert": "published"}
    for name, pooling in same.items():
        reading = systems.load(name).READING
        assert reading.with_pooling(pooling) == reading and reading.default_pooling(config, "adamw") == "published"
        assert Classify(config, "ab", reading).pooling is None
        assert reading.with_pooling("mean").pooling == "mean"
    assert Classify(config, "ab", Reading().with_pooling("first")).pooling == "first"  # without the pooler's tanh


@pytest.mark.parametrize(
    ("name", "width", "optimizer", "expected"),
    [
        ("bert", 128, "muon", "mean+max"),
        ("roberta", 256, "muon", "mean+max"),
        ("albert", 128, "muon", "mean+max"),
        ("bert", 128, "adamw", "published"),
        ("bert", 768, "muon", "published"),
        ("xlnet", 128, "muon", "published"),
        ("gpt2", 128, "muon", "published"),
        ("bart", 128, "muon", "published"),
    ],
)
def test_small_networks_that_hide_tokens_and_learn_by_muon_read_all_states(name, width, optimizer, expected):
    config = dataclasses.replace(AttentionConfig(9, 8, 1, 1, 8), hidden_dim=width)
    assert systems.load(name).READING.default_pooling(config, optimizer) == expected


@pytest.mark.parametrize(
    ("trained_by", "flags", "expected"),
    [
        ("muon", {}, "mean+max"),
        ("muon", {"learning_rate": 1e-3}, "mean+max"),  # with AdamW
        ("muon", {"optimizer": "adamw", "freeze_backbone": True}, "mean+max"),
        ("adamw", {"optimizer": "muon"}, "published"),
        (None, {}, "published"),
    ],
)
def test_what_is_read_depends_on_how_the_network_was_pretrained(tmp_path, trained_by, flags, expected):
    """Also in a second fine-tuning, whatever the first one learnt with; a head that goes on reads what it has learnt to read."""
    pretrained, tuned = tmp_path / "pretrained", tmp_path / "tuned"
    pretrained.mkdir()
    network(pretrained / "backbone", "bert")
    shutil.copytree(pretrained / "backbone", tuned / "backbone")
    described = {"job": "pretrain", "settings": {"optimizer": trained_by}}
    (pretrained / "config.json").write_text(json.dumps(described))
    first = {"flags": {"init_checkpoint": str(pretrained)}, "settings": {"optimizer": "bert_adamw"}}
    (tuned / "config.json").write_text(json.dumps({"job": "finetune", **first}))

    def read(start, **more):
        options = Options(task="classify", init_checkpoint=str(start), model_dir=str(tmp_path / "run"), **flags | more)
        reader = reader_of(options)
        load_checkpoint_and_tokenizer(options, reader)
        assert reader.numbers["pooling"] == reader.reading.pooling
        return reader.reading.pooling

    assert read(pretrained / "backbone") == read(tuned / "backbone") == expected
    assert read(tuned / "backbone", init_head=True) == "published"


@pytest.mark.parametrize("name", ["bert", "xlnet"])
def test_choices_that_are_not_there_hurt_no_pooling(name):
    """Such a row is all padding: its logit counts nowhere, and gradients stay finite."""
    system = systems.load(name)
    backbone = system.MODEL(system.MODEL.config_class(vocabulary_size=len(TOKENIZER.vocabulary), **SMALL)).initialize()
    asked = [
        ChoiceQuestion("ann met bob", "in", ["rome", "york"], 0, ""),
        ChoiceQuestion("bob", "met", ["ann"] * 3, 2, ""),
    ]
    packed = pack_choices(asked, TOKENIZER, 16, system.READING)
    batch = {**packed, "labels": np.array([0, 2]), "example_weights": np.ones(2, "float32")}
    for pooling in (*POOLINGS, "mean+attention"):
        task = Choose(backbone.config, [], system.READING.with_pooling(pooling))
        with tf.GradientTape() as tape:
            outputs = task.forward(backbone, batch)
            loss, weight = task.score(outputs, batch, backbone)[0]["choose"]
        gradients = tape.gradient(
            loss / weight, [v.value for v in (*task.trainable_variables, *backbone.trainable_variables)]
        )
        assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients if g is not None), pooling
        assert np.array(task.predict(outputs)["probabilities"])[0, 2] == 0, pooling


@pytest.mark.parametrize("name", EVERY)
def test_sixteen_bits_are_summed_in_float32(name):
    """A mean of many states in bfloat16 would stop growing after some hundred tokens."""
    states = np.ones((1, 2000, 3), "float32")
    found = EVERY[name](ops.cast(states, "bfloat16"), np.ones((1, 2000), bool))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16" or name == "attention"
    expected = 2000**0.5 if name == "mean_sqrt_len" else 1.0
    np.testing.assert_allclose(np.array(ops.cast(found, "float32")), expected, rtol=1e-2)


def network(path, name):
    """A small network of random weights as a model folder."""
    system = systems.load(name)
    extra = {"memory_length": 8} if name == "transformer_xl" else {}
    kind = system.MODEL.config_class
    config = kind(vocabulary_size=len(TOKENIZER.vocabulary), **small_sizes(kind, SMALL), **extra)
    backbone = system.MODEL(config).initialize()
    path.mkdir()
    folder.write_model(str(path), backbone, None, TOKENIZER.files(), TOKENIZER.describe(), name)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = [(f"{a} met {b} in {place}", a) for a in ("ann", "bob") for b in PLAIN[:4] for place in PLAIN]
    path = tmp_path_factory.mktemp("table") / "texts.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), "utf-8")
    return path


def flags_of(table, pooling, **more):
    return QUICK | {"train_file": table, "num_train_epochs": 1, "learning_rate": 1e-2, "pooling": pooling} | more


@pytest.fixture(scope="module")
def attentive(tmp_path_factory, table):
    """A BERT that was fine-tuned with attention over its tokens, and the largest numbers beside it."""
    path = tmp_path_factory.mktemp("attentive")
    start = network(path / "start", "bert")
    assert (
        invoke(
            "finetune",
            init_checkpoint=start,
            model_dir=path / "run",
            **flags_of(table, KEPT, num_train_epochs=4),
        )
        == 0
    )
    return path


@pytest.mark.long
def test_the_choice_is_kept_with_the_network(attentive):
    run = attentive / "run"
    assert json.loads((run / "backbone/config.json").read_text())["pooling"] == KEPT
    assert json.loads((run / "config.json").read_text())["flags"]["pooling"] == KEPT
    predictor = load(str(run))
    assert np.abs(predictor.task.attention_pooling.query).max() > 0  # it has learnt
    text, longer = "bob met new in rome", " ".join(PLAIN)
    together, alone = predictor.predict([(text,), (longer,)]), predictor.predict([(text,)])
    assert together[0].probabilities["bob"] == pytest.approx(alone[0].probabilities["bob"], abs=1e-5)


@pytest.mark.long
def test_the_exported_network_answers_alike(attentive, tmp_path):  # the verb compares its answers with those of the run
    assert invoke("export_model", model_dir=attentive / "run", export_dir=tmp_path / "served", serving_ops="core") == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    found = served(text=tf.constant(["bob met new in rome"]))["probabilities"].numpy()[0].max()
    (answer,) = load(str(attentive / "run")).predict([("bob met new in rome",)])
    assert found == pytest.approx(max(answer.probabilities.values()), abs=1e-4)


def test_other_formats_refuse_it_in_a_line_and_ours_keeps_it(attentive, tmp_path, capsys):
    run = attentive / "run"
    assert invoke("convert_checkpoint", **{"from": run, "to": f"hf:{tmp_path / 'theirs'}"}) == 4
    assert f"the heads of this format have no --pooling={KEPT}" in capsys.readouterr().err
    assert invoke("convert_checkpoint", "--verify", **{"from": run, "to": tmp_path / "ours"}) == 0
    expected, found = (load(str(path)).predict([("bob met new in rome",)])[0] for path in (run, tmp_path / "ours"))
    assert list(found.probabilities.values()) == pytest.approx(list(expected.probabilities.values()), abs=1e-6)


@pytest.mark.long
def test_a_run_goes_on_with_its_own_pooling_only(attentive, table, capsys):
    start, run = attentive / "start", attentive / "run"
    given = {"init_checkpoint": start, "model_dir": run, "num_train_epochs": 5}
    for other in ("mean", None):
        flags = {n: v for n, v in flags_of(table, other, **given).items() if v is not None}
        assert invoke("finetune", **flags) == 2
        assert f"pooling: '{KEPT}' then" in capsys.readouterr().err
    assert invoke("finetune", **flags_of(table, KEPT, **given)) == 0


@pytest.mark.parametrize("pooling", ["mean", pytest.param("first", marks=pytest.mark.long)])
def test_a_pooling_without_weights_is_told_from_the_published_one(
    attentive, table, tmp_path, pooling, capsys, monkeypatch
):
    """One is asked for, the other the default of networks of this size; what a run took it keeps, whatever the default becomes."""
    run, flags = tmp_path / "run", flags_of(table, pooling)
    if pooling == "mean":
        del flags["pooling"]
        own = dataclasses.replace(
            bert.READING, default_pooling=lambda config, optimizer: "mean" if config.hidden_dim < 64 else "max"
        )
        monkeypatch.setattr(bert, "READING", own)
    assert invoke("finetune", init_checkpoint=attentive / "start", model_dir=run, **flags) == 0
    monkeypatch.undo()
    assert convert.load(str(run)).pooling == load_network(str(run)).reading.pooling == pooling
    assert f"{pooling} (formats of others have no such head" in (run / "model_card.md").read_text()
    assert invoke("convert_checkpoint", **{"from": run, "to": f"tf1:{tmp_path / 'theirs'}"}) == 4
    assert f"have no --pooling={pooling}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bert", pytest.param("gpt", marks=pytest.mark.long)])
def test_a_frozen_network_stays_as_it_is_and_is_read_without_dropout(name, table, tmp_path):
    start, run = network(tmp_path / "start", name), tmp_path / "run"
    flags = flags_of(table, "mean", freeze_backbone=True, num_train_epochs=4, eval_file=table)
    assert invoke("finetune", init_checkpoint=start, model_dir=run, **flags) == 0
    before, after = (folder.read_weights(str(path / folder.WEIGHTS)) for path in (start, run / "backbone"))
    for each, value in before.items():
        np.testing.assert_array_equal(after[each][: len(value)], value, err_msg=each)  # GPT gets tokens besides
    assert "objective.classify.head.kernel" in after
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    assert not [name for entry in logged for name in entry if "auxiliary_lm" in name]
    scores = [entry["loss"] for entry in logged if entry["kind"] == "evaluation"]
    assert scores[-1] < scores[0]

    system = systems.load(name)
    kind = system.MODEL.config_class
    backbone = system.MODEL(kind(vocabulary_size=99, **small_sizes(kind, SMALL | {"dropout": 0.5}))).initialize()
    batch = {n: np.ones((2, 5), "int32") for n in ("token_ids", "segment_ids", "padding_mask")}
    read = [np.array(system.READING.states(backbone, batch, training=True)["sequence_output"]) for _ in range(2)]
    assert np.abs(read[0] - read[1]).max() > 0.01
    backbone.trainable = False
    read = [np.array(system.READING.states(backbone, batch, training=True)["sequence_output"]) for _ in range(2)]
    np.testing.assert_array_equal(*read)


def test_tasks_and_networks_say_where_a_pooling_does_not_fit(tmp_path, table, capsys):
    start = network(tmp_path / "xl", "transformer_xl")
    given = {"init_checkpoint": start, "model_dir": tmp_path / "run", "train_file": table}
    assert invoke("finetune", task="tag", pooling="mean", **given) == 2
    assert "--pooling: --task=tag has no such flag" in capsys.readouterr().err
    assert invoke("finetune", **given) == 2
    assert "or say which of its states answer: --pooling=mean" in capsys.readouterr().err


SUMMARIES = [name for name in names("task") if issubclass(task_class(name), SummaryTask) and name not in ALL_STATES]


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_encoder_alone_answers_whatever_the_task(name):
    """Of a T5 no task calls the decoder, which would need a target."""
    system, count = systems.load("t5"), len(TOKENIZER.vocabulary)
    backbone = system.MODEL(system.MODEL.config_class(count, **SMALL, head_dim=16)).initialize()
    reading = plain_reading(system.MODEL, TOKENIZER.vocabulary, generates=True).with_pooling("mean")
    task = task_class(name)(backbone.config, ["a", "b"], reading=reading)
    shape = (2, *(2 if length is None else length for length in task.reads["token_ids"].shape[:-1]), 5)
    batch = {"token_ids": np.full(shape, 7, "int32"), "padding_mask": np.ones(shape, bool)}
    batch |= {"segment_ids": 0 * batch["token_ids"], "choice_weights": np.ones(shape[:2], "float32")}
    found = task.predict(task.forward(backbone, batch, training=True))
    assert found and all(np.isfinite(np.array(value)).all() for value in found.values())


OTHERS = [n for n in systems.names() if systems.load(n).READING is None]


@pytest.mark.long
@pytest.mark.parametrize("name", [*OTHERS, "xlnet", "bart"])
def test_networks_that_are_asked_about_no_texts_answer_by_a_pooling(name, table, tmp_path):
    """Those of the second list are asked, and are here for padding on the left and for a decoder."""
    flags = flags_of(table, "mean", num_train_epochs=6, eval_file=table)
    assert (
        invoke("finetune", init_checkpoint=network(tmp_path / "start", name), model_dir=tmp_path / "run", **flags) == 0
    )
    predictor = load(str(tmp_path / "run"))
    text, longer = ("bob met new in rome",), (" ".join(PLAIN),)
    together, alone = predictor.predict([text, longer]), predictor.predict([text])
    assert together[0].probabilities["bob"] == pytest.approx(alone[0].probabilities["bob"], abs=1e-5)
    assert together[0].label == "bob"
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served", serving_ops="core") == 0


@pytest.mark.long
def test_the_last_state_of_a_network_that_is_asked_about_no_texts_is_kept_as_a_choice(table, tmp_path):
    flags = flags_of(table, "last")
    start = network(tmp_path / "start", "skip_gram")
    assert invoke("finetune", init_checkpoint=start, model_dir=tmp_path / "run", **flags) == 0
    predictor = load(str(tmp_path / "run"))
    whole, last, other = (
        predictor.predict([(text,)])[0].probabilities["bob"] for text in ("met bob in rome", "rome", "bob")
    )
    assert whole == pytest.approx(last, abs=1e-6) and abs(whole - other) > 1e-6
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served", serving_ops="core") == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    nothing = predictor.predict([("",)])[0].probabilities["bob"]  # no token, not even a special one
    np.testing.assert_allclose(served(text=tf.constant([""]))["probabilities"][0, 1], nothing, atol=1e-5)


@pytest.fixture(scope="module")
def words_and_questions(tmp_path_factory):
    """A file of tagged words, and one of questions about the same texts, by task."""
    path, lines, paragraphs = tmp_path_factory.mktemp("words"), [], []
    for number, (first, second, place) in enumerate((a, b, c) for a in PLAIN[:4] for b in PLAIN[:4] for c in PLAIN[4:]):
        lines += [f"{first} O", "met O", f"{second} O", "in O", f"{place} B-LOC", ""]
        answer = {"text": place, "answer_start": len(f"{first} met {second} in ")}
        asked = {"id": str(number), "question": f"{first} in", "answers": [answer]}
        paragraphs.append({"context": f"{first} met {second} in {place}", "qas": [asked]})
    (path / "tag.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (path / "answer_span.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), "utf-8")
    return {"tag": path / "tag.txt", "answer_span": path / "answer_span.json"}


def asked_of_states(task, file, start, run):
    """The exit code of a fine-tuning on words or questions."""
    windows = {} if task == "tag" else {"max_query_length": 4, "doc_stride": 4}
    flags = QUICK | {"num_train_epochs": 1, "learning_rate": 1e-2, "max_seq_length": 16} | windows
    return invoke("finetune", task=task, init_checkpoint=start, model_dir=run, train_file=file, **flags)


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", ["tag", "answer_span"])
def test_the_encoder_of_an_encoder_decoder_tags_words_and_finds_answers(task, words_and_questions, tmp_path, capsys):
    run, text = tmp_path / "run", {"text": "ann met bob in rome"} | ({} if task == "tag" else {"text_pair": "ann in"})
    assert asked_of_states(task, words_and_questions[task], network(tmp_path / "start", "t5"), run) == 0
    assert invoke("convert_checkpoint", **{"from": run, "to": tmp_path / "model"}) == 0
    answers = [capsys.readouterr().out]
    for path in (run, tmp_path / "model"):
        assert invoke("predict", model_dir=path, **text) == 0
        answers.append(capsys.readouterr().out)
    assert answers[1] == answers[2]


@pytest.mark.long
@pytest.mark.parametrize("task", ["tag", "answer_span"])
@pytest.mark.parametrize("name", OTHERS)
def test_networks_that_are_asked_about_no_texts_tag_words_and_find_answers(
    name, task, words_and_questions, tmp_path, capsys
):
    """The last special token stands for having no answer, so there must be one."""
    run, file = tmp_path / "run", words_and_questions[task]
    code = asked_of_states(task, file, network(tmp_path / "start", name), run)
    if task == "answer_span" and is_table_of_words(name):
        assert code == 2 and "reads texts without any special token" in capsys.readouterr().err
        return
    assert code == 0 and invoke("evaluate", model_dir=run, test_file=file) == 0
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0
