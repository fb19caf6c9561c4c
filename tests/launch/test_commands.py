"""The commands as a user types them: from a text file to answers, and what each says of bad input."""

import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from data_pipelines.lock import hold_lock
from launch.__main__ import main as launcher
from launch.__main__ import verbs
from launch.command import EXIT_DATA
from tests.helpers.invocation import invoke
from xmodels.models.folder import read_weights
from xmodels.tasks.base import find

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"


def rows(name):
    """The number of rows of a sample table."""
    return len((SAMPLES / f"{name}.tsv").read_text(encoding="utf-8").splitlines()) - 1


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


@pytest.mark.long
def test_layers_thaw_while_fine_tuning_and_their_rates_stand_in_the_run_folder(street, tmp_path, capsys):
    run = {"init_checkpoint": street / "run", "train_file": SAMPLES / "train.tsv", "max_seq_length": 32}
    run |= {
        "num_train_epochs": 1,
        "model_dir": tmp_path / "thawing",
        "optimizer": "adam",
        "lr_schedule": "slanted_triangular",
    }
    assert invoke("finetune", **run, gradual_unfreezing=0.5, layerwise_lr_decay=0.5, learning_rate=1e-2) == 0
    said = capsys.readouterr().out
    assert "Rates from the top down: 1, 0.5 from step 2, 0.25 from step 4." in said  # of 2.5 steps
    assert "Warning: the lowest layers would begin to learn at step 4, after the last step" in said
    before, after = (
        read_weights(folder / "backbone/weights.safetensors") for folder in (street / "run", run["model_dir"])
    )
    moved = {name for name in before if name in after and not np.array_equal(before[name], after[name])}
    assert moved == {"backbone.pooler.kernel", "backbone.pooler.bias"}
    settings = json.loads((tmp_path / "thawing/config.json").read_text())["settings"]
    assert settings["lr_schedule"] == "slanted_triangular" and settings["adam_beta2"] == 0.98
    assert invoke("finetune", **run | {"num_train_epochs": 2}, layerwise_lr_decay=0.6) == 2
    assert "layerwise_lr_decay: 0.5 then, 0.6 now" in capsys.readouterr().err
    assert invoke("finetune", **run | {"model_dir": tmp_path / "new"}, momentum=0.9) == 2
    assert "--momentum=0.9: adam has no such number. It has --weight_decay, --adam_beta1" in capsys.readouterr().err


def test_fine_tuned_run_is_scored_and_asked(street, tmp_path, capsys):
    run = street / "classifier"
    assert invoke("evaluate", model_dir=run, test_file=SAMPLES / "test.tsv", output_file=tmp_path / "scores.json") == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert 0 <= scores["accuracy"] <= 1 and sum(map(sum, scores["confusion"])) == rows("test")
    assert invoke("predict", model_dir=run, text="这家餐厅的菜很好吃。") == 0
    assert "label: " in capsys.readouterr().out
    texts = tmp_path / "texts.txt"
    texts.write_text("我们去爬山。\n\n新的手机很快。\n", encoding="utf-8")
    assert invoke("predict", model_dir=run, input_file=texts, output_file=tmp_path / "labels.tsv") == 0
    answered = (tmp_path / "labels.tsv").read_text().splitlines()
    assert len(answered) == 4 and answered[1].split("\t")[0] and not answered[2].strip()  # a row for each line
    capsys.readouterr()
    assert invoke("predict", model_dir=run, input_file=texts) == 0
    assert [bool(line) for line in capsys.readouterr().out.splitlines()] == [True, False, True]


@pytest.mark.long
def test_fine_tuned_run_is_exported(street, tmp_path):
    target = tmp_path / "serving"
    assert invoke("export_model", model_dir=street / "classifier", export_dir=target, serving_ops="core") == 0
    assert (target / "1/saved_model.pb").is_file() and "curl" in (target / "README.md").read_text()


