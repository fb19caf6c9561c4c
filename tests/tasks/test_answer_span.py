"""Answers in texts: windows, labels and n-best lists as Google's, scores as the official scripts', a run from file to SavedModel."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.corpora.squad import Question, read_squad
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.tasks.answer_span import check_windows, find_answer, fitting_windows
from data_pipelines.text.frames import BERT, GPT, ROBERTA, XLNET
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.parity import read_case
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER, network
from tests.models.test_bert_parity import write_hugging_face
from xmodels.conversion import convert
from xmodels.interfaces.reading import plain_reading
from xmodels.models import folder
from xmodels.models.bert import Bert
from xmodels.models.t5 import T5
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.answer_span.measures import CMRC2018, SQUAD1, SQUAD2, measure, metric_of, units_of
from xmodels.tasks.answer_span.read import answer_in
from xmodels.tasks.answer_span.score import best_threshold, scores
from xmodels.tasks.answer_span.serve import Server
from xmodels.tasks.answer_span.spans import Answer, Found, candidates, find
from xmodels.tasks.answer_span.task import AnswerSpan, place_losses
from xmodels.tasks.answer_span.windows import Settings, pack_windows, places, windows_of

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/bert_squad"
PLAIN = plain_reading(T5, TOKENIZER.vocabulary, generates=True).frame  # where no paper says how texts are asked about
QUICK = {
    "max_seq_length": 24, "max_query_length": 6, "doc_stride": 6, "train_batch_size": 16, "distribution_strategy": "one_device",
    "jit_compile": "false", "learning_rate": 2e-3,
}  # fmt: skip


def squad(count, seed, impossible=True):
    """Questions as SQuAD 2.0 has them: where does X live? Some texts are longer than a window, some do not say it."""
    rng, paragraphs = np.random.default_rng(seed), []
    for number in range(count):
        who = list(rng.permutation(NAMES))
        where = [str(rng.choice(PLACES)) for _ in who]
        context = " ".join(f"{a.capitalize()} lives in {b.capitalize()}." for a, b in zip(who[:3], where, strict=False))
        context = "many words and more words . " * int(rng.integers(2)) + context
        asked = who[3] if impossible and number % 4 == 0 else who[int(rng.integers(3))]
        answers = []
        if asked != who[3]:
            text = where[who.index(asked)].capitalize()
            answers = [
                {"text": text, "answer_start": context.index(f"{asked.capitalize()} lives in ") + len(asked) + 10}
            ]
        qa = {
            "id": f"q{number}",
            "question": f"Where does {asked} live?",
            "answers": answers,
            "is_impossible": not answers,
        }
        paragraphs.append({"context": context, "qas": [qa]})
    return {"version": "test", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("squad")
    for name, count, seed in (("train", 160, 0), ("dev", 32, 1)):
        (path / f"{name}.json").write_text(json.dumps(squad(count, seed)), "utf-8")
    return path


@pytest.fixture(scope="module")
def run(data, small_bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "answers"
    files = {"train_file": data / "train.json", "eval_file": data / "dev.json", "test_file": data / "dev.json"}
    assert (
        invoke(
            "finetune",
            task="answer_span",
            init_checkpoint=small_bert,
            model_dir=path,
            num_train_epochs=2,
            **files,
            **QUICK,
        )
        == 0
    )
    return path


@pytest.mark.parametrize("case", ["squad_v1", "squad_v2"])
def test_windows_labels_and_n_best_lists_are_those_of_googles_script(case, tmp_path):
    inputs, expected, config = (
        json.loads((GOLDEN / case / f"{n}.json").read_text()) for n in ("inputs", "outputs", "config")
    )
    numbers = config["hyperparameters"]
    (tmp_path / "squad.json").write_text(json.dumps(inputs["squad"]), "utf-8")
    tokenizer, length = WordPieceTokenizer(Vocabulary(inputs["vocabulary"], "golden")), numbers["max_sequence_length"]
    names = ("doc_stride", "max_query_length", "n_best_size", "max_answer_length")
    threshold = numbers["null_score_diff_threshold"] if numbers["version_2"] else None
    settings = Settings(*(numbers[name] for name in names), threshold)
    questions = list(read_squad(str(tmp_path / "squad.json")))
    windows = windows_of(questions, tokenizer, settings, length, BERT)
    packed = pack_windows([each for made in windows for each in made], tokenizer, length, BERT)
    row = 0
    for question, made in zip(questions, windows, strict=True):
        answers, found = answer_in(made, None if question.is_impossible else find_answer(question)[0]), []
        for window, answer in zip(made, answers, strict=True):
            feature, given, label = expected["features"][row], inputs["results"][row], expected["train_spans"][row]
            assert packed["token_ids"][row].tolist() == feature["input_ids"]
            context, null = places(BERT, len(window.question_ids), len(window.context_ids), 0)
            right = (null, null) if answer is None else (context + answer[0], context + answer[1])
            assert (label["start_position"], label["end_position"]) == right
            found.append(candidates(window, given["start_logits"], given["end_logits"], context, null, settings))
            row += 1
        answer, n_best = find(question.context, found, settings), expected["nbest"][question.id]
        assert answer.answer.text == expected["predictions"][question.id]
        assert [each.text for each in answer.n_best] == [each["text"] for each in n_best]
        np.testing.assert_allclose([e.score for e in answer.n_best], [e["probability"] for e in n_best], atol=1e-6)
        for each in answer.n_best:
            assert not each.text or question.context[each.start : each.end] == each.text
        if threshold is not None:
            assert answer.null_score_diff == pytest.approx(expected["null_log_odds"][question.id], abs=1e-6)
    assert row == len(expected["features"])


@pytest.mark.parametrize("case", ["squad_v1", "squad_v2"])
def test_answers_are_spelled_as_googles_script_projects_them(case):
    """It puts words together and looks for them in the text; ours are the characters of the tokens."""
    inputs, expected = (
        json.loads((GOLDEN / case / f"{n}.json").read_text())["final_text" + suffix]
        for n, suffix in (("inputs", "_cases"), ("outputs", ""))
    )
    tokenizer = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *{w for p, _ in inputs for w in p.split()}], "golden"))
    found = []
    for words, text in inputs:
        encoding, ids = tokenizer.encode(text), tokenizer.encode(words).ids
        count = len(ids)
        places = [i for i in range(len(encoding.ids)) if list(encoding.ids[i : i + count]) == list(ids)]
        spans = encoding.spans
        found.append(text[spans[places[0]][0] : spans[places[0] + count - 1][1]] if places else text)
    assert found == expected


def test_the_head_is_that_of_hugging_face(tmp_path):
    case = read_case("bert/heads")
    found = convert.load(write_hugging_face(tmp_path / "hf", case, "qa/"))
    backbone, task = Bert(found.config).initialize(), AnswerSpan(found.config)
    folder.assign("backbone", backbone, found.values, "golden")
    batch = {name: case.inputs[name] for name in ("token_ids", "segment_ids")}
    batch |= {"padding_mask": case.inputs["padding_mask"] > 0}
    task.forward(backbone, batch)  # builds the head
    task.head.set_weights([case.weights["qa/qa_outputs.weight"].T, case.weights["qa/qa_outputs.bias"]])
    outputs = task.forward(backbone, batch)
    for name in ("start", "end"):
        np.testing.assert_allclose(outputs[f"{name}_logits"], case.outputs[f"qa/{name}_logits"], atol=1e-4)
    means = []  # theirs are means over the targets that stand in the row; one stands behind it
    for name in ("start", "end"):
        places = case.inputs[f"{name}_positions"].astype("int32")
        losses = np.array(place_losses(ops.convert_to_tensor(outputs[f"{name}_logits"]), places))
        inside = places < outputs[f"{name}_logits"].shape[1]
        assert not losses[~inside].any()
        means.append(losses.sum() / inside.sum())
    assert sum(means) / 2 == pytest.approx(float(case.outputs["qa/loss"]), abs=1e-4)
    assert case.inputs["end_positions"].max() >= outputs["end_logits"].shape[1]


@pytest.mark.parametrize(
    ("frame", "padding", "expected"),
    [(BERT, 3, (4, 0)), (ROBERTA, 0, (5, 0)), (XLNET, 3, (6, 11)), (GPT, 0, (4, 8)), (PLAIN, 0, (3, 7))],
)
def test_the_place_of_no_answer_is_one_that_sees_all(frame, padding, expected):
    assert places(frame, 2, 4, padding) == expected


def test_scores_are_those_of_the_official_scripts():
    assert measure(SQUAD1, ["The Old Man.", "sea"], "old man") == (1.0, 1.0)
    assert measure(SQUAD1, ["a cat sat"], "the cat ran home") == (0.0, 2 * 1 / (2 + 3))
    assert measure(SQUAD1, ["the"], "a") == (1.0, 0.0)  # no words on both sides: 1.1 shares none
    assert measure(SQUAD2, ["the"], "") == (1.0, 1.0)
    assert measure(SQUAD2, [], "") == (1.0, 1.0) and measure(SQUAD2, [], "word") == (0.0, 0.0)
    assert measure(CMRC2018, ["《北京》大学"], "北京大学。") == (1.0, 1.0)
    exact, f1 = measure(CMRC2018, ["1998年在北京"], "在1998年")
    assert exact == 0.0 and f1 == pytest.approx(2 * 2 / (5 + 3))
    # A word that is repeated counts as often as both have it, and a gap ends a run.
    assert measure(SQUAD1, ["cat cat dog"], "cat cat cat") == (0.0, pytest.approx(2 * 2 / (3 + 3)))
    assert measure(SQUAD2, ["dog"], "dog dog") == (0.0, pytest.approx(2 * 1 / (1 + 2)))
    assert measure(CMRC2018, ["北京大学"], "北大学") == (0.0, pytest.approx(2 * 2 / (4 + 3)))
    assert measure(CMRC2018, ["甲乙丙丁"], "甲丙丁乙") == (0.0, pytest.approx(2 * 2 / (4 + 4)))
    assert units_of("Bill's CD “A, B”共3.5元") == ["bill", "'s", "cd", "a", ",", "b", "共", "3.5", "元"]


def made_up(differences, texts):
    return [
        Found(None, [Answer(text, 0, 1, 1.0, 0.0, 0.0), Answer("", -1, -1, 0.0, 0.0, 0.0)], difference)
        for difference, text in zip(differences, texts, strict=True)
    ]


def test_the_threshold_is_the_one_of_the_best_f1():
    questions = [
        Question(str(i), "?", "x y", [(t, 0)] if t else [], not t, "") for i, t in enumerate(("x", "", "y", ""))
    ]
    found = made_up([-3.0, 2.0, 1.0, -1.0], ["x", "x", "y", "x"])
    assert metric_of(questions) == SQUAD2
    best, threshold = best_threshold(found, questions)
    assert (best, threshold) == (75.0, -2.0)  # halfway to the next difference
    assert scores(found, questions, threshold)["f1"] == best
    by_hand = max(scores(found, questions, t)["f1"] for t in (-4.0, -3.0, -1.0, 1.0, 2.0))
    assert best == by_hand


def test_a_run_finds_answers_and_knows_when_there_is_none(run, data, capsys, tmp_path):
    task = json.loads((run / "task.json").read_text())
    assert task["settings"]["doc_stride"] == 6 and task["settings"]["null_score_diff_threshold"] is not None
    results = json.loads((run / "results.json").read_text())["results"]
    arguments = {
        "test_file": data / "dev.json",
        "output_file": tmp_path / "scores.json",
        "plots": tmp_path / "pictures",
    }
    assert invoke("evaluate", model_dir=run, **arguments) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert (
        found["f1"] == pytest.approx(results["evaluation f1"], abs=1e-3) == pytest.approx(results["test f1"], abs=1e-3)
    )
    assert found["best_f1"] == pytest.approx(found["f1"], abs=1e-6) and found["metric"] == "squad2"
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"answers.png", "threshold.png"}
    assert "without an answer" in capsys.readouterr().out


def test_answers_do_not_depend_on_the_batch_and_stand_in_the_text(run, data):
    predictor = load(str(run))
    questions, _ = predictor.read_labelled(str(data / "dev.json"))
    together = predictor.predict(questions[:8], 4)
    for question, found in zip(questions[:8], together, strict=True):
        (alone,) = predictor.predict([question])
        assert alone.answer.text == found.answer.text and alone.answer.score == pytest.approx(
            found.answer.score, abs=1e-4
        )
        assert all(question.context[e.start : e.end] == e.text for e in found.n_best if e.text)
        assert sum(each.score for each in found.n_best) == pytest.approx(1.0)


def test_predict_from_the_command_line(run, tmp_path, capsys):
    text = "Ann lives in York. Bob lives in Rome."
    assert invoke("predict", model_dir=run, text=text, text_pair="Where does Bob live?") == 0
    assert "answer" in capsys.readouterr().out
    rows = [{"id": i, "question": "Where does Ann live?", "context": text} for i in range(3)]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert (
        invoke("predict", model_dir=run, input_file=tmp_path / "asked.jsonl", output_file=tmp_path / "out.jsonl") == 0
    )
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in found] == ["0", "1", "2"]
    assert all(text[each["start"] : each["end"]] == each["answer"] for each in found[0]["n_best"] if each["answer"])


def test_a_graph_answers_as_the_run_does(run, data):
    predictor, questions = load(str(run)), list(read_squad(str(data / "dev.json")))[:12]
    texts = [tf.constant([q.question for q in questions]), tf.constant([q.context for q in questions])]
    found = {name: value.numpy() for name, value in Server(predictor, "text").answer(*texts).items()}
    for row, expected in enumerate(predictor.predict(questions)):
        best = expected.answer
        assert (found["answer"][row].decode(), found["start"][row], found["end"][row]) == (
            best.text,
            best.start,
            best.end,
        )
        assert found["score"][row] == pytest.approx(best.score, abs=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_what_is_served_is_what_the_run_says(run, data, tmp_path, serving_ops):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures
    questions = list(read_squad(str(data / "dev.json")))[:12]
    columns = {
        "question": tf.constant([q.question for q in questions]),
        "context": tf.constant([q.context for q in questions]),
    }
    found = {name: value.numpy() for name, value in served["serving_default"](**columns).items()}
    for row, expected in enumerate(load(str(run)).predict(questions)):
        best = expected.answer
        assert (found["answer"][row].decode(), found["start"][row], found["end"][row]) == (
            best.text,
            best.start,
            best.end,
        )
        assert found["score"][row] == pytest.approx(best.score, abs=1e-3)
    listed = {name: value.numpy() for name, value in served["n_best"](**columns).items()}
    assert listed["score"].sum(axis=1) == pytest.approx(1.0, abs=1e-4)
    assert "finder of answers" in (tmp_path / "served/README.md").read_text()


@pytest.mark.long
def test_records_teach_what_their_file_teaches(data, small_bert, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    flags = {name: QUICK[name] for name in ("max_seq_length", "max_query_length", "doc_stride")}
    flags |= {
        "input_file": data / "train.json",
        "vocab_file": tmp_path / "vocab.txt",
        "output_dir": tmp_path / "records",
    }
    assert invoke("create_finetuning_data", task="answer_span", **flags) == 0
    losses = []
    for name, source in (
        ("file", {"train_file": data / "train.json"}),
        ("records", {"data_dir": tmp_path / "records"}),
    ):
        run, numbers = tmp_path / f"run_{name}", QUICK | {"num_train_epochs": 0.2, "log_steps": 1}
        assert (
            invoke("finetune", task="answer_span", init_checkpoint=small_bert, model_dir=run, **source, **numbers) == 0
        )
        losses.append([json.loads(line).get("loss") for line in (run / "log.jsonl").read_text().splitlines()])
    assert losses[0] == losses[1] and any(losses[0])


def test_bad_questions_and_flags_are_named(data, small_bert, tmp_path, capsys):
    value = squad(2, 0)
    value["data"][0]["paragraphs"][1]["qas"][0] |= {
        "answers": [{"text": "Paris", "answer_start": 3}],
        "is_impossible": False,
    }
    (tmp_path / "bad.json").write_text(json.dumps(value), "utf-8")
    flags = {"task": "answer_span", "init_checkpoint": small_bert, "model_dir": tmp_path / "run"} | QUICK
    for given, message in (
        ({"train_file": tmp_path / "bad.json"}, "answer not in the context: 'Paris'"),
        ({"train_file": data / "train.json", "doc_stride": 20}, "--doc_stride=20: windows of 15 tokens"),
        ({"train_file": data / "train.json", "max_query_length": 21}, "--max_query_length=21: leaves no room"),
        (
            {"train_file": data / "train.json", "text_column": "text"},
            "--text_column: --task=answer_span has no such flag",
        ),
        ({"train_file": data / "train.json", "eval_file": tmp_path}, "answers are scored by their text"),
    ):
        assert invoke("finetune", **(flags | given)) != 0
        assert message in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bert", "roberta", "xlnet"])
def test_weights_go_to_hugging_face_and_back(kind, run, data, tmp_path):
    path = tmp_path / kind
    path.mkdir()
    source = run
    if kind != "bert":
        source, numbers = tmp_path / "run", QUICK | {"num_train_epochs": 0.1, "train_file": data / "train.json"}
        assert (
            invoke("finetune", task="answer_span", init_checkpoint=network(kind, path), model_dir=source, **numbers)
            == 0
        )
    there, back = f"hf:{tmp_path}/hf", tmp_path / "back"
    assert invoke("convert_checkpoint", "--verify", **{"from": source, "to": there}) == 0
    named = json.loads((tmp_path / "hf/config.json").read_text())["architectures"]
    assert named == [
        {
            "bert": "BertForQuestionAnswering",
            "roberta": "RobertaForQuestionAnswering",
            "xlnet": "XLNetForQuestionAnsweringSimple",
        }[kind]
    ]
    assert invoke("convert_checkpoint", "--verify", **{"from": there, "to": back}) == 0
    text = "Ann lives in York. Bob lives in Rome."
    arguments = {"text": text, "text_pair": "Where does Bob live?"}
    assert invoke("predict", model_dir=back, **arguments) == 0 and invoke("predict", model_dir=there, **arguments) == 0
    if kind == "bert":
        assert invoke("convert_checkpoint", "--verify", **{"from": source, "to": f"tf1:{tmp_path}/tf1"}) == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bert", "roberta", "xlnet", "gpt"])
def test_every_family_learns_and_serves_it(kind, data, tmp_path):
    path = tmp_path / kind
    path.mkdir()
    files = {"train_file": data / "train.json", "eval_file": data / "dev.json"}
    run = tmp_path / "run"
    assert (
        invoke(
            "finetune",
            task="answer_span",
            init_checkpoint=network(kind, path),
            model_dir=run,
            num_train_epochs=4,
            **files,
            **QUICK,
        )
        == 0
    )
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0
    questions = list(read_squad(str(data / "dev.json")))
    found = scores(load(str(run)).predict(questions), questions)
    assert found["f1"] > 0


@pytest.mark.parametrize("length", [16, 32, 64, 128, 192, 256, 384, 512])
def test_windows_of_any_length_fit_without_flags(length):
    room = max_text_tokens(2, length)
    found = fitting_windows(None, None, length, room)
    check_windows(**found, max_seq_length=length, room=room)
    if length >= 384:
        assert found == {"max_query_length": 64, "doc_stride": 128}


def test_what_is_given_of_windows_stays_and_is_checked():
    assert fitting_windows(None, 7, 64, 61) == {"max_query_length": 32, "doc_stride": 7}
    with pytest.raises(UsageError, match="or raise --max_seq_length"):
        check_windows(**fitting_windows(None, 60, 64, 61), max_seq_length=64, room=61)


def test_a_flat_list_of_questions_is_told_the_layout(tmp_path):
    path = tmp_path / "flat.json"
    path.write_text(json.dumps([{"context": "Ann met Bob.", "question": "Who?", "answer": "Ann"}]), "utf-8")
    with pytest.raises(DataError, match="'data', articles with 'paragraphs'.*Found: context, question, answer"):
        list(read_squad(str(path)))
