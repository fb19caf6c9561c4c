"""Heads of tasks go to Hugging Face's classes and come from them: of one name and several meanings, told apart by config.json."""

import dataclasses
import importlib
import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data_pipelines.corpora.choices import ChoiceQuestion
from data_pipelines.corpora.rankings import RankedList
from data_pipelines.errors import CheckpointError, UsageError
from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_outputs, read_case
from tests.helpers.small_models import network
from tests.models.test_bert_parity import batch_of, write_hugging_face
from xmodels.conversion import convert, formats, stand_ins
from xmodels.conversion.hugging_face_heads import IDENTITY, variables_of
from xmodels.conversion.tensors import rows
from xmodels.interfaces.reading import Reading
from xmodels.models import folder
from xmodels.runs import fine_tuned as runs
from xmodels.runs.fine_tuned import load_predictor
from xmodels.tasks.base.find import load_part
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.multi_label.task import MultiLabel
from xmodels.tasks.regress.task import Regress
from xmodels.tasks.tag.answer import Words
from xmodels.tasks.tag.settings import in_other_scheme, labels_in_bio
from xmodels.tasks.tag.task import Tag

CLASSES = {
    "tag": "TokenClassification", "choose": "MultipleChoice", "regress": "SequenceClassification",
    "multi_label": "SequenceClassification", "classify": "SequenceClassification", "answer_span": "QuestionAnswering",
}  # fmt: skip
FAMILIES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "albert": "Albert",
    "xlnet": "XLNet",
    "ernie": "Ernie",
    "bart": "Bart",
}
OUTPUTS = {"tag": 3, "choose": 1, "regress": 1, "multi_label": 3, "classify": 3, "answer_span": 2}
TAGS = ("O", "B-PER", "I-PER")
EVERY = [
    (family, task)
    for family in FAMILIES
    for task in CLASSES
    if (family, task) not in (("xlnet", "answer_span"), ("bart", "tag"), ("bart", "choose"))
]


def change_json(path, **changes):
    stored = json.loads((path / "config.json").read_text()) | changes
    (path / "config.json").write_text(
        json.dumps({key: value for key, value in stored.items() if value is not None}), encoding="utf-8"
    )


