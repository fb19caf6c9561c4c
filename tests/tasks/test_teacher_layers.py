"""Layers that learn from those of a teacher, as TinyBERT's do: losses, what learns, two phases that resume, and what is refused."""

import dataclasses
import functools
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from tests.helpers.small_learner import Rows, make_optimizer
from xmodels.conversion.kept_layers import keep_layers
from xmodels.layers.attention.core import attention_probabilities
from xmodels.models import folder
from xmodels.models.albert import Albert, AlbertConfig
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.bilstm import SIZES, BiLstm, BiLstmConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import read_weights, write_model
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.tasks.base.layer_maps import PARTS, map_layers, parse_parts
from xmodels.tasks.base.teacher_layers import TeacherLayers, show_layers
from xmodels.tasks.base.teaching import check_shows
from xmodels.training.devices import distribution
from xmodels.training.loop import Interrupted, Loop
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single
from xmodels.training.watching import flops
from xmodels.training.watching.memory_estimate import training_memory

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
PHASE = "teacher_layers"
SMALL = {"num_heads": 2, "intermediate_dim": 16, "max_sequence_length": 16}


def bert(seed, num_layers, hidden_dim, dropout=0.0, **more):
    keras.utils.set_random_seed(seed)
    sizes = SMALL | {"num_layers": num_layers, "hidden_dim": hidden_dim} | more
    return Bert(
        BertConfig(50, **sizes, dropout=dropout, attention_dropout=dropout, initializer_stddev=0.3)
    ).initialize()


def taught(teacher, ours, theirs, pairs, parts=PARTS):
    teacher.trainable = False
    return TeacherLayers(teacher, parts, pairs, (ours, theirs), (ours, theirs), stddev=0.5)


def make_batch(rows=4, length=6):
    random, lengths = np.random.default_rng(0), np.array([length, length - 2, 3, length])[:rows]
    ids = random.integers(5, 50, (rows, length)).astype("int32")
    return {
        "token_ids": ids, "segment_ids": ids % 2, "padding_mask": np.arange(length) < lengths[:, None],
        "example_weights": np.array([1.0, 1.0, 1.0, 0.0], "float32")[:rows],
    }  # fmt: skip


def losses(objective, network, batch):
    """{part: loss}, the mean over texts."""
    return {name: float(total / weight) for name, (total, weight) in objective.run(network, batch)[1].items()}


def test_losses_are_those_of_the_papers_equations():
    student, teacher, batch, pairs = bert(1, 2, 8), bert(2, 4, 12), make_batch(), ((1, 2), (2, 4))
    objective = taught(teacher, 8, 12, pairs)
    found = losses(objective, student, batch)
    ours, theirs = (show_layers(network, batch) for network in (student, teacher))
    w_h, w_e = (np.asarray(layer.kernel) for layer in (objective.hidden_projection, objective.embedding_projection))
    expected = dict.fromkeys(PARTS, 0.0)
    for row in range(3):  # the weight of the fourth text is 0
        length = batch["padding_mask"][row].sum()

        def states(network, layer, row=row, length=length):
            return np.asarray(network.states[layer])[row, :length]  # (l, d)

        def scores(network, layer, row=row, length=length):
            return np.asarray(network.scores[layer - 1])[row, :, :length, :length]  # (h, l, l)

        expected["embeddings"] += np.square(states(ours, 0) @ w_e - states(theirs, 0)).mean()  # equation 9
        for m, n in pairs:
            expected["hidden"] += np.square(states(ours, m) @ w_h - states(theirs, n)).mean()  # equation 8
            by_head = [np.square(a - b).mean() for a, b in zip(scores(ours, m), scores(theirs, n), strict=True)]
            expected["attention"] += np.mean(by_head)  # equation 7
    assert found == pytest.approx({name: value / 3 for name, value in expected.items()}, rel=1e-4)
    block = teacher.blocks[2]  # scores are those before the softmax, in every head q kT / sqrt(K)
    query, key = (np.asarray(project(theirs.states[2])) for project in (block.mixer.query, block.mixer.key))
    by_hand = np.einsum("blhk,bshk->bhls", query, key) / np.sqrt(query.shape[-1])
    np.testing.assert_allclose(np.asarray(theirs.scores[2])[0], by_hand[0], rtol=1e-4, atol=1e-4)
    assert not np.allclose(attention_probabilities(query, key), by_hand)


