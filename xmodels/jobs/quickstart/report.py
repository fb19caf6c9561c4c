"""The report of a quickstart: one HTML file with numbers, loss curves and an attention map."""

import html
import json
import os
import statistics

import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.files import whole_file
from data_pipelines.finetuning import linear
from data_pipelines.text.framing import pack
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels.models.folder import read_model
from xmodels.runs import page
from xmodels.runs.baselines import Baselines
from xmodels.runs.charts import COLOURS, Chart, Curve, draw, grid
from xmodels.training.watching.progress import measure_of, read_log


def write_report(
    folder: str,
    asked: list[tuple[str, tuple[str, str]]],
    tests: dict[str, list[float]],
    language: str,
    commands: list[str],
) -> dict[str, str]:
    """Writes report.html (and curves.png) into the folder of a quickstart.

    Args:
        asked: the texts that the SavedModel was asked, with a label and its probability for each.
        tests: where fine-tuning began ("pretrained", "random", and where there is one, "published") -> the accuracy of each seed on
            the test file.
        commands: the commands that were run, in order.

    Returns:
        What was learnt, as named sentences.
    """
    entries = read_log(os.path.join(folder, "pretrained", "log.jsonl"))
    train = [e for e in entries if e["kind"] == "train"]
    evaluations = [e for e in entries if e["kind"] == "evaluation"]
    baselines = Baselines.read(os.path.join(folder, "pretrained"))
    scores = _json(os.path.join(folder, "classifier-scores.json"))
    train_rows, test_rows = (
        read_table(os.path.join(folder, f"text/{name}.tsv"), Columns()) for name in ("train", "test")
    )
    means = {arm: statistics.mean(values) for arm, values in tests.items()}
    commonest = linear.majority(*([row.label for row in rows] for rows in (train_rows, test_rows)))
    words = linear.bag_of_words(train_rows, test_rows).accuracy
    masked = _json(os.path.join(folder, "pretrained", "config.json"))["settings"]["masking_rate"]
    charts = curves(train, evaluations, baselines, f"training, {masked:.0%} masked")
    with whole_file(os.path.join(folder, "curves.png")) as file:
        draw(charts, titles=True).savefig(file, dpi=110, format="png")
    last, visible = evaluations[-1], baselines.visible_baseline
    facts = {
        "Masked LM on held-out text": f"{last['masked_lm_accuracy']:.1%} right; always predicting the most frequent token: "
        f"{baselines.unigram_baseline:.1%}; by counts of the true neighbouring tokens: {baselines.neighbour_baseline:.1%}"
        + (f", by counts of those neighbours that the network sees: {visible:.1%}" if visible is not None else ""),
        "Classifier, pretrained": f"{spread(tests['pretrained'])} right on held-out text",
        "Classifier, random start": f"{spread(tests['random'])} right, with its learning rate chosen in the same way",
        "Without a network": f"a bag of words {words:.1%} right, always predicting the most frequent label {commonest:.1%}",
        "Gain of pretraining": f"{(means['pretrained'] - means['random']) * 100:+.1f} points over a random start, "
        f"{(means['pretrained'] - words) * 100:+.1f} over the bag of words",
    }
    if "published" in tests:
        facts["Classifier, from the published network"] = (
            f"{spread(tests['published'])} right; {(means['published'] - means['pretrained']) * 100:+.1f} points over our own small "
            f"network, {(means['published'] - words) * 100:+.1f} over the bag of words"
        )
    if "next_sentence_accuracy" in last:
        facts["Next sentence on held-out text"] = f"{last['next_sentence_accuracy']:.1%} right"
    rows = [[text, label, f"{float(p):.2f}"] for text, (label, p) in asked]
    body = (
        f"<h2>Results</h2>{page.facts(facts)}<h2>Pretraining</h2>{grid(charts)}"
        f"<p>The run was killed once with SIGKILL and resumed by the same command; the curves continue without "
        f"a break. For details, see <code>pretrained/report.html</code>.</p>"
        f"<h2>Predictions of the SavedModel</h2>{page.table(['text', 'label', 'probability'], rows)}"
        f"<h2>Confusion matrix of the classifier</h2>{confusions(scores)}"
        f"<h2>Attention of the pretrained network</h2>{attention(folder, asked[0][0])}"
        f"<h2>Commands</h2><pre>{html.escape(chr(10).join(commands))}</pre>"
        f"<h2>Versions and devices</h2>{page.facts(versions(_json(os.path.join(folder, 'pretrained', 'environment.json'))))}"
    )
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.write(page.document(f"xmodels quickstart ({language})", body, language))
    return facts