def small_config(model, size=23):
    sizes = {"hidden_dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 12}
    sizes |= {} if model == "xlnet" else {"max_sequence_length": 20}
    sizes |= {"embedding_dim": 4} if model == "albert" else {}
    return formats.table_of(model).config(vocabulary_size=size, **sizes)


def checkpoint(model, task, config=None, tokenizer=None):
    """A small network of random weights with the head of a task."""
    table, config, random = formats.table_of(model), config or small_config(model), np.random.default_rng(1)
    lengths = table.lengths(config) | {"C": OUTPUTS[task]}
    values = {
        name: (random.normal(size=[math.prod(map(lengths.get, axis)) for axis in axes.split()]) * 0.4).astype("float32")
        for name, axes, _, _ in rows(variables_of(table, task), table, config)
        if name.startswith(("backbone.", f"objective.{task}."))
    }
    labels = {"tag": TAGS, "multi_label": ("a", "b", "c"), "classify": ("a", "b", "c")}.get(task)
    return convert.Checkpoint(model, config, values, tokenizer, frozenset({task}), labels)


def model_folder(tmp_path, task, labels=None, kind="bert"):
    """`network(kind)` with a random head, brought to Hugging Face's format; the folder, and a function that converts it."""
    (tmp_path / "plain").mkdir()
    ours = convert.load(str(network(kind, tmp_path / "plain")))
    head = {n: v for n, v in checkpoint(kind, task, ours.config).values.items() if n.startswith("objective.")}
    if labels:
        random = np.random.default_rng(3)
        head = {
            f"objective.{task}.head.kernel": random.normal(size=(48, len(labels))).astype("float32"),
            f"objective.{task}.head.bias": np.zeros(len(labels), "float32"),
        }
    given = {"values": ours.values | head, "heads": frozenset({task}), "labels": tuple(labels) if labels else None}
    convert.save(dataclasses.replace(ours, **given), f"hf:{tmp_path / 'theirs'}")

    def converted():
        loaded = convert.load(f"hf:{tmp_path / 'theirs'}")
        convert.save(dataclasses.replace(loaded, system=kind), str(tmp_path / "back"))
        return tmp_path / "back"

    return tmp_path / "theirs", converted


# The goldens of Hugging Face's heads


def task_of_golden(tmp_path, prefix, task, **changes):
    """The case, and the network and the task with its weights, through a model folder of ours that says what task it has learnt."""
    case = read_case("bert/heads")
    source = write_hugging_face(tmp_path / "theirs", case, f"{prefix}/")
    change_json(tmp_path / "theirs", architectures=[f"BertFor{CLASSES[task]}"], **changes)
    convert.save(convert.load(source), str(tmp_path / "ours"))
    assert runs.task_of(str(tmp_path / "ours")) == task
    backbone, values = folder.read_model(str(tmp_path / "ours"))
    return case, backbone, values


def assigned(objective, backbone, values, batch):
    objective.forward(backbone, batch)  # creates the weights
    folder.assign(objective.prefix, objective, values, "golden")
    return objective.forward(backbone, batch)


def loss_of(objective, outputs, batch, backbone):
    ((total, weight),) = objective.score(outputs, batch, backbone)[0].values()
    return total / weight


def test_a_regression_is_that_of_hugging_face(tmp_path):
    case, backbone, values = task_of_golden(tmp_path, "regression", "regress", id2label={"0": "LABEL_0"})
    task, batch = Regress(backbone.config), batch_of(case.inputs, labels=case.inputs["regression_targets"])
    outputs = assigned(task, backbone, values, batch)
    found = {
        "regression/logits": outputs["scores"][:, None],
        "regression/loss": loss_of(task, outputs, batch, backbone),
    }
    assert_outputs(found, case.outputs)


def test_several_labels_are_those_of_hugging_face(tmp_path):
    changes = {"problem_type": "multi_label_classification"}
    case, backbone, values = task_of_golden(tmp_path, "multilabel", "multi_label", **changes)
    task, batch = MultiLabel(backbone.config, "abc"), batch_of(case.inputs, labels=case.inputs["multi_label_targets"])
    outputs = assigned(task, backbone, values, batch)
    found = {"multilabel/logits": outputs["logits"], "multilabel/loss": loss_of(task, outputs, batch, backbone)}
    assert_outputs(found, case.outputs)


def test_choices_are_those_of_hugging_face(tmp_path):
    case, backbone, values = task_of_golden(tmp_path, "choice", "choose")
    inputs = {name: case.inputs[f"mc_{name}"] for name in ("token_ids", "segment_ids", "padding_mask")}
    batch = batch_of(inputs, labels=case.inputs["mc_labels"], choice_weights=np.ones((3, 3), "float32"))
    task = Choose(backbone.config, (), Reading())
    outputs = assigned(task, backbone, values, batch)
    found = {"choice/logits": outputs["logits"], "choice/loss": loss_of(task, outputs, batch, backbone)}
    assert_outputs(found, case.outputs)


def test_tags_are_those_of_hugging_face(tmp_path):
    names = {str(i): name for i, name in enumerate(("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))}
    case, backbone, values = task_of_golden(tmp_path, "token", "tag", id2label=names)
    ids = case.inputs["token_labels"]
    batch = batch_of(case.inputs, labels=np.maximum(ids, 0), label_weights=(ids >= 0).astype("float32"))
    task = Tag(backbone.config, names.values())
    outputs = assigned(task, backbone, values, batch)
    found = {"token/logits": outputs["logits"], "token/loss": loss_of(task, outputs, batch, backbone)}
    assert_outputs(found, case.outputs)


# Both ways


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("model", "task"), EVERY)
def test_round_trip_is_bitwise(model, task, tmp_path):
    ours = checkpoint(model, task)
    convert.save(ours, f"hf:{tmp_path}/theirs")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert stored["architectures"] == [f"{FAMILIES[model]}For{CLASSES[task]}"]
    problems = {"regress": "regression", "multi_label": "multi_label_classification"}
    assert stored.get("problem_type") == problems.get(task) and ("id2label" in stored) == (task != "choose")
    assert (stored.get("sentence_transformers") == {"activation_fn": IDENTITY}) == (task == "regress")
    convert.save(convert.load(f"hf:{tmp_path}/theirs"), f"{tmp_path}/ours")
    found = convert.load(f"{tmp_path}/ours")
    assert found.heads == {task} and found.values.keys() == ours.values.keys()
    assert found.labels == (("LABEL_0", "LABEL_1") if task == "answer_span" else ours.labels)
    for name, value in ours.values.items():
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)
    # A network that writes texts writes some, whatever its head.
    assert runs.task_of(f"{tmp_path}/ours") == ("translate" if model == "bart" else task)
    assert max(convert.verify(f"{tmp_path}/ours", f"hf:{tmp_path}/theirs").values()) < 1e-6
    assert f"{task}_logits" in convert.outputs(found)


@pytest.mark.parametrize("model", FAMILIES)
def test_only_heads_of_classifiers_share_names(model):
    expected = set(CLASSES) - {"answer_span"}
    found = formats.table_of(model).shared_names
    # XLNet's tagger has names of its own, and BART is no tagger and no chooser there.
    assert set(found) == expected - {"xlnet": {"tag"}, "bart": {"tag", "choose"}}.get(model, set())


def test_a_pooler_of_roberta_that_no_choice_was_learnt_with_stays_away(tmp_path):
    convert.save(checkpoint("roberta", "choose"), f"hf:{tmp_path}/theirs")
    tensors = load_file(tmp_path / "theirs/model.safetensors")
    assert {"roberta.pooler.dense.weight", "classifier.weight"} < set(tensors)
    kept = {name: value for name, value in tensors.items() if not name.startswith("classifier.")}
    save_file(kept, tmp_path / "theirs/model.safetensors")
    change_json(tmp_path / "theirs", architectures=["RobertaModel"])
    assert not convert.load(f"hf:{tmp_path}/theirs").heads


# What does not fit


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("tag", {"architectures": ["BertForFancyThings"]}, "`architectures` is 'BertForFancyThings', which does not tell what "
         "classifier.bias is for. Known: BertForMultipleChoice, "),
        ("tag", {"id2label": {"0": "O", "1": "B-PER"}}, "config.json: `id2label` must give each of the 3 tags a name"),
        ("tag", {"id2label": None}, "config.json: `id2label` must give each of the 3 tags a name"),
        ("tag", {"id2label": {"0": "O", "1": "B-X", "2": "B-X"}}, "`id2label` must give each of the 3 tags a name of its own"),
        ("tag", {"architectures": ["BertForMultipleChoice"]}, "the head has 3 outputs; expected one number, .* --task=choose"),
        ("multi_label", {"problem_type": "regression"}, "the head has 3 outputs; expected one number, .* --task=regress"),
        ("multi_label", {"problem_type": "ranking"}, "unknown `problem_type` 'ranking'; expected one of single_label_"),
        ("classify", {"problem_type": ["regression"]}, "unknown `problem_type` .*; expected one of single_label_"),
    ],
)  # fmt: skip
def test_a_head_that_cannot_be_understood_is_refused(task, changes, message, tmp_path):
    convert.save(checkpoint("bert", task), f"hf:{tmp_path}/theirs")
    change_json(tmp_path / "theirs", **changes)
    with pytest.raises(CheckpointError, match=message):
        convert.load(f"hf:{tmp_path}/theirs")


