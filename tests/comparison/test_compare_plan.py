"""Plans of comparisons: what is wrong with one is said with its line and key before anything runs."""

import pathlib
import shutil

import pytest

from data_pipelines.errors import DataError, UsageError
from data_pipelines.strict_yaml import variables_of
from tests.helpers.invocation import invoke
from xmodels.comparison.checks import check_surroundings, read_plan

ROOT = pathlib.Path(__file__).parents[2]
PLAN = """\
name: Two systems
language: zh
budget: {tokens: 4096}
corpus: {train: "${zh}/corpus.txt", heldout: "${zh}/travel.txt"}
vocabulary: {size: 300}
pretraining:
  max_seq_length: 32
  train_batch_size: 4
systems:
  bert: {size: tiny}
  gpt:
    flags: {learning_rate: 1e-3}
baselines:
  random: [bert]
finetuning:
  seeds: [1, 2]
  tune: {learning_rate: [3e-4, 1e-3]}
tasks:
  topic: {train: "${zh}/train.tsv", dev: "${zh}/dev.tsv", test: "${zh}/test.tsv"}
"""
SAMPLES = {"zh": str(ROOT / "samples/zh")}


def plan_file(folder, text=PLAN):
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(folder, text=PLAN):
    return read_plan(plan_file(folder, text), SAMPLES)


def test_a_plan_is_read_with_numbers_as_yaml_1_2_writes_them(tmp_path):
    plan, _ = read(tmp_path)
    assert plan.budget.kind == "tokens" and plan.budget.amount == 4096
    assert plan.systems["gpt"].flags == {"learning_rate": 0.001}
    assert plan.finetuning.tune == {"learning_rate": [0.0003, 0.001]}
    assert plan.corpus.train == f"{SAMPLES['zh']}/corpus.txt" and plan.baselines.majority


@pytest.mark.parametrize("name", ["tiny", "family_en", "family_zh", "then_and_now_en", "then_and_now_zh"])
def test_the_plans_of_the_repository_are_valid(name):
    names = (
        "samples", "train", "heldout", "class_train", "class_dev", "class_test", "pair_train", "pair_dev", "pair_test", "dev",
        "test", "few", "more", "most", "width", "source", "target", "heldout_source", "heldout_target",
    )  # fmt: skip
    plan, _ = read_plan(str(ROOT / f"samples/compare/{name}.yaml"), {each: f"{each}.tsv" for each in names})
    assert plan.systems and plan.tasks
    if name.startswith("family"):
        assert len(plan.systems) == 9 and len(plan.tasks) == 2 and plan.baselines.word_vectors and plan.baselines.random


