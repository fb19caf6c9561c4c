"""Cross-View Training: what each view sees, what texts without tags teach and whom, and a run from texts to a SavedModel."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import xmodels
from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.units.characters import spell
from tests.helpers.invocation import invoke
from xmodels.jobs.multitask.steps import Turns, epochs_of
from xmodels.layers.prediction_module import PredictionModule
from xmodels.layers.views import VIEWS
from xmodels.models.cvt import SIZES, Cvt, CvtConfig
from xmodels.models.folder import read_weights
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.tasks.cvt_tag.cross_views import CrossViews, CrossViewsOfTasks, divergence, of_words_beside
from xmodels.tasks.cvt_tag.task import SMOOTHING, CvtTag
from xmodels.training.devices import distribution
from xmodels.training.loop import Interrupted, Loop
from xmodels.training.mixture import Mixture, steps_of
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states.averaging import MovingAverage
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import ONLY, Stream, choose, first_credits

CONFIG = CvtConfig(
    20, 32, embedding_dim=6, character_dim=4, filter_widths=(2, 3), num_filters=(3, 4), cell_dim=12, second_cell_dim=10
)
LABELS = ("O", "B-X", "I-X")
LENGTHS = 6, 3, 5  # words of the rows


def batch(lengths=LENGTHS, width=9, seed=0):
    """Rows of a mark, words and another mark; of each its characters and a tag."""
    rng, rows = np.random.default_rng(seed), len(lengths)
    real = np.arange(width) < np.array(lengths)[:, None] + 2
    words = real & (np.arange(width) > 0) & (np.arange(width) < np.array(lengths)[:, None] + 1)
    ids = rng.integers(0, 20, (rows, 9))
    characters = np.stack([spell([f"w{i}" for i in row]) for row in ids])
    pad = ((0, 0), (0, width - 9))
    ids, characters = np.pad(ids, pad), np.pad(characters, (*pad, (0, 0)))
    return {
        "token_ids": np.where(real, ids, 0).astype(np.int32),
        "character_ids": np.where(real[..., None], characters, 0).astype(np.int32),
        "padding_mask": real,
        "labels": np.where(words, np.pad(rng.integers(0, 3, (rows, 9)), pad), 0).astype(np.int32),
        "label_weights": words.astype(np.float32),
        "example_weights": np.ones(rows, np.float32),
    }


def parts(views=tuple(VIEWS)):
    """A network, a tagger and the modules of views, all built."""
    keras.utils.set_random_seed(5)
    backbone, task = Cvt(CONFIG).initialize(), CvtTag(CONFIG, LABELS)
    views = CrossViews(task, views)
    task.run(backbone, batch())
    views.run(backbone, batch())
    return backbone, task, views


@pytest.fixture(scope="module")
def built():
    return parts()


# What is seen.


def test_the_network_has_the_published_number_of_parameters():
    sizes = CvtConfig(10, **SIZES["base"])
    first = 2 * (4 * 1024 * (600 + 512) + 4096 + 1024 * 512)
    second = 2 * (4 * 512 * (1024 + 512) + 2048 + 512 * 512)
    characters = 262 * 50 + 100 * (50 * (2 + 3 + 4) + 3)
    assert Cvt(sizes).initialize().count_params() == first + second + characters + 10 * 300 + 1


def test_no_view_sees_what_it_must_not(built):
    backbone, _, views = built
    forward = tf.function(lambda given: views.forward(backbone, given), autograph=False)
    rows, place = [batch(lengths=(6,)) for _ in range(7)], 3  # a word in the middle
    for other in range(1, 7):  # the first one stays
        rows[other]["token_ids"][0, other] = (rows[other]["token_ids"][0, other] + 1) % 20
        rows[other]["character_ids"][0, other] = spell(["another"])[0]
    found = [forward({name: tf.constant(x) for name, x in row.items()}) for row in rows]
    expected = {"forward": [1, 2, 3], "backward": [3, 4, 5, 6], "future": [1, 2], "past": [4, 5, 6]}
    for name, words in expected.items():
        logits = [each[name].numpy()[0, place] for each in found]
        seen = [other for other in range(1, 7) if not np.array_equal(logits[other], logits[0])]  # bit for bit
        assert seen == words, name


def test_a_module_on_several_inputs_is_one_dense_layer_on_them_side_by_side():
    first, second, module = np.random.normal(size=(2, 3, 4)), np.random.normal(size=(2, 3, 6)), PredictionModule(5, 3)
    logits = module(np.concatenate([first, second], axis=-1).astype("float32"))
    kernel, bias = (np.array(x) for x in (module.hidden.kernel, module.hidden.bias))
    hidden = np.maximum(first @ kernel[:4] + second @ kernel[4:] + bias, 0.0)
    expected = hidden @ np.array(module.output_layer.kernel) + np.array(module.output_layer.bias)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


# What is learnt.


def test_the_divergence_is_the_cross_entropy_without_the_entropy_and_has_its_gradient():
    logits, other = (tf.Variable(np.random.normal(size=(7, 5)).astype("float32")) for _ in range(2))
    p = tf.nn.softmax(other)
    with tf.GradientTape(persistent=True) as tape:
        found = divergence(tf.stop_gradient(p), logits)
        entropy = -tf.reduce_sum(p * tf.math.log(p), axis=-1)
        crossed = tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(p), logits)
    np.testing.assert_allclose(found, crossed - entropy, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(found, logits), tape.gradient(crossed, logits), atol=1e-6)
    assert float(divergence(tf.constant([[1.0, 0.0]]), tf.constant([[50.0, -50.0]]))[0]) == 0.0, "of a certain tagger"


def test_texts_without_tags_teach_the_network_and_not_the_tagger(built):
    backbone, task, views = built
    with tf.GradientTape() as tape:
        _, losses, _ = views.run(backbone, batch(), training=True)
        loss = sum(total / weight for total, weight in losses.values())
    below = {id(v) for v in [*backbone.first.trainable_variables, *backbone.embedding.trainable_variables]}
    variables = [*task.trainable_variables, *backbone.trainable_variables, *views.trainable_variables]
    gradients = dict(zip(map(id, variables), tape.gradient(loss, [v.value for v in variables]), strict=True))
    assert all(gradients[id(v)] is None for v in task.trainable_variables)
    assert not {id(v) for v in task.weights} & {id(v) for v in views.weights}
    assert all(np.abs(ops.convert_to_numpy(tf.convert_to_tensor(gradients[i]))).max() > 0 for i in below)
    assert set(losses) == set(VIEWS)


def test_nothing_is_dropped_where_the_tagger_teaches(built):
    backbone, task, views = built
    expected = ops.softmax(task.emissions(backbone, batch(), training=False)["logits"])
    found = views.forward(backbone, batch(), training=True)
    np.testing.assert_array_equal(found["teacher"], expected)
    other = views.forward(backbone, batch(), training=True)
    assert np.abs(np.array(found["forward"]) - np.array(other["forward"])).max() > 0, "but where modules learn"


def test_padding_changes_no_loss_and_views_of_words_beside_lose_one_word_of_a_text(built):
    backbone, task, views = built
    for objective in (task, views):
        narrow, wide = (objective.run(backbone, batch(width=width))[1] for width in (9, 13))
        for name in narrow:
            np.testing.assert_allclose(narrow[name], wide[name], rtol=1e-5, err_msg=name)
    _, losses, _ = views.run(backbone, batch())
    counts = {name: float(weight) for name, (_, weight) in losses.items()}
    words, texts = sum(LENGTHS), len(LENGTHS)
    assert counts == {**dict.fromkeys(VIEWS, words), "future": words - texts, "past": words - texts}
    everywhere = ops.ones((1, 4))  # without marks at the ends nothing comes around
    np.testing.assert_array_equal(of_words_beside(everywhere, 1), [[0, 1, 1, 1]])
    np.testing.assert_array_equal(of_words_beside(everywhere, -1), [[1, 1, 1, 0]])


def test_tags_are_smoothed_over_all_of_them(built):
    backbone, task, _ = built
    outputs, losses, _ = task.run(backbone, batch())
    given, logits = batch(), np.array(outputs["logits"])
    target = (1 - SMOOTHING) * np.eye(3)[given["labels"]] + SMOOTHING / 3
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = ((target * (np.log(target) - logs)).sum(axis=-1) * given["label_weights"]).sum()
    np.testing.assert_allclose(losses["tag"][0], expected, rtol=1e-5)
    plain = weighted_cross_entropy(given["labels"], outputs["logits"], given["label_weights"])
    np.testing.assert_array_equal(losses["tag"][1], plain[1])


@pytest.mark.long
def test_steps_alternate_and_one_of_texts_leaves_the_tagger_alone():
    strategy, (backbone, task, views) = distribution.choose("one_device"), parts()
    given = batch()
    given.pop("example_weights")
    source = lambda names: ArraySource({n: given[n] for n in given if n not in names}, "made up")  # noqa: E731
    streams = {
        ONLY: Stream(task, Batches(source(()), task.transform(), 3, 1, task.batch_features(backbone))),
        "unlabelled": Stream(
            views, Batches(source(("labels",)), views.transform(), 3, 2, views.batch_features(backbone))
        ),
    }
    optimization = Optimization(
        num_steps=10, learning_rate=0.5, num_warmup_steps=0, optimizer="sgd", momentum=0.9, schedule="root_decay"
    )
    learner = Learner(strategy, backbone, streams, optimization.make_optimizer())
    iterators = {name: iter(stream.batches.training()) for name, stream in streams.items()}
    learner.train(iterators, 4)
    assert learner.steps_of == {ONLY: 2, "unlabelled": 2}
    heads, encoder = [np.array(v) for v in task.weights], np.array(backbone.first.ahead.gates.kernel)
    taken = first = choose(streams, learner.step, learner.credits.numpy())[0]
    if first != "unlabelled":
        learner.train(iterators, 1)
        heads, taken = [np.array(v) for v in task.weights], "unlabelled"
    learner.train(iterators, 1)
    assert taken == "unlabelled"
    for before, weight in zip(heads, task.weights, strict=True):
        np.testing.assert_array_equal(before, weight, err_msg=weight.path)
    assert np.abs(encoder - np.array(backbone.first.ahead.gates.kernel)).max() > 0


@pytest.mark.parametrize("seed", [0, 7])
def test_streams_with_equal_shares_alternate_strictly(seed):
    streams, names = {ONLY: Stream(None, None), "unlabelled": Stream(None, None)}, []
    credits = first_credits(seed, 2)
    for step in range(50):
        name, credits = choose(streams, step, credits)
        names.append(name)
    assert all(a != b for a, b in zip(names, names[1:], strict=False))


def test_an_average_of_weights_that_stay_is_these_weights():
    weight = keras.Variable(np.array([1.5, -2.0], "float32"))
    average = MovingAverage({"w": weight}, 0.998)
    for _ in range(20):
        average.update()
    np.testing.assert_array_equal(average.averages["w"], weight)


# Several taggers.


def test_tasks_come_by_the_roots_of_their_sizes_and_each_step_is_followed_by_one_on_texts():
    sizes = {"ner": 10_000, "chunk": 2_500, "pos": 400}
    counts = {name: size // 10 for name, size in sizes.items()}
    turns = Turns(epochs_of(steps_of(Mixture(temperature=2.0), sizes, counts), 8, seed=1), ("unlabelled",))
    names = [*sizes, "unlabelled"]
    taken = []
    for step in range(10_000):
        (name,) = [name for name in names if turns.share(name, step)]
        taken.append(name)
    assert set(taken[1::2]) == {"unlabelled"} and "unlabelled" not in taken[::2]
    roots = {name: size**0.5 for name, size in sizes.items()}
    expected = {name: 5_000 * root / sum(roots.values()) for name, root in roots.items()}
    chi_square = sum((taken.count(name) - count) ** 2 / count for name, count in expected.items())
    assert chi_square < 5.99, "with two degrees of freedom, 5 % are above by chance"


def test_texts_teach_the_modules_of_all_tasks_the_sum_of_what_they_teach_each(built):
    backbone, task, views = built
    other = CvtTag(CONFIG, ("O", "X", "Y"))
    parts_ = {"a": views, "b": CrossViews(other, ("future",))}
    other.run(backbone, batch())
    _, losses, _ = CrossViewsOfTasks(parts_).run(backbone, batch())
    alone = {name: part.run(backbone, batch())[1] for name, part in parts_.items()}
    assert set(losses) == {f"a_{view}" for view in VIEWS} | {"b_future"}
    for name, each in alone.items():
        for view, (total, weight) in each.items():
            np.testing.assert_allclose(losses[f"{name}_{view}"], (total, weight), rtol=1e-6)


TASKS_FILE = """defaults: {task: cvt_tag, max_seq_length: 16, train_batch_size: 16, unlabelled_file: "${DATA}/more.txt"}
tasks:
  all: {train_file: "${DATA}/train.conll"}
  few: {train_file: "${DATA}/dev.conll"OTHER}