@pytest.mark.parametrize(
    "architectures", [None, ["BertForPreTraining"], ["BertForSequenceClassification"], "BertModel"]
)
def test_a_classifier_is_one_whatever_class_its_folder_names(architectures, tmp_path):
    for task, expected in (("classify", "classify"), ("regress", "regress")):
        convert.save(checkpoint("bert", task), f"hf:{tmp_path}/{task}")
        change_json(tmp_path / task, architectures=architectures, problem_type=None)
        assert convert.load(f"hf:{tmp_path}/{task}").heads == {expected}


def test_a_damaged_head_is_named(tmp_path):
    convert.save(checkpoint("bert", "tag"), f"hf:{tmp_path}/theirs")
    file = tmp_path / "theirs/model.safetensors"
    save_file({name: value for name, value in load_file(file).items() if name != "classifier.bias"}, file)
    with pytest.raises(CheckpointError, match=r"missing \(1\): classifier.bias"):
        convert.load(f"hf:{tmp_path}/theirs")


def test_two_heads_of_one_name_are_not_written(tmp_path):
    one, other = checkpoint("bert", "classify"), checkpoint("bert", "tag")
    both = dataclasses.replace(one, values=one.values | other.values, heads=frozenset({"classify", "tag"}))
    with pytest.raises(CheckpointError, match="has one head of a task, and this checkpoint has 2: classify, tag"):
        convert.save(both, f"hf:{tmp_path}/theirs")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["tf1", "keras_hub"])
