"""Options are declared once: the command line, `--help` and Python read the same dataclass."""

import ast
import dataclasses
import importlib
import inspect
import json
import pathlib
import re

import pytest

import xmodels
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import REQUIRED, SWITCH, changed_options, create, option, options_of, structural
from launch.__main__ import overview, verbs
from launch.command import SECTIONS, Command
from tests.helpers.invocation import invoke
from xmodels import systems
from xmodels.jobs import verbs as registry
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.pretrain import options as pretrain
from xmodels.layers import mixers
from xmodels.runs import changed_flags

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    seed: int = option(7, "Seed.", section="Training", structural=True)
    rate: float = option(0.5, "Rate.", maximum=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Base):
    JOB = "json:dumps"

    source: str = option(REQUIRED, "Where from.", section="Model", flag="from", alias="origin")
    set: str | None = option(None, "NAME=VALUE.", repeatable=True)
    jit: str | bool = option("auto", "Compile.", choices=SWITCH)
    kind: str = option("a", "Kind.", section="Training", choices=("a", "b"))
    rate: float = 0.25


def test_a_subclass_shows_its_own_first_and_changes_only_the_default():
    assert [(o.name, o.section) for o in options_of(Options)] == [
        ("source", "Model"), ("set", "Model"), ("jit", "Model"), ("kind", "Training"), ("seed", "Training"), ("rate", "Training"),
    ]  # fmt: skip
    rate = options_of(Options)[-1]
    assert (rate.default, rate.help, rate.minimum, rate.maximum) == (0.25, "Rate.", 0, 1.0)
    assert structural(Options) == ("seed",)


def test_the_command_line_and_python_make_equal_options():
    command = Command(Options)
    words = ["--origin=x", "--set=a=1", "--set=b=2", "--nojit", "--rate=1"]
    values = {"source": pathlib.Path("x"), "set": {"a": 1, "b": 2}, "jit": False, "rate": 1}
    assert command.parse(words) == create(Options, values)
    assert changed_options(create(Options, values)) == {"source": "x", "set": "a=1,b=2", "jit": "false", "rate": 1.0}
    assert command.parse(["--from=y"]) == Options(source="y")  # a second call begins anew
    assert (
        "--from=STRING\n      Where from. (required)" in command.usage() and "Rate. (default 0.25)" in command.usage()
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "x", "sed": 1}, "unknown argument `sed`. Did you mean seed"),
        ({}, "missing: source"),
        ({"source": ""}, "missing: source"),
        ({"source": "x", "kind": "c"}, "kind='c': unknown value. Known: a, b."),
        ({"source": "x", "rate": 1.5}, "rate=1.5: must be at least 0 and at most 1."),
        ({"source": "x", "seed": True}, "seed=True: expected int."),
        ({"source": "x", "seed": None}, "seed=None: expected int."),
    ],
)
def test_what_cannot_be_meant_is_refused(values, message):
    with pytest.raises(UsageError, match="^" + message.replace(".", r"\.")):
        create(Options, values)


def test_what_a_resumed_run_must_keep():
    common = {
        "seed", "optimizer", "init_checkpoint", "max_seq_length", "length_buckets", "tokens_per_batch", "layerwise_lr_decay",
        "mixed_precision", "ema_decay", "extend_positions", "init_vectors", "freeze_vectors",
    }  # fmt: skip
    of_records = {
        "system",
        "set",
        "mixer",
        "max_predictions_per_seq",
        "wwm_replace_unit",
        "pack_rows",
        "pack_row_length",
        "length_schedule",
        "recipe",
        "nonmonotonic_average",
        "init_encoder",
        "init_decoder",
        "similar_words",
    }
    of_rows = {
        "hierarchical_softmax",
        "label_softmax",
        "lora_rank",
        "lora_alpha",
        "lora_layers",
        "teacher",
        "distill_temperature",
        "distill_share",
        "distill_layers",
        "distill_layers_epochs",
        "distill_layers_learning_rate",
        "distill_layer_map",
        "init_layers",
        "task",
        "random_init",
        "train_file",
        "data_dir",
        "tasks",
        "questions_per_task",
        "held_out",
        "ponder_weight",
        "prefix",
        "max_target_length",
        "doc_stride",
        "crf",
        "freeze_backbone",
        "feature_layers",
        "combine_layers",
        "bilstm_dim",
        "max_query_length",
        "list_size",
        "redraw_lists",
        "rank_loss",
        "rank_scale",
        "relevant_label",
        "siamese_loss",
        "siamese_scale",
        "siamese_margin",
        "siamese_symmetric",
        "siamese_distance",
        "siamese_features",
        "max_score",
        "projection_dim",
        "normalize_vectors",
        "class_weights",
        "positive_label",
        "tune_threshold",
        "label_separator",
        "distill_file",
        "distill_divergence",
        "unlabelled_file",
        "views",
        "train_fraction",
        "num_train_examples",
        "init_head",
        "task_dropout",
        "best_metric",
    }
    assert set(structural(pretrain.Options)) == common | of_records
    assert set(structural(finetune.Options)) == common | of_rows | {
        "auxiliary_lm_weight",
        "language_model_epochs",
        "gradual_unfreezing",
        "set",
        "pooling",
    }


