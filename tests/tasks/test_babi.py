"""bAbI: its files, sentences as places, and networks that answer questions about stories."""

import gzip
import json
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.reproductions import moved_things
from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.corpora.babi import StoryQuestion, read_babi, read_tasks, split_off
from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.finetuning.stories import StoryEncoder, answer_ids, answers_of, vocabulary_of
from tests.helpers.invocation import invoke
from xmodels.layers.attention.visible import Visible
from xmodels.models.backbone import named_weights
from xmodels.models.folder import model_class, read_model, write_model
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.answer_story import serve
from xmodels.tasks.answer_story.task import AnswerStory
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

STORY = """1 Anna went to the attic.
2 Ben took the lamp.
3 Where is Anna? \tattic\t1
4 Ben went to the cellar.
5 Where is the lamp? \tcellar\t2 4
1 Ben is hungry.
2 What does Ben carry?\tbread,milk
"""
NETWORKS = ("story_transformer", "story_universal_transformer", "story_adaptive_universal_transformer")
QUIET = {"dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0}
PEOPLE, ROOMS = ("Anna", "Ben", "Carl"), ("attic", "cellar", "hall", "porch")


@pytest.fixture
def write(tmp_path):
    def write(text, name="qa7_counting_train.txt"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def stories(count, seed=0):
    """Who is where: the last room that a person went to."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        moves = [(PEOPLE[rng.integers(3)], ROOMS[rng.integers(4)]) for _ in range(rng.integers(1, 7))]
        who, where = moves[rng.integers(len(moves))]
        where = dict(moves)[who]
        told = tuple(f"{p} went to the {r}." for p, r in moves)
        found.append(StoryQuestion(told, f"Where is {who}?", where, (), "qa1", "here"))
    return found


def arrays_of(questions, labels, max_sentences=9, width=None):
    encoder = StoryEncoder(vocabulary_of(stories(200)), max_sentences, 6)
    arrays = encoder.arrays([(q.sentences, q.question) for q in questions], width)
    weights = np.ones(len(questions), "float32")
    return {**arrays, "labels": answer_ids(questions, labels), "example_weights": weights}


def make(name, **more):
    """A network with its task, neither trained."""
    keras.utils.set_random_seed(3)
    network = model_class(name)
    numbers = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 16}
    size = len(vocabulary_of(stories(200)).vocabulary)
    config = network.config_class(**{"vocabulary_size": size, "max_sentence_length": 8, **numbers, **QUIET, **more})
    return network(config).initialize(), AnswerStory(config, ROOMS)


# --- the files


def test_questions_see_the_sentences_before_them_and_stories_begin_at_one(write):
    first, second, third = read_babi(write(STORY))
    assert first.sentences == ("Anna went to the attic.", "Ben took the lamp.")
    assert (first.question, first.answer, first.facts, first.task) == ("Where is Anna?", "attic", (0,), "qa7")
    assert second.sentences == (*first.sentences, "Ben went to the cellar.") and second.facts == (1, 2)
    assert third.sentences == ("Ben is hungry.",) and (third.answer, third.facts) == ("bread,milk", ())
    assert third.place.endswith("line 7")


def test_folders_files_and_tasks(write, tmp_path):
    for name in ("qa2_b_train.txt", "qa10_c_train.txt", "qa2_b_test.txt", "notes.txt"):
        write(STORY, name)
    with gzip.open(tmp_path / "qa1_a_train.txt.gz", "wt") as file:
        file.write(STORY)
    folder = str(tmp_path)
    assert list(read_tasks(folder)) == ["qa1", "qa2", "qa10"]
    assert list(read_tasks(folder, split="test")) == ["qa2"]
    assert list(read_tasks(folder, tasks=(10, 1))) == ["qa1", "qa10"]
    assert {task: len(found) for task, found in read_tasks(folder, (1, 2), most=2).items()} == {"qa1": 2, "qa2": 2}
    assert list(read_tasks(f"{folder}/qa2_b_test.txt,{folder}/qa1_*")) == ["qa1", "qa2"]
    assert list(read_tasks(f"{folder}/notes.txt")) == ["notes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Anna went.\n", "line 1: expected a number, a blank and a sentence. Found: 'Anna went.'"),
        ("1 Anna went.\n3 Ben went.\n", "line 2: has number 3, expected 2, or 1 where a new story begins"),
        ("2 Anna went.\n", "line 1: has number 2, expected 1"),
        ("1 Where is Anna?\tattic\t1\n", "line 1: expected a question of a story.*no sentence before it"),
        ("1 Anna went.\n2 Where?\t\t1\n", "line 2: expected a question of a story"),
        ("1 Anna went.\n2 Where?\tattic\t7\n", "line 2: names line '7' as a supporting fact"),
        ("1 Anna went.\n2 Where?\tattic\t1\tmore\n", "line 2: expected a question of a story"),
        ("1 Anna went.\n", "holds no question"),
    ],
)
def test_a_file_of_another_layout_is_named_with_the_line(write, text, message):
    path = write(text)
    with pytest.raises(DataError, match=message) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(path)


def test_what_is_not_there_is_named(write, tmp_path):
    path = write(STORY)
    with pytest.raises(DataError, match="no train file of qa3. There are qa7"):
        read_tasks(path, (7, 3))
    with pytest.raises(DataError, match="a folder without files qa.*_test.txt"):
        read_tasks(str(tmp_path), split="test")
    with pytest.raises(DataError, match="matches no file"):
        read_tasks(f"{path}.missing")


# --- sentences as places


def test_words_of_sentences_become_rows_and_the_question_comes_last(write):
    asked = list(read_babi(write(STORY)))
    tokenizer = vocabulary_of(asked)
    assert "." not in tokenizer.vocabulary.ids and "anna" in tokenizer.vocabulary.ids
    arrays = StoryEncoder(tokenizer, 2, 4).arrays([(q.sentences, q.question) for q in asked], width=5)
    assert arrays["token_ids"].shape == (3, 5, 4)
    assert arrays["padding_mask"].sum(axis=1).tolist() == [3, 3, 2]
    assert arrays["segment_ids"].tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    rows = [[tokenizer.decode(ids[ids > 0].tolist()) for ids in row if ids.any()] for row in arrays["token_ids"]]
    assert rows[0] == ["anna went to the", "ben took the lamp", "where is anna"]
    assert rows[1] == ["ben took the lamp", "ben went to the", "where is the lamp"]  # the first sentence is too old


def test_an_answer_that_training_did_not_have_and_a_sentence_without_words_are_refused():
    asked = stories(3)
    with pytest.raises(DataError, match="here: the answer 'zoo' occurs nowhere in training"):
        answer_ids([StoryQuestion(("Anna went.",), "Where?", "zoo", (), "qa1", "here")], answers_of(asked))
    with pytest.raises(DataError, match="Story 1: sentence 2 holds no word"):
        StoryEncoder(vocabulary_of(asked), 9, 9).arrays([(("Anna went.", "..."), "Where is Anna?")])


def test_places_of_words_begin_as_a_bag_of_words_and_are_those_of_sentence_or_question():
    backbone, _ = make("story_universal_transformer")
    embedding = backbone.embedding
    ids, kinds = np.array([[[5, 6, 0], [6, 5, 0]]], "int32"), np.array([[0, 1]], "int32")
    one, other = np.array(embedding(ids, kinds))[0]
    table = np.array(embedding.token.embeddings)
    np.testing.assert_allclose(one, 4 * (table[5] + table[6]), atol=1e-5)
    np.testing.assert_allclose(one, other, atol=1e-6)
    embedding.sentence_places.assign(np.random.default_rng(0).normal(size=(8, 16)))
    changed, same = np.array(embedding(ids, kinds))[0]
    places = np.array(embedding.sentence_places)
    np.testing.assert_allclose(changed, 4 * (table[5] * places[0] + table[6] * places[1]), atol=1e-5)
    np.testing.assert_allclose(same, other, atol=1e-6)


# --- networks and task


@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in NETWORKS] + [(name, {"transition": "convolution"}) for name in NETWORKS[1:]],
)
def test_padding_of_sentences_and_words_changes_neither_answers_nor_pondering(name, more):
    backbone, task = make(name, **more)
    if name == "story_adaptive_universal_transformer":
        backbone.steps.halting.kernel.assign(np.random.default_rng(3).normal(0, 0.5, (16, 1)))
    batch = arrays_of(stories(6), ROOMS)
    padded = {**batch, "token_ids": np.pad(batch["token_ids"], ((0, 0), (0, 3), (0, 2)))}
    padded |= {n: np.pad(batch[n], ((0, 0), (0, 3))) for n in ("segment_ids", "padding_mask")}
    results = []
    for given in (batch, padded):
        outputs = task.forward(backbone, given)
        results.append((task.predict(outputs)["answer_probabilities"], *task.score(outputs, given, backbone)))
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-5)
    for scored, again in zip(results[0][1:], results[1][1:], strict=True):
        assert scored.keys() == again.keys() and ("ponder" in results[0][1]) == name.startswith("story_adaptive")
        for part in scored:
            np.testing.assert_allclose(scored[part], again[part], rtol=1e-5, err_msg=part)


def test_one_step_of_the_universal_transformer_is_a_transformer_of_one_layer():
    universal, task = make("story_universal_transformer", num_layers=1, step_signal="sinusoid")
    plain, _ = make("story_transformer", num_layers=1)
    ours, theirs = named_weights(universal), named_weights(plain)
    for name, weight in theirs.items():
        weight.assign(ours[name.replace("blocks.0.", "block.")])
    assert len(ours) == len(theirs)
    plain.position = lambda places: universal.steps.signals(universal.position(places))[0]
    batch = arrays_of(stories(4), ROOMS)
    np.testing.assert_allclose(universal(batch)["sequence_output"], plain(batch)["sequence_output"], atol=1e-5)
    deeper, _ = make("story_universal_transformer", num_layers=7, step_signal="sinusoid")
    assert universal.count_params() == deeper.count_params()


def test_pooling_reads_real_places_only():
    backbone, task = make("story_transformer")
    batch = arrays_of(stories(5), ROOMS)
    outputs = task.forward(backbone, batch)
    states, kernel = np.array(outputs["sequence_output"]), np.array(task.head.kernel)
    for row, real in enumerate(batch["padding_mask"]):
        np.testing.assert_allclose(outputs["logits"][row], states[row][real].mean(axis=0) @ kernel, atol=1e-5)


@pytest.mark.parametrize("name", [n if "adaptive" in n else pytest.param(n, marks=pytest.mark.long) for n in NETWORKS])
def test_learns_sixteen_stories_by_heart(name):
    questions = stories(16, seed=5)
    strategy = distribution.choose("one_device")
    with strategy.scope():
        backbone, task = make(name, num_layers=1)
        source = ArraySource(arrays_of(questions, ROOMS, width=10), "stories")
        batches = Batches(source, task.transform(), 16, 1)
        numbers = Optimization(num_steps=200, learning_rate=5e-3, num_warmup_steps=10, optimizer="adam")
        learner = Learner(strategy, backbone, single(task, batches), numbers.make_optimizer())
    before = learner.evaluate(batches.once())
    learner.train(iter(batches.training()), tf.constant(200))
    after = learner.evaluate(batches.once())
    assert before["accuracy"] < 0.7 and after["accuracy"] == 1.0, (before, after)
    if "steps" in after:
        assert 1.0 <= after["steps"] <= 4.0


def test_model_folder_brings_the_network_back_with_a_low_halting_bias(tmp_path):
    backbone, task = make("story_adaptive_universal_transformer", halting_bias=-1.0)
    batch = arrays_of(stories(4), ROOMS)
    expected = task.forward(backbone, batch)
    write_model(str(tmp_path), backbone, task)
    again, heads = read_model(str(tmp_path))
    assert again.config.halting_bias == -1.0
    assert set(heads) == {f"objective.answer_story.head.{part}" for part in ("kernel", "bias")}
    np.testing.assert_array_equal(np.array(again(batch)["sequence_output"]), np.array(expected["sequence_output"]))
    with pytest.raises(CheckpointError, match="`halting_bias` must be a number from -30 to 30"):
        type(backbone.config).from_json({**backbone.config.to_json(), "halting_bias": 99})


# --- the commands

NUMBERS = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "max_steps": 3, "dropout": 0.0}


def babi_file(path, questions):
    lines = []
    for asked in questions:
        lines += [f"{number} {sentence}\n" for number, sentence in enumerate(asked.sentences, 1)]
        lines.append(f"{len(asked.sentences) + 1} {asked.question}\t{asked.answer}\t1\n")
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """A folder with bAbI's files of two tasks, the flags of a training on both, and its run."""
    folder = tmp_path_factory.mktemp("babi")
    for task in ("qa1_rooms", "qa4_more-rooms"):
        babi_file(folder / f"{task}_train.txt", stories(60, seed=len(task)))
        babi_file(folder / f"{task}_test.txt", stories(20, seed=9))
    (folder / "numbers.json").write_text(json.dumps(NUMBERS))
    flags = {
        "task": "answer_story", "init_checkpoint": "new:story_adaptive_universal_transformer", "train_file": folder,
        "model_config_file": folder / "numbers.json", "max_seq_length": 12, "num_train_epochs": 4, "train_batch_size": 8,
        "held_out": 0.2, "save_checkpoints_steps": 10,
    }  # fmt: skip
    assert invoke("finetune", **flags, test_file=folder, model_dir=folder / "run") == 0
    return folder, flags


@pytest.mark.long
def test_a_run_says_the_error_of_each_task_and_draws_a_story_of_each(street, tmp_path, capsys):
    folder, _ = street
    results = json.loads((folder / "run/results.json").read_text())["results"]
    scored = {"model_dir": folder / "run", "test_file": folder}
    assert invoke("evaluate", **scored, output_file=tmp_path / "scores.json", plots=tmp_path / "plots") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores["tasks"]) == ["qa1", "qa4"] and scores["tasks"]["qa1"]["questions"] == 20
    assert scores["mean_error"] == pytest.approx(100 * (1 - results["test accuracy"]), abs=1e-3)
    assert scores["failed_tasks"] == sum(each["error"] > 5 for each in scores["tasks"].values())
    assert all(1 <= each["steps"] <= 3 for each in scores["tasks"].values())
    assert f"failed tasks (above 5 %): {scores['failed_tasks']} of 2" in capsys.readouterr().out
    for task in ("qa1", "qa4"):
        assert (tmp_path / "plots" / f"{task}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert invoke("evaluate", **scored, tasks="4", output_file=tmp_path / "one.json") == 0
    assert list(json.loads((tmp_path / "one.json").read_text())["tasks"]) == ["qa4"]


@pytest.mark.long
def test_stories_that_people_write_are_answered_alike_however_they_are_given(street, tmp_path, capsys):
    run = street[0] / "run"
    (tmp_path / "plain.txt").write_text(
        "Anna went to the attic.\nBen went to the hall.\nWhere is Anna?\nWhere is Ben?\n\nCarl went to the porch.\nWhere is Carl?\n"
    )
    (tmp_path / "numbered.txt").write_text(
        "1 Anna went to the attic.\n2 Ben went to the hall.\n3 Where is Anna?\tcellar\t1\n4 Where is Ben?\n1 Carl went to the porch.\n"
        "2 Where is Carl?\n"
    )
    told = []
    for name in ("plain.txt", "numbered.txt"):
        assert invoke("predict", model_dir=run, input_file=tmp_path / name) == 0
        told.append([line for line in capsys.readouterr().out.splitlines() if "\t" in line])
    assert told[0] == told[1] and [line.split("\t")[2] for line in told[0]] == [
        "Where is Anna?", "Where is Ben?", "Where is Carl?",
    ]  # fmt: skip
    story = "Anna went to the attic. Ben went to the hall."
    assert invoke("predict", model_dir=run, text=story, text_pair="Where is Anna?") == 0
    out = capsys.readouterr().out
    assert f"answer: {told[0][0].split()[0]}\n" in out and "  Ben went to the hall.\n" in out
    assert invoke("predict", model_dir=run, input_file=tmp_path / "plain.txt", output_file=tmp_path / "told.tsv") == 0
    rows = [line.split("\t") for line in (tmp_path / "told.tsv").read_text().splitlines()]
    assert rows[0] == ["question", "label", *sorted(ROOMS)]
    assert [row[1] for row in rows[1:]] == [line.split()[0] for line in told[0]]


@pytest.mark.long
def test_training_resumes_to_the_same_weights(street, tmp_path):
    folder, flags = street
    cut = tmp_path / "cut"
    shutil.copytree(folder / "run", cut)
    last = sorted((cut / "checkpoints").iterdir())[-1]
    shutil.rmtree(last)
    (cut / "results.json").unlink()
    assert invoke("finetune", **flags, test_file=folder, model_dir=cut) == 0
    weights = "backbone/weights.safetensors"
    assert (folder / "run" / weights).read_bytes() == (cut / weights).read_bytes()


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"tasks": "2"}, 3, "no train file of qa2. There are qa1, qa4"),
        ({"tasks": "one"}, 2, "--tasks=one: expected numbers of tasks"),
        ({"init_checkpoint": "new:bert"}, 2, "bert does not read stories. Try story_universal_transformer"),
        ({"init_checkpoint": "new:story_universal_transformer/tin"}, 2, "has the sizes tiny, mini. Try tiny"),
        ({"init_checkpoint": "new:story"}, 2, "unknown network. Did you mean "),
        ({"task": "classify"}, 2, "--task=classify has no such flag"),
        ({"label_column": "3"}, 2, "--label_column: --task=answer_story has no such flag"),
        ({"model_config_file": "absent.json"}, 4, "absent.json: no such file"),
    ],
)
def test_flags_that_do_not_suit_are_named(street, tmp_path, capsys, changed, code, message):
    flags = {**street[1], **changed, "model_dir": tmp_path / "run"}
    assert invoke("finetune", **flags) == code
    assert message in capsys.readouterr().err