def test_formats_without_such_heads_refuse_them(kind, tmp_path):
    for task in ("tag", "choose", "regress", "multi_label"):
        with pytest.raises(
            CheckpointError, match=f"this format has no place for what a bert has learnt for --task={task}"
        ):
            convert.save(checkpoint("bert", task), f"{kind}:{tmp_path}/theirs")


@pytest.mark.parametrize(
    ("settings", "more", "flag"),
    [
        ({}, {"objective.tag.crf.transitions": (3, 3)}, "--crf"),
        ({}, {"objective.tag.bilstm.layers.0.kernel": (8, 8), "objective.tag.head.kernel": (16, 3)}, "--bilstm_dim"),
        ({}, {"objective.tag.head.kernel": (16, 3)}, "--feature_layers"),
        ({"feature_layers": [-2]}, {}, "--feature_layers"),
    ],
)
def test_a_tagger_with_more_than_a_softmax_has_no_place(settings, more, flag, tmp_path):
    """Read from the folder of its run, whose task.json tells which states it reads."""
    plain, zeros = checkpoint("bert", "tag"), {name: np.zeros(shape, "float32") for name, shape in more.items()}
    convert.save(dataclasses.replace(plain, values=plain.values | zeros), str(tmp_path / "run/backbone"))
    described = {"task": "tag", "labels": list(TAGS), "num_texts": 1, "max_sequence_length": 16, "settings": settings}
    (tmp_path / "run/task.json").write_text(json.dumps(described))
    for source in ("run", "run/backbone"):
        loaded = convert.load(str(tmp_path / source))
        assert loaded.heads == {"tag"} and "tag_logits" not in convert.outputs(loaded)
        with pytest.raises(CheckpointError, match=f"it has no place for {flag}, with which it has learnt"):
            convert.save(loaded, f"hf:{tmp_path}/theirs")
    assert runs.read_task(str(tmp_path / "run/backbone")).settings == settings
    if settings:
        with pytest.raises(CheckpointError, match="does not say that a tagger reads --feature_layers=-2"):
            convert.save(loaded, str(tmp_path / "copy"))
    else:
        convert.save(loaded, str(tmp_path / "copy"))
        assert runs.task_of_model(str(tmp_path / "copy")) is None


# What converted folders answer


