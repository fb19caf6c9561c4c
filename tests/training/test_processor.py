"""What the processor of this machine can do."""

import pytest

from xmodels.training.devices.processor import multiplies_bfloat16


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
