"""The commands as a user types them: from a text file to answers, and what each says of bad input."""

import importlib
import json
import pathlib
import shutil

import pytest

from launch.__main__ import main as launcher
from launch.__main__ import verbs

SAMPLES = pathlib.Path(__file__).parent.parent / "samples/zh"


def invoke(verb, *arguments, **flags):
    """Runs a verb in this process; returns its exit code."""
    module = importlib.import_module(f"launch.{verb}")
    module = importlib.reload(module)  # flags keep their values, and each call is a new command
    try:
        return module.COMMAND.main(module.run, [*arguments, *(f"--{name}={value}" for name, value in flags.items())])
    except SystemExit as stop:
        return stop.code


@pytest.fixture(scope="module")
def street(tmp_path_factory, records, small_config):
    """A folder with a pretrained and a fine-tuned run."""
    folder = tmp_path_factory.mktemp("street")
    numbers = {"num_train_steps": 4, "train_batch_size": 8, "num_warmup_steps": 1, "learning_rate": 1e-3}
    run = {"system": "bert_wwm", "data_dir": records, "model_dir": folder / "run", "bert_config_file": small_config}
    assert invoke("pretrain", **run, **numbers, eval_steps=1) == 0
    files = {f"{name}_file": SAMPLES / f"{part}.tsv" for name, part in (("train", "train"), ("eval", "dev"))}
    tuned = {"init_checkpoint": folder / "run", "model_dir": folder / "classifier", "max_seq_length": 32}
    assert invoke("finetune", **tuned, **files, test_file=SAMPLES / "test.tsv", num_train_epochs=1) == 0
    return folder


def test_text_becomes_vocabulary_and_records(tmp_path, capsys):
    text = {"input_file": SAMPLES / "corpus.txt", "language": "zh"}
    assert invoke("train_vocabulary", **text, vocab_size=1500, output_file=tmp_path / "vocab.txt") == 0
    made = {"vocab_file": tmp_path / "vocab.txt", "output_dir": tmp_path / "records", "segmenter": "jieba"}
    assert invoke("create_pretraining_data", "--do_whole_word_mask", **text, **made, max_seq_length=32) == 0
    shown = capsys.readouterr().out
    for said in ("documents", "sentences", "tokens", "[UNK]", "padding", "words of more than one token", "disagree"):
        assert said in shown
    assert invoke("inspect_data", "--verify", data_dir=tmp_path / "records") == 0
    shown = capsys.readouterr().out
    assert "→[MASK]]" in shown and "% [MASK]" in shown and "100.0% are hidden whole" in shown and "are whole" in shown


def test_fine_tuned_run_is_scored_asked_and_exported(street, tmp_path, capsys):
    run = street / "classifier"
    assert invoke("evaluate", model_dir=run, test_file=SAMPLES / "test.tsv", output_file=tmp_path / "scores.json") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert 0 <= scores["accuracy"] <= 1 and sum(map(sum, scores["confusion"])) == 100
    assert invoke("predict", model_dir=run, text="这家餐厅的菜很好吃。") == 0
    assert "label: " in capsys.readouterr().out
    texts = tmp_path / "texts.txt"
    texts.write_text("我们去爬山。\n\n新的手机很快。\n", encoding="utf-8")
    assert invoke("predict", model_dir=run, input_file=texts, output_file=tmp_path / "labels.tsv") == 0
    assert len((tmp_path / "labels.tsv").read_text().splitlines()) == 3
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "serving", serving_ops="core") == 0
    assert (tmp_path / "serving/1/saved_model.pb").is_file() and "curl" in (tmp_path / "serving/README.md").read_text()


def test_evaluate_agrees_with_what_finetune_said(street, capsys):
    card = (street / "classifier/model_card.md").read_text()
    said = float(next(line for line in card.splitlines() if line.startswith("| test accuracy")).split("|")[2])
    invoke("evaluate", model_dir=street / "classifier", test_file=SAMPLES / "test.tsv")
    assert f"accuracy {said:.4f}" in capsys.readouterr().out