def test_the_report_of_a_classifier_has_pictures_of_its_answers(street, tmp_path, capsys):
    run, test = street / "classifier", SAMPLES / "test.tsv"
    assert "alt='confusions'" in (run / "report.html").read_text("utf-8")
    assert invoke("evaluate", model_dir=run, test_file=test, plots=tmp_path / "pictures") == 0
    assert "picture: " in capsys.readouterr().out and (tmp_path / "pictures/confusions.png").exists()
    (tmp_path / "file").write_text("")
    assert invoke("evaluate", model_dir=run, test_file=test, plots=tmp_path / "file") == 2
    assert "--plots" in capsys.readouterr().err


def test_evaluate_agrees_with_what_finetune_said(street, capsys):
    card = (street / "classifier/model_card.md").read_text()
    said = float(next(line for line in card.splitlines() if line.startswith("| test accuracy")).split("|")[2])
    invoke("evaluate", model_dir=street / "classifier", test_file=SAMPLES / "test.tsv")
    assert f"accuracy {said:.4f}" in capsys.readouterr().out


@pytest.mark.long
def test_checkpoints_are_converted_and_verified(street, tmp_path, capsys):
    arguments = ["--verify", f"--from={street / 'run'}", f"--to=hf:{tmp_path / 'hf'}"]
    assert invoke("convert_checkpoint", *arguments) == 0
    assert "largest difference of masked_lm_logits: 0" in capsys.readouterr().out
    files = {"train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "tuned"}
    assert (
        invoke(
            "finetune",
            init_checkpoint=f"hf:{tmp_path / 'hf'}",
            **files,
            num_train_epochs=0.2,
            max_seq_length=32,
            jit_compile=True,
        )
        == 0
    )


def test_label_names_reach_hugging_face(street, tmp_path, capsys):
    assert invoke("convert_checkpoint", f"--from={street / 'classifier'}", f"--to=hf:{tmp_path / 'hf'}") == 0
    labels = json.loads((street / "classifier/task.json").read_text(encoding="utf-8"))["labels"]
    assert invoke("convert_checkpoint", f"--from={street / 'classifier'}", f"--to=tf1:{tmp_path / 'tf1'}") == 0
    assert f"in order they are {', '.join(labels)}." in capsys.readouterr().out
    stored = json.loads((tmp_path / "hf/config.json").read_text(encoding="utf-8"))
    assert list(stored["id2label"].values()) == labels and not labels[0].startswith("LABEL_")


@pytest.mark.long
def test_a_converted_classifier_answers_as_the_run_it_came_from(street, tmp_path, capsys):
    assert invoke("convert_checkpoint", f"--from={street / 'classifier'}", f"--to=hf:{tmp_path / 'hf'}") == 0
    assert invoke("convert_checkpoint", f"--from=hf:{tmp_path / 'hf'}", f"--to={tmp_path / 'ours'}") == 0
    capsys.readouterr()
    said = []
    for model in (street / "classifier", f"hf:{tmp_path / 'hf'}", tmp_path / "ours"):
        assert invoke("predict", model_dir=model, text="这家餐厅的菜很好吃。") == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2] and "label: " in said[0]
    assert invoke("evaluate", model_dir=tmp_path / "ours", test_file=SAMPLES / "test.tsv") == 0
    assert "accuracy" in capsys.readouterr().out
    assert invoke("predict", model_dir=tmp_path / "ours", text="很好吃。", text_pair="真的？") == 0
    exported = {"export_dir": tmp_path / "served", "serving_ops": "core"}
    assert invoke("export_model", model_dir=tmp_path / "ours", **exported) == 0


