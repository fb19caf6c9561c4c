"""All verdicts on one page, from the pages of the reproductions.

python -m benchmarks.reproductions.verdicts
"""

import glob
import os
import re

from benchmarks.measure import table
from benchmarks.reproductions.pages import RESULTS, write_page

NAME = "README"
VERDICT = re.compile(r"^\*\*Verdict: (reproduced|partly|not reproduced)\.\*\*$", re.MULTILINE)
CLAIM = re.compile(r"^- (yes|no): (.+)$", re.MULTILINE)


def write(folder: str = RESULTS) -> str:
    """Writes the page from the others of the folder. Returns its path."""
    pages = sorted(set(glob.glob(os.path.join(folder, "*.md"))) - {os.path.join(folder, f"{NAME}.md")})
    rows, parts = [], []
    for page in pages:
        title, verdict, claims = read(page)
        link = f"[{title}]({os.path.basename(page)})"
        rows.append([link, verdict, f"{sum(holds for _, holds in claims)} of {len(claims)}"])
        parts += [f"## {title}", "\n".join(f"- {'yes' if holds else '**no**'}: {claim}" for claim, holds in claims)]
    intro = (
        "What papers say of their systems, looked for on small data with the commands of this project: claim by claim, as each page "
        "has it. `python -m benchmarks.reproductions.verdicts` makes this page from those, and `python -m "
        "benchmarks.reproductions.from_shared_data PAGE --work_dir=work` most of those from data in public use: it knows the files, "
        "where a page's own command has only their names or dots."
    )
    summary = table(["", "verdict", "claims that came out"], rows)
    return write_page(NAME, "Reproductions", [intro, summary, *parts], folder)


def read(page: str) -> tuple[str, str, list[tuple[str, bool]]]:
    """Title, verdict, and claims with whether they came out.

    Raises:
        ValueError: the page has no title, or not exactly one verdict.
    """
    with open(page, encoding="utf-8") as file:
        text = file.read()
    title, verdicts = re.match(r"# (.+)", text), VERDICT.findall(text)
    if not title or len(verdicts) != 1:
        raise ValueError(
            f"{page}: expected a title and one verdict, as `pages.verdict` writes it; found {len(verdicts)}."
        )
    behind = text[VERDICT.search(text).end() :]
    claims = behind[: re.search(r"\n\n(?!- )", behind + "\n\n|").start()]  # the list that stands right behind it
    return title[1], verdicts[0], [(claim, answer == "yes") for answer, claim in CLAIM.findall(claims)]


if __name__ == "__main__":
    print(write())
