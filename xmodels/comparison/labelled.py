"""The labelled tables of a plan, and what must hold of them before anything runs."""

from data_pipelines.corpora.compression import stem
from data_pipelines.corpora.encodings import UTF_8, assume
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, Row, read_table
from data_pipelines.errors import ReportedError
from data_pipelines.finetuning.row_checks import check_labels, label_ids, label_names, shared_warning
from data_pipelines.schema import Location
from xmodels.comparison.plan import Plan, Task

PARTS = "train", "dev", "test"


def get_flag(plan: Plan, task: Task, name: str, usual=None):
    """Returns a flag of `finetune`, as a task has it."""
    return task.flags.get(name, plan.finetuning.flags.get(name, usual))


def read_rows(path: str, columns: dict, encoding: str | None, bad_rows: list[BadRow] | None = None) -> list[Row]:
    """Returns the rows of a table.

    Args:
        columns: `text_column`, `text_pair_column` and `label_column`, those that are named.
    """
    names = (columns.get(name) for name in ("text_column", "text_pair_column", "label_column"))
    with assume(encoding or UTF_8):
        return read_table(path, Columns(*names), bad_rows=bad_rows)


def check_tasks(plan: Plan, place: Location) -> list[str]:
    """Reads every table. Each row of a test is answered, so none may be left out. Returns warnings of texts that are in two of them.

    Raises:
        ReportedError: a table cannot be read, one does not fit the others, or a label does not occur in training.
    """
    warnings = []
    for name, task in plan.tasks.items():
        here, skips = place.at(name), get_flag(plan, task, "on_bad_row") == "skip"
        tables = {part: _read(plan, task, part, skips and part != "test", here.at(part)) for part in PARTS}
        widths = {part: len(rows[0].texts) for part, rows in tables.items()}
        if len(set(widths.values())) > 1:
            raise here.fault(
                f"`{here.key}`: the files have another number of texts in a row: {widths}. Name the columns, such as text_pair_column."
            )
        _check_labels(task, tables, here)
        for held_out, trained in (("dev", "train"), ("test", "train"), ("test", "dev")):
            held_out_texts, known = ([row.texts for row in tables[part]] for part in (held_out, trained))
            warnings.append(shared_warning(getattr(task, held_out), held_out_texts, getattr(task, trained), known))
    return list(filter(None, warnings))


def _read(plan: Plan, task: Task, part: str, skips: bool, place: Location) -> list[Row]:
    path = getattr(task, part)
    if stem(path).endswith(".txt"):
        raise place.fault(f"`{place.key}`: {path}: `predict` reads .txt as a text a line. Name the table .tsv.")
    try:
        return read_rows(path, task.columns(), get_flag(plan, task, "encoding"), [] if skips else None)
    except ReportedError as error:
        message = str(error).replace(
            "add --encoding=",
            f"give `{place.key.rpartition('.')[0]}.flags` the encoding of all three files: encoding: ",
        )
        raise place.fault(f"`{place.key}`: {message}") from None


def _check_labels(task: Task, tables: dict[str, list[Row]], place: Location) -> None:
    labels = label_names(tables["train"])
    try:
        check_labels(task.train, labels, len(tables["train"]), task.columns().get("label_column"))
        for part in ("dev", "test"):
            label_ids(getattr(task, part), tables[part], labels)
    except ReportedError as error:
        raise place.fault(f"`{place.key}`: {error}") from None