NETWORKS = {
    "bert": lambda: bert(1, 2, 8),
    "albert": lambda: Albert(AlbertConfig(50, 8, 2, embedding_dim=8, **SMALL)).initialize(),
    "gpt2": lambda: Gpt2(Gpt2Config(50, 8, 2, **SMALL)).initialize(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_differs_from_itself_in_nothing_and_padding_is_invisible(name):
    network, batch = NETWORKS[name](), make_batch()
    objective = taught(network, 8, 8, map_layers("uniform", 2, 2))
    assert losses(objective, network, batch) == dict.fromkeys(PARTS, 0.0) and not objective.weights
    shifted = taught(network, 8, 8, ((1, 2), (2, 1)))
    found = losses(shifted, network, batch)
    assert found["hidden"] > 0 and found["attention"] > 0
    other = {**batch, "token_ids": np.where(batch["padding_mask"], batch["token_ids"], 7)}
    longer = {n: np.pad(x, ((0, 0), (0, 3))) if x.ndim == 2 else x for n, x in batch.items()}
    for changed in (other, longer):
        assert losses(shifted, network, changed) == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize(
    ("given", "ours", "theirs", "expected"),
    [
        ("uniform", 4, 12, ((1, 3), (2, 6), (3, 9), (4, 12))),
        ("uniform", 3, 3, ((1, 1), (2, 2), (3, 3))),
        ("top", 4, 12, ((1, 9), (2, 10), (3, 11), (4, 12))),
        ("bottom", 4, 12, ((1, 1), (2, 2), (3, 3), (4, 4))),
        ("1:2, 3:4", 3, 4, ((1, 2), (3, 4))),
        ("uniform", 4, 6, "teacher has 6 layers, no multiple of the 4.* such as 1:2,2:3,3:5,4:6"),
        ("top", 6, 4, "has 6 layers, the teacher 4"),
        ("1:5", 2, 4, "has the pair 1:5, but the network has the layers 1 to 2, the teacher 1 to 4"),
        ("0:1", 2, 4, "has the pair 0:1"),
        ("1:1,1:2", 2, 4, "stands there twice"),
        ("middle", 2, 4, "expected uniform, top, bottom, or pairs"),
    ],
)
def test_maps_of_layers(given, ours, theirs, expected):
    if isinstance(expected, tuple):
        assert map_layers(given, ours, theirs) == expected
    else:
        with pytest.raises(UsageError, match=expected):
            map_layers(given, ours, theirs)


def test_parts_come_in_one_order_and_unknown_ones_are_named():
    assert parse_parts("attention, hidden") == ("hidden", "attention") and parse_parts("all") == PARTS
    with pytest.raises(UsageError, match="unknown part 'heads'. Expected embeddings, hidden, attention, or all"):
        parse_parts("heads,hidden")


def learner_of(strategy, dropout=0.0, policy="float32", jit_compile=True):
    """A learner of a student of two layers, and its teacher of four."""
    keras.config.set_dtype_policy(policy)
    strategy = distribution.choose(strategy)
    with strategy.scope():
        teacher, student = bert(2, 4, 12), bert(1, 2, 8, dropout)
        objective = taught(teacher, 8, 12, ((1, 2), (2, 4)))
        streams = single(objective, Rows(make_batch()))
        optimizer = make_optimizer("bert_adamw")
        return Learner(strategy, student, streams, optimizer, 1.0, 0, jit_compile), teacher


def test_batches_whose_length_is_open_are_compared_alike():
    """As `--length_buckets` gives them."""
    objective = taught(bert(2, 2, 12), 8, 12, ((1, 2),))
    student, batch = bert(1, 1, 8), make_batch()

    def losses(batch):
        sums, _ = objective.score(objective.forward(student, batch), batch, student)
        return {name: total / weight for name, (total, weight) in sums.items()}

    signature = {k: tf.TensorSpec([4] + [None] * (v.ndim - 1), v.dtype) for k, v in batch.items()}
    found, expected = tf.function(losses, input_signature=[signature])(batch), losses(batch)
    assert found.keys() == set(PARTS)
    for name in PARTS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def values(part):
    return {name: np.array(weight) for name, weight in named_weights(part).items()}


def step(learner, count=2):
    """Returns the losses of the first step and of all."""
    data = learner.strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors(make_batch()).repeat())
    totals, _ = learner.train(iter(data), tf.constant(count))
    return learner.means(np.asarray(totals))


@pytest.fixture
def float32():
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.long
def test_gradients_reach_the_student_and_its_projections_alone_on_two_replicas_as_on_one(float32):
    one, teacher = learner_of("one_device")
    before = values(teacher)
    trained = set(one.trained_weights())
    assert {name for name in trained if name.startswith("objective.")} == {
        "objective.teacher_layers.hidden_projection.kernel",
        "objective.teacher_layers.embedding_projection.kernel",
    }
    assert len(trained) == len(one.backbone.trainable_variables) + 2, "no weight of the teacher learns"
    start = values(one.backbone)
    first, later = step(one, 1), step(one, 8)
    assert later["loss"] < first["loss"]
    assert all(np.array_equal(before[name], value) for name, value in values(teacher).items())
    moved = {name for name, value in values(one.backbone).items() if not np.array_equal(value, start[name])}
    assert moved >= {"blocks.1.feedforward.contract.kernel", "embedding.token.embeddings"}
    norms = dict(zip(one.trained_weights(), one.gradient_norms.numpy(), strict=True))
    assert {name for name, norm in norms.items() if norm == 0} == {f"backbone.pooler.{n}" for n in ("kernel", "bias")}
    two, _ = learner_of("mirrored", jit_compile=False)
    assert two.strategy.num_replicas_in_sync == 2
    assert step(two, 1)["loss"] == pytest.approx(first["loss"], rel=1e-5)
    step(two, 8)
    for name, value in values(one.backbone).items():
        np.testing.assert_allclose(values(two.backbone)[name], value, atol=2e-5, err_msg=name)


@pytest.mark.long
def test_half_precision_learns_the_same_and_the_student_alone_drops(float32):
    exact = step(learner_of("one_device", jit_compile=False)[0], 1)
    half, _ = learner_of("one_device", policy="mixed_bfloat16", jit_compile=False)
    assert half.backbone.compute_dtype == "bfloat16"
    assert step(half, 1) == pytest.approx(exact, rel=0.1)
    dropping, teacher = learner_of("one_device", dropout=0.5, jit_compile=False)
    assert step(dropping, 1)["hidden"] > 1.01 * exact["hidden"]
    with tf.GradientTape() as tape:
        outputs = dropping.first_objective.forward(dropping.backbone, make_batch(), training=True)
        value = tf.reduce_sum(outputs["teacher"].states[-1])
    assert tape.gradient(value, [v.value for v in dropping.variables]) == [None] * len(dropping.variables)


@pytest.mark.long
def test_the_teacher_counts_once_in_the_operations_of_a_step_and_in_its_memory():
    learner, teacher = learner_of("one_device", jit_compile=False)
    batch = {name: tf.constant(value) for name, value in make_batch().items()}
    objective, student = learner.first_objective, learner.backbone
    own = flops.count(flops.trace(lambda features: show_layers(student, features).states, batch))
    fixed = flops.count(flops.trace(objective.teach, batch))
    a_step = 24 * flops.flops_per_token(student, objective, batch)
    assert fixed + 3 * own < a_step < fixed + 4 * own
    parts = [*student.weights, *objective.weights, *teacher.weights]
    assert training_memory(learner, batch)["weights"] == 4 * sum(int(np.prod(weight.shape)) for weight in parts)


def test_layers_of_a_checkpoint_are_kept_in_the_order_that_is_named():
    network = bert(1, 3, 8)
    loaded = Checkpoint("bert", network.config, folder.values_of("backbone", network))
    kept = keep_layers(loaded, "3,1", "run")
    assert kept.config == dataclasses.replace(network.config, num_layers=2)
    built = Bert(kept.config).initialize()
    folder.assign("backbone", built, kept.values, "a test")
    for place, old in enumerate((2, 0)):
        theirs = values(network.blocks[old])
        assert all(np.array_equal(theirs[name], value) for name, value in values(built.blocks[place]).items())
    assert np.array_equal(built.pooler.kernel, network.pooler.kernel)
    for given in ("4", "0", "a", "1,,2"):
        with pytest.raises(UsageError, match=f"--init_layers={given}: --init_checkpoint=run has the layers 1 to 3"):
            keep_layers(loaded, given, "run")
    albert = NETWORKS["albert"]()
    shared = Checkpoint("albert", albert.config, folder.values_of("backbone", albert))
    with pytest.raises(UsageError, match="of the kind albert, is no stack of layers with weights of their own"):
        keep_layers(shared, "1", "run")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, zh_vocabulary):
    """A classifier of two layers of 16 after few steps, as a run, and the network that it began with."""
    where, tokenizer = tmp_path_factory.mktemp("teacher"), open_tokenizer(str(zh_vocabulary))
    (where / "bert").mkdir()
    keras.utils.set_random_seed(0)
    network = Bert(BertConfig(len(tokenizer.vocabulary), 16, 2, **SMALL)).initialize()
    write_model(str(where / "bert"), network, None, tokenizer.files(), tokenizer.describe(), "bert")
    flags = {"train_file": SAMPLES / "train.tsv", "max_seq_length": 8, "num_train_epochs": 0.3, "jit_compile": "false"}
    assert invoke("finetune", model_dir=where / "run", init_checkpoint=where / "bert", **flags) == 0
    return where / "run"


