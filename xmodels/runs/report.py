"""The report of one or several runs, from what stands in their folders: finished, running or killed."""

import dataclasses
import datetime
import html
import os
import statistics
from collections.abc import Sequence

from data_pipelines.errors import UsageError
from data_pipelines.files import whole_file
from xmodels.runs import errors, examples, exports, page, probe
from xmodels.runs.charts import COLOURS, Chart, grid
from xmodels.runs.reading import Run, flatten, read_runs, seconds, settings, state
from xmodels.training.watching.progress import duration, measure_of, print_status, short

REPORT, PICTURES = "report.html", "pictures"
COURSE = {  # what a run does beside learning: names in log.jsonl and titles
    "learning_rate": "learning rate", "gradient_norm": "gradient norm", "tokens_per_second": "tokens a second",
    "model_flops_utilisation": "model FLOPs utilisation", "data_wait": "share of time spent waiting for data",
    "memory_gib": "memory, GiB", "skipped": "share of skipped steps (gradients not finite)",
}  # fmt: skip
GROUPED = {
    "learning_rate": "learning rate of each group", "gradient_norm": "gradient norm of each group", "weight": "weights of losses",
}  # fmt: skip
COSTS = {"step_seconds", "step_processor_seconds", "flops_per_token"}  # for those who convert a budget into steps
NO_SCORE = {"kind", "step", "time", "eta_seconds", "real_tokens", "real_tokens_per_second", "weight", *COSTS, *COURSE}
FROM_ZERO = {"tokens_per_second", "model_flops_utilisation", "data_wait", "memory_gib", "skipped"}
MOST_WARNINGS = 20
HIGHER = (  # endings of measures of which more is better; losses have the names of what is learnt
    "accuracy", "f1", "mcc", "spearman", "pearson", "ndcg_10", "mrr", "map", "precision_1", "recall_1", "average_precision",
    "exact_match", "exact", "mean_score", "bleu", "auc",
)  # fmt: skip
MOST_LAYERS = 40  # with more, their norms are not drawn


def write_report(model_dir: str, output_file: str | None = None) -> str:
    """Writes the report of one run into its folder, or of several, in one page, to `output_file`. Returns its path.

    Raises:
        UsageError: a folder holds no run, or nobody says where a report of several runs should go.
    """
    folders = [folder.strip().rstrip("/") or "/" for folder in model_dir.split(",") if folder.strip()]
    if len(folders) > 1 and not output_file:
        raise UsageError(
            f"--model_dir={model_dir}: several runs. Say where their report goes: --output_file=report.html."
        )
    path = output_file or os.path.join(folders[0], REPORT)
    runs = read_runs(folders)
    with whole_file(path, "w") as file:
        file.write(as_html(runs))
    return path


def report(options) -> str:
    """Writes the report that the options of `xmodels report` ask for, says where it is, and returns its path."""
    path = write_report(options.model_dir, options.output_file)
    print_status(f"Report: {path}")
    return path


def as_html(runs: Sequence[Run]) -> str:
    """Returns the whole page."""
    names = [run.name for run in runs]
    head = ["", *names] if len(runs) > 1 else []
    sections = [
        ("", page.table(head, _rows([_summary(run) for run in runs]))),
        ("Losses and scores", grid(_scores(runs))),
        ("Rates, norms, speed and memory", grid(_course(runs))),
        ("Linear probes", _probes(runs)),
        ("Predictions", "".join(map(_predictions, runs))),
        ("Errors", "".join(map(_errors, runs))),
        ("Exports", "".join(map(_exports, runs))),
        ("Pictures", "".join(map(_pictures, runs))),
        ("Warnings", "".join(map(_warnings, runs))),
        ("Configuration", _comparison_table(head, [settings(run) for run in runs])),
        ("Environment", _comparison_table(head, [flatten(run.environment) for run in runs])),
    ]
    body = "".join(f"<h2>{title}</h2>{part}" if title else part for title, part in sections if part)
    written = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    return page.document(" and ".join(names), f"{body}<p><small>Written {written} by xmodels report.</small></p>")