def spread(values: list[float]) -> str:
    """Returns `58.9 % ± 1.2`: mean and sample standard deviation over seeds."""
    return f"{100 * statistics.mean(values):.1f} % ± {100 * statistics.stdev(values):.1f} ({len(values)} seeds)"


def _json(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def confusions(scores: dict) -> str:
    """Returns an HTML table of held-out rows: one row a true label, one column an answered one, and the F1 of each label."""
    labels, matrix = list(scores["f1"]), scores["confusion"]
    head = "".join(f"<th>{html.escape(label)}</th>" for label in labels)
    body = ""
    for label, counts in zip(labels, matrix, strict=True):
        share = [count / max(1, sum(counts)) for count in counts]
        cells = "".join(
            f"<td style='background:rgba(20,80,200,{s / 2:.2f})'>{n}</td>" for n, s in zip(counts, share, strict=True)
        )
        body += f"<tr><th>{html.escape(label)}</th>{cells}<td>{scores['f1'][label]:.3f}</td></tr>"
    return (
        f"<p>Rows are the true labels of held-out texts, columns the predicted ones; the last column is F1.</p>"
        f"<table><tr><th></th>{head}<th>F1</th></tr>{body}</table>"
    )


def versions(environment: dict) -> dict[str, str]:
    """Returns what is in the environment.json of a run, without packages that were not there."""
    facts = {name: environment[name] for name in ("python", "platform", "processors")}
    facts["devices"] = ", ".join(environment["devices"])
    return facts | {name: version for name, version in environment["packages"].items() if version}


def curves(train, evaluations, baselines: Baselines, training: str) -> list[Chart]:
    """Loss and accuracy over the steps; rows of all lengths in one line. `training` is the name of its line."""
    charts = []
    for name, title in (("masked_lm", "masked LM loss, nats"), ("masked_lm_accuracy", "masked LM accuracy")):
        lines = [
            Curve(label, *_points(entries, name), colour, dots=label == "held-out")
            for label, entries, colour in ((training, train, COLOURS[0]), ("held-out", evaluations, COLOURS[1]))
        ]
        charts.append(Chart(title, lines, baselines.levels if name == baselines.measure else {}))
    return charts


def _points(entries: list[dict], name: str) -> tuple[list[int], list[float]]:
    """Returns steps and values of a measure, which every length has under a name of its own."""
    found = [(e["step"], value) for e in entries for key, value in e.items() if measure_of(key) == name]
    return [step for step, _ in found], [value for _, value in found]


def attention(folder: str, text: str) -> str:
    """Returns an HTML table: which token looks at which, in the head of the last layer that is most selective."""
    path = os.path.join(folder, "pretrained", "backbone")
    backbone, _ = read_model(path)
    vocabulary = Vocabulary.read(os.path.join(path, "vocab.txt"))
    ids, segments = pack(WordPieceTokenizer(vocabulary).encode(text).ids, None, vocabulary, 32)
    features = {
        "token_ids": np.array([ids], np.int32),
        "segment_ids": np.array([segments], np.int32),
        "padding_mask": np.ones((1, len(ids)), bool),
    }
    maps = np.array(backbone.attention_maps(features)[-1])[0]  # (H, L, L)
    entropy = -(maps * np.log(maps + 1e-9)).sum(-1).mean(-1)
    head = int(entropy.argmin())
    tokens = [html.escape(vocabulary.tokens[i]) for i in ids]
    body = "".join(
        f"<tr><th>{token}</th>"
        + "".join(f"<td style='background:rgba(20,80,200,{p:.2f})' title='{p:.3f}'></td>" for p in row)
        + "</tr>"
        for token, row in zip(tokens, maps[head], strict=True)
    )
    top = "".join(f"<th>{token}</th>" for token in tokens)
    return (
        f"<p>Last layer, head {head + 1} of {len(maps)}. Each row is a token; the darker a cell, the more the row's "
        f"token attends to the column's.</p><table class=map><thead><tr><th></th>{top}</tr></thead>{body}</table>"
    )
