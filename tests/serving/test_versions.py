"""Which versions of a model are served: policies, the file of models, and versions that come, go and are damaged. Needs no server."""

import asyncio
import concurrent.futures
import os
import shutil
import types

import pytest

from data_pipelines.errors import DataError, UsageError
from tests.helpers.invocation import invoke
from xmodels.serving.config_file import read_config_file
from xmodels.serving.folder import SAVED_MODEL
from xmodels.serving.limits import RequestError
from xmodels.serving.policies import Policy, read_policy
from xmodels.serving.served import ServedModel
from xmodels.serving.sources import Source, find_sources


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("latest", [10]),
        ("latest:2", [10, 9]),
        ("latest:9", [10, 9, 2]),
        ("all", [10, 9, 2]),
        ("specific:2,3,9", [9, 2]),
    ],
)
def test_a_policy_chooses_versions_by_their_numbers(text, wanted):
    assert read_policy(text).wanted({2: "", 10: "", 9: ""}) == wanted
    assert read_policy(text).wanted({}) == []


@pytest.mark.parametrize(
    "text", ["", "latest:0", "latest:", "newest", "specific:", "specific:a", "specific:1,", "all:2"]
)
def test_an_unknown_policy_names_the_known_ones(text):
    with pytest.raises(UsageError, match="unknown policy. Expected latest, latest:N"):
        read_policy(text)


def put(folder, version, content="good"):
    """A version whose SavedModel holds `content`, written elsewhere and renamed when whole, as exports are."""
    made = folder.parent / "written"
    made.mkdir()
    (made / SAVED_MODEL).write_text(content)
    folder.mkdir(exist_ok=True)
    made.rename(folder / str(version))
    return folder


CONFIG = """
# Models, as TensorFlow Serving has them.
model_config_list {{
  config {{ name: "topics" base_path: "{0}/topics" model_platform: "tensorflow" }}
  config: {{
    name: "tags", base_path: "{0}/tags"
    model_version_policy {{ specific {{ versions: 3 versions: [5] }} }}
    version_labels {{ key: "stable" value: 3 }}
    version_labels {{ key: "canary" value: 5 }}
  }}
  config {{ name: "all" base_path: "{0}/tags" model_version_policy {{ all {{}} }} }}
  config {{ name: "two" base_path: "{0}/tags" model_version_policy {{ latest {{ num_versions: 2 }} }} }}
}}
"""


def test_the_file_of_models_is_that_of_tensorflow_serving(tmp_path):
    (tmp_path / "models").write_text(CONFIG.format(tmp_path))
    put(tmp_path / "topics", 1)
    for version in (3, 4, 5):
        put(tmp_path / "tags", version)
    found = find_sources(None, config_file=str(tmp_path / "models"))
    assert [each.name for each in found] == ["topics", "tags", "all", "two"]
    assert [each.policy for each in found] == [Policy(), Policy(specific=(3, 5)), Policy(None), Policy(2)]
    assert found[1].labels == {"stable": 3, "canary": 5} and found[1].folder == f"{tmp_path}/tags"
    shutil.rmtree(tmp_path / "tags/5")
    with pytest.raises(DataError, match="tags: the label canary stands for version 5, which is not served"):
        find_sources(None, config_file=str(tmp_path / "models"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_config_list {\n confg {} }", 'line 2, column 2: .*has no field named "confg"'),
        ('model_config_list { config { name: "a/b" } }', "config 1: name is 'a/b'"),
        ('model_config_list { config { name: "a" } }', r"config 1 \(a\): base_path is missing"),
        (
            'model_config_list { config { name: "a" base_path: "x" model_platform: "onnx" } }',
            "model_platform is 'onnx'",
        ),
        ('model_config_list { config { name: "a" base_path: "x" model_version_policy { all {} latest {} } } }', "both"),
        (
            'model_config_list { config { name: "a" base_path: "x" model_version_policy { specific {} } } }',
            "no versions",
        ),
        ("", "names no model"),
        ("\x00", "line 1, column 1"),
    ],
)
def test_what_is_wrong_with_the_file_of_models_is_named(tmp_path, text, message):
    (tmp_path / "models").write_text(text)
    with pytest.raises(DataError, match=message):
        read_config_file(str(tmp_path / "models"))


