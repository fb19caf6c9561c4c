"""GPT is fine-tuned as its paper says: input strings, one extract token, new rows, and language modelling beside the task."""

import dataclasses
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.corpora.choices import ChoiceQuestion
from data_pipelines.errors import DataError
from data_pipelines.text import frames
from data_pipelines.text.added_tokens import with_tokens
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_close, read_case
from tests.helpers.samples import ROOT
from tests.helpers.small_readers import reader_of
from tests.models.test_gpt_parity import network, shifted
from xmodels.conversion import convert
from xmodels.conversion.formats import table_of
from xmodels.conversion.tensors import to_their_tensors
from xmodels.interfaces.reading import Reading
from xmodels.jobs.finetune.options import Options
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.objectives.causal_lm import CausalLM
from xmodels.runs.fine_tuned import load_predictor
from xmodels.systems import gpt as gpt_system
from xmodels.tasks.base.auxiliary_lm import WithLanguageModel
from xmodels.tasks.base.texts import TOKEN_TABLE, TextReader, with_rows
from xmodels.tasks.choose.packing import pack_choices
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.similarity.task import Similarity
from xmodels.training.optimizers.optimization import Optimization

SAMPLES = ROOT / "samples/zh"
TEXTS = ["这家餐厅的菜很好吃。", "They walked 9,000 steps!", ""]
WORDS = [*SPECIAL_TOKENS, *frames.GPT_TOKENS, *(f"w{i}" for i in range(40))]
START, DELIMITER, EXTRACT = (WORDS.index(token) for token in frames.GPT_TOKENS)


@pytest.fixture(scope="module")
def words():
    return WordTokenizer(Vocabulary(WORDS), segmenter="presegmented")


@pytest.fixture(scope="module")
def backbone():
    keras.utils.set_random_seed(5)
    found = Gpt(GptConfig(len(WORDS), 16, 2, 2, 64, max_sequence_length=24)).initialize()
    for variable in found.variables:  # so that all that could differ does
        variable.assign_add(np.random.default_rng(0).normal(0, 0.2, variable.shape))
    return found


def built(task, backbone, batch):
    """The task with a head that is not small."""
    task.forward(backbone, batch)
    task.head.kernel.assign(np.random.default_rng(1).normal(size=task.head.kernel.shape))
    return task


def labelled(arrays, labels):
    weights = np.ones(len(labels), np.float32)
    return {**arrays, "labels": np.array(labels, np.int32), "example_weights": weights}


def trained_alike(objective, backbone, batch, part=lambda losses: sum(s / w for s, w in losses.values())):
    """The gradient of a part of the losses by all weights of the network."""
    with tf.GradientTape() as tape:
        losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
        loss = part(losses)
    found = tape.gradient(loss, [v.value for v in backbone.trainable_variables], unconnected_gradients="zero")
    return [np.array(tf.convert_to_tensor(gradient)) for gradient in found]


# What the network reads.