def test_checkpoints_are_converted_and_verified(street, tmp_path, capsys):
    arguments = ["--verify", f"--from={street / 'run'}", f"--to=hf:{tmp_path / 'hf'}"]
    assert invoke("convert_checkpoint", *arguments) == 0
    assert "largest difference of masked_lm_logits: 0" in capsys.readouterr().out
    files = {"train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "tuned"}
    assert (
        invoke("finetune", init_checkpoint=f"hf:{tmp_path / 'hf'}", **files, num_train_epochs=0.2, max_seq_length=32)
        == 0
    )


def test_finetune_resumes_to_the_same_answers(street, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = {"init_checkpoint": street / "run", "train_file": SAMPLES / "train.tsv", "max_seq_length": 32}
    flags |= {"num_train_epochs": 2, "save_checkpoints_steps": 5, "train_batch_size": 16}
    for run in (whole, cut):
        assert invoke("finetune", **flags, model_dir=run) == 0
    for name in ("backbone", "checkpoints/step_00000030"):
        shutil.rmtree(cut / name)
    assert invoke("finetune", **flags, model_dir=cut) == 0
    assert (whole / "backbone/weights.safetensors").read_bytes() == (cut / "backbone/weights.safetensors").read_bytes()


@pytest.mark.parametrize("verb", verbs())
def test_help_shows_an_example_and_all_flags(verb, capsys):
    assert invoke(verb, "--help") == 0
    shown = capsys.readouterr().out
    module = importlib.import_module(f"launch.{verb}")
    assert f"xmodels {verb}" in shown and "Example:" in shown
    flags = [name for _, names in module.COMMAND.sections for name in names]
    assert flags and all(f"--{name}=" in shown for name in flags)
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_unknown_verbs_flags_and_values_name_the_nearest(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["xmodels", "pretrian"])
    assert launcher() == 2
    assert "Did you mean pretrain" in capsys.readouterr().err
    assert invoke("pretrain", "--learning_rat=3", system="bert", model_dir="x") == 2
    assert "Did you mean --learning_rate?" in capsys.readouterr().err
    assert invoke("pretrain", size="smal", system="bert", model_dir="x") == 2
    assert "Did you mean small?" in capsys.readouterr().err
    assert invoke("pretrain", system="bert") == 2
    assert "missing: --model_dir" in capsys.readouterr().err
    assert invoke("pretrain", "extra", system="bert", model_dir="x") == 2


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("empty.txt", "", "hold no text"),
        ("latin.txt", "caf\xe9 au lait\n".encode("latin-1") * 3, "line 1: not valid UTF-8"),
        ("long.txt", "word " * 2_000_000, "line 1: longer than"),
        ("packed.txt", b"\x1f\x8b\x08\x00" + bytes(100), "not plain text"),
    ],
)
def test_bad_corpora_are_data_errors(tmp_path, capsys, zh_vocabulary, name, contents, message):
    path = write(tmp_path / name, contents)
    flags = {"input_file": path, "vocab_file": zh_vocabulary, "output_dir": tmp_path / "records"}
    assert invoke("create_pretraining_data", **flags) == 3
    assert message in capsys.readouterr().err
    assert not (tmp_path / "records/manifest.json").exists()


def test_bad_tables_are_data_or_usage_errors(street, tmp_path, capsys):
    cases = [
        ("missing.tsv", None, 3, "no such file"),
        ("empty.tsv", "", 3, "holds no rows"),
        ("unknown.tsv", "label\ttext\n美食\t好吃\n天文\t星星\n", 3, "line 3: label '天文' does not occur in training"),
        ("columns.tsv", "a\tb\n1\t2\n", 2, "Name the column with --text_column"),
        ("ragged.tsv", "label\ttext\n美食\n", 3, "line 2"),
        ("latin.tsv", "label\ttext\n美食\tcaf\xe9\n".encode("gb18030", "replace"), 3, "not valid UTF-8"),
        ("table.xls", "x", 2, "unknown kind of table"),
    ]
    for name, contents, code, message in cases:
        path = tmp_path / name if contents is None else write(tmp_path / name, contents)
        assert invoke("evaluate", model_dir=street / "classifier", test_file=path) == code, name
        assert message in capsys.readouterr().err, name


def test_damaged_records_are_data_errors(records, small_config, tmp_path, capsys):
    def damaged(name):
        folder = tmp_path / name
        shutil.copytree(records, folder)
        return folder, sorted(folder.glob("*.tfrecord"))[0]

    folder, shard = damaged("cut")
    shard.write_bytes(shard.read_bytes()[:-7])
    missing, gone = damaged("missing")
    gone.unlink()
    bare, _ = damaged("bare")
    (bare / "manifest.json").unlink()
    for data, message in ((folder, "the manifest says"), (missing, "missing"), (bare, "manifest.json: missing")):
        run = {"system": "bert", "data_dir": data, "model_dir": tmp_path / "run", "model_config_file": small_config}
        assert invoke("pretrain", **run, num_train_steps=1, num_warmup_steps=0) == 3
        assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_checkpoint_errors_and_taken_folders_destroy_nothing(street, tmp_path, capsys):
    files = {"train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "new"}
    assert invoke("finetune", init_checkpoint=tmp_path / "nothing", **files) == 4
    assert invoke("evaluate", model_dir=street / "run", test_file=SAMPLES / "test.tsv") == 4
    assert "Fine-tune it first" in capsys.readouterr().err
    taken = tmp_path / "taken"
    taken.mkdir()
    kept = write(taken / "thesis.txt", "years of work")
    assert invoke("export_model", model_dir=street / "classifier", export_dir=taken) == 2
    assert invoke("finetune", init_checkpoint=street / "run", train_file=SAMPLES / "train.tsv", model_dir=taken) == 2
    assert invoke("convert_checkpoint", f"--from={street / 'run'}", f"--to={taken}") == 4
    assert kept.read_text() == "years of work" and len(list(taken.iterdir())) == 1


def test_a_missing_device_is_a_device_error(records, small_config, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("xmodels.training.distribution.tf.config.list_logical_devices", lambda kind=None: [])
    monkeypatch.setattr("xmodels.training.distribution.STRATEGIES", ("one_device", "mirrored"))
    import tensorflow as tf

    class Only:
        name = "/device:CPU:0"

    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: [Only] if kind != "GPU" else [])
    run = {"system": "bert", "data_dir": records, "model_dir": tmp_path / "run", "model_config_file": small_config}
    assert invoke("pretrain", **run, distribution_strategy="mirrored") == 5
    assert "--num_virtual_devices=2" in capsys.readouterr().err