def test_questions_without_a_story_and_without_a_mark_are_refused(street, tmp_path, capsys):
    run = street[0] / "run"
    for text, message in (
        ("Where is Anna?\n", "line 1: no sentence of a story stands before the question"),
        ("Anna went to the attic.\n", "holds no question; a line that is one ends with a question mark"),
    ):
        (tmp_path / "story.txt").write_text(text)
        assert invoke("predict", model_dir=run, input_file=tmp_path / "story.txt") == 3
        assert message in capsys.readouterr().err
    assert invoke("predict", model_dir=run, text="Anna went to the attic.") == 2
    assert "give the question with --text_pair" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_served_answers_as_the_run_does_and_the_doctor_reads_its_files(street, tmp_path, capsys):
    folder, flags = street
    assert invoke("export_model", model_dir=folder / "run", export_dir=tmp_path / "out", serving_ops="core") == 0
    served = tf.saved_model.load(str(tmp_path / "out/1")).signatures["serving_default"]
    assert "input `story` | string ()" in (tmp_path / "out/README.md").read_text()
    story = ("Anna went to the hall.", "Ben went to the garden!")
    (expected,) = load(str(folder / "run")).predict([(story, "Where is Anna?")])
    found = served(story=tf.constant(["\n\n".join(story)]), question=tf.constant(["Where is Anna ?"]))
    np.testing.assert_allclose(found["probabilities"][0], list(expected.probabilities.values()), atol=1e-5)
    capsys.readouterr()
    assert invoke("doctor", **flags, test_file=folder, model_dir=tmp_path / "new") == 0
    assert "96 questions to train on, 4 answers, 24 for evaluation, 40 for test" in capsys.readouterr().out
    assert invoke("finetune", **flags, model_dir=tmp_path / "new", dry_run=True) == 0
    assert "(label: " in capsys.readouterr().out and not (tmp_path / "new").exists()


