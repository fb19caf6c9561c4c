"""The page that gathers the verdicts of the reproductions."""

import pathlib
import shutil

import pytest

from benchmarks.reproductions import pages, verdicts

PAGES = pathlib.Path(pages.RESULTS)


def test_the_page_is_what_its_command_makes_of_the_others(tmp_path):
    for page in PAGES.glob("*.md"):
        shutil.copy(page, tmp_path)
    kept = (tmp_path / "README.md").read_text()
    assert pathlib.Path(verdicts.write(str(tmp_path))).read_text() == kept, (
        "python -m benchmarks.reproductions.verdicts makes it anew"
    )


def test_claims_are_those_behind_the_verdict_and_no_other_lists(tmp_path):
    page = tmp_path / "one.md"
    page.write_text(
        f"# A paper\n\n- yes: before\n\n{pages.verdict({'it helps': True, 'always': False})}\n\nText.\n\n- no: behind\n"
    )
    assert verdicts.read(str(page)) == ("A paper", "partly", [("it helps", True), ("always", False)])
    page.write_text("# A paper\n\nNothing came out.\n")
    with pytest.raises(ValueError, match="one verdict"):
        verdicts.read(str(page))