WRONG = {
    "key": ("size: tiny", "sise: tiny", "line 10: unknown key `systems.bert.sise`. Did you mean size or"),
    "top": ("finetuning:", "fintuning:", "line 15: unknown key `fintuning`. Did you mean finetuning or"),
    "type": ("size: 300", "size: many", "line 5: `vocabulary.size` must be a whole number. Found: 'many'."),
    "missing": ("  max_seq_length: 32\n", "", "line 6: `pretraining.max_seq_length` is missing"),
    "twice": ("  bert: {size: tiny}", "  bert: {size: tiny}\n  bert: {}", "line 11: `systems.bert` stands twice."),
    "budgets": ("{tokens: 4096}", "{tokens: 4096, flops: 1e9}", "line 3: `budget` must hold exactly one of"),
    "nothing": ("{tokens: 4096}", "{tokens: 0}", "line 3: `budget.tokens` must be a number above 0. Found: 0."),
    "system": ("  gpt:", "  gtp:", "there is no system 'gtp'. Did you mean gpt"),
    "random": ("[bert]", "[brt]", "line 14: `baselines.random[0]`: 'brt' is none of `systems`. Did you mean bert?"),
    "flag": ("learning_rate: 1e-3", "learning_rat: 1e-3", "has no flag --learning_rat. Did you mean learning_rate"),
    "value": ("learning_rate: 1e-3", "optimizer: adma", "`systems.gpt.flags.optimizer`: optimizer='adma': unknown value."),
    "own": ("learning_rate: 1e-3", "num_train_steps: 10", "gives --num_train_steps itself; `budget` of the plan decides it."),
    "cost": ("flags: {learning_rate: 1e-3}", "tune: {train_batch_size: [4, 8]}", "changes what a step costs, so it cannot be tuned"),
    "seeds": ("[1, 2]", "[1, 1]", "line 16: `finetuning.seeds` must be a list of different whole numbers"),
    "variable": ("${zh}/corpus", "${zj}/corpus", "line 4: `corpus.train`: ${zj} has no value. Give it with --set=zj=VALUE"),
    "equal": ("dev.tsv", "train.tsv", "line 19: `tasks.topic`: train, dev and test must be different files."),
    "reference": ("language: zh", "language: zh\nreference: brt", "`reference`: there is no arm 'brt'. Did you mean"),
    "name": ("  gpt:", "  g/pt:", "a name is part of file names"),
    "vectors": ("  gpt:", "  begun: {new: text_cnn, vectors: bret}\n  gpt:", "'bret' is none of `systems`. Did you mean bert?"),
    "giver": ("  gpt:", "  begun: {new: text_cnn, vectors: bert}\n  gpt:", "must name a system with `averaged: true`"),
    "both": (
        "  gpt:\n    flags: {learning_rate: 1e-3}",
        "  v: {system: skip_gram, averaged: true}\n  gpt: {vectors: v, flags: {init_vectors: \"glove:x\"}}",
        "`systems.gpt.vectors`: stands beside a flag init_vectors.",
    ),
    "idle": ("  gpt:\n", "  gpt:\n    new: text_cnn\n", "`systems.gpt.flags`: is for pretraining, which a network with `new` does"),
    "untrained": ("  bert: {size: tiny}", "  bert: {new: text_cnn}", "`baselines.random[0]`: bert has no pretrained network"),
    "half": (
        "  gpt:\n", "  gpt:\n    corpus: {train: a.txt, train_target: b.txt, heldout: c.txt}\n",
        "`systems.gpt.corpus.heldout_target`: missing; both parts",
    ),
    "yaml": ("[1, 2]", "[1, 2", "not YAML"),
    "list": ("seeds: [1, 2]", "seeds: 3", "`finetuning.seeds` must be a list of whole numbers. Found: 3."),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_line_key_and_what_is_expected(old, new, said, tmp_path):
    assert PLAN.count(old) == 1
    with pytest.raises(DataError) as error:
        read(tmp_path, PLAN.replace(old, new))
    assert str(error.value).startswith(str(tmp_path / "plan.yaml")) and said in str(error.value)


AROUND = {
    "corpus": ("corpus.txt", "corpse.txt", "line 4: `corpus.train`: ", "corpse.txt: no such file"),
    "table": ("test.tsv", "tset.tsv", "line 19: `tasks.topic.test`: ", "no such file"),
    "column": ("train: \"${zh}/train.tsv\"", "label_column: lable, train: \"${zh}/train.tsv\"", "no column 'lable'", "line 19"),
    "size": ("size: tiny", "size: tony", "line 10: `systems.bert.size`: bert has no size 'tony'.", "Did you mean tiny"),
    "new": ("  gpt:", "  cnn: {new: text_cn}\n  gpt:", "line 11: `systems.cnn.new`: unknown network. Did you mean", "text_cnn"),
    "of new": ("  gpt:", "  cnn: {new: text_cnn, size: huge}\n  gpt:", "`systems.cnn.new`: text_cnn has the sizes tiny, base.", ""),
    "averaged": ("flags: {learning_rate: 1e-3}", "averaged: true", "`systems.gpt.averaged`: gpt has no vectors of single words", ""),
    "own text": ("  gpt:", "  cove: {}\n  gpt:", "learns from parallel, not from the text that all share.", "a `corpus` of its"),
    "pairs": (
        "  gpt:", "  cove: {corpus: {train: no.txt, heldout: \"${zh}/travel.txt\"}}\n  gpt:",
        "`systems.cove.corpus.train`: no.txt: no such file", "",
    ),
    "packing": ("size: tiny", "records: {packing: stream}", "bert cannot frame records of stream", "segment_pair"),
}  # fmt: skip


def changed(folder, name, change, encoding="utf-8"):
    """A copy of a sample with other contents, and its path."""
    text = change((pathlib.Path(SAMPLES["zh"]) / name).read_text(encoding="utf-8"))
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder / name)


def test_labels_texts_and_encodings_of_tables_are_looked_at_before_anything_runs(tmp_path):
    new_label = changed(tmp_path, "test.tsv", lambda text: text + "没有\t" + text.splitlines()[1].split("\t")[1] + "\n")
    plan, place = read(tmp_path, PLAN.replace("${zh}/test.tsv", new_label))
    with pytest.raises(
        DataError, match=r"line 19: `tasks.topic`: .*test.tsv, line \d+: label .* does not occur in training"
    ):
        check_surroundings(plan, place)
    copied = changed(
        tmp_path, "dev.tsv", lambda text: pathlib.Path(SAMPLES["zh"], "test.tsv").read_text(encoding="utf-8")
    )
    (warning,) = check_surroundings(*read(tmp_path, PLAN.replace("${zh}/dev.tsv", copied)))
    assert warning.startswith("Warning: 100% of the texts of") and "dev.tsv" in warning
    coded = {name: changed(tmp_path, name, str, "gb18030") for name in ("train.tsv", "dev.tsv", "test.tsv")}
    text = PLAN
    for name, path in coded.items():
        text = text.replace(f"${{zh}}/{name}", path)
    with pytest.raises(
        DataError,
        match=r"looks like gb18030: give `tasks.topic.flags` the encoding of all three files: encoding: gb18030",
    ):
        check_surroundings(*read(tmp_path, text))
    check_surroundings(*read(tmp_path, text.replace("tasks:", "  flags: {encoding: gb18030}\ntasks:")))