def test_records_are_no_checkpoint(street, records, tmp_path, capsys):
    files = {"train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "run"}
    assert invoke("finetune", init_checkpoint=records, **files) == 4
    assert "holds records, not a network. Records are named by --data_dir" in capsys.readouterr().err


@pytest.mark.long
def test_another_training_table_of_the_same_name_is_noticed(street, tmp_path, capsys):
    train, run = tmp_path / "train.tsv", tmp_path / "run"
    lines = (SAMPLES / "train.tsv").read_text(encoding="utf-8").splitlines()
    write(train, "\n".join(lines) + "\n")
    flags = {"init_checkpoint": street / "run", "train_file": train, "model_dir": run, "max_seq_length": 32}
    assert invoke("finetune", **flags, num_train_epochs=0.5) == 0
    write(train, "\n".join([*lines[:-1], lines[1]]) + "\n")
    assert invoke("finetune", **flags, num_train_epochs=1) == 2
    said = capsys.readouterr().err
    assert "was begun with other settings (training_data_sha256" in said and len(said.strip().splitlines()) == 1


@pytest.mark.long
def test_columns_given_to_finetune_are_remembered(street, tmp_path, capsys):
    header, *lines = (SAMPLES / "dev.tsv").read_text(encoding="utf-8").splitlines()
    named = write(tmp_path / "named.tsv", "\n".join(["topic\treview", *lines]) + "\n")
    bare = write(tmp_path / "bare.tsv", "\n".join(lines) + "\n")
    run = {"init_checkpoint": street / "run", "max_seq_length": 32, "num_train_epochs": 0.5}
    columns = {"text_column": "review", "label_column": "topic"}
    assert invoke("finetune", **run, train_file=named, model_dir=tmp_path / "run", **columns) == 0
    assert "Kept step" in capsys.readouterr().out
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=named) == 0
    assert invoke("predict", model_dir=tmp_path / "run", input_file=named) == 0
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=bare, text_column=1, label_column=0) == 0
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=SAMPLES / "dev.tsv", text_column="text") == 2
    assert "no column 'topic'" in capsys.readouterr().err


