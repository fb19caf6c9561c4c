"""ERNIE computes what Hugging Face's does, with the task of each token and without, and travels both ways."""

import dataclasses
import json
import pathlib
import pickle
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import Buckets, Rows
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.ops.curriculum import in_stages
from data_pipelines.ops.framing import frame_dialogue
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_close, assert_gradient_norms, gradients_of, read_case
from xmodels.conversion import convert
from xmodels.conversion.paddle_tensors import _tensor, read_tensor
from xmodels.conversion.tables.ernie import HUGGING_FACE, PADDLE
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.ernie import SIZES, Ernie, ErnieConfig
from xmodels.objectives.dialogue import Dialogue
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.systems import ernie
from xmodels.tasks.classify.task import Classify
from xmodels.training.recipe import Pairs, Records

CASE = read_case("ernie/mlm_task_ids")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The weights of the case as Hugging Face writes them."""
    path = tmp_path_factory.mktemp("theirs")
    numbers = CASE.numbers
    copies = {copy: CASE.weights[original] for copy, original in HUGGING_FACE.tied.items()}
    save_file(CASE.weights | copies, path / "model.safetensors")
    settings = {
        "model_type": "ernie", "vocab_size": numbers["vocabulary_size"], "hidden_size": numbers["hidden_dim"],
        "num_hidden_layers": numbers["num_layers"], "num_attention_heads": numbers["num_heads"],
        "intermediate_size": numbers["intermediate_dim"], "max_position_embeddings": numbers["max_sequence_length"],
        "type_vocab_size": numbers["num_segments"], "hidden_act": numbers["activation"],
        "layer_norm_eps": numbers["layer_norm_epsilon"], "use_task_id": numbers["use_task_embedding"],
        "task_type_vocab_size": numbers["num_tasks"],
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def loaded(theirs):
    return convert.load(f"hf:{theirs}")


@pytest.fixture(scope="module")
def network(loaded):
    backbone = folder.model_class("ernie")(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, "the case")
    return backbone


FEATURES = {name: CASE.inputs[name] for name in ("token_ids", "segment_ids", "task_ids")}
FEATURES["padding_mask"] = CASE.inputs["padding_mask"].astype(bool)
REAL = FEATURES["padding_mask"]


@pytest.fixture(scope="module")
def batch():
    """The hidden places of the case in slots."""
    hidden = CASE.inputs["mlm_labels"] >= 0
    order = np.argsort(~hidden, axis=1, kind="stable")[:, : hidden.sum(axis=1).max()]
    weights = np.take_along_axis(hidden, order, 1).astype("float32")
    labels = np.where(weights > 0, np.take_along_axis(CASE.inputs["mlm_labels"], order, 1), 0).astype("int32")
    return {**FEATURES, "mask_positions": order.astype("int32"), "label_weights": weights, "labels": labels}


@pytest.fixture(scope="module")
def objective(network, loaded, batch):
    made = MaskedLM(loaded.config)
    made.logits(network(FEATURES), batch, network)  # creates the weights
    folder.assign(made.prefix, made, loaded.values, "the case")
    return made


def test_states_and_attention_are_those_of_the_original(network):
    for index, states in enumerate(network.hidden_states(FEATURES)):
        assert_close(states, CASE.outputs[f"hidden_states/{index}"], f"state {index}", REAL)
    for index, maps in enumerate(network.attention_maps(FEATURES)):
        expected = CASE.outputs[f"attention_probs/{index}"]
        assert_close(maps, expected, f"attention {index}", np.broadcast_to(REAL[:, None, :, None], expected.shape))


@pytest.mark.parametrize("name", ["mlm_logits", "default_task0/mlm_logits"])
def test_logits_are_those_of_the_original_and_without_task_ids_the_task_is_the_first(name, network, objective):
    given = {key: value for key, value in FEATURES.items() if key != "task_ids" or "/" not in name}
    every = np.tile(np.arange(13, dtype="int32"), (3, 1))
    logits = objective.logits(network(given), {**given, "mask_positions": every}, network)
    assert_close(logits, CASE.outputs[name], name, REAL)


def test_loss_and_gradients_are_those_of_the_original(network, objective, batch):
    def loss():
        total, weight = objective.score(network(batch), batch, network)[0]["masked_lm"]
        return total / weight

    names = {
        ours.format(block=i): theirs.format(block=i) for ours, theirs in HUGGING_FACE.names.items() for i in range(2)
    }
    weights = {f"backbone.{n}": w for n, w in named_weights(network).items() if not n.startswith("pooler")}
    weights |= {f"objective.masked_lm.{n}": w for n, w in named_weights(objective).items()}
    value, found = gradients_of(loss, {names[name]: weight for name, weight in weights.items()})
    assert_close(value, CASE.outputs["loss"], "loss")
    assert_gradient_norms(found, CASE.outputs)


def test_what_is_written_is_what_was_read(theirs, loaded, tmp_path):
    assert loaded.config.num_tasks == 3 and loaded.config.num_roles is None
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    there, back = (load_file(path / "model.safetensors") for path in (theirs, tmp_path / "back"))
    pooler = {name for name in back if "pooler" in name}  # which the case lacks, so it begins at random
    assert set(there) - set(HUGGING_FACE.tied) == set(back) - pooler and len(pooler) == 2
    assert all(np.array_equal(there[name], value) for name, value in back.items() if name not in pooler)
    stored, written = (json.loads((path / "config.json").read_text()) for path in (theirs, tmp_path / "back"))
    assert {key: written[key] for key in stored} == stored and written["architectures"] == ["ErnieForMaskedLM"]


def paddle_tensors(values, num_layers):
    """Our values by Paddle's names."""
    found = {}
    for ours, theirs in PADDLE.names.items():
        for block in range(num_layers if "{block}" in ours else 1):
            if (value := values.get(ours.format(block=block))) is not None:
                square = value.reshape(32, 32) if value.size == 1024 else value
                flat = value.reshape(-1) if theirs.endswith("b_0") else square
                found[theirs.format(block=block)] = flat[..., ::-1] if "next_sent" in theirs else flat
    return found