def test_texts_are_framed_as_in_figure_1(words):
    one = pack_texts([("w1 w2",), ("w3",)], words, 24, frames.GPT)
    w = WORDS.index("w0")
    assert one["token_ids"][:, :5].tolist() == [[START, w + 1, w + 2, EXTRACT, 0], [START, w + 3, EXTRACT, 0, 0]]
    two = pack_texts([("w1 w2", "w4")], words, 24, frames.GPT, Similarity.orders)
    assert two["token_ids"][0, :, :6].tolist() == [
        [START, w + 1, w + 2, DELIMITER, w + 4, EXTRACT], [START, w + 4, DELIMITER, w + 1, w + 2, EXTRACT]
    ]  # fmt: skip
    asked = [ChoiceQuestion("w1 w2", "w3", ["w4", "w5 w6"], 0, ""), ChoiceQuestion("w1", "w3", ["w4"] * 3, 0, "")]
    three = pack_choices(asked, words, 24, gpt_system.READING)
    assert three["token_ids"].shape[:2] == (2, 3) and three["choice_weights"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert three["token_ids"][0, 1, :8].tolist() == [
        START, w + 1, w + 2, w + 3, DELIMITER, w + 5, w + 6, EXTRACT
    ]  # fmt: skip
    assert not three["padding_mask"][0, 2].any()
    short = pack_choices(asked[:1], words, 7, gpt_system.READING)  # question and choice stay whole
    assert short["token_ids"][0, 1].tolist() == [START, w + 1, w + 3, DELIMITER, w + 5, w + 6, EXTRACT]
    bert = pack_choices(asked[:1], words, 24, Reading())
    assert bert["segment_ids"][0, 1, :8].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_text_that_holds_the_extract_token_is_refused(words):
    with pytest.raises(DataError, match="Text 2: holds the special token _classify_ itself, so that it would stand 2"):
        pack_texts([("w1",), ("w2 _classify_",)], words, 24, frames.GPT)


@pytest.mark.parametrize("kind", ["bpe", "byte_bpe", "sentencepiece", "wordpiece", "characters"])
def test_added_tokens_stand_behind_all_others_and_come_out_of_no_text(kind, tmp_path):
    path = tmp_path / ("vocab.txt" if kind in ("wordpiece", "characters") else "voc")
    made = {"input_file": SAMPLES / "corpus.txt", "language": "zh", "vocab_size": 1400, "output_file": path}
    assert invoke("train_vocabulary", tokenizer=kind, **made) == 0
    before = open_tokenizer(str(path), kind)
    after = with_tokens(before, frames.GPT_TOKENS)
    assert after.vocabulary.tokens == before.vocabulary.tokens + list(frames.GPT_TOKENS)
    assert after.describe() == before.describe() and after.extends == before.sha256
    texts = [*TEXTS, "_start_ a _classify_"]
    assert [p.ids for p in after.encode_batch(texts)] == [p.ids for p in before.encode_batch(texts)]
    assert with_tokens(after, frames.GPT_TOKENS) is after


# What it computes.


def at_places(places):
    """GPT's reading, but the state that answers stands at given places, as Hugging Face is told them."""

    def summary(outputs, batch):
        return ops.squeeze(ops.take_along_axis(outputs["sequence_output"], places.reshape(-1, 1, 1), axis=1), 1)

    return dataclasses.replace(gpt_system.READING, summary=summary)


class WithSegments:
    """A network in Hugging Face's reading: segments are looked up in the table of tokens, which the original does not do."""

    def __init__(self, backbone, segments):
        self.backbone, self.embedding, self.segments = backbone, backbone.embedding, segments

    def __call__(self, features, training=None):
        x = self.embedding(features["token_ids"]) + self.embedding.token(self.segments)
        for block in self.backbone.blocks:
            x = block(x, visible=self.backbone.visible(features))
        return {"sequence_output": x}


def double_heads():
    case, backbone = read_case("gpt1/double_heads"), network("gpt1/double_heads")
    inputs = {"token_ids": case.inputs["token_ids"], "padding_mask": case.inputs["padding_mask"].astype(bool)}
    batch = labelled({**inputs, "choice_weights": np.ones((2, 3), np.float32)}, case.inputs["mc_labels"])
    task = Choose(backbone.config, [], at_places(case.inputs["mc_token_positions"]))
    task.forward(backbone, batch)
    task.head.kernel.assign(case.weights["multiple_choice_head.summary.weight"].T)
    task.head.bias.assign(case.weights["multiple_choice_head.summary.bias"])
    return case, backbone, task, batch


def test_choices_get_the_logits_of_hugging_face():
    case, backbone, task, batch = double_heads()
    assert_close(task.forward(backbone, batch)["logits"], case.outputs["no_segment/mc_logits"])


def test_both_losses_and_their_gradients_are_those_of_hugging_face():
    case, backbone, task, batch = double_heads()
    segmented = WithSegments(backbone, case.inputs["segment_token_ids"].reshape(6, 12))
    labels = {name: x.reshape(6, 12) for name, x in shifted(flat(case.inputs, "lm_labels")).items()}
    weights = named_weights(backbone) | {f"head.{v.name}": v for v in task.head.weights}
    with tf.GradientTape() as tape:
        outputs = task.forward(segmented, batch)
        assert_close(outputs["logits"], case.outputs["mc_logits"])
        chosen = task.score(outputs, batch, backbone)[0]["choose"]
        modelled = CausalLM().score(outputs, {**batch, **labels}, backbone)[0]["causal_lm"]
        losses = [total / weight for total, weight in (modelled, chosen)]
        loss = sum(losses)
    assert_close(losses, [case.outputs["lm_loss"], case.outputs["mc_loss"]])
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, [v.value for v in weights.values()])]
    found = dict(zip(weights, gradients, strict=True))
    theirs = {"multiple_choice_head.summary.weight": found.pop("head.kernel")}
    theirs["multiple_choice_head.summary.bias"] = found.pop("head.bias")
    table = table_of("gpt")
    of_network = {f"backbone.{name}": value for name, value in found.items()}
    theirs |= to_their_tensors(of_network, table.variables(table.hugging_face), table, backbone.config)
    expected = dict(zip(case.outputs["grad_norm_names"], case.outputs["grad_norm_values"], strict=True))
    assert set(theirs) == set(expected)
    for name, norm in expected.items():
        assert np.linalg.norm(theirs[name]) == pytest.approx(norm, rel=1e-3, abs=1e-5), name


