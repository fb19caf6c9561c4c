"""What the processor of this machine can do."""

import sys

import pytest

from xmodels.jobs import verbs
from xmodels.jobs.average_checkpoints.options import Options
from xmodels.training.devices.processor import is_narrow, multiplies_bfloat16, prefer_onednn, uses_onednn


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 sse\n", True),
        ("flags\t\t: fpu amx_bf16\n\nflags\t\t: fpu amx_bf16\n", True),
        ("flags\t\t: fpu avx512f avx512_bf16_other\nbugs\t: avx512_bf16\n", False),
        ("Features\t: fp asimd bf16\n", None),
    ],
)
def test_instructions_for_bfloat16_are_read(text, found, tmp_path):
    (tmp_path / "cpuinfo").write_text(text)
    assert multiplies_bfloat16(str(tmp_path / "cpuinfo")) is found


def test_where_nothing_tells_nothing_is_said(tmp_path):
    assert multiplies_bfloat16(str(tmp_path / "cpuinfo")) is None


AVX2 = "flags\t\t: fpu fma avx2 bmi2\n"
VNNI = "flags\t\t: fpu avx2 avx512f avx512_vnni\n"


@pytest.mark.parametrize(
    ("text", "before", "after", "used"),
    [
        (AVX2, {}, "1", True),  # TensorFlow leaves it off there
        (AVX2, {"TF_ENABLE_ONEDNN_OPTS": "0"}, "0", False),  # who says so has it so
        (VNNI, {}, None, True),
        (VNNI, {"TF_ENABLE_ONEDNN_OPTS": "0"}, "0", False),
        ("flags\t\t: fpu sse4_2\n", {}, None, False),
        ("Features\t: fp asimd\n", {}, None, None),
    ],
)
def test_onednn_is_asked_for_where_tensorflow_leaves_it_off(text, before, after, used, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow")
    (tmp_path / "cpuinfo").write_text(text)
    environ = dict(before)
    prefer_onednn(environ, str(tmp_path / "cpuinfo"))
    assert environ.get("TF_ENABLE_ONEDNN_OPTS") == after
    assert uses_onednn(environ, str(tmp_path / "cpuinfo")) is used


def test_onednn_is_not_asked_for_behind_the_import_of_tensorflow(tmp_path):
    (tmp_path / "cpuinfo").write_text(AVX2)
    environ = {}
    prefer_onednn(environ, str(tmp_path / "cpuinfo"))
    assert not environ and "tensorflow" in sys.modules


def test_the_command_line_asks_before_tensorflow_is_imported(monkeypatch):
    """`run` must set the variable before the job, and what it imports, is resolved."""
    asked = []
    monkeypatch.setattr(verbs, "prefer_onednn", lambda: asked.append("onednn"))
    monkeypatch.setattr(verbs, "resolve", lambda name: asked.append(name) or (lambda options: None))
    verbs.run(Options(model_dir="x", output_dir="y"))
    assert asked == ["onednn", Options.JOB]


@pytest.mark.parametrize(
    ("text", "environ", "narrow"),
    [
        (AVX2, {}, True),
        (VNNI, {}, False),
        (VNNI, {"ONEDNN_MAX_CPU_ISA": "avx2"}, True),
        (VNNI, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, False),
        ("flags\t\t: fpu sse4_2\n", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ("Features\t: fp asimd\n", {}, False),
    ],
)
def test_which_processors_multiply_by_avx2(text, environ, narrow, tmp_path):
    (tmp_path / "cpuinfo").write_text(text)
    assert is_narrow(environ, str(tmp_path / "cpuinfo")) is narrow
