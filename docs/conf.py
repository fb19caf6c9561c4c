"""How `make docs` makes a site of the documentation: Sphinx reads the Markdown of the repository where it stands.

The folder of sources is the root of the repository, so that every link of a page leads to the same file on the site, on a forge and in
an editor. A link to code becomes a file to download. The contents at the side are the links of the index, section by section.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "docs/README"
LINK = re.compile(r"\]\(([^)\s#]+\.md)\)")

project = "xmodels"
copyright = "the authors of xmodels, under the Apache License 2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/**.md", "benchmarks/results/**.md", "samples/*.md"]
exclude_patterns = [".*", "build", "xmodels", "data_pipelines", "launch", "tests", "quickstart-*"]
root_doc = INDEX
myst_heading_anchors = 4
html_theme = "furo"
html_title = "xmodels"
html_copy_source = False
# Sections of results begin with ###, and `sh` blocks hold comments and JSON that no lexer knows.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]


def contents_of(page: str, text: str) -> str:
    """Returns the hidden lists of contents of an index: the pages that each section links, under the name of the section."""
    listed = {page, INDEX}
    lists = []
    for number, section in enumerate(re.split(r"^## +", text, flags=re.MULTILINE)):
        paths = (posixpath.normpath(posixpath.join(posixpath.dirname(page), link)) for link in LINK.findall(section))
        names = [name for name in dict.fromkeys(path.removesuffix(".md") for path in paths) if name not in listed]
        listed.update(names)
        caption = section.partition("\n")[0] if number else ""
        lists.append(toctree([f"/{name}" for name in names], caption))
    return "".join(lists)


def toctree(entries: list[str], caption: str = "") -> str:
    """Returns the directive that puts pages into the contents."""
    options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def add_contents(app, page: str, source: list[str]) -> None:
    """Adds the contents to the index pages. Those of results list their folder, the Chinese one the Chinese pages."""
    if page in (INDEX, "docs/decisions/README"):
        source[0] += contents_of(page, source[0])
    elif page == f"{INDEX}.zh":
        source[0] += toctree(["/README.zh", "/docs/*.zh"])
    elif page == "benchmarks/results/README":
        source[0] += toctree(["*", "reproductions/README"])
    elif page == "benchmarks/results/reproductions/README":
        source[0] += toctree(["*"])


def add_entrance(app, error) -> None:
    """Writes index.html, which leads to the index of the documentation."""
    if error is None and app.builder.name == "html":
        refresh = f'<meta http-equiv="refresh" content="0; url={INDEX}.html">'
        page = f'<!doctype html><meta charset="utf-8">{refresh}<a href="{INDEX}.html">xmodels</a>\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app) -> None:
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_entrance)
