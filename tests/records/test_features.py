"""The glossary of features against the code: every name that is written, read or declared stands in it, and no other."""

import ast
import importlib
import pathlib

import pytest

from data_pipelines import layout
from data_pipelines.features import GLOSSARY, Feature, Features
from data_pipelines.finetuning.listing import TASKS, task_class
from data_pipelines.finetuning.task import Settings
from data_pipelines.layout import Static
from data_pipelines.pretraining.settings import Settings as RecordSettings
from data_pipelines.records.formats import static_features
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective

ROOT = pathlib.Path(__file__).parents[2]
OPS = sorted(
    path for path in (ROOT / "data_pipelines/ops").glob("*.py") if not path.stem.startswith(("serving", "character"))
)
NETWORKS = sorted(
    path for capacity in ("models", "objectives", "tasks") for path in (ROOT / "xmodels" / capacity).rglob("*.py")
)
HOLDERS = {"batch", "features", "sequences", "packed", "renamed", "parsed"}  # variables that hold features


def undeclared(features: Features) -> list[str]:
    """The features that the glossary does not have in this shape and type."""
    return [
        f"{name} {feature.shape} {feature.dtype}"
        for name, feature in features.items()
        if not any(form.fits(feature) and form.dtype == feature.dtype for form in GLOSSARY.get(name, ()))
    ]


def keys_of(path: pathlib.Path):
    """The names by which a file reads and writes features: `batch["labels"]`, `features.pop("seed")`, `"x" in batch`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript):
            holder, keys = node.value, [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pop", "get"):
            holder, keys = node.func.value, node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            holder, keys = node.comparators[0], [node.left]
        elif isinstance(node, ast.Dict) and any(isinstance(v, ast.Name) and v.id in HOLDERS for v in node.values):
            holder, keys = next(v for v in node.values if isinstance(v, ast.Name) and v.id in HOLDERS), node.keys
        else:
            continue
        if isinstance(holder, ast.Name) and holder.id in HOLDERS:
            yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def classes(rooms: tuple[str, ...], base: type) -> list[type]:
    """The subclasses of `base` that these rooms define."""
    found = {}
    for path in NETWORKS:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if module.split(".")[1] in rooms and path.name != "__init__.py":
            own = vars(importlib.import_module(module)).values()
            found |= {kind: None for kind in own if isinstance(kind, type) and issubclass(kind, base)}
    return list(found)


@pytest.mark.parametrize("path", [*OPS, *NETWORKS], ids=lambda path: str(path.relative_to(ROOT)))
def test_features_are_called_by_names_of_the_glossary(path):
    assert set(keys_of(path)) <= set(GLOSSARY)


@pytest.mark.parametrize("name", layout.names())
def test_records_hold_features_of_the_glossary(name):
    settings = RecordSettings(input_file="", vocab_file="", packing=name, phrase_lexicon="p", entity_lexicon="e")
    found = layout.find(name).features(settings)
    assert not undeclared({n: f for n, f in found.items() if not f.meaning}), name  # others explain themselves
    assert not undeclared(static_features(16, 4, Static(marks_words=True)))


@pytest.mark.parametrize("task", TASKS)
def test_labelled_records_hold_features_of_the_glossary(task):
    assert not undeclared(
        task_class(task)(Settings(task=task, input_file="", vocab_file=""), ["a", "b"]).features(3)
    ), task


def test_networks_objectives_and_tasks_declare_features_of_the_glossary():
    rooms = classes(("models",), Backbone) + classes(("objectives", "tasks"), Objective)
    assert len(rooms) > 12
    for kind in rooms:
        for name in ("reads", "may_read", "needs", "signature"):
            if isinstance(declared := getattr(kind, name, {}), dict):
                assert not undeclared(declared), f"{kind.__name__}.{name}"


def test_every_feature_of_the_glossary_has_a_meaning_and_a_use():
    code = [path for package in ("data_pipelines", "xmodels") for path in (ROOT / package).rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in code if path.name != "features.py")
    for name, forms in GLOSSARY.items():
        assert forms and all(form.meaning for form in forms), name
        assert f'"{name}"' in text, f"nothing writes or reads `{name}`; take it out of the glossary"


def test_features_fit_where_known_lengths_agree():
    assert Feature((None, 50)).fits(Feature((3, 50)))
    assert not Feature((None, 50)).fits(Feature((3, 49)))
    assert not Feature((None,)).fits(Feature(()))


def test_light_lists_name_what_the_heavy_modules_hold():
    from data_pipelines.inspect import objectives, showcase
    from data_pipelines.text import kinds, tokenizer_settings

    assert set(showcase.OPS) == set(objectives.OBJECTIVES)
    assert set(objectives.OBJECTIVES.values()) == set(showcase.SHOW)
    assert tuple(kinds.KINDS) == tuple(tokenizer_settings.OPTIONS_OF)
    assert set(kinds.KINDS) == {*tokenizer_settings.TOKENIZERS, *tokenizer_settings.UNTRAINED}
    assert [task_class(name).name for name in TASKS] == list(TASKS)