def test_texts_longer_than_the_network_and_held_out_text_that_is_learnt_are_refused(tmp_path):
    longer = PLAN.replace("tasks:", "  flags: {max_seq_length: 1024}\ntasks:")
    with pytest.raises(DataError, match=r"max_seq_length is 1024, but the network of `systems.bert` has 512 positions"):
        check_surroundings(*read(tmp_path, longer))
    check_surroundings(*read(tmp_path, longer.replace("1024}", "1024, extend_positions: true}")))
    with pytest.raises(DataError, match=r"line 4: `corpus.heldout`: .*corpus.txt is in `corpus.train` too"):
        check_surroundings(*read(tmp_path, PLAN.replace("travel.txt", "*.txt")))
    copied = changed(tmp_path, "corpus.txt", str)
    with pytest.raises(DataError, match=r"`corpus.heldout`: .*corpus.txt is a copy of .*samples/zh/corpus.txt"):
        check_surroundings(*read(tmp_path, PLAN.replace("${zh}/travel.txt", copied)))


def test_names_may_be_chinese(tmp_path):
    assert list(read(tmp_path, PLAN.replace("  topic:", "  话题:"))[0].tasks) == ["话题"]


@pytest.mark.parametrize(("old", "new", "said", "also"), AROUND.values(), ids=AROUND)
def test_files_sizes_and_records_are_looked_at_before_anything_runs(old, new, said, also, tmp_path):
    plan, place = read(tmp_path, PLAN.replace(old, new))
    with pytest.raises(DataError) as error:
        check_surroundings(plan, place)
    assert said in str(error.value) and also in str(error.value)


def test_an_alias_that_grows_without_end_is_refused(tmp_path):
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
        for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    with pytest.raises(DataError, match="more than 10,000 values"):
        read(tmp_path, bomb)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "a: &a [*a]", "a: \x00", "? [a]\n: 1", "a: !!python/name:os.system", "- 1", "1"]
)
def test_what_is_no_plan_is_said_in_a_line(text, tmp_path):
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "plan.yaml")) and len(str(error.value)) < 600


def test_variables_come_from_flags_and_a_value_may_hold_commas():
    assert variables_of("a=x.txt,y.txt,b=z") == {"a": "x.txt,y.txt", "b": "z"}
    with pytest.raises(UsageError, match="--set=x: expected NAME=VALUE"):
        variables_of("x")


def test_variables_come_from_the_environment_too(tmp_path, monkeypatch):
    monkeypatch.setenv("zh", "elsewhere")
    plan, _ = read_plan(plan_file(tmp_path), {})
    assert plan.corpus.heldout == "elsewhere/travel.txt"


def test_a_folder_of_something_else_and_unknown_arms_are_refused(tmp_path, capsys):
    plan, full = plan_file(tmp_path), tmp_path / "full"
    full.mkdir()
    shutil.copy(plan, full)
    flags = {"plan": plan, "set": f"zh={SAMPLES['zh']}"}
    assert invoke("compare", **flags, output_dir=full) == 2
    assert "holds something else (plan.yaml)" in capsys.readouterr().err
    assert invoke("compare", **flags, output_dir=tmp_path / "new", only="brt") == 2
    assert "--only=brt: 'brt' is unknown. Did you mean bert" in capsys.readouterr().err
    assert invoke("compare", **flags, output_dir=tmp_path / "new", steps="pretraining") == 2
    assert "Did you mean pretrain" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_dry_run_shows_every_command_and_writes_nothing(tmp_path, capsys):
    new = tmp_path / "new"
    assert invoke("compare", "--dry_run", plan=plan_file(tmp_path), set=f"zh={SAMPLES['zh']}", output_dir=new) == 0
    said = capsys.readouterr().out
    commands = [line for line in said.splitlines() if line.startswith("xmodels ")]
    counts = [sum(line.startswith(f"xmodels {verb} ") for line in commands) for verb in (
        "train_vocabulary", "create_pretraining_data", "pretrain", "finetune", "predict", "compare")]  # fmt: skip
    assert counts == [1, 4, 2, 9, 6, 2]  # 3 arms: 2 rates with the first seed, the second seed with one of them
    assert "bert" in said and "Dry run: nothing was written." in said and not new.exists()