def flat(inputs, name):
    return {name: inputs[name].reshape(6, 12)}


def test_padding_behind_the_extract_token_changes_nothing(words, backbone):
    task = Classify(backbone.config, "ab", gpt_system.READING)
    short = pack_texts([("w1 w2 w3 w4",)], words, 24, frames.GPT)
    built(task, backbone, short)
    long = {name: np.pad(value, [(0, 0), (0, 9)]) for name, value in short.items()}
    outputs = [task.forward(backbone, batch) for batch in (short, long)]
    np.testing.assert_allclose(*(found["logits"] for found in outputs), atol=1e-6)
    last = outputs[0]["sequence_output"][:, 5]  # where the text is over
    assert WORDS[short["token_ids"][0, 5]] == frames.EXTRACT
    np.testing.assert_array_equal(task.reading.summary(outputs[0], short), last)


def test_similarity_has_no_order(words, backbone):
    task = Similarity(backbone.config, "abc", gpt_system.READING)
    pairs = [("w1 w2 w3", "w4"), ("w5", "w5 w6"), ("w7 w8", "w9 w9")]
    one, other = (pack_texts(x, words, 24, frames.GPT, task.orders) for x in (pairs, [(b, a) for a, b in pairs]))
    built(task, backbone, one)
    found, turned = (np.array(task.forward(backbone, batch)["logits"]) for batch in (one, other))
    np.testing.assert_allclose(found, turned, atol=1e-6 * np.abs(found).max())
    assert np.ptp(found, axis=0).min() > 0.01  # pairs differ
    once = Classify(backbone.config, "abc", gpt_system.READING)
    batches = [{name: value[:, order] for name, value in one.items()} for order in (0, 1)]
    built(once, backbone, batches[0])
    bias = np.array(once.head.bias)
    np.testing.assert_allclose(
        sum(np.array(once.forward(backbone, batch)["logits"]) - bias for batch in batches) + bias, found, atol=1e-4
    )


def test_choices_are_judged_alone_and_those_that_are_missing_never_win(words, backbone):
    task = Choose(backbone.config, [], gpt_system.READING)
    choices = ["w4", "w5 w6", "w7"]
    asked = [ChoiceQuestion("w1", "w2", [choices[i] for i in order], 0, "") for order in ((0, 1, 2), (2, 0, 1), (0, 1))]
    batch = pack_choices(asked, words, 24, task.reading)
    built(task, backbone, batch)
    outputs = task.forward(backbone, batch)
    first, turned, fewer = np.array(task.predict(outputs)["probabilities"])
    np.testing.assert_allclose(turned, first[[2, 0, 1]], atol=1e-6)
    assert fewer[2] == 0 and fewer.sum() == pytest.approx(1)
    np.testing.assert_allclose(fewer[:2], first[:2] / first[:2].sum(), atol=1e-5)


# What it learns.


def a_batch(words):
    return labelled(pack_texts([("w1 w2 w3 w4 w5", "w6"), ("w7", "w8")], words, 24, frames.GPT), [0, 1])


def test_language_modelling_is_a_mean_over_tokens_and_then_over_sequences(words, backbone):
    task, batch = Classify(backbone.config, "ab", gpt_system.READING), a_batch(words)
    built(task, backbone, batch)
    objective = WithLanguageModel(task, CausalLM())
    outputs = objective.forward(backbone, batch)
    total, count = objective.score(outputs, batch, backbone)[0]["auxiliary_lm"]
    logs = np.array(ops.log_softmax(CausalLM().logits(outputs["sequence_output"], backbone)))
    means = []
    for row, (ids, real) in enumerate(zip(batch["token_ids"], batch["padding_mask"], strict=True)):
        places = range(1, real.sum())  # the delimiter and the extract token are predicted as well
        means.append(np.mean([-logs[row, place - 1, ids[place]] for place in places]))
    assert float(count) == 2 and float(total) == pytest.approx(sum(means), rel=1e-5)
    batch["example_weights"][1] = 0
    total, count = objective.score(outputs, batch, backbone)[0]["auxiliary_lm"]
    assert float(count) == 1 and float(total) == pytest.approx(means[0], rel=1e-5)


