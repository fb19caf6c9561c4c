"""Two language models by commands, and the translator that begins as them, with plain text beside the pairs."""

import shutil
import types

import keras
import numpy as np
import pytest

import xmodels
from data_pipelines.errors import CheckpointError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.jobs.pretrain.initial_parts import load_parts
from xmodels.models.bart import Bart, BartConfig
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import read_config, read_weights, write_model
from xmodels.models.lstm_lm import LstmLM, LstmLMConfig
from xmodels.objectives.untied_lm import UntiedLM

PEOPLE, FOOD = "john mary anna".split(), {"bread": "brot", "soup": "suppe", "fish": "fisch"}
LEARNT = {"train_batch_size": 4, "size": "tiny", "save_checkpoints_steps": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with records of pairs, with a language model of each side, and with two BERTs."""
    path, draw = tmp_path_factory.mktemp("seq2seq"), np.random.default_rng(0)
    sides = ([], [])
    for _ in range(120):
        one, food = draw.choice(PEOPLE), draw.choice(list(FOOD))
        sides[0].append(f"{one} eats {food} today .")
        sides[1].append(f"heute isst {one} {FOOD[food]} .")
    for name, lines in zip(("en", "de"), sides, strict=True):
        (path / name).with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = {"input_file": f"{path}/en.txt,{path}/de.txt", "tokenizer": "words", "vocab_size": 30}
    assert invoke("train_vocabulary", **text, output_file=path / "words") == 0
    common = {"vocab_file": path / "words", "max_seq_length": 8}
    pairs = {"input_file": path / "en.txt", "target_file": path / "de.txt", "packing": "parallel"}
    assert invoke("create_pretraining_data", **pairs, **common, output_dir=path / "pairs") == 0
    plain = {"input_file": path / "en.txt", "packing": "full_sentences"}
    assert invoke("create_pretraining_data", **plain, **common, output_dir=path / "sentences") == 0
    tokenizer = open_tokenizer(str(path / "words"))
    numbers = {"vocabulary_size": len(tokenizer.vocabulary), "dropout": 0.0}
    for seed, name in enumerate(("en_lm", "de_lm")):
        keras.utils.set_random_seed(seed)
        (path / name).mkdir()
        config = LstmLMConfig(hidden_dim=64, num_layers=1, **numbers)
        parts = LstmLM(config).initialize(), UntiedLM(config)
        write_model(str(path / name), *parts, tokenizer.files(), tokenizer.describe(), "lstm_lm")
    sizes = {"hidden_dim": 128, "num_layers": 2, "num_heads": 4, "intermediate_dim": 512, "max_sequence_length": 8}
    for name in ("one_bert", "other_bert"):
        (path / name).mkdir()
        bert = Bert(BertConfig(**numbers, **sizes)).initialize()
        write_model(str(path / name), bert, None, tokenizer.files(), tokenizer.describe(), "bert")
    return path


def translator(made, name, **flags):
    flags = {"data_dir": made / "pairs", "num_train_steps": 3} | flags
    return invoke("pretrain", system="lstm_seq2seq", model_dir=made / name, **LEARNT | flags)


def weights(folder):
    inner = folder / "backbone"
    return read_weights(str((inner if inner.exists() else folder) / "weights.safetensors"))


@pytest.mark.long
def test_a_translator_begins_as_two_language_models_and_writes(made, capsys):
    both = {"init_encoder": made / "en_lm", "init_decoder": made / "de_lm"}
    capsys.readouterr()
    assert translator(made, "begun", **both, learning_rate=1e-12, train_batch_size=8) == 0
    assert "Initial weights from --init_encoder=" in capsys.readouterr().out
    source, target, found = (weights(made / name) for name in ("en_lm", "de_lm", "begun"))
    same = {
        "backbone.embedding.embeddings": source["backbone.embedding.embeddings"],
        "backbone.target_embedding.embeddings": target["backbone.embedding.embeddings"],
        "backbone.output_words.kernel": target["objective.untied_lm.head.kernel"],
        "backbone.encoder_layers.0.gates.kernel": source["backbone.recurrent_layers.0.gates.kernel"],
        "backbone.decoder_layers.0.steps.cell.recurrent.kernel": target["backbone.recurrent_layers.0.steps.cell.recurrent.kernel"],
    }  # fmt: skip
    for name, value in same.items():
        np.testing.assert_allclose(found[name], value, atol=1e-9, err_msg=name)
    (text,) = xmodels.translate(model_dir=str(made / "begun"), text="john eats soup .", max_new_tokens=6)
    assert isinstance(text, str)


@pytest.mark.long
@pytest.mark.parametrize("system", ["lstm_seq2seq", "rnn_search"])
def test_translators_with_recurrent_encoders_are_exported_and_answer_an_empty_batch(made, system, tmp_path):
    learnt = LEARNT | {"data_dir": made / "pairs", "num_train_steps": 1}
    assert invoke("pretrain", system=system, model_dir=tmp_path / "run", **learnt) == 0
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served", serving_ops="core") == 0


def test_bart_begins_as_one_bert_on_both_sides_but_not_as_two(made, capsys):
    one, other = f"{made}/one_bert", f"{made}/other_bert"
    numbers = {
        "num_layers": 2,
        "num_heads": 4,
        "intermediate_dim": 512,
        "layer_norm_epsilon": 1e-12,
        "activation": "gelu_tanh",
    }
    size = read_config(one)[0].vocabulary_size

    def load(encoder, decoder, **more):
        bart = Bart(BartConfig(size, 128, **numbers | {"max_sequence_length": 8} | more)).initialize()
        return bart, load_parts(types.SimpleNamespace(init_encoder=encoder, init_decoder=decoder), bart, None)

    bart, parts = load(one, one)
    capsys.readouterr()
    parts.assign(bart, lambda heads: None)
    assert capsys.readouterr().out == (
        f"Initial weights from --init_encoder={one} and --init_decoder={one}: "
        f"{sum(np.size(value) for value in parts.values.values()):,} numbers of the network.\n"
    )
    np.testing.assert_array_equal(
        bart.embedding.token.embeddings, weights(made / "one_bert")["backbone.embedding.token.embeddings"]
    )
    assert not load(None, None)[1]
    with pytest.raises(
        CheckpointError, match=r"give backbone.embedding.token.embeddings different values, which .* 'bart' share"
    ):
        load(one, other)
    with pytest.raises(
        CheckpointError, match=r"\(max_sequence_length 8 there, 16 here\). .*: --set=max_sequence_length=8\.$"
    ):
        load(one, None, max_sequence_length=16)
    capsys.readouterr()
    load(None, other, activation="gelu")
    assert "other settings (activation gelu_tanh there, gelu here)" in capsys.readouterr().out


@pytest.mark.long
def test_plain_text_of_both_sides_trains_beside_and_a_run_resumes_to_the_same_bytes(made, capsys):
    for name in ("en", "de"):
        plain = {
            "input_file": f"{made}/{name}.txt",
            "packing": "stream",
            "input_format": "documents",
            "max_seq_length": 8,
        }
        made_of = {"vocab_file": made / "words", "output_dir": made / f"{name}_text"}
        assert invoke("create_pretraining_data", **plain, **made_of) == 0
    flags = {
        "init_encoder": made / "en_lm", "init_decoder": made / "de_lm",
        "task_data": f"source:{made}/en_text,target:{made}/de_text", "learning_rate": 1e-2, "num_train_steps": 6,
    }  # fmt: skip
    capsys.readouterr()
    assert translator(made, "whole", **flags) == 0
    out = capsys.readouterr().out
    assert "Steps of each task, stage by stage: translation 2 + source 2 + target 2." in out
    assert "source_lm" in out and "target_lm" in out and "seq2seq" in out
    found, before = weights(made / "whole"), weights(made / "en_lm")
    softmax = "objective.source_lm.head.kernel"
    assert 0 < np.abs(found[softmax] - before["objective.untied_lm.head.kernel"]).max() < 0.1  # it began there
    shutil.copytree(made / "whole", made / "again")
    for state in (made / "again/checkpoints").glob("*6*"):
        shutil.rmtree(state) if state.is_dir() else state.unlink()
    assert translator(made, "again", **flags) == 0
    for name, value in weights(made / "again").items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"init_encoder": "pairs"}, "pairs"),
        ({"init_encoder": "en_lm", "init_checkpoint": "en_lm"}, "--init_encoder: does not go with --init_checkpoint"),
        ({"init_decoder": "en_lm", "system": "bert"}, "--init_decoder: --system=bert has no encoder and decoder that begin as"),
        ({"init_decoder": "en_lm", "set": "hidden_dim=32"}, "is of another size or kind (hidden_dim 64 there, 32 here)"),
        ({"init_decoder": "one_bert"}, "holds the network 'bert', but the decoder of 'lstm_seq2seq' may begin as 'lstm_lm'"),
        ({"init_decoder": "en_lm", "system": "mass", "data_dir": "sentences"}, "but the decoder of 'mass' may begin as 'bert'"),
        ({"task_data": "third:pairs"}, "Found: --packing=parallel"),
        ({"task_data": "source:one_bert"}, "one_bert"),
        ({"set": "lm_weight=-1"}, "`lm_weight` must be from 0"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_named_in_one_line(made, capsys, flags, message):
    paths = {name: made / value for name, value in flags.items() if name.startswith("init_") or name == "data_dir"}
    if "task_data" in flags:
        name, _, folder = flags["task_data"].partition(":")
        paths["task_data"] = f"{name}:{made / folder}"
    capsys.readouterr()
    given = {"system": "lstm_seq2seq", "data_dir": made / "pairs", "num_train_steps": 3} | LEARNT | flags | paths
    assert invoke("pretrain", model_dir=made / "refused", **given) != 0
    shown = capsys.readouterr()
    assert message in (shown.err + shown.out) and "Traceback" not in shown.err + shown.out
    assert not (made / "refused/backbone").exists()
