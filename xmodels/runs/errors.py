"""Where the network of a fine-tuning is wrong, as a part of its report."""

import html
import os
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from xmodels.runs import page

FILE = "errors.json"  # of a run folder
MOST_PAIRS = 12  # of truth and answer


def section(folder: str) -> str:
    """Returns which labels are taken for which, and the examples whose wrong label is surest; nothing where nobody wrote them,
    or the file is cut."""
    try:
        return _tables(strict_json.read(os.path.join(folder, FILE)))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _tables(found: Mapping[str, Any]) -> str:
    wrong, rows = int(found["wrong"]), int(found["rows"])
    pairs = [[each["truth"], each["answer"], each["count"]] for each in found["pairs"][:MOST_PAIRS]]
    examples = [
        [each["truth"], each["answer"], f"{each['probability']:.4f}", each["text"]] for each in found["examples"]
    ]
    line = f"<p>{wrong:,} wrong predictions on {rows:,} rows of {html.escape(str(found['file']))}</p>"
    if not wrong:
        return line
    return (
        f"{line}{page.table(['true', 'predicted', 'count'], pairs)}<details><summary>the {len(examples)} most confident errors"
        f"</summary>{page.table(['true', 'predicted', 'probability', 'text as read'], examples)}</details>"
    )