def test_an_interrupted_fine_tuning_says_how_to_finish_it(street, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(street / "classifier", run)
    (run / "results.json").unlink()
    assert invoke("predict", model_dir=run, text="好吃") == 0
    assert f"xmodels finetune --flagfile={run}/flags.txt" in capsys.readouterr().err
    shutil.rmtree(run / "backbone")
    assert invoke("predict", model_dir=run, text="好吃") == 4
    assert f"was interrupted and has no backbone/ yet. Finish it with `xmodels finetune --flagfile={run}" in (
        capsys.readouterr().err
    )


@pytest.mark.long
def test_finetune_resumes_to_the_same_answers(street, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = {"init_checkpoint": street / "run", "train_file": SAMPLES / "train.tsv", "max_seq_length": 32}
    flags |= {"num_train_epochs": 2, "save_checkpoints_steps": 5, "train_batch_size": 16}
    assert invoke("finetune", **flags, model_dir=whole) == 0
    shutil.copytree(whole, cut)
    last = sorted((cut / "checkpoints").iterdir())[-1]
    for path in (cut / "backbone", last):
        shutil.rmtree(path)
    assert invoke("finetune", **flags, model_dir=cut) == 0
    assert (whole / "backbone/weights.safetensors").read_bytes() == (cut / "backbone/weights.safetensors").read_bytes()
    assert "resumed with" not in (cut / "model_card.md").read_text()
    for path in (cut / "backbone", sorted((cut / "checkpoints").iterdir())[-1]):
        shutil.rmtree(path)
    assert invoke("finetune", **flags, model_dir=cut, learning_rate=1e-4) == 0
    assert re.search(
        r"resumed with other numbers \| at step 5 learning_rate 0.0001 \(.* before\)",
        (cut / "model_card.md").read_text(),
    )


@pytest.mark.long
def test_finetune_from_records_equals_finetune_from_their_table(street, zh_vocabulary, tmp_path, capsys):
    made = {"task": "classify", "vocab_file": zh_vocabulary, "max_seq_length": 32}
    train, dev = tmp_path / "train", tmp_path / "dev"
    assert invoke("create_finetuning_data", **made, input_file=SAMPLES / "train.tsv", output_dir=train) == 0
    dev_file = {"input_file": SAMPLES / "dev.tsv", "labels_from": train}
    assert invoke("create_finetuning_data", **made, **dev_file, output_dir=dev) == 0
    run = {"init_checkpoint": street / "run", "max_seq_length": 32, "num_train_epochs": 1}
    assert invoke("finetune", **run, data_dir=train, eval_file=dev, model_dir=tmp_path / "run") == 0
    weights = "backbone/weights.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (street / "classifier" / weights).read_bytes()
    capsys.readouterr()
    for flags, code, message in [
        ({}, 2, "--train_file=FILE or --data_dir=RECORDS"),
        ({"data_dir": train, "train_file": SAMPLES / "train.tsv"}, 2, "give one of them"),
        ({"data_dir": street / "run"}, 3, "is the folder of a run, not of records"),
        ({"data_dir": tmp_path / "none"}, 3, "none: no such file. Check the path"),
        ({"data_dir": train, "do_lower_case": "false"}, 3, "was tokenized otherwise than the network reads"),
    ]:
        assert invoke("finetune", **run, **flags, model_dir=tmp_path / "other") == code
        assert message in capsys.readouterr().err
    shard = next(train.glob("*.tfrecord"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-9] + bytes(9))
    assert invoke("finetune", **run, data_dir=train, model_dir=tmp_path / "other") == 3
    assert f"{shard}: contents changed" in capsys.readouterr().err
    assert invoke("pretrain", system="bert", data_dir=dev, model_dir=tmp_path / "other") == 2
    assert "holds labelled records for classify, not text to pretrain on" in capsys.readouterr().err
    settings = dev / "manifest.json"
    held = re.sub('"sha256": ".*",\n  "features"', '"features"', settings.read_text(encoding="utf-8"))
    settings.write_text(held.replace('"task": "classify"', '"task": "tag"'), encoding="utf-8")
    assert invoke("finetune", **run, data_dir=dev, model_dir=tmp_path / "other") == 2
    assert "holds records for tag, expected those of" in capsys.readouterr().err


def test_rows_that_cannot_be_used_end_a_fine_tuning_or_are_left_out_and_said(street, tmp_path, capsys):
    table = write(tmp_path / "rows.csv", 'text,label\na,1\n"b,2\nc,2\nd,\ne,1\n')
    flags = {
        "init_checkpoint": street / "run",
        "model_dir": tmp_path / "run",
        "train_file": table,
        "train_batch_size": 1,
    }
    assert invoke("finetune", "--dry_run", **flags, max_seq_length=16) == 3
    assert "rows.csv, line 3: a quote opens" in capsys.readouterr().err
    assert invoke("finetune", "--dry_run", **flags, max_seq_length=16, on_bad_row="skip") == 0
    said = capsys.readouterr().out
    assert (
        "2 row(s) cannot be used and are left out" in said and "line 3: a quote" in said and "line 5: the label" in said
    )
    assert not (tmp_path / "run").exists()


def test_finetune_says_which_step_it_kept_and_a_finished_run_says_so(street, capsys):
    run = street / "classifier"
    stored = json.loads((run / "results.json").read_text())
    assert stored["kept_step"] and 0 <= stored["results"]["test accuracy"] <= 1
    assert f"step {stored['kept_step']}, epoch 0.8 (best accuracy" in (run / "model_card.md").read_text()
    before = {path: path.stat().st_mtime_ns for folder in (run, street / "run") for path in folder.rglob("*")}
    assert invoke("finetune", f"--flagfile={run / 'flags.txt'}") == 0
    shown = capsys.readouterr().out
    assert "Already finished" in shown and "raise --num_train_epochs" in shown
    assert invoke("pretrain", f"--flagfile={street / 'run/flags.txt'}") == 0
    assert "raise --num_train_steps" in capsys.readouterr().out
    assert invoke("pretrain", f"--flagfile={street / 'run/flags.txt'}", num_train_steps=2) == 2
    assert "has 4 steps already, more than the 2" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in before} == before


EARLY = """
import sys
from tests.helpers.invocation import invoke

for verb, flags in {wrong!r}:
    print("code", invoke(verb, **flags))
assert not {{"tensorflow", "keras", "torch", "jax"}} & set(sys.modules)
"""


def test_wrong_names_are_told_before_tensorflow_is_imported(tmp_path):
    table = tmp_path / "train.tsv"
    table.write_text("label\ttext\na\tb\n")
    run, table, absent, busy = (str(path) for path in (tmp_path / "run", table, tmp_path / "absent", tmp_path / "busy"))
    tuned = {"model_dir": run, "init_checkpoint": str(tmp_path), "train_file": table}
    wrong = [
        ("pretrain", {"system": "bertt", "data_dir": absent, "model_dir": run}, "--system=bertt: unknown"),
        ("pretrain", {"system": "bert", "data_dir": absent, "model_dir": run}, "no such folder of records"),
        ("pretrain", {"system": "bert", "data_dir": absent, "model_dir": table}, "is a file, not a folder"),
        ("finetune", {**tuned, "init_checkpoint": absent}, "no such checkpoint"),
        ("finetune", {**tuned, "label_column": "class"}, "no column 'class'"),
        ("finetune", {**tuned, "eval_file": absent}, "no such file"),
        ("predict", {"model_dir": absent, "text": "a"}, "no such checkpoint"),
        ("predict", {"model_dir": str(tmp_path), "input_file": absent}, "no such file"),
        ("export_model", {"model_dir": absent, "export_dir": run}, "no such checkpoint"),
        ("pretrain", {"system": "bert", "data_dir": absent, "model_dir": busy}, "another run works in it (process"),
        ("finetune", {**tuned, "model_dir": busy}, "another run works in it (process"),
    ]
    program = EARLY.format(wrong=[(verb, flags) for verb, flags, _ in wrong])
    root = pathlib.Path(__file__).parents[2]
    with hold_lock(busy):
        done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert len(told) == len(wrong) == len(re.findall("code [2-4]", done.stdout))
    for line, (verb, _, said) in zip(told, wrong, strict=True):
        assert line.startswith(f"xmodels {verb}: ") and said in line


@pytest.mark.long
def test_config_of_a_run_holds_the_numbers_of_the_system(records, small_config, tmp_path, capsys):
    run = {"system": "bert_wwm", "data_dir": records, "model_dir": tmp_path / "run", "bert_config_file": small_config}
    assert invoke("pretrain", "--dry_run", **run) == 0
    said = "100,000 steps of 2560 on 1 device(s); lamb, learning rate 0.0001 after 10,000 warm-up steps"
    assert said in capsys.readouterr().out and not (tmp_path / "run").exists()
    assert invoke("pretrain", **run, num_train_steps=20, train_batch_size=8, eval_steps=1) == 0
    shown = capsys.readouterr().out
    assert (
        "Batches of 8: lamb, the published optimizer of --system=bert_wwm, is meant for batches of 384 or more. Used"
        in shown
    )
    assert "bert_adamw, learning rate 0.0001 after 2 warm-up steps" in shown
    stored = json.loads((tmp_path / "run/config.json").read_text())
    numbers = {"num_train_steps": 20, "num_warmup_steps": 2, "optimizer": "bert_adamw", "learning_rate": 1e-4}
    assert stored["settings"].items() >= numbers.items() and stored["settings"]["max_seq_length"] == 32
    assert stored["flags"]["optimizer"] is None
    assert "bert_adamw, learning rate 0.0001, warm-up 2 " in (tmp_path / "run/model_card.md").read_text()


@pytest.mark.parametrize("verb", verbs())
def test_help_shows_an_example_and_all_flags(verb, capsys):
    assert invoke(verb, "--help") == 0
    shown = capsys.readouterr().out
    command = importlib.import_module(f"launch.{verb}").COMMAND
    assert f"xmodels {verb}" in shown and "Example:" in shown
    for task in find.names() if hasattr(command.options, "own_flags") else ():
        assert invoke(verb, "--help", task=task) == 0
        shown += capsys.readouterr().out
    flags = [option.shown for option in command.declared if not option.positional]
    assert flags and all(f"--{name}=" in shown for name in flags)
    assert all(len(line) <= 120 for line in shown.splitlines())


def test_help_shows_the_flags_of_the_task_that_is_named(capsys):
    def shown(*arguments):
        assert invoke("finetune", "--help", *arguments) == 0
        return capsys.readouterr().out

    plain, tags = shown(), shown("--task=tag")
    assert "--crf=" not in plain and "xmodels finetune --help --task=NAME" in plain and "--train_file=" in plain
    assert "--crf=" in tags and "--siamese_loss=" not in tags and "--train_file=" in tags and "--task=NAME" not in tags
    assert "expected" not in tags and "micro_f1" not in shown("--task", "classify")
    titles = [line for line in tags.splitlines() if line.endswith(":") and line[:1] not in ("", " ")]
    assert len(titles) == len(set(titles))


def test_unknown_verbs_flags_and_values_name_the_nearest(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["xmodels", "pretrian"])
    assert launcher() == 2
    assert "Did you mean pretrain" in capsys.readouterr().err
    assert invoke("pretrain", "--learning_rat=3", system="bert", model_dir="x") == 2
    assert "Did you mean --learning_rate" in capsys.readouterr().err
    assert invoke("pretrain", size="smal", system="bert", model_dir="x") == 2
    assert "Did you mean small?" in capsys.readouterr().err
    assert invoke("pretrain", system="bert") == 2
    assert "missing: --model_dir" in capsys.readouterr().err
    assert invoke("pretrain", "extra", system="bert", model_dir="x") == 2


@pytest.mark.parametrize("arguments", [["--help"], ["pretrain", "--help"]])
def test_output_that_nobody_reads_on_ends_quietly(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "launch", *arguments], stdout=writing, stderr=subprocess.PIPE, cwd=SAMPLES.parent.parent
    )
    os.close(writing)
    assert done.returncode == 141 and not done.stderr