def test_python_has_the_verbs_and_names_the_nearest():
    assert {"load", "pretrain", "finetune", "evaluate", "predict", "train_vocabulary"} <= set(dir(xmodels))
    assert "system: A published system (required): adaptive_universal_transformer, albert, " in xmodels.pretrain.__doc__
    with pytest.raises(AttributeError, match="Did you mean pretrain"):
        xmodels.pretrian  # noqa: B018
    with pytest.raises(
        UsageError, match=r"xmodels\.pretrain: unknown argument `learning_rat`\. Did you mean learning_rate"
    ):
        xmodels.pretrain(system="bert", model_dir="run", learning_rat=1)


def test_the_notebook_names_what_there_is():
    """Its calls are read, so that none names an option that is gone."""
    notebook = json.loads((ROOT / "samples/quickstart.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    calls = [node for node in ast.walk(ast.parse("\n".join(code))) if isinstance(node, ast.Call)]
    verbs = [call for call in calls if ast.unparse(call.func).startswith("xmodels.") and call.keywords]
    assert len(verbs) >= 5
    for call in verbs:
        names = inspect.signature(getattr(xmodels, call.func.attr)).parameters
        assert {keyword.arg for keyword in call.keywords} - {None} <= set(names), ast.unparse(call)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--" + "x" * 5000, "unknown flag --xxx"),
        ("--flagfile=FILE", "not UTF-8"),
        ("--megabytes=1e308", "not a number in the range"),
    ],
    ids=["long", "flagfile", "endless"],
)
def test_odd_flags_end_with_a_line(argument, said, tmp_path, capsys):
    (tmp_path / "flags").write_bytes(b"--data_dir=\x80\n")
    assert invoke("inspect_data", argument.replace("FILE", str(tmp_path / "flags"))) == 2
    found = capsys.readouterr().err
    assert said in found and len(found) < 400


def test_a_flag_that_is_given_twice_is_named(tmp_path, capsys):
    (tmp_path / "flags").write_text("--text=first\n")
    common = ["translate", "--model_dir=nowhere"]
    assert invoke(*common, "--text=first", "--prompt=second", "--text", "third") == 4
    assert "Warning: --text is given 3 times; the last one counts." in capsys.readouterr().err
    assert invoke(*common, f"--flagfile={tmp_path / 'flags'}", "--text=second") == 4
    assert "times" not in capsys.readouterr().err


def test_of_changed_values_that_are_long_the_part_that_differs_is_shown():
    before, after = "masking:4/" * 20 + "reordering:4", "masking:4/" * 20 + "reordering:4/distance:1"
    said = changed_flags._list_changes({"task_schedule": (before, after), "seed": (1, 2)})
    assert said.startswith("seed: 1 then, 2 now; task_schedule: …")
    assert "reordering:4' then" in said and "reordering:4/distance:1' now" in said and len(said) < 180


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "create_finetuning_data"])
def test_help_lists_what_values_mean_one_a_line(verb):
    command = importlib.import_module(f"launch.{verb}").COMMAND
    listed = [option for option in command.declared if option.values]
    shown = command.usage().splitlines()
    open_ended = {"system": systems.names(), "mixer": mixers.names()}
    for each in listed:
        assert set(each.choices or open_ended[each.name]) == set(each.values)
        assert all(any(line.startswith(f"      {name} ") for line in shown) for name in each.values)
        assert all(meaning.strip(".") for meaning in each.values.values())
    assert len(listed) == (2 if verb == "pretrain" else 1)


def test_the_overview_names_every_verb_once_under_a_section():
    shown = overview().splitlines()
    assert [line[:-1] for line in shown if line.endswith(":") and not line.startswith(" ")] == list(SECTIONS)
    assert sorted(line.split()[0] for line in shown if re.match("  [a-z]", line)) == verbs()


def test_every_verb_has_an_entry_point_and_its_options_say_what_it_does():
    assert verbs() == registry.names()
    for verb in verbs():
        command = importlib.import_module(f"launch.{verb}").COMMAND
        assert command.name == verb and command.summary.endswith(".") and f"xmodels {verb}" in command.example