@pytest.mark.parametrize("carrier", ["safetensors", "npz", "pdparams", "params"])
def test_paddles_names_are_read_and_written(loaded, carrier, tmp_path):
    """With the polarity of the pairs, a vocabulary that is shorter than its table, and what an optimizer left."""
    generator = np.random.default_rng(0)
    shapes = {"objective.next_sentence.head.kernel": (32, 2), "objective.next_sentence.head.bias": (2,)}
    values = loaded.values | {n: generator.normal(size=shape).astype("float32") for n, shape in shapes.items()}
    source = tmp_path / "theirs"
    source.mkdir()
    tensors = paddle_tensors(values, 2)
    assert set(tensors) == {name.format(block=i) for name in PADDLE.names.values() for i in (0, 1)}
    stored = tensors | {"word_embedding_moment1_0": tensors["word_embedding"], "@LR_DECAY_COUNTER@": np.ones(1)}
    if carrier == "safetensors":
        save_file({name: np.ascontiguousarray(value) for name, value in stored.items()}, source / "params.safetensors")
    elif carrier == "params":
        (source / "params").mkdir()
        for name, value in stored.items():
            (source / "params" / name).write_bytes(lod_tensor(value))
    elif carrier == "npz":
        np.savez(source / "params.npz", **stored)
    else:
        (source / "params.pdparams").write_bytes(pickle.dumps(stored, protocol=2))
    settings = {
        "attention_probs_dropout_prob": 0.1, "hidden_act": "relu", "hidden_dropout_prob": 0.1, "hidden_size": 32,
        "initializer_range": 0.02, "max_position_embeddings": 24, "num_attention_heads": 4, "num_hidden_layers": 2,
        "sent_type_vocab_size": 4, "task_type_vocab_size": 3, "vocab_size": 120, "intermediate_size": 64,
    }  # fmt: skip
    (source / "ernie_config.json").write_text(json.dumps(settings | {"use_task_id": True}))
    tokens = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(0x4E00, 0x4E00 + 100)), "[UNK]"]
    (source / "vocab.txt").write_text("".join(f"{token}\t{i}\n" for i, token in enumerate(tokens)), "utf-8")

    if carrier == "pdparams":
        with pytest.raises(CheckpointError, match="without `--allow_pickle`"):
            convert.load(f"paddle:{source}")
    found = convert.load(f"paddle:{source}", allow_pickle=True)
    assert found.config == dataclasses.replace(loaded.config, activation="relu")
    assert set(found.values) == set(values)
    assert all(np.array_equal(found.values[name], value) for name, value in values.items())
    assert found.heads == {"masked_lm", "next_sentence"}
    opened = found.tokenizer.open().vocabulary.tokens
    assert opened == tokens  # 105, of 120 rows
    convert.save(found, f"paddle:{tmp_path / 'back'}")
    back = load_file(tmp_path / "back/model.safetensors")
    assert set(back) == set(tensors) and all(np.array_equal(back[name], value) for name, value in tensors.items())
    assert convert.load(f"paddle:{tmp_path / 'back'}").config == found.config

    (source / "ernie_config.json").write_text(json.dumps(settings))  # as released: the table is there and not used
    without = convert.load(f"paddle:{source}", allow_pickle=True)
    assert without.config.num_tasks is None and "task_embedding is left out" in without.warnings[-1]


