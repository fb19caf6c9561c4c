"""The tables on the pages are made from the pages of systems, tasks, layouts, mixers and decisions, and none of these is missing."""

import re

import pytest

from tests.helpers import listings
from tests.helpers.listings import ROOT

COMMAND = "python -m tests.helpers.listings makes it anew"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("kind", ["systems", "tasks", "layouts", "mixers"])
def test_each_of_a_kind_has_one_row(kind):
    listed, expected = listings.listed(kind), listings.expected(kind)
    assert listed == expected, f"rows of `{kind}` on pages in docs: see CONTRIBUTING.md, which shows one"


def test_each_decision_has_a_group():
    pages = {path.name for path in (ROOT / "docs/decisions").glob("*.md")} - {"README.md", "template.md"}
    assert {row["page"].rpartition("/")[2] for row in listings.rows("decision")} == pages
    linked = set(LINK.findall((ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")))
    assert pages <= linked, "the group of each page is one of the headings of docs/decisions/README.md"


@pytest.mark.parametrize("page", listings.pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tables_are_what_the_command_makes(page):
    assert page.read_text(encoding="utf-8") == listings.filled(page), COMMAND


@pytest.mark.parametrize(("index", "other"), [("README.md", "*.zh.md"), ("README.zh.md", "first_model.md")])
def test_the_index_of_a_language_links_every_page(index, other):
    """But for itself and what the other index has in its language."""
    folder = ROOT / "docs"
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"} - {path.name for path in folder.glob(other)}
    linked = set(LINK.findall((folder / index).read_text(encoding="utf-8")))
    assert pages - {index} <= linked


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "BUILD_NOTES.md"])
def test_pages_at_the_root_stay_short(page):
    """Rows of tables that are made do not count: there is one for each system."""
    written = listings.TABLE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert len(written.splitlines()) <= 200


def test_a_row_that_lacks_a_key_is_named(tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/x.md"
    page.write_text("# X\n\n<!-- listing\n- systems: [x]\n  title: X\n-->\n")
    with pytest.raises(ValueError, match=r"docs/x\.md: a row with `systems` has en, title, zh\."):
        listings.rows("systems", tmp_path)
    page.write_text("# X\n\n<!-- listing\n- system: [x]\n-->\n")
    with pytest.raises(ValueError, match="has one of systems, tasks, layouts, mixers, decision"):
        listings.rows("systems", tmp_path)