def test_several_folders_are_several_models(tmp_path):
    folders = [str(put(tmp_path / name, 1)) for name in ("a", "b,c", "d")]
    assert [each.name for each in find_sources(folders[1])] == ["b_c"]  # a folder, though it has a comma
    found = find_sources(f"{folders[0]},{folders[2]}", "x,y", policy="all")
    assert [(each.name, each.folder, each.policy) for each in found] == [
        ("x", folders[0], Policy(None)),
        ("y", folders[2], Policy(None)),
    ]
    for arguments, message in (
        ((f"{folders[0]},{folders[2]}", "x"), "1 names for 2 folders"),
        ((f"{folders[0]},{folders[2]}", "x,x"), "both hold a model named x"),
        ((folders[0], "a/b"), "--name=a/b"),
        ((None,), "Give either --export_dir=FOLDER or --model_config_file=FILE"),
        ((folders[0], None, "models"), "Give either"),
        ((None, "x", "models"), "--name and --version_policy go with --export_dir"),
    ):
        with pytest.raises(UsageError, match=message):
            find_sources(*arguments)
    with pytest.raises(DataError, match="none of the versions 2, 3 lies there. Found: 1"):
        find_sources(folders[0], policy="specific:2,3")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "Give either --export_dir"),
        ({"version_policy": "newest"}, "--version_policy=newest: unknown policy"),
        ({"model_config_file": "missing"}, "Give either"),
    ],
)
def test_flags_that_contradict_each_other_are_named_before_tensorflow_is_imported(tmp_path, capsys, flags, message):
    folder = {"export_dir": put(tmp_path / "a", 1)} if flags else {}
    assert invoke("serve", **folder, **flags) == 2
    assert message in capsys.readouterr().err


class Queue:
    """A queue before a version; says what has happened to it."""

    def __init__(self, version):
        self.version, self.is_closed = version, False

    async def close(self):
        self.is_closed = True


class Watched:
    """A model whose folder is looked at when a test says so."""

    def __init__(self, folder, **source):
        self.said, self.read, self.queues, self.while_loading = [], [], [], None
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self.model = ServedModel(
            Source("m", str(folder), **source), self.load, self.open, lambda *said: self.said.append(said)
        )

    def load(self, folder):
        self.read.append(int(folder.version))
        with open(os.path.join(folder.path, SAVED_MODEL)) as file:
            content = file.read()
        if self.while_loading:
            self.while_loading()
        if content == "bad":
            raise DataError(f"{folder.path}: damaged.")
        if content == "worse":
            raise ZeroDivisionError("what nobody thought of")
        return types.SimpleNamespace(signatures=["serving_default"], content=content), None

    def open(self, version):
        self.queues.append(Queue(version))
        return self.queues[-1]

    async def look(self, times=2):
        """Looks twice: a version is loaded when it has stayed the same."""
        for _ in range(times):
            await self.model.refresh(self.thread)
            for _ in range(20):  # what is unloaded has its turn
                await asyncio.sleep(0.001)

    def served(self):
        return [each.number for each in self.model.available()]

    def states(self):
        return {number: str(each.state) for number, each in sorted(self.model.versions.items())}


def watched(work, folder, **source):
    """Runs `work(watched)` in an event loop, with what lies in the folder served."""

    async def run():
        made = Watched(folder, **source)
        made.model.start()
        made.model.open()
        try:
            await asyncio.wait_for(work(made), 20)
        finally:
            await made.model.close()
            made.thread.shutdown()
        assert all(queue.is_closed for queue in made.queues)

    asyncio.run(run())


def test_a_new_version_takes_over_and_the_old_one_goes_when_its_requests_are_answered(tmp_path):
    folder = put(tmp_path / "m", 1)

    async def work(made):
        old = made.model.find()
        with old.in_use():
            put(folder, 2)
            await made.look()
            assert made.served() == [2] and made.model.find().number == 2
            assert made.states() == {1: "UNLOADING", 2: "AVAILABLE"} and not made.queues[0].is_closed
            assert old.model.content == "good"  # who asks still has its model
            with pytest.raises(RequestError, match=r"Specific\(m, 1\). Served is m, version 2") as found:
                made.model.find(1)
            assert found.value.code == 404
        await made.look()
        assert made.states() == {1: "END", 2: "AVAILABLE"} and made.queues[0].is_closed and old.model is None
        assert made.read == [1, 2] and not any(is_error for _, is_error in made.said)

    watched(work, folder)


def test_a_damaged_version_is_reported_and_the_old_one_goes_on(tmp_path):
    folder = put(tmp_path / "m", 1)

    async def work(made):
        for version, content, code in ((2, "bad", "DATA_LOSS"), (3, "worse", "UNKNOWN")):
            put(folder, version, content)
            await made.look(4)
            assert made.served() == [1]
            assert made.model.versions[version].state == "END" and made.model.versions[version].error_code == code
        assert "damaged" in made.model.versions[2].error and "nobody thought" in made.model.versions[3].error
        errors = [text for text, is_error in made.said if is_error]
        assert len(errors) == 2 and made.read == [1, 2, 3]  # once each, not at every look
        assert "m, version 2: not loaded" in errors[0] and "Served is m, version 1" in errors[0]
        (folder / "3" / SAVED_MODEL).write_text("mended")
        await made.look()
        assert made.served() == [3] and made.model.versions[3].error == ""

    watched(work, folder)