@pytest.fixture(scope="module")
def flags(teacher):
    """Of a student that begins with the second layer of the teacher: two steps of layers, two of answers."""
    return {
        "init_checkpoint": teacher, "init_layers": "2", "train_file": SAMPLES / "train.tsv", "max_seq_length": 8,
        "train_batch_size": 8, "teacher": teacher, "distill_layers": "all", "distill_layers_epochs": 0.2, "num_train_epochs": 0.2,
        "learning_rate": 0.01, "save_checkpoints_steps": 1, "distill_share": 1, "distill_temperature": 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole(flags, tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    assert invoke("finetune", **flags, model_dir=run) == 0
    return run


def weights(run):
    return read_weights(run / "backbone/weights.safetensors")


@pytest.mark.long
def test_a_dry_run_shows_both_phases_and_writes_nothing(flags, tmp_path):
    run = tmp_path / "run"
    assert invoke("finetune", **flags, model_dir=run, eval_file=SAMPLES / "dev.tsv", dry_run="true") == 0
    assert not run.exists()


def test_layers_come_first_and_nothing_of_the_teacher_is_kept(teacher, whole):
    layers, after, begun = weights(whole / PHASE), weights(whole), weights(teacher)
    assert {name.split(".")[0] for name in layers} == {"backbone"}, "a network without a head"
    assert "objective.classify.head.kernel" in after
    assert not any("teacher" in name or "projection" in name or "blocks.1." in name for name in {**layers, **after})
    name = "backbone.blocks.{}.mixer.query.kernel"
    moved = np.abs(layers[name.format(0)] - begun[name.format(1)]).max()
    assert 0 < moved < 0.1, "it began with the second layer of the teacher"
    state = next((whole / PHASE / "checkpoints").glob("step_*"))
    kept = read_weights(state / "weights.safetensors")
    assert not any("blocks.1." in name for name in kept)
    card = (whole / PHASE / "model_card.md").read_text()
    assert "Layers learnt from those of a teacher" in card and "layers 1 from 2 of the teacher's" in card
    assert not (whole / PHASE / "task.json").exists() and (whole / "task.json").exists()
    assert '"agreement"' in (whole / "log.jsonl").read_text()


@pytest.mark.long
@pytest.mark.parametrize("where", ["inside the phase", "inside the task"])
def test_an_interruption_loses_nothing(flags, whole, where, tmp_path, monkeypatch, capsys):
    original, cut = Loop.run, tmp_path / "cut"

    def interrupted(loop, state):
        if loop.folder.endswith(PHASE) != (where == "inside the phase"):
            return original(loop, state)
        original(dataclasses.replace(loop, num_steps=1), state)
        raise Interrupted(15, "that of the last step")

    monkeypatch.setattr(Loop, "run", interrupted)
    assert invoke("finetune", **flags, model_dir=cut) == 128 + 15
    monkeypatch.setattr(Loop, "run", original)
    capsys.readouterr()
    assert invoke("finetune", **flags, model_dir=cut, resume="auto") == 0
    said = capsys.readouterr().out
    assert "of 80 inputs (100%) are longer than --max_seq_length=8" in said, "each text counts once"
    assert "of 80 inputs (100%) are longer than the 8 tokens that --teacher reads" in said
    for part in ("", PHASE):
        expected, found = weights(whole / part), weights(cut / part)
        assert expected.keys() == found.keys()
        assert all(np.array_equal(found[name], value) for name, value in expected.items())


def test_networks_that_lack_what_is_compared_are_refused():
    def check(network):
        check_shows("--teacher=run", network, show_layers(network, network.tiny_batch()), PARTS)

    with pytest.raises(
        UsageError, match="--teacher=run: a BiLstm shows no layers of one width.* Leave out --distill_layers"
    ):
        check(BiLstm(BiLstmConfig(50, **SIZES["tiny"])).initialize())
    with pytest.raises(UsageError, match="has no scores for every two tokens. Take --distill_layers=embeddings,hidden"):
        check(bert(0, 1, 8, mixer="linear"))
    check(bert(0, 1, 8, mixer="local_window"))


@pytest.fixture
def student(teacher, zh_vocabulary, tmp_path):
    """A function that writes a student of other sizes than the teacher."""
    tokenizer = open_tokenizer(str(zh_vocabulary))

    def write(**sizes):
        config = BertConfig(len(tokenizer.vocabulary), 16, 1, **SMALL | sizes)
        write_model(str(tmp_path), Bert(config).initialize(), None, tokenizer.files(), tokenizer.describe(), "bert")
        return {"init_checkpoint": tmp_path, "init_layers": None}

    return write


REFUSED = {
    "another vocabulary": "--teacher=.*: its vocabulary has .* Leave out --distill_layers: answers of a teacher need no common",
    "lower case": "its tokenizer has do_lower_case=True, and that of .* False",
    "other heads": "the network has 4 heads, the teacher 2. Take a network with as many, or --distill_layers=embeddings,hidden",
    "other special tokens": "a Bert reads texts between other special tokens than the network of --init_checkpoint=new:bilstm",
    "no teacher": "--distill_layers=all: needs a --teacher",
    "no part": "unknown part 'heads'",
    "a map alone": "--distill_layer_map: is of --distill_layers, which is not given",
    "a pair": "has the pair 1:3",
    "no epochs": "--distill_layers_epochs=0: must be more than 0",
    "adapters": "lets the layers learn, and --lora_rank trains adapters alone",
    "another task": r"--\w+: --task=rank has no such flag",
    "layers of a new network": "--init_layers=2: the network of --init_checkpoint=new:bilstm/tiny is new",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_go_together_is_refused_in_one_line(what, flags, student, zh_vocabulary, tmp_path, capsys):
    def other_vocabulary():
        lines = pathlib.Path(zh_vocabulary).read_text(encoding="utf-8").splitlines()
        (tmp_path / "vocab.txt").write_text("\n".join([*lines[:-1], "qq"]) + "\n", encoding="utf-8")
        return {"init_checkpoint": "new:bert/tiny", "init_layers": None, "vocab_file": tmp_path / "vocab.txt"}

    bilstm = {"init_checkpoint": "new:bilstm/tiny", "vocab_file": zh_vocabulary}
    changes = {
        "another vocabulary": other_vocabulary, "lower case": lambda: {"do_lower_case": "false"},
        "other heads": functools.partial(student, num_heads=4), "other special tokens": lambda: bilstm | {"init_layers": None},
        "no teacher": lambda: {"teacher": None}, "no part": lambda: {"distill_layers": "heads"},
        "a map alone": lambda: {"distill_layers": None, "distill_layers_epochs": None, "distill_layer_map": "top"},
        "a pair": lambda: {"distill_layer_map": "1:3"}, "no epochs": lambda: {"distill_layers_epochs": 0},
        "adapters": lambda: {"lora_rank": 2}, "another task": lambda: {"task": "rank"},
        "layers of a new network": lambda: bilstm,
    }[what]()  # fmt: skip
    given = {name: value for name, value in {**flags, **changes}.items() if value is not None}
    assert invoke("finetune", model_dir=tmp_path / "run", **given) in (2, 3, 4)
    said = [line for line in capsys.readouterr().err.splitlines() if "--" in line]
    assert re.search(REFUSED[what], said[-1]), said