def test_heads_of_the_tasks_of_ernie_2_are_left_out_of_a_folder_of_paddle_with_a_note(loaded, tmp_path):
    folder = tmp_path / "theirs"
    convert.save(loaded, f"paddle:{folder}")
    tensors = load_file(folder / "model.safetensors")
    heads = {"sent_reorder_fc.w_0": np.zeros((32, 9), "f4"), "sent_reorder_fc.b_0": np.zeros(9, "f4")}
    save_file(tensors | heads, folder / "model.safetensors")
    found = convert.load(f"paddle:{folder}")
    assert set(found.values) == set(loaded.values)
    assert "sent_reorder_fc.b_0, sent_reorder_fc.w_0 are left out" in found.warnings[-1]
    for unknown in ("encoder_layer_2_ffn_fc_0.w_0", "mask_lm_out_fc.w_0", "sent_reorder_fc.w_1"):
        save_file(tensors | {unknown: np.zeros((32, 9), "f4")}, folder / "model.safetensors")
        with pytest.raises(CheckpointError, match=unknown):
            convert.load(f"paddle:{folder}")


def lod_tensor(value):
    """A tensor as PaddlePaddle writes it (`lod_tensor.cc`), by another hand than that which reads it."""
    kind = {"float32": 5, "float64": 6}[str(value.dtype)]
    description = bytes([0x08, kind])
    for size in value.shape:
        number = bytearray()
        while size > 127:
            number.append(size % 128 + 128)
            size //= 128
        description += bytes([0x10, *number, size])
    head = (0).to_bytes(4, "little") + (0).to_bytes(8, "little") + (0).to_bytes(4, "little")
    return head + len(description).to_bytes(4, "little") + description + value.tobytes()


@pytest.mark.parametrize("damage", ["cut", "longer", "version", "levels", "type", "dims", "endless", "empty"])
def test_a_damaged_tensor_of_paddle_is_named(damage, tmp_path):
    whole = lod_tensor(np.arange(600, dtype="float32").reshape(300, 2))
    assert np.array_equal(_tensor(whole), np.arange(600).reshape(300, 2))
    broken = {
        "cut": whole[:-1], "longer": whole + b"x", "version": b"\1" + whole[1:], "levels": whole[:4] + b"\1" + whole[5:],
        "type": whole[:21] + b"\3" + whole[22:], "dims": whole[:23] + b"\xad" + whole[24:], "endless": whole[:20] + b"\xff" * 30,
        "empty": b"",
    }  # fmt: skip
    (tmp_path / "x").write_bytes(broken[damage])
    with pytest.raises(CheckpointError, match="x: not a readable tensor of PaddlePaddle"):
        read_tensor(str(tmp_path / "x"))


