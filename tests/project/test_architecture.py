"""Who may import whom: the rooms of the house and their doors."""

import ast
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

import pytest

import xmodels
from xmodels import api, systems
from xmodels.tasks.base import find

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("xmodels", "data_pipelines", "launch")
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
EVERYTHING = FILES + sorted(
    path.relative_to(ROOT) for name in ("tests", "benchmarks") for path in (ROOT / name).rglob("*.py")
)

# Room -> the rooms of this project that its files may import at module level. A room may always import itself.
DOORS = {
    "data_pipelines": set(),
    "xmodels.layers": {"data_pipelines.features"},
    "xmodels.models": {"xmodels.layers", "data_pipelines.checksums", "data_pipelines.features", "data_pipelines.errors",
                       "data_pipelines.files", "data_pipelines.strict_json", "data_pipelines.text.tokenizer_settings"},
    "xmodels.objectives": {"xmodels.layers", "data_pipelines.features"},
    "xmodels.decoding": {"xmodels.layers"},
    "xmodels.interfaces": {"xmodels.layers", "xmodels.models", "xmodels.objectives", "data_pipelines.errors", "data_pipelines.text"},
    "xmodels.tasks": {"xmodels.layers", "xmodels.objectives", "xmodels.decoding", "xmodels.models", "xmodels.interfaces",
                      "xmodels.systems", "xmodels.training.watching.progress",
                      "xmodels.training.finetuning", "xmodels.retrieval.word_scores", "xmodels.retrieval.words",
                      "data_pipelines"},
    "xmodels.training": {"xmodels.objectives.base", "xmodels.models.adapters", "xmodels.models.backbone", "xmodels.models.config",
                         "xmodels.models.folder",
                         "xmodels.layers.compilation", "xmodels.layers.dropout", "xmodels.layers.positions",
                         "xmodels.layers.rematerialization", "xmodels.layers.wide_products",
                         "data_pipelines"},
    "xmodels.conversion": {"xmodels.interfaces", "xmodels.layers.adaptive", "xmodels.layers.mixers", "xmodels.layers.poolings",
                           "xmodels.models", "xmodels.objectives", "xmodels.tasks",
                           "data_pipelines.errors", "data_pipelines.files", "data_pipelines.schema", "data_pipelines.strict_json",
                           "data_pipelines.text", "data_pipelines.options.settings"},
    "xmodels.retrieval": {"data_pipelines"},
    "xmodels.serving": {"data_pipelines"},
    "xmodels.export": {"xmodels.runs", "xmodels.interfaces", "xmodels.tasks", "xmodels.objectives", "xmodels.decoding",
                       "xmodels.models", "xmodels.serving.apart", "xmodels.serving.folder", "xmodels.serving.kinds",
                       "xmodels.serving.model", "xmodels.serving.networks", "data_pipelines"},
    "xmodels.systems": {"xmodels.interfaces", "xmodels.objectives", "xmodels.tasks", "xmodels.models", "xmodels.layers",
                        "xmodels.training", "data_pipelines"},
    "xmodels.kernels": {"xmodels.layers.word_windows", "xmodels.layers.subwords", "xmodels.models.fasttext",
                        "xmodels.models.fasttext_classifier", "xmodels.models.skip_gram", "xmodels.objectives",
                        "xmodels.tasks.classify.task", "xmodels.training", "data_pipelines.errors",
                        "data_pipelines.units.characters"},
    "xmodels.tpu": {"xmodels.training", "xmodels.objectives.base", "xmodels.models.backbone", "xmodels.layers.dropout",
                    "xmodels.layers.rematerialization", "data_pipelines"},
    "xmodels.runs": {"xmodels.training", "xmodels.objectives.base", "xmodels.models", "xmodels.interfaces", "xmodels.systems",
                     "xmodels.conversion", "xmodels.tasks.base", "data_pipelines"},
    "xmodels.jobs": {"xmodels", "data_pipelines"},
    "xmodels.processes": {"data_pipelines.files", "data_pipelines.quiet"},
    "xmodels.comparison": {"xmodels.jobs.*.options", "xmodels.processes", "xmodels.systems",
                           "xmodels.runs", "xmodels.models.folder", "xmodels.tasks.base.find", "xmodels.tasks.base.new",
                           "xmodels.training", "xmodels.conversion", "data_pipelines"},
    "xmodels.doctor": {"xmodels.jobs", "xmodels.runs", "xmodels.systems", "xmodels.conversion", "xmodels.training", "xmodels.models",
                       "data_pipelines"},
    "xmodels.api": {"xmodels.jobs.verbs", "xmodels.training.devices.processor", "data_pipelines.errors", "data_pipelines.options"},
    "launch": {"launch", "data_pipelines.errors", "data_pipelines.escaping", "data_pipelines.options", "xmodels.jobs.*.options",
               "xmodels.jobs.verbs"},
}  # fmt: skip
# The same inside data_pipelines: room -> the other rooms there. Files of its root are rooms of their own.
INNER_DOORS = {
    "errors": set(),
    "arrays": set(),
    "checksums": {"errors", "files"},
    "escaping": set(),
    "strict_json": set(),
    "strict_yaml": {"errors"},
    "schema": {"errors", "strict_json"},
    "lock": {"errors", "files"},
    "features": {"errors"},
    "files": {"errors"},
    "layout": {"errors", "features", "options.declaration"},
    "layouts": {"corpora", "features", "files", "layout", "pretraining", "records", "text"},
    "paths": {"errors", "text.tokenizer_settings"},
    "progress": set(),
    "quiet": set(),
    "options": {
        "errors",
        "layout",
        "corpora.reading",
        "finetuning.listing",
        "inspect.objectives",
        "text.tokenizer_settings",
    },
    "corpora": {"errors", "quiet", "strict_json", "text"},
    "text": {"arrays", "errors", "features", "strict_json", "corpora", "units"},
    "units": {"features", "text", "ops"},
    "ops": {"errors", "features", "text", "units"},
    "records": {"errors", "features", "files", "lock", "ops", "layout", "schema", "strict_json"},
    "batches": {"arrays", "errors", "features", "ops", "records", "corpora", "text", "pretraining.stages"},
    "pretraining": {
        "errors",
        "features",
        "files",
        "lock",
        "options",
        "layout",
        "paths",
        "progress",
        "corpora",
        "text",
        "records",
    },
    "finetuning": {
        "errors",
        "schema",
        "strict_json",
        "features",
        "files",
        "lock",
        "options",
        "paths",
        "progress",
        "corpora",
        "text",
        "records",
        "pretraining",
    },
    "inspect": {
        "errors",
        "quiet",
        "options",
        "layout",
        "text",
        "ops",
        "records",
        "batches",
        "pretraining",
        "finetuning",
    },
}
NO_TENSORFLOW = (
    "xmodels.layers",
    "xmodels.models",
    "xmodels.objectives",
    "xmodels.interfaces",
    "xmodels.decoding",
    "xmodels.conversion",
)
NAME_NO_TASK_OR_SYSTEM = ("xmodels.jobs", "xmodels.export", "xmodels.comparison", "xmodels.doctor")
NAME_NO_TASK = (*NAME_NO_TASK_OR_SYSTEM, "xmodels.conversion")
OF_ANOTHER_SENSE = {  # words that are also the names of tasks
    "xmodels/jobs/search/run.py": {"similarity"},  # a key of JSON
    "xmodels/comparison/stages.py": {"probe"},  # a stage
}
TASK_DOORS = {
    "data_pipelines.features",
    *(f"xmodels.{room}" for room in ("interfaces", "layers", "objectives", "tasks")),
}