def test_a_version_that_is_gone_is_unloaded_but_not_for_a_folder_that_is_gone(tmp_path):
    folder = put(put(tmp_path / "m", 1), 2)

    async def work(made):
        (folder / "2").rename(tmp_path / "kept")
        await made.look()
        assert made.served() == [1] and made.states() == {1: "AVAILABLE", 2: "END"}
        folder.rename(tmp_path / "away")
        await made.look(4)
        assert made.served() == [1] and sum("not readable" in text for text, _ in made.said) == 1
        (tmp_path / "away").rename(folder)
        shutil.rmtree(folder / "1")
        await made.look()
        assert made.served() == []
        with pytest.raises(RequestError, match=r"Latest\(m\). Served is m, no version"):
            made.model.find()
        (tmp_path / "kept").rename(folder / "2")
        await made.look()
        assert made.served() == [2]

    watched(work, folder)


def test_a_version_whose_files_are_replaced_is_loaded_anew(tmp_path):
    folder = put(tmp_path / "m", 1)

    async def work(made):
        old = made.model.find()
        with old.in_use():
            shutil.rmtree(folder / "1")
            put(folder, 1, "better")
            await made.look()
            assert made.model.find().model.content == "better" and old.model.content == "good"
        shutil.rmtree(folder / "1")
        put(folder, 1, "bad")
        await made.look()
        assert made.model.find().model.content == "better" and made.served() == [1]
        assert made.said[-1][1] and "m, version 1: not loaded" in made.said[-1][0]

    watched(work, folder)


def test_a_version_that_is_being_written_is_left_alone(tmp_path):
    folder = put(tmp_path / "m", 1)

    async def work(made):
        put(folder, 2, "ba")
        for length in range(4):
            await made.look(1)
            (folder / "2/more").write_text("x" * length)
        assert made.served() == [1] and made.read == [1]
        await made.look()
        assert made.served() == [2]
        put(folder, 3)
        made.while_loading = lambda: (folder / "3/more").write_text("x")
        await made.look()
        assert made.served() == [2] and "changed while they were read" in made.model.versions[3].error
        made.while_loading = None
        await made.look()
        assert made.served() == [3]

    watched(work, folder)


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [("latest:2", [2, 1], [4, 2]), ("all", [2, 1], [4, 2, 1]), ("specific:1,4", [1], [4, 1]), ("specific:2", [2], [2])],
)
def test_versions_come_and_go_as_the_policy_says(tmp_path, policy, before, after):
    folder = put(put(tmp_path / "m", 1), 2)

    async def work(made):
        assert made.served() == before
        put(folder, 4)
        await made.look()
        assert made.served() == after
        assert [made.model.find(number).number for number in after] == after

    watched(work, folder, policy=read_policy(policy))


def test_labels_stand_for_versions(tmp_path):
    folder = put(put(tmp_path / "m", 1), 2)

    async def work(made):
        assert made.model.find(label="stable").number == 1 and made.model.find().number == 2
        with pytest.raises(
            RequestError, match="Unrecognized servable version label: new. Labels of m: stable"
        ) as found:
            made.model.find(label="new")
        assert found.value.code == 400

    watched(work, folder, policy=Policy(None), labels={"stable": 1})


def test_nothing_is_lost_while_versions_come_and_go(tmp_path):
    folder = put(tmp_path / "m", 1, "1")

    async def work(made):
        answers, is_over = [], False

        async def client():
            while not is_over:
                version = made.model.find()
                with version.in_use():
                    await asyncio.sleep(0.003)
                    answers.append((version.number, version.model.content))

        clients = [asyncio.create_task(client()) for _ in range(20)]
        for number in range(2, 6):
            put(folder, number, str(number))
            await made.look()
            shutil.rmtree(folder / str(number - 1))
            await made.look()
        is_over = True
        await asyncio.gather(*clients)
        assert {number for number, _ in answers} == {1, 2, 3, 4, 5}
        assert all(str(number) == content for number, content in answers)
        await made.look()
        assert made.states() == {**dict.fromkeys((1, 2, 3, 4), "END"), 5: "AVAILABLE"}

    watched(work, folder)