def test_maps_of_steps_are_those_that_the_network_used():
    backbone, _ = make("story_universal_transformer", num_layers=3)
    batch = arrays_of(stories(2), ROOMS)
    maps = np.stack(backbone.attention_maps(batch), axis=1)  # (B, T, H, S, S)
    assert maps.shape[:3] == (2, 3, 2)
    np.testing.assert_allclose(maps.sum(axis=-1), 1.0, atol=1e-5)
    assert maps[:, :, :, :, :][..., ~batch["padding_mask"][0]][0].max(initial=0.0) < 1e-6  # nobody looks at padding
    entered = backbone.embedding(batch["token_ids"], batch["segment_ids"])
    places = backbone.position(np.arange(batch["token_ids"].shape[1]))
    first = backbone.steps.signals(places)[0] + entered
    visible = Visible(batch["padding_mask"])
    np.testing.assert_allclose(maps[:, 0], backbone.block.attention_map(first, visible), atol=1e-5)


@pytest.mark.long
def test_records_teach_what_their_files_teach(tmp_path, capsys):
    for task in ("qa10_rooms", "qa2_more-rooms"):
        babi_file(tmp_path / f"{task}_train.txt", stories(12, seed=len(task)))
        babi_file(tmp_path / f"{task}_valid.txt", stories(6, seed=9))
    (tmp_path / "numbers.json").write_text(json.dumps(NUMBERS))
    made = {"task": "answer_story", "max_seq_length": 8}
    assert invoke("create_finetuning_data", input_file=tmp_path, output_dir=tmp_path / "train", **made) == 0
    made |= {
        "vocab_file": tmp_path / "train",
        "labels_from": tmp_path / "train",
        "input_file": tmp_path / "*_valid.txt",
    }
    assert invoke("create_finetuning_data", output_dir=tmp_path / "dev", **made) == 0
    flags = {
        "task": "answer_story", "init_checkpoint": "new:story_adaptive_universal_transformer", "max_seq_length": 8, "log_steps": 1,
        "model_config_file": tmp_path / "numbers.json", "num_train_epochs": 1, "train_batch_size": 8, "jit_compile": "false",
    }  # fmt: skip
    losses = []
    for name, files in (
        ("files", {"train_file": tmp_path, "eval_file": tmp_path}),
        ("records", {"data_dir": tmp_path / "train", "eval_file": tmp_path / "dev"}),
    ):
        assert invoke("finetune", model_dir=tmp_path / name, **files, **flags) == 0
        losses.append(
            [json.loads(line).get("loss") for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        )
    assert losses[0] == losses[1] and any(losses[0])
    results = [json.loads((tmp_path / name / "results.json").read_text())["results"] for name in ("files", "records")]
    assert results[0] == results[1] and "evaluation loss" in results[0]
    capsys.readouterr()
    refused = {**flags, "data_dir": tmp_path / "train", "model_dir": tmp_path / "no"}
    assert invoke("finetune", held_out=0.1, **refused) == 2
    assert "--held_out: chooses among files" in capsys.readouterr().err


def test_a_story_that_is_held_out_is_not_learnt_from():
    told = ("Anna went.", "Ben went.", "Carl went.")
    questions = [StoryQuestion(told[:n], "Where?", "hall", (), "qa1", "here") for n in (1, 2, 3)]
    other = [StoryQuestion(("Dora went.",), "Where?", "hall", (), "qa1", "here")]
    first, last = split_off(other + questions, 0.25)
    assert first == other and last == questions
    assert split_off(questions + other, 0.25) == (questions, other)
    assert split_off(questions, 0.0) == (questions, [])


def test_made_up_stories_follow_from_what_is_told_and_come_again():
    asked = moved_things.stories(60, seed=3)
    assert asked == moved_things.stories(60, seed=3) != moved_things.stories(60, seed=4)
    for each in asked:
        capacity, holder, rooms = {}, {}, {}
        for words in (sentence.rstrip(".").removesuffix(" there").split() for sentence in each.sentences):
            who, last = words[0], words[-1]
            if last in moved_things.ROOMS:
                capacity[who] = last
            elif words[1] in ("got", "grabbed", "picked", "took"):
                assert last not in holder
                holder[last] = who
            else:
                assert holder.pop(last) == who
            for thing, person in holder.items():
                if person in capacity and rooms.setdefault(thing, ["nowhere"])[-1] != capacity[person]:
                    rooms[thing].append(capacity[person])
        *_, thing, _, _, place = each.question.rstrip("?").split()
        before = len(rooms[thing]) - 1 - rooms[thing][::-1].index(place)
        assert each.answer == rooms[thing][before - 1], each


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_served_shows_how_much_sentences_take_of_each_other(name):
    backbone, task = make(name)
    tokenizer = vocabulary_of(stories(200))
    encoder = StoryEncoder(tokenizer, 8, 6)
    predictor = SimpleNamespace(backbone=backbone, task=task, tokenizer=tokenizer, labels=ROOMS, encoder=encoder)
    server = serve.Server(predictor, "core")
    attention = server.signatures()["attention"].function()
    sentences, question = ("Anna went to the hall.", "Ben, went!"), "Where is Anna?"
    maps = backbone.attention_maps(encoder.arrays([(sentences, question)]))
    for layer, heads in enumerate(maps, 1):
        found = attention(*map(tf.constant, ("\n".join(sentences), question, layer)))
        np.testing.assert_allclose(found["weight"], np.array(heads)[0].mean(axis=0), atol=1e-5)
    assert found["token"].numpy().tolist() == [b" anna went to the hall", b" ben went", b" where is anna"]
    assert found["num_layers"] == len(maps)