def room_of(path):
    parts = path.with_suffix("").parts
    return parts[0] if parts[0] != "xmodels" else ".".join(parts[:2])


def imports(path, everywhere=False):
    """The modules that a file imports; at module level only, unless `everywhere`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inside(module, doors):
    """Whether a module is one of `doors` or stands in one; * in a door is any name."""
    return any(fnmatch.fnmatch(module, door) or fnmatch.fnmatch(module, f"{door}.*") for door in doors)


def leads_to(package, doors):
    """Whether a door stands inside `package`."""
    depth = package.count(".") + 1
    return any(
        fnmatch.fnmatch(package, ".".join(door.split(".")[:depth])) for door in doors if door.count(".") >= depth
    )


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_import_only_through_the_doors_of_their_room(path):
    if path.name == "__init__.py" and len(path.parts) <= 2:
        return
    room = room_of(path)
    own = {name for name in imports(path) if name.split(".")[0] in PACKAGES}
    allowed = DOORS[room] | {room}
    # `from a.b import c` names both a.b and a.b.c; either may be the module that is allowed.
    wrong = {name for name in own if not inside(name, allowed) and not leads_to(name, allowed)}
    assert not wrong, f"{path} ({room}) imports {sorted(wrong)}; allowed: {sorted(allowed)}"


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[0] == "data_pipelines"], ids=str)
def test_rooms_of_data_pipelines_import_only_through_their_doors(path):
    if path.name == "__init__.py":
        return
    room = path.with_suffix("").parts[1]
    allowed = {f"data_pipelines.{door}" for door in INNER_DOORS[room] | {room}}
    own = {name for name in imports(path, everywhere=True) if name.startswith("data_pipelines.")}
    wrong = {name for name in own if not inside(name, allowed) and not leads_to(name, allowed)}
    assert not wrong, f"{path} ({room}) imports {sorted(wrong)}; allowed: {sorted(allowed)}"


def defined_in(path):
    """The names that a module binds at its top level, in branches and `try` too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_every_import_of_our_modules_finds_what_it_names():
    names = {}  # of each module of ours
    for path in EVERYTHING:
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        names[module] = set(defined_in(ROOT / path))
        package, _, name = module.rpartition(".")
        names.setdefault(package, set()).add(name)
    for path in EVERYTHING:
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                missing = [a.name for a in node.names if a.name.split(".")[0] in PACKAGES and a.name not in names]
            elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES:
                known = names.get(node.module, set())
                missing = [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known]
            else:
                continue
            assert not missing, f"{path}, line {node.lineno}: there is no {', '.join(missing)}"