def wait_for_work(process, seconds):
    """Returns when a process has worked for so long, or is done: a busy machine may not have begun it before."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        if (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.02)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="asks Linux how long a process has worked")
@pytest.mark.parametrize("delay", [0.5, 2.0])
def test_an_early_interrupt_is_one_line(delay, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "launch", "pretrain", "--system=bert", f"--model_dir={tmp_path}", f"--data_dir={tmp_path}"],
        stderr=subprocess.PIPE, text=True, cwd=SAMPLES.parent.parent,
    )  # fmt: skip
    wait_for_work(process, delay)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    # On a fast machine the records' error is told before the interrupt, which then may end a Python that shuts down.
    codes = (130,) if "interrupted" in said else (EXIT_DATA, -signal.SIGINT)
    assert process.returncode in codes and len(said.splitlines()) == 1, said


def test_an_interrupt_of_compiled_text_has_its_exit_code(tmp_path):
    text = """import sys; from launch.command import guarded; sys.exit(guarded("it", lambda: exec("raise KeyboardInterrupt")))"""
    (tmp_path / "interrupted_program.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": f"{SAMPLES.parent.parent}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-m", "interrupted_program"], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (130, "it: interrupted.\n")


def test_bounds_and_missing_flagfiles_are_usage_errors(street, tmp_path, capsys):
    run = {"init_checkpoint": street / "run", "train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "new"}
    for flag, message in (
        ({"warmup_proportion": 1.5}, "not a number in the range"),
        ({"num_train_epochs": 0}, "must be more than 0"),
        ({"flagfile": tmp_path / "missing"}, "--flagfile: No such file"),
    ):
        assert invoke("finetune", **run, **flag) == 2
        assert message in capsys.readouterr().err
    flags = {"input_file": SAMPLES / "corpus.txt", "vocab_file": "vocab.txt", "output_dir": tmp_path / "records"}
    assert invoke("create_pretraining_data", **flags, short_seq_prob=1.1) == 2
    assert "short_seq_prob" in capsys.readouterr().err and not (tmp_path / "new").exists()


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("empty.txt", "", "hold no text"),
        ("latin.txt", "caf\xe9 au lait\n".encode("latin-1") * 3, "line 1: not valid UTF-8"),
        ("long.txt", "word " * 2_000_000, "line 1: longer than"),
        ("packed.txt", b"\x1f\x8b\x08\x00" + bytes(100), "does not end in .gz"),
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
        (
            "unknown.tsv",
            "label\ttext\n美食\t好吃\n天文\t星星\n",
            3,
            "line 3: label '天文' does not occur in training. Known",
        ),
        ("more.tsv", "label\ttext\n美食\t好吃\n天文\t星\n天\t星\n", 3, "in training. So it is in 2 of 3 rows."),
        ("columns.tsv", "a\tb\n1\t2\n", 2, "Name the column with --text_column"),
        ("ragged.tsv", "label\ttext\n美食\n", 3, "line 2"),
        ("latin.tsv", "label\ttext\n美食\tcaf\xe9\n".encode("gb18030", "replace"), 3, "not valid UTF-8"),
        ("table.xls", "x", 2, "unknown kind of table"),
    ]
    for name, contents, code, message in cases:
        path = tmp_path / name if contents is None else write(tmp_path / name, contents)
        assert invoke("evaluate", model_dir=street / "classifier", test_file=path) == code, name
        assert message in capsys.readouterr().err, name


def test_columns_and_texts_that_cannot_be_meant_are_refused(street, tmp_path, capsys):
    run = {"init_checkpoint": street / "run", "model_dir": tmp_path / "run", "train_file": SAMPLES / "train.tsv"}
    run["max_seq_length"] = 32
    wrong = [
        ({"label_column": "text"}, "--text_column and --label_column are the same column (text)"),
        ({"label_column": 1, "text_column": 1}, "are the same column (1)"),
        ({"label_column": "text", "text_column": "label"}, "80 different labels in 80 rows"),
    ]
    for flags, message in wrong:
        assert invoke("finetune", **run, **flags) == 2
        assert message in capsys.readouterr().err
    assert invoke("predict", model_dir=street / "classifier", text="好吃", text_pair="很") == 3
    assert "Input 1 has 2 text(s), but this run was fine-tuned on single texts" in capsys.readouterr().err
    scored = {"model_dir": street / "classifier", "test_file": SAMPLES / "test.tsv"}
    assert invoke("evaluate", **scored, output_file=tmp_path / "no/such/scores.json") == 2
    said = capsys.readouterr()
    assert "there is no folder" in said.err and "accuracy" not in said.out
    assert not (tmp_path / "run").exists()


def test_settings_of_the_other_language_are_noticed(tmp_path, capsys):
    english = write(tmp_path / "english.txt", "The colour of the sky. It is blue.\n" * 30)
    for text, language, message in (
        (SAMPLES / "corpus.txt", "en", "are Chinese. Use --language=zh"),
        (english, "zh", "0% of the letters in the text are Chinese. Use --language=en"),
    ):
        flags = {"input_file": text, "language": language, "vocab_size": 1500, "output_file": tmp_path / language}
        assert invoke("train_vocabulary", **flags) == 0
        assert message in capsys.readouterr().err
    flags = {"input_file": SAMPLES / "corpus.txt", "language": "zh", "vocab_size": 1500}
    assert invoke("train_vocabulary", **flags, output_file=tmp_path / "right") == 0
    assert "Warning" not in capsys.readouterr().err


def test_a_run_is_no_folder_of_records(street, capsys):
    assert invoke("inspect_data", data_dir=street / "run") == 3
    assert f"--data_dir in {street}/run/flags.txt" in capsys.readouterr().err


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
    assert invoke("convert_checkpoint", f"--from={street / 'run'}", f"--to={taken}") == 2
    assert kept.read_text() == "years of work" and len(list(taken.iterdir())) == 1


def test_a_missing_device_is_a_device_error(records, small_config, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("xmodels.training.devices.distribution.tf.config.list_logical_devices", lambda kind=None: [])
    monkeypatch.setattr("xmodels.training.devices.distribution.STRATEGIES", ("one_device", "mirrored"))
    import tensorflow as tf

    class Only:
        name = "/device:CPU:0"

    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: [Only] if kind != "GPU" else [])
    run = {"system": "bert", "data_dir": records, "model_dir": tmp_path / "run", "model_config_file": small_config}
    assert invoke("pretrain", **run, distribution_strategy="mirrored") == 5
    assert "--num_virtual_devices=2" in capsys.readouterr().err
