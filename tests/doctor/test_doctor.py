"""Every fault of tests/helpers/doctor_faults.py is found before training, with its cause and what to change."""

import pathlib
import subprocess
import sys

import pytest

from data_pipelines import layout
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from launch import doctor, finetune, multitask, pretrain
from tests.helpers.doctor_clinic import make_clinic
from tests.helpers.doctor_faults import FAULTS
from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER
from tests.helpers.small_systems import small_sizes
from xmodels import systems
from xmodels.doctor import labels
from xmodels.doctor.case import case_of
from xmodels.doctor.network import num_parameters
from xmodels.training.watching import memory_need

PAGE = pathlib.Path(__file__).parents[2] / "docs/doctor.md"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """What the machine of the tests has set would be found too."""
    for name in ("TF_CONFIG", "CUDA_VISIBLE_DEVICES", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "TPU_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_fault_is_found_with_its_cause_and_its_cure(fault, clinic, tmp_path, monkeypatch, capsys):
    flags = {"model_dir": tmp_path / "new"} | fault.make(clinic, tmp_path, monkeypatch)
    assert invoke("doctor", **flags) == fault.code
    said = capsys.readouterr()
    status = "problem" if fault.code else "warning"
    found = (
        [line for line in said.out.splitlines() if line.startswith(status)] if fault.check else said.err.splitlines()
    )
    line = next((line for line in found if fault.cause in line), None)
    assert line, f"not said: {fault.cause}\n{said.out}{said.err}"
    assert not fault.check or line.split(maxsplit=1)[1].startswith(fault.check)
    assert fault.fix and fault.fix in line
    assert "Traceback" not in said.out + said.err and not (tmp_path / "new").exists()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.verb], ids=lambda fault: fault.title)
def test_command_refuses_the_fault_before_it_trains(fault, clinic, tmp_path, monkeypatch, capsys):
    flags = {"model_dir": tmp_path / "new"} | fault.make(clinic, tmp_path, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    assert invoke(fault.verb, **flags) == fault.code
    said = capsys.readouterr().err
    assert fault.cause in said and fault.fix in said and len(said.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_healthy_trainings_are_well(clinic, tmp_path, capsys):
    for flags in (clinic.pretrain(), clinic.finetune(test_file=clinic["test.tsv"])):
        assert invoke("doctor", **flags, model_dir=tmp_path / "new") == 0
        said = capsys.readouterr().out
        assert all(line.startswith("ok ") for line in said.splitlines()[:-1]) and "All is well" in said
        assert "free for a new run" in said
    assert not (tmp_path / "new").exists()


def test_what_needs_no_tensorflow_comes_before_it():
    program = "import sys, launch.doctor, xmodels.doctor.examine\nassert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PAGE.parent.parent)


@pytest.mark.parametrize("packing", layout.names())
def test_healthy_records_of_every_packing_have_healthy_contents(packing, clinic, tmp_path):
    options = {"packing": packing, "num_shards": 1, "input_format": "auto"}
    if packing == "parallel":
        options |= {"target_file": clinic["corpus.txt"]}
    if packing == "dialogue":
        options |= {"input_format": "dialogue"}
    source = RecordSource(str(clinic.records(tmp_path, **options)))
    assert 0 < check_contents(source, 259) <= 256


def test_limit_of_a_container_counts_without_cached_files(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_need, "CONTROL_GROUP", str(tmp_path))
    whole = memory_need.free_bytes()
    for name, value in (("max", "9000"), ("current", "8000"), ("stat", "anon 1\ninactive_file 300\nactive_file 20\n")):
        (tmp_path / f"memory.{name}").write_text(value)
    assert memory_need.free_bytes() == 1320
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_need.free_bytes() == pytest.approx(whole, rel=0.5)


def test_a_machine_alone_is_looked_at_too(capsys):
    assert invoke("doctor") == 0
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]} >= {"python", "packages", "devices"}


def test_the_first_problem_gives_the_exit_code(clinic, tmp_path, capsys):
    flags = clinic.finetune(init_checkpoint="/nowhere", model_dir=tmp_path, eval_file="/nowhere.tsv")
    assert invoke("doctor", **flags) == 3
    said = capsys.readouterr()
    assert said.out.count("problem ") == 2 and "2 problem(s), 0 warning(s). Mend the first problem (labels)" in said.err


@pytest.mark.long
def test_parameters_are_those_of_the_network_that_is_not_built(clinic, tmp_path, capsys):
    flags = clinic.pretrain(system="bert", size="mini", model_config_file=None, model_dir=tmp_path / "new")
    assert invoke("pretrain", "--dry_run", **flags) == 0
    exact = int(capsys.readouterr().out.partition(" parameters")[0].rpartition(" ")[2].replace(",", ""))
    assert invoke("doctor", **flags) == 0
    told = float(capsys.readouterr().out.partition(" million weights")[0].rpartition(" ")[2])
    assert exact > 3e6 and told == pytest.approx(exact / 1e6, abs=0.06)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", systems.names())
def test_weights_of_every_system_are_told_from_its_smallest_networks(name):
    system = systems.load(name)
    sizes = min(system.SIZES.values(), key=lambda size: size["hidden_dim"])
    kind = system.MODEL.config_class
    config = kind(vocabulary_size=300, **small_sizes(kind, sizes | {"num_layers": 4}))
    heads = config.hidden_dim * (config.hidden_dim + 5) + 300
    if name == "reformer":  # every second layer has a kernel more than the estimate takes from the second one
        heads -= config.hidden_dim**2
    assert num_parameters(system.MODEL, config) == system.MODEL(config).initialize().count_params() + heads


def test_libraries_that_cannot_be_imported_are_a_problem(clinic, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "xmodels.jobs.pretrain.run", None)
    assert invoke("doctor", **clinic.pretrain(model_dir=tmp_path / "new")) == 2
    assert "problem  import        TensorFlow, Keras or what they need cannot be imported" in capsys.readouterr().out


def test_doctor_takes_every_flag_of_the_commands():
    names = [{option.name for option in verb.COMMAND.declared} for verb in (pretrain, finetune, multitask, doctor)]
    assert names[0] | names[1] | names[2] == names[3]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("classify", "50% of the texts cut at 16"),
        ("answer_span", "50% of the texts longer than 16 tokens, which are read in windows"),
        ("tag", "50% of the texts longer than 16 tokens, which are read in windows"),
    ],
)
def test_texts_that_are_too_long_are_said_to_be_read_in_windows_or_cut(task, said):
    given = {"task": task, "init_checkpoint": "x", "model_dir": "y", "train_file": "z", "max_seq_length": 16}
    case = case_of(given)
    case.texts, case.tokenizer = ["ann", "ann " * 20], TOKENIZER
    assert labels.known_text(case).endswith(said)


@pytest.mark.long
def test_a_finished_run_is_known(clinic, tmp_path, capsys):
    run = clinic.finetune(model_dir=tmp_path / "run", num_train_epochs=0.2, eval_file=None)
    assert invoke("finetune", **run) == 0
    assert invoke("doctor", **run) == 0
    assert "is finished" in capsys.readouterr().out


def test_the_page_names_each_fault():
    page = PAGE.read_text(encoding="utf-8")
    missing = [fault.title for fault in FAULTS if fault.row not in page]
    assert not missing, "run `python -m tests.helpers.doctor_faults` and put its table into docs/doctor.md"
    assert len({fault.title for fault in FAULTS}) == len(FAULTS) >= 30
