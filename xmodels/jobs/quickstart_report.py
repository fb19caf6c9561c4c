"""The report of a quickstart: one HTML file with numbers, loss curves and an attention map."""

import base64
import html
import io
import json
import os

import numpy as np

from data_pipelines.text.framing import pack
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels.models.folder import read_model
from xmodels.training.progress import read_log

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:left;border-bottom:1px solid #ddd}"
    "table.map td,table.map th{border:0;padding:0;font-size:12px}table.map td{width:1.7em;height:1.7em}"
    "table.map th{padding:0 .4em;font-weight:normal}table.map thead th{writing-mode:vertical-rl}"
    "pre{white-space:pre-wrap;background:#f4f4f4;padding:.7em;font-size:13px}"
    "img{max-width:100%}code{background:#f4f4f4;padding:.1em .3em}"
)


def write_report(folder: str, questions, answers, language: str, commands: list[str]) -> dict[str, str]:
    """Writes report.html (and curves.png) into the folder of a quickstart.

    Args:
        questions: the texts that the SavedModel was asked.
        answers: a label and its probability for each.
        commands: the commands that were run, in order.

    Returns:
        What was learnt, as named sentences.
    """
    entries = read_log(os.path.join(folder, "pretrained", "log.jsonl"))
    train = [e for e in entries if e["kind"] == "train"]
    evaluations = [e for e in entries if e["kind"] == "evaluation"]
    baseline = _baseline(os.path.join(folder, "pretrained", "baseline.json"))
    scores = [_json(os.path.join(folder, f"{name}-scores.json")) for name in ("classifier", "classifier-random")]
    picture = curves(train, evaluations, baseline, os.path.join(folder, "curves.png"))
    last = evaluations[-1]
    gain = scores[0]["accuracy"] - scores[1]["accuracy"]
    facts = {
        "Masked LM on held-out text": f"{last['masked_lm_accuracy']:.1%} right; always naming the commonest token: "
        f"{baseline:.1%}",
        "Classifier, pretrained": f"{scores[0]['accuracy']:.1%} right on held-out text (macro F1 {scores[0]['macro_f1']:.3f})",
        "Classifier, random start": f"{scores[1]['accuracy']:.1%} right (macro F1 {scores[1]['macro_f1']:.3f})",
        "Gain of pretraining": f"{gain * 100:+.1f} points of accuracy",
    }
    if "next_sentence_accuracy" in last:
        facts["Next sentence on held-out text"] = f"{last['next_sentence_accuracy']:.1%} right"
    rows = "".join(f"<tr><th>{n}</th><td>{html.escape(v)}</td></tr>" for n, v in facts.items())
    asked = "".join(
        f"<tr><td>{html.escape(q)}</td><td>{html.escape(label)}</td><td>{float(p):.2f}</td></tr>"
        for q, (label, p) in zip(questions, answers, strict=True)
    )
    text = (
        f"<!doctype html><html lang={language}><meta charset=utf-8><title>xmodels quickstart</title><style>{STYLE}</style>"
        f"<h1>xmodels quickstart ({language})</h1><h2>What was learnt</h2><table>{rows}</table>"
        f"<h2>Pretraining</h2><img src='data:image/png;base64,{picture}' alt='loss and accuracy over the steps'>"
        f"<p>The run was killed once with SIGKILL and resumed by the same command; the curves go on as if nothing "
        f"had happened.</p><h2>Answers of the SavedModel</h2><table><tr><th>text</th><th>label</th><th>probability</th>"
        f"</tr>{asked}</table><h2>What the classifier takes for what</h2>{confusions(scores[0])}"
        f"<h2>Where the pretrained network looks</h2>{attention(folder, questions[0])}"
        f"<h2>The commands</h2><pre>{html.escape(chr(10).join(commands))}</pre>"
        f"<h2>Where it ran</h2>{versions(_json(os.path.join(folder, 'pretrained', 'environment.json')))}"
    )
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.write(text + "</html>\n")
    return facts


def _json(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _baseline(path: str) -> float:
    return _json(path)["unigram_baseline"]


def confusions(scores: dict) -> str:
    """An HTML table of held-out rows: one row a true label, one column an answered one, and the F1 of each label."""
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
        f"<p>Rows are the true labels of held-out texts, columns the answers; the last column is F1.</p>"
        f"<table><tr><th></th>{head}<th>F1</th></tr>{body}</table>"
    )


def versions(environment: dict) -> str:
    """An HTML table of what is in the environment.json of a run."""
    facts = {name: environment[name] for name in ("python", "platform", "processors")}
    facts["devices"] = ", ".join(environment["devices"])
    facts |= {name: version for name, version in environment["packages"].items() if version}
    rows = "".join(f"<tr><th>{html.escape(n)}</th><td>{html.escape(str(v))}</td></tr>" for n, v in facts.items())
    return f"<table>{rows}</table>"


def curves(train, evaluations, baseline: float, path: str) -> str:
    """Draws loss and accuracy over the steps into a PNG; returns it in base64."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for axis, name, title in (
        (left, "masked_lm", "masked LM loss, nats"),
        (right, "masked_lm_accuracy", "masked LM accuracy"),
    ):
        axis.plot([e["step"] for e in train], [e[name] for e in train], label="training")
        axis.plot([e["step"] for e in evaluations], [e[name] for e in evaluations], "o-", label="held-out")
        axis.set(title=title, xlabel="step")
    right.axhline(baseline, linestyle="--", color="grey", label="unigram baseline")
    for axis in (left, right):
        axis.legend()
        axis.grid(alpha=0.3)
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    with open(path, "wb") as file:
        file.write(buffer.getvalue())
    return base64.b64encode(buffer.getvalue()).decode()


def attention(folder: str, text: str) -> str:
    """An HTML table: which token looks at which, in the head of the last layer that is most selective."""
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
        f"<p>Last layer, head {head + 1} of {len(maps)}. Each row is a token; the darker a cell, the more the row looks "
        f"at the column.</p><table class=map><thead><tr><th></th>{top}</tr></thead>{body}</table>"
    )