@pytest.mark.parametrize("path", [p for p in FILES if inside(room_of(p), NO_TENSORFLOW)], ids=str)
def test_network_rooms_do_not_import_tensorflow(path):
    assert not [name for name in imports(path) if name.split(".")[0].startswith("tensorflow")]


# Files of tasks that are about graphs of TensorFlow, or read records by it.
GRAPHS = (
    "serve.py", "served_attention.py", "signatures.py", "comparison.py", "records.py", "scorer.py", "early_exit.py", "apart.py"
)  # fmt: skip


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) == "xmodels.tasks"], ids=str)
def test_files_of_a_task_import_what_their_name_allows(path):
    own = set(imports(path))
    if path.name not in GRAPHS:
        assert not [name for name in own if name.split(".")[0].startswith("tensorflow")]
    if path.name == "task.py":
        wrong = {name for name in own if name.split(".")[0] in PACKAGES and not inside(name, TASK_DOORS)}
        assert not {name for name in wrong if not leads_to(name, TASK_DOORS)}


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in NAME_NO_TASK], ids=str)
def test_what_serves_all_tasks_and_systems_names_none(path):
    """A new task is a folder, a new system a file; what would have to be edited for it says its name."""
    imported = {
        re.sub(r"^xmodels\.(tasks|systems)\.", "", name).partition(".")[0] for name in imports(path, everywhere=True)
    }
    constants = {
        node.value
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    }
    # `objective.NAME.` leads the names of the weights of a task.
    weights = {found for text in constants if isinstance(text, str) for found in re.findall(r"objective\.(\w+)", text)}
    known = {*find.names(), *(systems.names() if inside(room_of(path), NAME_NO_TASK_OR_SYSTEM) else ())}
    named = (known - OF_ANOTHER_SENSE.get(path.as_posix(), set())) & (imported | constants | weights)
    assert not named, f"{path} names {sorted(named)}; let their own files say what is special about them"


@pytest.mark.parametrize("path", [p for p in FILES if p.parts[:3] == ("xmodels", "tasks", "base")], ids=str)
def test_the_base_of_tasks_imports_no_task(path):
    inner = {name for name in imports(path, everywhere=True) if name.startswith("xmodels.tasks.")}
    assert all(name.startswith("xmodels.tasks.base") for name in inner), inner


def test_the_dialect_imports_nothing_heavy():
    assert set(imports(pathlib.Path("data_pipelines/features.py"), everywhere=True)) <= {
        "dataclasses", "dataclasses.dataclass", "collections.abc", "collections.abc.Mapping", "data_pipelines.errors",
        "data_pipelines.errors.DataError",
    }  # fmt: skip


def test_init_files_are_empty_but_for_the_listing_of_systems_and_the_way_in():
    for path in FILES:
        if path.name == "__init__.py" and path.parts[-2] not in ("systems", "xmodels"):
            assert not (ROOT / path).read_text().strip(), path


@pytest.mark.parametrize("arguments", [None, ["--help"], ["pretrain", "--help"]], ids=str)
def test_import_and_help_load_nothing_heavy(arguments):
    program = "import runpy, sys\nimport xmodels\n"
    if arguments:  # the help of all verbs imports the files of all verbs
        program += f"sys.argv = ['launch', *{arguments}]\n"
        program += "try: runpy.run_module('launch', run_name='__main__')\nexcept SystemExit: pass\n"
    program += "heavy = {'tensorflow', 'keras', 'keras_nlp', 'keras_hub', 'torch', 'jax', 'matplotlib', 'numpy'}\n"
    program += "heavy &= set(sys.modules)\n"
    program += "assert not heavy, heavy"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_file_outgrows_its_room():
    for path in FILES:
        lines = [line for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if line.strip()]
        assert len(lines) <= 320, f"{path}: {len(lines)} lines; split it"


def test_no_package_hides_a_verb():
    """An import of a module `xmodels.VERB` would put it in the place of the function."""
    root = pathlib.Path(xmodels.__file__).parents[1]
    hidden = [verb for verb in api.verbs() if (root / verb).exists() or (root / f"{verb}.py").exists()]
    assert not hidden