class Runs:
    def __reduce__(self):
        return pytest.fail, ("the pickle ran its code",)


@pytest.mark.parametrize("contents", [{"word_embedding": Runs()}, [1, 2], {"x": np.array([{}], object)}])
def test_a_pickle_of_paddle_that_holds_more_than_arrays_is_refused(contents, tmp_path):
    (tmp_path / "x.pdparams").write_bytes(pickle.dumps(contents, protocol=2))
    (tmp_path / "ernie_config.json").write_text(
        json.dumps({"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1})
    )
    with pytest.raises(CheckpointError, match="x.pdparams"):
        convert.load(f"paddle:{tmp_path}", allow_pickle=True)


def count(config):
    """Weights of the network, and of both heads of the pretraining."""
    width, inner, vocabulary = config.hidden_dim, config.intermediate_dim, config.vocabulary_size
    tables = (
        vocabulary
        + config.max_sequence_length
        + config.num_segments
        + (config.num_roles or 0)
        + (config.num_tasks or 0)
    )
    block = 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
    network = (tables + 2) * width + config.num_layers * block + width * (width + 1)
    return network, width * (width + 1) + 2 * width + vocabulary + 2 * (width + 1)


def test_sizes_have_the_published_numbers_of_parameters():
    small = ErnieConfig(50, 8, 2, 2, 16, max_sequence_length=12, num_roles=2, num_tasks=3)
    assert Ernie(small).initialize().count_params() == count(small)[0]
    published = ErnieConfig(18_000, **SIZES["base"])
    assert count(published)[0] == 99_866_112 and sum(count(published)) == 100_477_778
    with_roles = ernie.configuration(range(18_000), "base")
    assert count(with_roles)[0] == 99_866_112 + 1_536


STAGES = 12  # batches of a training


def staged(batch_size=4, grouping=None):
    """Batches of which each example carries the number of the stage that was at work."""
    arrays = {"token_ids": np.ones((64, 6), "int32"), "segment_lengths": np.full((64, 1), 6, "int64")}
    source = ArraySource(arrays, "numbers")
    source.lengths = lambda item: tf.fill(tf.shape(item), 6)

    def stage(number):
        def op(features):
            ones = tf.ones_like(features["token_ids"])
            more = {"segment_ids": ones, "padding_mask": ones > 0, "mask_positions": ones[:, :1], "labels": ones[:, :1]}
            return {
                **features,
                **more,
                "label_weights": tf.ones_like(ones[:, :1], tf.float32),
                "stage": ones[:, 0] * number,
            }

        return op

    transform = in_stages([stage(0), stage(1), stage(2)], (1, 2, 1))
    keep = ("token_ids", "padding_mask", "segment_ids", "mask_positions", "labels", "label_weights", "stage")
    return Batches(source, transform, batch_size, 0, keep, grouping, STAGES)


def stages_of(dataset, count):
    found = [batch["stage"].numpy() for batch in dataset.take(count)]
    rows = [sorted(set(stage.ravel().tolist())) for stage in found]
    assert all(len(each) == 1 for each in rows)
    return [each[0] for each in rows]


EXPECTED = [0] * 3 + [1] * 6 + [2] * 5  # beyond the end the last one holds


@pytest.mark.one_in(3)
@pytest.mark.parametrize("grouping", [None, Buckets((4, 8)), Rows(6, 1, 1)])
def test_stages_follow_the_number_of_the_batch_wherever_reading_begins(grouping):
    batches = staged(grouping=grouping)
    assert stages_of(batches.training(), 14) == EXPECTED
    assert stages_of(batches.training(first_batch=5), 9) == EXPECTED[5:]
    halves = stages_of(batches.training(per_batch=2, first_batch=2), 14)  # as two replicas read them
    assert halves == [stage for stage in EXPECTED[2:9] for _ in range(2)]


def test_each_host_is_in_the_stage_of_the_whole_training():
    hosts = [staged().training(host=host, num_hosts=2, per_batch=2, first_batch=1) for host in range(2)]
    assert [stages_of(host, 12) for host in hosts] == [EXPECTED[1:13]] * 2


def test_held_out_text_is_masked_as_in_the_last_stage():
    assert set(stages_of(staged().once(), 16)) == {2}


def test_stages_are_those_that_the_records_can_tell():
    plain = Records(language="zh")
    marked = dataclasses.replace(plain, units=("word_start", "phrase_start", "entity_start"))
    assert ernie.stages(plain, None) == {"tokens": (None, 1.0), "words": ("word_start", 1.0)}
    assert list(ernie.stages(marked, None).values()) == [(None, 1.0), ("phrase_start", 1.0), ("entity_start", 1.0)]
    assert ernie.stages(marked, (0.0, 1.0, 3.0)) == {
        "phrases": ("phrase_start", 1.0),
        "entities": ("entity_start", 3.0),
    }
    english = dataclasses.replace(marked, language="en")  # word pieces are no units; words are
    assert ernie.stages(english, None) == {
        "words": ("word_start", 1.0),
        "phrases": ("phrase_start", 1.0),
        "entities": ("entity_start", 1.0),
    }
    assert ernie.stages(Records(language="en"), (1.0, 2.0, 0.0)) == {"words": ("word_start", 3.0)}
    with pytest.raises(UsageError, match="--entity_lexicon"):
        ernie.stages(plain, (1.0, 1.0, 1.0))
    for wrong in ((1.0, 1.0), (1.0, -1.0, 1.0), (0.0, 0.0, 0.0)):
        with pytest.raises(ValueError, match="three numbers"):
            ernie.Options(stages=wrong)


SMALL = ErnieConfig(60, 16, 2, 2, 32, max_sequence_length=20, num_roles=2, activation="gelu")


@pytest.fixture(scope="module")
def small():
    keras.utils.set_random_seed(0)
    return Ernie(SMALL).initialize()


def dialogue_batch():
    rng = np.random.default_rng(0)
    return {
        "token_ids": rng.integers(5, 60, (3, 12)).astype("int32"), "segment_ids": np.zeros((3, 12), "int32"),
        "padding_mask": np.arange(12)[None] < np.array([[12], [9], [7]]), "role_ids": rng.integers(0, 2, (3, 12)).astype("int32"),
        "dialogue_labels": np.array([1, 0, 1], "int32"), "example_weights": np.ones(3, "float32"),
    }  # fmt: skip


def test_a_dialogue_trains_roles_and_no_segments(small):
    batch, objective = dialogue_batch(), Dialogue(SMALL)
    objective.predictions(small(batch), batch, small)  # creates the weights

    def loss():
        total, weight = objective.score(small(batch), batch, small)[0]["dialogue"]
        return total / weight

    tables = {name: weight for name, weight in named_weights(small).items() if name.startswith("embedding.")}
    with tf.GradientTape() as tape:
        value = loss()
    found = tape.gradient(value, {name: weight.value for name, weight in tables.items()})
    assert found["embedding.segment.embeddings"] is None
    assert np.abs(tf.convert_to_tensor(found["embedding.role.embeddings"])).min() > 0


def test_a_dialogue_of_one_speaker_is_a_text_of_one_segment(small):
    small.embedding.role.embeddings.assign(small.embedding.segment.embeddings)
    batch = dialogue_batch() | {"role_ids": np.zeros((3, 12), "int32")}
    text = {name: value for name, value in batch.items() if name != "role_ids"}
    for name, value in small(batch).items():
        np.testing.assert_array_equal(np.array(value), np.array(small(text)[name]))


def test_roles_alternate_with_the_turns(zh_vocabulary):
    vocabulary = Vocabulary.read(zh_vocabulary)
    record = {"token_ids": np.array([[9, 10, 11, 12, 13, 0]]), "segment_lengths": np.array([[2, 2, 1]])}
    found = frame_dialogue(vocabulary, 12)({name: tf.constant(value) for name, value in record.items()})
    assert found["role_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]]
    assert not found["segment_ids"].numpy().any() and found["padding_mask"].numpy().sum() == 9


def test_an_example_that_the_answerer_begins_has_the_roles_of_the_speakers(zh_vocabulary):
    vocabulary = Vocabulary.read(zh_vocabulary)
    record = {
        "token_ids": np.array([[9, 10, 11, 12, 13, 0]] * 2),
        "segment_lengths": np.array([[2, 2, 1]] * 2),
        "first_role": np.array([0, 1]),
    }
    found = frame_dialogue(vocabulary, 12)({name: tf.constant(value) for name, value in record.items()})
    assert found["role_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0],
    ]
    assert not found["segment_ids"].numpy().any() and "first_role" not in found


def test_a_network_without_roles_refuses_dialogues():
    with pytest.raises(ValueError, match="`num_roles`"):
        Ernie(dataclasses.replace(SMALL, num_roles=None))(dialogue_batch())
    with pytest.raises(UsageError, match="--set=num_roles=2"):
        vocabulary = types_of_vocabulary()
        ernie.recipe(vocabulary, Records(packing="dialogue"), config=dataclasses.replace(SMALL, num_roles=None))


def types_of_vocabulary():
    return Vocabulary(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *map(chr, range(0x4E00, 0x4E00 + 55))])


SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"


@pytest.fixture(scope="module")
def marked(tmp_path_factory, zh_vocabulary):
    """Records of the samples with phrases and entities, and others of dialogues."""
    path = tmp_path_factory.mktemp("ernie")
    (path / "entities.txt").write_text(
        "".join(f"{word}\n" for word in ("上海", "北京", "手机", "餐厅", "公园")), "utf-8"
    )
    flags = {
        "language": "zh",
        "vocab_file": zh_vocabulary,
        "max_seq_length": 32,
        "max_predictions_per_seq": 8,
        "num_shards": 2,
    }
    more = {"do_whole_word_mask": "true", "segmenter": "jieba", "entity_lexicon": path / "entities.txt"}
    assert (
        invoke(
            "create_pretraining_data", input_file=SAMPLES / "corpus.txt", output_dir=path / "records", **flags, **more
        )
        == 0
    )
    lines = [line for line in (SAMPLES / "corpus.txt").read_text("utf-8").split("\n") if line][:120]
    turns = ["\t".join(line[:12] for line in lines[start : start + 4]) for start in range(0, 120, 4)]
    (path / "turns.txt").write_text("".join(f"{line}\n" for line in turns), "utf-8")
    more |= {"packing": "dialogue", "input_format": "dialogue"}
    assert (
        invoke("create_pretraining_data", input_file=path / "turns.txt", output_dir=path / "dialogues", **flags, **more)
        == 0
    )
    return path


RUN = {
    "system": "ernie", "size": "tiny", "train_batch_size": 8, "num_train_steps": 9, "save_checkpoints_steps": 4,
    "eval_steps": 1, "jit_compile": "false", "log_steps": 3, "keep_checkpoint_max": 3,
    "set": "hidden_dim=16,num_layers=1,intermediate_dim=32,max_sequence_length=32",
}  # fmt: skip


@pytest.mark.long
def test_a_run_goes_on_in_its_stage_and_dialogues_train_the_same_network(marked, capsys):
    run = marked / "run"
    assert invoke("pretrain", data_dir=marked / "records", model_dir=run, **RUN) == 0
    assert "Masked in stages: tokens 33%, words 33%, entities 33%; in evaluations entities." in capsys.readouterr().out
    whole = load_file(run / "backbone/weights.safetensors")
    for part in ("checkpoints/step_00000008", "checkpoints/step_00000009", "backbone"):
        shutil.rmtree(run / part)
    (run / "results.json").unlink()
    assert invoke("pretrain", data_dir=marked / "records", model_dir=run, resume="must", **RUN) == 0
    again = load_file(run / "backbone/weights.safetensors")
    assert all(np.array_equal(again[name], value) for name, value in whole.items())

    more = RUN | {"num_train_steps": 2, "init_checkpoint": run, "model_dir": marked / "second"}
    assert invoke("pretrain", data_dir=marked / "dialogues", **more) == 0
    second = load_file(marked / "second/backbone/weights.safetensors")
    name = "backbone.embedding.{}.embeddings"
    assert not np.array_equal(second[name.format("role")], whole[name.format("role")])
    assert "objective.dialogue.head.kernel" in second and "objective.next_sentence.head.kernel" in whole
    said = (marked / "second/report.html").read_text("utf-8")
    assert "one is drawn from elsewhere" in said or "of one dialogue" in said

    capsys.readouterr()
    assert invoke("convert_checkpoint", "--verify", **{"from": marked / "second", "to": f"hf:{marked / 'theirs'}"}) == 0
    said = capsys.readouterr().out
    assert "no place for num_roles" in said and "no place for the heads dialogue" in said
    assert not any("role" in name for name in load_file(marked / "theirs/model.safetensors"))


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("head", ["masked_lm", "next_sentence", "classify"])
def test_transformers_computes_the_same_from_what_we_write(head, zh_vocabulary, tmp_path):
    import torch
    import transformers

    files = {"vocab.txt": pathlib.Path(zh_vocabulary).read_bytes()}
    tokenizer = TokenizerFiles(files, {"tokenizer": "wordpiece", "do_lower_case": True})
    config = dataclasses.replace(
        SMALL, vocabulary_size=len(tokenizer.open().vocabulary), activation="relu", num_tasks=3
    )
    keras.utils.set_random_seed(3)
    backbone = Ernie(config).initialize()
    make = {"masked_lm": MaskedLM, "next_sentence": NextSentence, "classify": lambda config: Classify(config, "abc")}
    objective = make[head](config)
    batch = convert.example_batch(config) | {"example_weights": np.ones(2)}
    outputs = backbone(batch)
    {"masked_lm": lambda: objective.logits(outputs, batch, backbone)}.get(
        head, lambda: objective.head(outputs["pooled_output"])
    )()
    values = folder.values_of("backbone", backbone) | folder.values_of(objective.prefix, objective)
    generator = np.random.default_rng(0)
    values = {name: generator.normal(0, 0.2, value.shape).astype("float32") for name, value in values.items()}
    checkpoint = Checkpoint("ernie", config, values, tokenizer, frozenset({head}))
    convert.save(checkpoint, f"hf:{tmp_path}/theirs")
    architecture = json.loads((tmp_path / "theirs/config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(
        str(tmp_path / "theirs"), output_loading_info=True
    )
    unexpected = report.pop("unexpected_keys")  # the masked LM of transformers has no pooler
    assert not any(report.values()) and all("pooler" in name for name in unexpected)
    with torch.no_grad():
        given = {"input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask"}
        found = network(**{theirs: torch.from_numpy(batch[ours]) for theirs, ours in given.items()})
    expected = convert.outputs(checkpoint)[f"{head}_logits"]
    assert_close(found.logits.numpy(), expected, "logits", batch["padding_mask"] if head == "masked_lm" else None)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "theirs")), tokenizer.open()
    text = "今天天气很好，我们去公园。"
    assert theirs(text, add_special_tokens=False)["input_ids"] == list(ours.encode(text).ids)


@pytest.mark.long
def test_a_folder_with_spare_rows_is_read_fine_tuned_and_written(zh_vocabulary, tmp_path):
    """As Baidu's: more rows than tokens."""
    files = {"vocab.txt": pathlib.Path(zh_vocabulary).read_bytes()}
    tokenizer = TokenizerFiles(files, {"tokenizer": "wordpiece", "do_lower_case": True})
    config = dataclasses.replace(SMALL, vocabulary_size=len(tokenizer.open().vocabulary) + 36, num_roles=None)
    values = folder.values_of("backbone", Ernie(config).initialize())
    convert.save(Checkpoint("ernie", config, values, tokenizer), f"hf:{tmp_path / 'theirs'}")
    assert (
        invoke("convert_checkpoint", "--verify", **{"from": f"hf:{tmp_path / 'theirs'}", "to": tmp_path / "ours"}) == 0
    )
    flags = {
        "task": "classify",
        "init_checkpoint": tmp_path / "ours",
        "train_file": SAMPLES / "train.tsv",
        "max_seq_length": 16,
    }
    assert invoke("finetune", model_dir=tmp_path / "run", num_train_epochs=0.02, jit_compile="false", **flags) == 0
    assert convert.load(str(tmp_path / "run")).config.vocabulary_size == config.vocabulary_size


@pytest.mark.long
def test_dialogues_and_text_alternate_in_one_run_that_resumes(marked, capsys):
    run, held = (
        marked / "both",
        {"eval_data_dir": marked / "records", "eval_task_data": f"dialogue:{marked / 'dialogues'}"},
    )
    both = RUN | {
        "data_dir": marked / "records",
        "task_data": f"dialogue:{marked / 'dialogues'}",
        "num_train_steps": None,
    }
    both |= {"model_dir": run, "task_steps": "text:6,dialogue:3", "save_checkpoints_steps": 4}
    both = {name: value for name, value in both.items() if value is not None}
    assert invoke("pretrain", **both, **held) == 0
    said = capsys.readouterr().out
    assert "Steps of each task, stage by stage: text 6 + dialogue 3." in said
    results = json.loads((run / "results.json").read_text("utf-8"))["results"]
    assert {"text/masked_lm", "text/next_sentence", "dialogue/masked_lm", "dialogue/dialogue"} <= set(results)
    whole = load_file(run / "backbone/weights.safetensors")
    assert {"objective.dialogue.head.kernel", "objective.next_sentence.head.kernel"} <= set(whole)
    assert sum("masked_lm" in name and name.endswith("output_bias") for name in whole) <= 1  # one head for both
    for part in ("checkpoints/step_00000008", "checkpoints/step_00000009", "backbone"):
        shutil.rmtree(run / part)
    (run / "results.json").unlink()
    assert invoke("pretrain", resume="must", **both, **held) == 0
    again = load_file(run / "backbone/weights.safetensors")
    assert all(np.array_equal(again[name], value) for name, value in whole.items())


def test_dialogues_beside_text_train_roles_and_segments_with_one_head():
    records = Records(32, units=("word_start",), labelled={"dialogue": Pairs((), 32, ("word_start",))})
    recipe = ernie.recipe(types_of_vocabulary(), records, config=SMALL, options=ernie.Options(stages=(1.0, 1.0, 0.0)))
    first, second = (recipe.curriculum.tasks[name].objective() for name in ("text", "dialogue"))
    assert first.parts[0] is second.parts[0] and [part.label for part in second.parts] == ["masked_lm", "dialogue"]
    assert recipe.curriculum.schedule == "joint" and recipe.curriculum.usual == ("text", "dialogue")


@pytest.mark.parametrize(
    "records, name, pairs, said",
    [
        (Records(), "discourse", Pairs(("a", "b"), 32), "has one further task"),
        (Records(), "dialogue", Pairs(("a", "b"), 32), "has one further task"),
        (Records(static=True), "dialogue", Pairs((), 32, ("word_start",)), "are static"),
        (Records(packing="dialogue"), "dialogue", Pairs((), 32, ("word_start",)), "are dialogues too"),
        (Records(), "dialogue", Pairs((), 32, ("word_start", "entity_start")), "mark word_start, entity_start"),
    ],
)
def test_dialogues_that_do_not_go_with_the_text_are_refused(records, name, pairs, said):
    with pytest.raises(UsageError, match=said):
        ernie.recipe(types_of_vocabulary(), dataclasses.replace(records, labelled={name: pairs}), config=SMALL)