def test_missing_choices_are_not_modelled(words, backbone):
    task = Choose(backbone.config, [], gpt_system.READING)
    asked = [ChoiceQuestion("w1", "w2", ["w3", "w4", "w5"], 0, ""), ChoiceQuestion("w1", "w2", ["w3", "w4"], 0, "")]
    batch = labelled(pack_choices(asked, words, 24, task.reading), [0, 1])
    built(task, backbone, batch)
    objective = WithLanguageModel(task, CausalLM())
    total, count = objective.modelling(objective.forward(backbone, batch), batch, backbone)
    assert float(count) == 5 and np.isfinite(float(total))


def test_the_loss_of_the_task_is_the_same_beside_the_language_model(words, backbone):
    """What the other loss counts beside it `LossWeights` say, see `test_groups`."""
    task, batch = Classify(backbone.config, "ab", gpt_system.READING), a_batch(words)
    built(task, backbone, batch)
    joined = WithLanguageModel(task, CausalLM())
    of_task, of_model = (
        trained_alike(joined, backbone, batch, lambda losses, name=name: losses[name][0] / losses[name][1])
        for name in ("classify", "auxiliary_lm")
    )
    for beside, alone in zip(of_task, trained_alike(task, backbone, batch), strict=True):
        np.testing.assert_array_equal(beside, alone)
    assert any(np.abs(gradient).max() > 0 for gradient in of_model)


# The user's street.

TINY = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64, "max_sequence_length": 64}
STEPS = {"max_seq_length": 32, "num_train_epochs": 0.3, "learning_rate": 1e-3}


def pretrained(path, kind, network=Gpt, config=GptConfig):
    """A model folder with random weights and a vocabulary of the samples."""
    made = {"input_file": SAMPLES / "corpus.txt", "language": "zh", "vocab_size": 1400, "output_file": path / "voc"}
    assert invoke("train_vocabulary", tokenizer=kind, **made) == 0
    tokenizer = open_tokenizer(str(path / "voc"))
    keras.utils.set_random_seed(1)
    backbone = network(config(len(tokenizer.vocabulary), **TINY)).initialize()
    for variable in backbone.variables:  # so that texts differ
        variable.assign_add(np.random.default_rng(0).normal(0, 0.1, variable.shape))
    (path / "model").mkdir()
    folder.write_model(str(path / "model"), backbone, None, tokenizer.files(), tokenizer.describe())
    return path / "model"


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("gpt"), "bpe")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs of texts with a label."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    rows = [f"自然语言处理{i}\t语言模型{i % 3}\t{'yes' if i % 2 else 'no'}\n" for i in range(40)]
    path.write_text("text\ttext_b\tlabel\n" + "".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    rows = [(list("语言模")[: 2 + i % 2], f"模型{i}？") for i in range(40)]
    rows = [(choices[:: 1 - 2 * (i % 4 < 2)], asked) for i, (choices, asked) in enumerate(rows)]
    values = [{"question": asked, "choices": c, "answer": c.index("言"), "context": "语言"} for c, asked in rows]
    path.write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in values), encoding="utf-8")
    return path


def served(path, columns):
    model = tf.saved_model.load(str(path / "1")).signatures["serving_default"]
    return model(**{n: tf.constant(texts) for n, texts in columns.items()})["probabilities"].numpy()