def _probes(runs: Sequence[Run]) -> str:
    found = [(run, probe.charts(run.folder)) for run in runs]
    return "".join(
        f"<h3>{html.escape(run.name)}</h3>" * (len(runs) > 1) + grid(charts) for run, charts in found if charts
    )


def _comparison_table(head: list[str], columns: Sequence[dict]) -> str:
    """Returns a table; of several runs what differs between them, and the rest folded up."""
    rows = _rows(columns)
    if len(columns) == 1:
        return page.table(head, rows)
    differing = [row for row in rows if len({str(cell) for cell in row[1:]}) > 1]
    equal = page.table(head, [row for row in rows if row not in differing])
    shown = page.table(head, differing) if differing else "<p>Nothing differs.</p>"
    return f"{shown}<details><summary>what all have in common</summary>{equal}</details>"


def _rows(columns: Sequence[dict]) -> list[list]:
    """Returns rows of a table from one dictionary a run: all names, in the order in which they first occur."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [[name, *(column.get(name) for column in columns)] for name in names]


def _summary(run: Run) -> dict[str, str]:
    job, train, evaluations = run.config.get("job"), run.of_kind("train"), run.of_kind("evaluation")
    found = {
        "job": " ".join(str(p) for p in (job, run.config.get("flags", {}).get("system")) if p),
        "state": state(run),
    }
    if train:
        last = train[-1]
        found["training loss"] = f"{last.get('loss', float('nan')):.4f} at step {last['step']:,}"
        speeds = [e["real_tokens_per_second"] for e in train if e.get("real_tokens_per_second")]
        use = [e["model_flops_utilisation"] for e in train if e.get("model_flops_utilisation")]
        if speeds:
            share = f"; {statistics.median(use):.0%} of the machine's peak FLOPs" if use else ""
            found["speed (median)"] = f"{short(statistics.median(speeds))} real tokens a second{share}"
        found["time"] = duration(seconds(run.log))
    for name in _distinct(_measures([run], "evaluation"), evaluations):
        values = [(e[name], e["step"]) for e in evaluations if isinstance(e.get(name), int | float)]
        best = (max if name.endswith(HIGHER) else min)(values)
        found[f"{name}, evaluation"] = f"{values[-1][0]:.4f}; best {best[0]:.4f} at step {best[1]:,}"
    for name, value in run.results.get("results", {}).items():
        if name not in _measures([run], "evaluation"):
            found[name] = f"{value:.4f}" if isinstance(value, float) else str(value)
    if run.baselines is not None:
        found |= {
            f"baseline without a network, {name}": f"{share:.4f} right" for name, share in run.baselines.levels.items()
        }
    return found


def _measures(runs: Sequence[Run], *kinds: str) -> list[str]:
    """Returns what was scored: losses before measures, as the log has them."""
    entries = [entry for run in runs for kind in kinds for entry in run.of_kind(kind)[-1:]]
    names = dict.fromkeys(name for entry in entries for name, v in entry.items() if isinstance(v, int | float))
    return [name for name in names if measure_of(name) not in NO_SCORE]  # several streams lead them with their names


def _distinct(names: list[str], entries: list[dict]) -> list[str]:
    """Leaves out what is `loss` under another name: the only loss of a run."""
    return [n for n in names if n == "loss" or any(e.get(n) != e.get("loss") for e in entries)]


def _scores(runs: Sequence[Run]) -> list[Chart]:
    """Returns a chart for each loss and measure, training and evaluation in one."""
    charts = []
    entries = [entry for run in runs for kind in ("train", "evaluation") for entry in run.of_kind(kind)]
    for name in _distinct(_measures(runs, "train", "evaluation"), entries):
        curves = []
        for run in runs:
            lead = f"{run.name}, " if len(runs) > 1 else ""
            held_out = COLOURS[1] if len(runs) == 1 else run.colour
            curves += [
                run.curve("train", name, f"{lead}training"),
                run.curve("evaluation", name, f"{lead}evaluation", held_out),
            ]
        lines = runs[0].baselines
        levels = lines.levels if lines and measure_of(name) == lines.measure else {}
        charts.append(Chart(name, [c for c in curves if c], levels))
    return charts


def _course(runs: Sequence[Run]) -> list[Chart]:
    """Charts of the rates, and of the norms of layers, where they were logged."""
    charts = []
    for name, title in COURSE.items():
        curves = [c for run in runs if (c := run.curve("train", name, run.name if len(runs) > 1 else ""))]
        if name == "tokens_per_second" and len(runs) == 1 and curves:
            curves = [dataclasses.replace(curves[0], label="with padding")]
            curves += [c for c in [runs[0].curve("train", "real_tokens_per_second", "real", COLOURS[1])] if c]
        if curves and not (name == "skipped" and not any(any(c.values) for c in curves)):
            charts.append(Chart(title, curves, logarithmic=name == "gradient_norm", from_zero=name in FROM_ZERO))
    charts += [chart for run in runs for chart in _groups(run, len(runs) > 1)]
    return charts + [chart for run in runs for chart in _norms(run, len(runs) > 1)]


def _groups(run: Run, several: bool) -> list[Chart]:
    """Charts of what groups of weights do that learn apart, and of weights of losses that change."""
    names, charts = [name for entry in run.of_kind("train")[-1:] for name in entry], []
    for ending, title in GROUPED.items():
        found = [name for name in names if name.endswith(f"/{ending}")]
        curves = [
            run.curve("train", name, name.removesuffix(f"/{ending}"), COLOURS[i % len(COLOURS)])
            for i, name in enumerate(found)
        ]
        if curves:
            title += f", {run.name}" if several else ""
            charts.append(Chart(title, [c for c in curves if c], logarithmic=ending == "gradient_norm"))
    return charts


def _norms(run: Run, several: bool) -> list[Chart]:
    names = [name for entry in run.of_kind("norms")[-1:] for name in entry if "_norm/" in name]
    charts = []
    for kind in ("gradient_norm", "weight_norm", "update_norm"):
        layers = [name for name in names if name.startswith(f"{kind}/")][:MOST_LAYERS]
        curves = [
            run.curve("norms", name, name.partition("/")[2], COLOURS[i % len(COLOURS)]) for i, name in enumerate(layers)
        ]
        if curves:
            title = f"{kind.replace('_', ' ')} of each layer" + (f", {run.name}" if several else "")
            charts.append(Chart(title, [c for c in curves if c], logarithmic=kind == "gradient_norm"))
    return charts


def _pictures(run: Run) -> str:
    """Returns what the task has drawn of the answers of the weights that are handed over."""
    folder = os.path.join(run.folder, PICTURES)
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    found = "".join(page.picture(path) for path in paths if path.endswith(".png"))
    return f"<h3>{html.escape(run.name)}</h3>{found}" if found else ""


def _errors(run: Run) -> str:
    """Returns where the network that is handed over is wrong."""
    found = errors.section(run.folder)
    return f"<h3>{html.escape(run.name)}</h3>{found}" if found else ""


def _exports(run: Run) -> str:
    """Returns what exports of the run answer beside its network."""
    found = exports.section(run.folder)
    return f"<h3>{html.escape(run.name)}</h3>{found}" if found else ""


def _warnings(run: Run) -> str:
    """Returns the last warnings of a run, and which records it left out."""
    found = [(e["step"], e.get("text")) for e in run.of_kind("warning")][-MOST_WARNINGS:]
    found += [(e["step"], f"left out: {', '.join(map(str, e.get('shards', [])))}") for e in run.of_kind("lost")]
    return page.table(["step", run.name], found) if found else ""


def _predictions(run: Run) -> str:
    """Returns what the network predicted at the last evaluation, and, folded up, at the first."""
    found = run.of_kind("samples")
    if not found:
        return ""
    first, last = found[0], found[-1]
    text = f"<h3>{html.escape(run.name)}, step {last['step']:,}</h3>{examples.as_html(last['examples'])}"
    if first["step"] != last["step"]:
        text += f"<details><summary>the same at step {first['step']:,}</summary>{examples.as_html(first['examples'])}</details>"
    return text