"""


def several(start, tmp_path, **flags):
    data = start["train_file"].parent
    given = {
        "tasks_file": tmp_path / "tasks.yaml",
        "set": f"DATA={data}",
        "init_checkpoint": "new:cvt/tiny",
        "num_train_epochs": 1,
    }
    return invoke("multitask", **given | {"vocab_file": start["vocab_file"], "model_dir": tmp_path / "joint"} | flags)


@pytest.mark.long
def test_several_taggers_learn_from_the_same_texts(start, tmp_path):
    (tmp_path / "tasks.yaml").write_text(TASKS_FILE.replace("OTHER", ""))
    assert several(start, tmp_path, learning_rate=0.5, optimizer="sgd", log_steps=1) == 0
    logged = [json.loads(line) for line in (tmp_path / "joint/log.jsonl").read_text().splitlines()]
    trained = [entry for entry in logged if entry["kind"] == "train"]
    assert ["unlabelled/few_past" in entry and "unlabelled/all_past" in entry for entry in trained] == [False, True] * 3
    weights = read_weights(tmp_path / "joint/few/backbone/weights.safetensors")
    assert {name.split(".")[1] for name in weights if name.startswith("objective")} == {"cvt_tag"}
    assert "unlabelled_sha256" in json.loads((tmp_path / "joint/config.json").read_text())


def test_taggers_that_learn_together_have_the_same_texts(start, tmp_path, capsys):
    other = start["train_file"].with_name("train.conll")
    (tmp_path / "tasks.yaml").write_text(TASKS_FILE.replace("OTHER", f", unlabelled_file: {other}"))
    assert several(start, tmp_path) != 0
    said = capsys.readouterr()
    assert "`tasks.few`: has other unlabelled examples than `tasks.all`" in said.err + said.out


# Runs.


def lines(count, seed, tagged):
    rng = np.random.default_rng(seed)
    people, places = ("Ann", "Bob", "Carlos"), ("York", "Jinan", "Rome")
    for _ in range(count):
        a, b, place = rng.choice(people), rng.choice(people), rng.choice(places)
        words = ((a, "B-PER"), ("met", "O"), (b, "B-PER"), ("in", "O"), ("New", "B-LOC"), (place, "I-LOC"), (".", "O"))
        yield "\n".join(f"{w} {t}" for w, t in words) + "\n" if tagged else " ".join(w for w, _ in words)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """The flags of a fine-tuning."""
    folder = tmp_path_factory.mktemp("cvt")
    for name, count, seed, tagged in (
        ("train.conll", 32, 0, True),
        ("dev.conll", 8, 1, True),
        ("more.txt", 40, 2, False),
    ):
        (folder / name).write_text("\n".join(lines(count, seed, tagged)) + "\n")
    words = {"tokenizer": "word_characters", "vocab_size": 14, "output_file": folder / "vocab"}
    assert invoke("train_vocabulary", input_file=folder / "more.txt", **words) == 0
    sizes = {name: list(value) if isinstance(value, tuple) else value for name, value in CONFIG.values().items()}
    (folder / "sizes.json").write_text(json.dumps({n: v for n, v in sizes.items() if n != "vocabulary_size"}))
    files = {
        "train_file": folder / "train.conll",
        "unlabelled_file": folder / "more.txt",
        "vocab_file": folder / "vocab",
    }
    new = {"init_checkpoint": "new:cvt/tiny", "model_config_file": folder / "sizes.json"}
    return new | files | {"task": "cvt_tag", "train_batch_size": 16, "max_seq_length": 16, "num_train_epochs": 1}


def test_a_run_learns_from_both_in_turn_by_the_numbers_of_the_released_code(start, tmp_path):
    run = tmp_path / "run"
    assert invoke("finetune", **start, model_dir=run, log_steps=1) == 0
    config = json.loads((run / "config.json").read_text())
    numbers = config["flags"] | config["settings"]
    expected = {
        "optimizer": "sgd",
        "momentum": 0.9,
        "lr_schedule": "root_decay",
        "learning_rate": 0.5,
        "ema_decay": 0.998,
    }
    assert {name: numbers[name] for name in expected} == expected
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    trained = [entry for entry in logged if entry["kind"] == "train"]
    kinds = ["unlabelled" if "unlabelled/future" in entry else "tagged" for entry in trained]
    assert len(kinds) == 4 and all(a != b for a, b in zip(kinds, kinds[1:], strict=False)), "2 steps of each"
    weights = read_weights(run / "backbone/weights.safetensors")
    assert not [name for name in weights if "cross_views" in name], "modules that see less are not handed over"


@pytest.mark.long
def test_a_run_that_is_cut_off_ends_as_one_that_is_not(start, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start = start | {"num_train_epochs": 2, "save_checkpoints_steps": 3}
    assert invoke("finetune", **start, model_dir=whole) == 0
    original = Loop.run

    def interrupted(loop, state):
        loop.num_steps = 3
        original(loop, state)
        raise Interrupted(15, "nowhere yet")

    monkeypatch.setattr(Loop, "run", interrupted)
    assert invoke("finetune", **start, model_dir=cut) == 128 + 15
    monkeypatch.setattr(Loop, "run", original)
    assert invoke("finetune", **start, model_dir=cut, resume="must") == 0
    weights = read_weights(whole / "backbone/weights.safetensors")
    for name, value in read_weights(cut / "backbone/weights.safetensors").items():
        np.testing.assert_array_equal(value, weights[name], err_msg=name)


@pytest.mark.long
def test_texts_in_and_entities_out_of_python_and_of_a_saved_model(start, tmp_path):
    run, served = tmp_path / "run", tmp_path / "served"
    numbers = {"num_train_epochs": 24, "eval_file": start["train_file"].with_name("dev.conll")}
    assert invoke("finetune", **start | numbers, model_dir=run) == 0
    assert json.loads((run / "results.json").read_text())["results"]["evaluation entity_f1"] == 1.0
    text = "Ann met Bob in New York ."
    (found,) = xmodels.load(str(run)).predict([text])
    assert [(each.text, each.type) for each in found.entities] == [("Ann", "PER"), ("Bob", "PER"), ("New York", "LOC")]
    assert invoke("export_model", model_dir=run, export_dir=served) == 0
    answered = tf.saved_model.load(str(served / "1")).signatures["serving_default"](text=tf.constant([text]))
    assert [each.decode() for each in answered["entity"].numpy()[0]] == ["Ann", "Bob", "New York"]


def test_texts_may_stand_in_a_file_of_tagged_words_whose_tags_are_not_read(start):
    from xmodels.jobs.finetune.options import Options
    from xmodels.tasks.cvt_tag.read import Reader

    flags = {name: str(value) if name.endswith("_file") else value for name, value in start.items()}
    given = Options(**flags | {"unlabelled_file": flags["train_file"]}, model_dir="unused")
    reader, tokenizer = Reader("cvt_tag", given), open_tokenizer(flags["vocab_file"])
    reader.prepare(*reader.begin())
    source = reader.unlabelled(tokenizer)
    assert source.num_examples == 32 and "labels" not in source.arrays
    assert source.arrays["label_weights"].sum() == 32 * 7


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"unlabelled_file": "missing.txt"}, "missing.txt"),
        ({"unlabelled_file": "empty.txt"}, "empty.txt: holds no text."),
        ({"unlabelled_file": None, "views": "forward"}, "--views=forward: what they see is learnt from texts without tags."),
        ({"views": "sideways"}, "sideways"),
        ({"init_checkpoint": "new:bilstm/tiny", "model_config_file": None}, "of the kind bilstm. Take new:cvt, or --task=tag."),
        ({"task": "tag"}, "--unlabelled_file: --task=tag has no such flag."),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_is_refused_in_a_line(start, tmp_path, monkeypatch, capsys, flags, message):
    (tmp_path / "empty.txt").write_text("\n \n")
    monkeypatch.chdir(tmp_path)
    given = {name: value for name, value in (start | flags).items() if value is not None}
    assert invoke("finetune", **given, model_dir=tmp_path / "run") != 0
    said = capsys.readouterr()
    assert message in said.err + said.out and "Traceback" not in said.err