def answers(run, rows):
    return [list(found.probabilities.values()) for found in load_predictor(str(run)).predict(rows)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "kind", "network", "config"),
    [
        ("classify", "bpe", Gpt, GptConfig),
        ("similarity", "byte_bpe", Gpt2, Gpt2Config),
    ],
)
def test_from_a_language_model_to_a_served_classifier(task, kind, network, config, pairs, tmp_path, capsys):
    model, run = pretrained(tmp_path, kind, network, config), tmp_path / "run"
    files, test = {"train_file": SAMPLES / "train.tsv", "eval_file": SAMPLES / "dev.tsv"}, SAMPLES / "test.tsv"
    if task == "similarity":
        files, test = {"train_file": pairs, "eval_file": pairs, "text_pair_column": "text_b"}, pairs
    assert invoke("finetune", task=task, init_checkpoint=model, model_dir=run, **files, **STEPS) == 0
    assert "auxiliary_lm" in capsys.readouterr().out
    before, after = (open_tokenizer(str(path)) for path in (tmp_path / "voc", run / "backbone"))
    assert after.vocabulary.tokens == before.vocabulary.tokens + list(frames.GPT_TOKENS)
    kept, _ = folder.read_config(str(run / "backbone"))
    assert kept.vocabulary_size == len(after.vocabulary)

    assert invoke("evaluate", model_dir=run, test_file=test, output_file=tmp_path / "scores.json") == 0
    assert 0 <= json.loads((tmp_path / "scores.json").read_text())["accuracy"] <= 1
    second = {"text_pair": TEXTS[1]} if task == "similarity" else {}
    capsys.readouterr()
    assert invoke("predict", model_dir=run, text=TEXTS[0], **second) == 0
    assert "label: " in capsys.readouterr().out
    columns = {"text": TEXTS} if task == "classify" else {"text": TEXTS, "text_pair": TEXTS[::-1]}
    found = answers(run, list(zip(*columns.values(), strict=True)))
    assert np.ptp(found, axis=0).min() > 1e-5  # texts differ
    if task == "similarity":
        np.testing.assert_allclose(found, found[::-1], atol=1e-6)
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "out", serving_ops="core") == 0
    np.testing.assert_allclose(served(tmp_path / "out", columns), found, atol=1e-5)
    capsys.readouterr()
    assert invoke("convert_checkpoint", f"--from={run}", f"--to=hf:{tmp_path / 'hf'}") == 4
    assert "no place for what a" in capsys.readouterr().err


def test_a_network_that_has_the_tokens_already_gets_no_others(gpt):
    loaded = convert.load(str(gpt))
    options = Options(init_checkpoint=str(gpt), model_dir="nowhere", task="classify", seed=1)
    first = TextReader("classify", options).prepare(loaded, loaded.tokenizer.open())
    again = TextReader("classify", options).prepare(*first)
    assert again[0] is first[0] and again[1] is first[1]
    assert len(first[0].values[TOKEN_TABLE]) == first[0].config.vocabulary_size == loaded.config.vocabulary_size + 3


def test_numbers_of_the_paper_hold_unless_flags_say_otherwise(gpt, tmp_path, capsys):
    given = {"init_checkpoint": gpt, "model_dir": tmp_path / "run", "train_file": SAMPLES / "train.tsv"}
    assert invoke("finetune", **given, max_seq_length=32, dry_run="true") == 0
    said = capsys.readouterr().out
    numbers = {
        "learning_rate": "0.0003",  # the paper's is 6.25e-05, of networks of 768
        "warmup_proportion": "0.002",
        "lr_schedule": "gpt_linear",
        "optimizer": "adamw",
    }
    numbers |= {"auxiliary_lm_weight": "0.5", "adam_epsilon": "1e-08"}
    for name, value in numbers.items():
        assert re.search(rf"^  {name} +{re.escape(value)} +gpt, fine-tuned$", said, re.MULTILINE), name
    assert (
        invoke("finetune", **given, max_seq_length=32, optimizer="bert_adamw", auxiliary_lm_weight=0, dry_run="true")
        == 0
    )
    said = capsys.readouterr().out
    assert re.search(r"^  adam_epsilon +1e-06 +bert_adamw$", said, re.MULTILINE)
    assert re.search(r"^  auxiliary_lm_weight +0.0 +flag$", said, re.MULTILINE)


def test_schedule_of_the_paper():
    steps, peak = 10_000, 6.25e-5
    schedule = Optimization(
        num_steps=steps, learning_rate=peak, num_warmup_steps=int(0.002 * steps), schedule="gpt_linear"
    ).make_schedule()
    found = [float(schedule(step)) for step in (0, 10, 20, 5_000, steps)]
    expected = [0.0, peak * 0.5 * 0.999, peak * 0.998, peak * 0.5, 0.0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)


def test_new_rows_are_drawn_and_old_ones_kept(gpt):
    loaded = convert.load(str(gpt))
    size = loaded.config.vocabulary_size
    first, again, other = (with_rows(loaded, size + 3000, seed).values[TOKEN_TABLE] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[:size], loaded.values[TOKEN_TABLE])
    np.testing.assert_array_equal(first, again)
    assert (first[size:] != other[size:]).any() and first[size:].std() == pytest.approx(0.02, rel=0.02)


