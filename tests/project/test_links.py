"""Every link on the pages leads to a file of the project and to a heading there, and every path in backticks exists."""

import re
import subprocess

import pytest

from tests.helpers.listings import ROOT
from tests.helpers.pages import FENCED, INLINE

FOLDERS = ("docs", "benchmarks", "samples")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
PATH = re.compile(r"(?:[a-z_]\w*/)+[\w.]+\.(?:py|md|yaml|txt|sh)")
# First folders of paths that are ours; others are of users, such as `run/results.json`.
OURS = {
    path.name for top in (ROOT, ROOT / "xmodels", ROOT / "data_pipelines") for path in top.iterdir() if path.is_dir()
}
HISTORY = {"CHANGELOG.md"}  # names files as they were called then


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def anchors(page):
    """The anchors of the headings of a page, as forges make them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = INLINE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.is_relative_to(ROOT) and path.exists(), f"{name_of(page)}: there is no {link}"
        assert not anchor or anchor in anchors(path), f"{name_of(page)}: {target or page.name} has no heading #{anchor}"


@pytest.fixture(scope="module")
def files():
    """The paths of the files of the project; of a copy without git, those on the disk."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    found = listed.stdout.split() or [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
    return [f"/{path}" for path in found]


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in HISTORY], ids=name_of)
def test_paths_in_backticks_exist(page, files):
    """A path may leave out its first folders: `ops/seeds.py` is `data_pipelines/ops/seeds.py`."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    named = [
        path
        for path in INLINE.findall(text)
        if PATH.fullmatch(path) and path.split("/")[0] in OURS and "NAME" not in path
    ]
    missing = [path for path in named if not any(file.endswith(f"/{path}") for file in files)]
    assert not missing, f"{name_of(page)} names files that do not exist: {', '.join(missing)}"


# First folders of paths that are ours; others are of users, such as `run/results.json`.
OURS = {
    path.name for top in (ROOT, ROOT / "xmodels", ROOT / "data_pipelines") for path in top.iterdir() if path.is_dir()
}