@pytest.mark.parametrize(
    ("labels", "bio", "other"),
    [
        (["O", "B-X", "I-X"], ["O", "B-X", "I-X"], False),
        (["B-X", "O"], ["O", "B-X"], False),
        (["O", "I-X", "B-Y", "I-Y"], ["O", "B-X", "B-Y", "I-X", "I-Y"], True),  # IOB1, as that of 2018's CoNLL taggers
        (["O", "B-X", "I-X", "E-X", "S-X"], ["O", "B-X", "I-X"], True),
        (["O", "S-X"], ["O", "B-X"], True),
        (["B-X", "M-X", "E-X", "S-X", "O"], ["O", "B-X", "I-X"], True),
        (["NOUN", "VERB"], ["NOUN", "VERB"], False),
        (["LABEL_0", "O"], ["LABEL_0", "O"], False),
    ],
)
def test_the_scheme_of_a_tagger_is_told_by_its_tags(labels, bio, other):
    assert labels_in_bio(labels) == bio and in_other_scheme(labels) is other


SCHEMES = {
    "BIO": (["O", "B-PER", "I-PER"], ["B-PER", "I-PER", "O", "B-PER"]),
    "IOB1": (["O", "I-PER"], ["I-PER", "I-PER", "O", "I-PER"]),
    "BIOES": (["O", "B-PER", "E-PER", "S-PER"], ["B-PER", "E-PER", "O", "S-PER"]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_converted_tagger_finds_spans_in_the_scheme_of_its_own(scheme, tmp_path, monkeypatch):
    labels, chosen = SCHEMES[scheme]
    _, converted = model_folder(tmp_path, "tag", labels)
    predictor = load_predictor(str(converted()))
    assert predictor.labels == tuple(labels)
    ids = np.array([[labels.index(tag) for tag in chosen]])
    monkeypatch.setattr(predictor, "_decode", lambda given: {"label_ids": ids, "probabilities": np.ones(ids.shape)})
    (tagged,) = predictor.predict([Words.joined(["ann", "bob", "in", "dan"])])
    assert tagged.tags == ["B-PER", "I-PER", "O", "B-PER"]
    assert [(each.type, each.text) for each in tagged.entities] == [("PER", "ann bob"), ("PER", "dan")]
    (tmp_path / "dev.txt").write_text("ann B-PER\nbob I-PER\nin O\ndan B-PER\n\n")
    monkeypatch.setattr("xmodels.jobs.evaluate.run.load_predictor", lambda path: predictor)
    assert call("evaluate", tmp_path, "--test_file=dev.txt", "--output_file=scores.json")["entity_f1"] == 1.0
    assert json.loads((tmp_path / "scores.json").read_text())["accuracy"] == 1.0
    if scheme != "BIO":
        with pytest.raises(
            UsageError, match=f"this tagger has learnt {', '.join(labels)}, …; a graph finds spans in tags of BIO"
        ):
            load_part("tag", "serve").Server(predictor, "core")


def call(verb, path, *arguments, model=""):
    """A command on `back`, whose files stand in `path`; of `evaluate` the scores."""
    given = [a.replace("file=", f"file={path}/") for a in arguments]
    assert (
        importlib.import_module(f"launch.{verb}").COMMAND.main([f"--model_dir={model or path / 'back'}", *given]) == 0
    )
    return json.loads((path / "scores.json").read_text()) if verb == "evaluate" else None


def test_a_converted_chooser_chooses(tmp_path):
    _, converted = model_folder(tmp_path, "choose")
    predictor = load_predictor(str(converted()))
    asked = [ChoiceQuestion("ann lives in york .", "where ?", ["york", "rome", "bonn"], None, "")]
    (found,) = predictor.predict(asked)
    assert found.text in asked[0].choices and sum(found.probabilities) == pytest.approx(1.0)
    (tmp_path / "asked.jsonl").write_text(
        json.dumps({"context": "ann", "question": "who ?", "choices": ["bob", "dan"]})
    )
    call("predict", tmp_path, "--input_file=asked.jsonl", "--output_file=out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["choice"] in (0, 1)


def test_a_converted_cross_encoder_gives_pairs_its_logit_and_says_what_others_make_of_it(tmp_path):
    theirs, converted = model_folder(tmp_path, "regress")
    change_json(theirs, problem_type=None, sentence_transformers=None)
    (note,) = [each for each in convert.load(f"hf:{theirs}").warnings if "sentence-transformers" in each]
    assert "the score is the output of the head as it stands; sentence-transformers puts Sigmoid behind it" in note
    for changes in ({"problem_type": "regression"}, {"sbert_ce_default_activation_function": IDENTITY}):
        change_json(theirs, **changes)
        assert not any("sentence-transformers" in each for each in convert.load(f"hf:{theirs}").warnings)
    predictor = load_predictor(str(converted()))
    scores = predictor.pair_scores("where ?", ["york", "rome and bonn"])
    assert scores == pytest.approx(predictor.predict([("where ?", "york"), ("where ?", "rome and bonn")]), abs=1e-5)
    assert scores[0] != scores[1] and isinstance(predictor.predict([("york",)])[0], float)
    (tmp_path / "pairs.tsv").write_text("text\tother\tlabel\nann\tbob\t1.5\nwhere\tyork\t-2\n")
    columns = ("--text_column=text", "--text_pair_column=other", "--label_column=label")
    assert predictor.pair_scores("", []) == []
    asked = ("--test_file=pairs.tsv", "--output_file=scores.json", *columns)
    found = call("evaluate", tmp_path, *asked)
    assert "spearman" in found and call("evaluate", tmp_path, *asked, model=f"hf:{theirs}") == found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("model", FAMILIES)
def test_a_ranker_is_written_as_a_classifier_with_one_output_and_read_as_what_is_told(model, tmp_path):
    regression = checkpoint(model, "regress")
    ours = stand_ins.as_task(regression, "rank", "x")
    assert ours.heads == {"rank"} and not convert.heads_without_place(ours, "hf:x")
    convert.save(ours, f"{tmp_path}/ours")
    convert.save(convert.load(f"{tmp_path}/ours"), f"hf:{tmp_path}/theirs")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert stored["architectures"] == [f"{FAMILIES[model]}ForSequenceClassification"] and len(stored["id2label"]) == 1
    assert max(convert.verify(f"{tmp_path}/ours", f"hf:{tmp_path}/theirs").values()) < 1e-6
    read = convert.load(f"hf:{tmp_path}/theirs")
    assert read.heads == {"regress"}
    back = stand_ins.as_task(read, "rank", "x")
    assert back.heads == {"rank"} and back.values.keys() == ours.values.keys()
    for name, value in ours.values.items():
        np.testing.assert_array_equal(back.values[name], value, err_msg=name)
    with pytest.raises(CheckpointError, match="no place for what a .* has learnt for --task=rank"):
        convert.save(ours, f"keras_hub:{tmp_path}/no")


@pytest.mark.long
def test_a_cross_encoder_ranks_where_it_is_told_to(tmp_path, capsys):
    theirs, converted = model_folder(tmp_path, "regress")
    source = converted()
    assert invoke("convert_checkpoint", "--from=" + str(source), f"--to={tmp_path / 'ranker'}", task="rank") == 0
    ranker, scorer = load_predictor(str(tmp_path / "ranker")), load_predictor(str(source))
    candidates = ["york", "rome and bonn", "ann"]
    (found,) = ranker.predict([RankedList("where ?", candidates, [], "")])
    assert found.scores == pytest.approx(scorer.pair_scores("where ?", candidates), abs=1e-5)
    assert runs.task_of(str(tmp_path / "ranker")) == "rank"
    capsys.readouterr()
    assert (
        invoke("convert_checkpoint", "--verify", f"--from={tmp_path / 'ranker'}", f"--to=hf:{tmp_path / 'again'}") == 0
    )
    assert "largest difference of regress_logits: 0" in capsys.readouterr().out
    other = load_file(tmp_path / "again/model.safetensors")
    for name, value in load_file(theirs / "model.safetensors").items():
        np.testing.assert_array_equal(other[name], value)
    convert.save(checkpoint("bert", "classify"), f"{tmp_path}/classifier")
    assert (
        invoke("convert_checkpoint", f"--from={tmp_path / 'classifier'}", f"--to={tmp_path / 'no'}", task="rank") == 2
    )
    assert "has no head with one output" in capsys.readouterr().err


def test_converted_labels_have_thresholds_of_a_half(tmp_path):
    _, converted = model_folder(tmp_path, "multi_label")
    predictor = load_predictor(str(converted()))
    assert predictor.thresholds == [0.5] * 3 and predictor.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    (found,) = predictor.predict([("ann",)])
    assert set(found.labels) == {name for name, value in found.probabilities.items() if value >= 0.5}


# The classes themselves


def unpadded(config):
    """Padding aside, as RoBERTa tells positions by it, and XLNet's answers stand at the end."""
    ids = np.random.default_rng(0).integers(3, config.vocabulary_size, size=(2, 12)).astype("int32")
    segments = (np.arange(12) >= 6) & (getattr(config, "num_segments", 2) > 1)
    return {
        "token_ids": ids, "padding_mask": np.ones(ids.shape, bool), "mask_positions": ids * 0,
        "segment_ids": np.broadcast_to(segments, ids.shape).astype("int32"),
    }  # fmt: skip


def their_logits(theirs, task, batch):
    import torch

    given = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}
    given = {key: torch.from_numpy(np.ascontiguousarray(batch[name])).long() for key, name in given.items()}
    if task == "choose":  # one question whose choices are the rows
        given = {key: value[None] for key, value in given.items()}
    with torch.no_grad():
        logits = theirs.eval()(**given).logits.numpy()
    return logits.reshape(-1, 1) if task == "choose" else logits


@pytest.mark.one_in(2)
@pytest.mark.extra("torch", "transformers")
# BART's texts have to end in its end token: `test_encoder_decoder_transformers` has its classifier.
@pytest.mark.parametrize(("model", "task"), [(m, task) for m, task in EVERY if task != "answer_span" and m != "bart"])
def test_the_class_of_transformers_gives_the_same_logits_both_ways(model, task, tmp_path, monkeypatch):
    import torch
    import transformers

    if model in ("roberta", "xlnet"):
        monkeypatch.setattr(convert, "example_batch", unpadded)
    ours = checkpoint(model, task)
    convert.save(ours, f"hf:{tmp_path}/written")
    made = getattr(transformers, f"{FAMILIES[model]}For{CLASSES[task]}")
    theirs, report = made.from_pretrained(str(tmp_path / "written"), output_loading_info=True)
    # Its tagger has no pooler.
    assert not report["missing_keys"] and all("pooler" in key and task == "tag" for key in report["unexpected_keys"])
    batch = convert.example_batch(ours.config)
    expected = convert.outputs(ours)[f"{task}_logits"]
    where = batch["padding_mask"] if task == "tag" else slice(None)
    np.testing.assert_allclose(their_logits(theirs, task, batch)[where], expected[where], atol=1e-4)

    again = made(theirs.config)
    with torch.no_grad():
        for weight in again.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())) * 0.3)
    again.tie_weights()
    again.save_pretrained(str(tmp_path / "theirs"))
    read = convert.load(f"hf:{tmp_path}/theirs")
    assert read.heads == {task} and read.labels == ours.labels
    found = convert.outputs(read)[f"{task}_logits"]
    np.testing.assert_allclose(found[where], their_logits(again, task, batch)[where], atol=1e-4)