@pytest.mark.long
def test_choices_are_learnt_and_scored_and_what_is_missing_is_said(gpt, questions, tmp_path, capsys):
    run = tmp_path / "run"
    files = {"train_file": questions, "eval_file": questions}
    given = {"task": "choose", "init_checkpoint": gpt, "max_seq_length": 32}
    assert invoke("finetune", **given, model_dir=run, **files, num_train_epochs=16, learning_rate=1e-2) == 0
    given_too = {"test_file": questions, "output_file": tmp_path / "scores.json", "plots": tmp_path / "pictures"}
    assert invoke("evaluate", model_dir=run, **given_too) == 0
    assert (tmp_path / "pictures/confusions.png").exists() and (run / "pictures/confusions.png").exists()
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["accuracy"] > 0.9 and scores["chance"] == pytest.approx(5 / 12)
    results = json.loads((run / "results.json").read_text())["results"]
    assert results["evaluation accuracy"] == pytest.approx(scores["accuracy"])
    assert results["evaluation loss"] > scores["loss"]  # which has no language model beside it
    capsys.readouterr()
    assert invoke("predict", model_dir=run, text="a") == 2
    assert "--input_file=QUESTIONS" in capsys.readouterr().err
    unanswered = [json.loads(line) for line in questions.read_text().splitlines()]
    lines = [json.dumps({name: value for name, value in each.items() if name != "answer"}) for each in unanswered]
    (tmp_path / "asked.jsonl").write_text("\n".join(lines))
    out = tmp_path / "chosen.jsonl"
    assert invoke("predict", model_dir=run, input_file=tmp_path / "asked.jsonl", output_file=out) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in found] == [
        q["choices"][row["choice"]] for q, row in zip(unanswered, found, strict=True)
    ]
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "out", serving_ops="core") == 0
    served = tf.saved_model.load(str(tmp_path / "out/1")).signatures["serving_default"]
    asked = served(
        context=tf.constant([unanswered[0].get("context", "")]), question=tf.constant([unanswered[0]["question"]]),
        choices=tf.constant([unanswered[0]["choices"]]),
    )  # fmt: skip
    np.testing.assert_allclose(asked["probabilities"][0], found[0]["probabilities"], atol=1e-5)
    assert invoke("finetune", **given, model_dir=tmp_path / "x", train_file=questions, length_buckets="auto") == 2
    assert "--length_buckets: an example of --task=choose is several" in capsys.readouterr().err


@pytest.mark.long
def test_bert_takes_both_tasks_too_but_no_language_model(pairs, questions, tmp_path, capsys):
    model = pretrained(tmp_path, "wordpiece", Bert, BertConfig)
    files = {"similarity": {"train_file": pairs, "text_pair_column": "text_b"}, "choose": {"train_file": questions}}
    for task, flags in files.items():
        run = tmp_path / task
        assert invoke("finetune", task=task, init_checkpoint=model, model_dir=run, **flags, **STEPS) == 0
    assert invoke("evaluate", model_dir=tmp_path / "choose", test_file=questions) == 0
    capsys.readouterr()
    refused = {"init_checkpoint": model, "model_dir": tmp_path / "no", "train_file": pairs}
    assert invoke("finetune", **refused, auxiliary_lm_weight=0.5) == 2
    assert "does not model language from left to right" in capsys.readouterr().err
    assert (
        invoke("finetune", task="similarity", max_seq_length=32, **{**refused, "train_file": SAMPLES / "train.tsv"})
        == 2
    )
    assert "has one text in a row" in capsys.readouterr().err


def test_records_of_the_pretraining_s_vocabulary_are_read(gpt, tmp_path):
    made = {"task": "classify", "input_file": SAMPLES / "train.tsv", "vocab_file": gpt.parent / "voc"}
    assert invoke("create_finetuning_data", **made, output_dir=tmp_path / "records", max_seq_length=32) == 0
    tokenizer = with_tokens(open_tokenizer(str(gpt.parent / "voc")), frames.GPT_TOKENS)
    reader = reader_of("classify", Reading(frame=frames.GPT), max_seq_length=32)
    table, records = (
        reader.source_of(str(path), tokenizer)[0].arrays for path in (SAMPLES / "train.tsv", tmp_path / "records")
    )
    assert set(table) == set(records)
    for name, value in table.items():
        np.testing.assert_array_equal(value, records[name])
