"""The notebook is run as Jupyter runs it; what it made answers on every backend, from Python and on the command line."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import xmodels
from tests.helpers.invocation import invoke

ROOT = pathlib.Path(__file__).parents[2]
TEXT = "好吃"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook with its outputs, and the folder in which it wrote."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(ROOT / "samples/quickstart.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if "steps = 500" in cell.source]
    cell.source = cell.source.replace("steps = 500", "steps = 20")
    surroundings = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": ROOT / "samples"}})
    client.execute(env=surroundings)
    (classifier,) = folder.glob("*/classifier")
    return notebook, classifier


def outputs(notebook):
    return [json.dumps(cell["outputs"]) for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.extra("ipykernel", "nbclient")
def test_notebook_shows_progress_and_answers(executed):
    notebook, _ = executed
    shown = "\n".join(outputs(notebook))
    assert "step 20/20" in shown and "20/20 [" in shown, "the lines of the log and the bar"
    assert "Prediction(" in outputs(notebook)[-2] and 0 <= float(notebook.cells[-1].outputs[-1].data["text/plain"]) <= 1
    assert "Traceback" not in shown and "I0000" not in shown


@pytest.mark.extra("ipykernel", "nbclient")
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("jax", marks=[pytest.mark.extra("jax"), pytest.mark.long]),
        pytest.param("torch", marks=[pytest.mark.extra("torch"), pytest.mark.long]),
        pytest.param("tensorflow", marks=pytest.mark.long),
    ],
)
def test_its_classifier_answers_on_every_backend_as_on_the_command_line(executed, backend, capsys):
    _, classifier = executed
    program = f"import xmodels\nprint(xmodels.load({str(classifier)!r}).predict([{TEXT!r}])[0].probabilities)"
    surroundings = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=surroundings)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    (answer,) = xmodels.predict(model_dir=classifier, text=TEXT)
    assert found == pytest.approx(answer["probabilities"], abs=1e-4)
    assert invoke("predict", model_dir=classifier, text=TEXT) == 0
    assert max(found, key=found.get) in capsys.readouterr().out
