"""A task.json that belongs to another network is refused by its name, whatever task it names."""

import json

import pytest

from data_pipelines.errors import ReportedError
from tests.helpers.small_served import small_run
from xmodels.runs.fine_tuned import load_predictor
from xmodels.tasks.base.find import names, task_class

TASKS = [name for name in names() if task_class(name) is not None]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = {}
    for task in ("classify", "siamese"):
        path = tmp_path_factory.mktemp(task)
        made[task] = small_run(task, path)
        for file in made[task].rglob("SHA256SUMS"):
            file.unlink()
    return {task: (run, json.loads((run / "task.json").read_text())) for task, run in made.items()}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("own", "more"), [("classify", {}), ("siamese", {"labels": ["a", "b"], "num_texts": 2})])
def test_the_task_of_another_network_is_refused(runs, own, more):
    run, described = runs[own]
    refused = 0
    for name in TASKS:
        (run / "task.json").write_text(json.dumps({**described, "task": name, **more}))
        try:
            load_predictor(str(run))
        except ReportedError as error:
            refused += 1
            assert str(run) in str(error) or "task.json" in str(error)
    assert refused >= len(TASKS) - 1  # all but the own one
