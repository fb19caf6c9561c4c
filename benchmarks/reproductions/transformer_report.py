"""The page of the reproduction of the Transformer: scores of its runs, what the papers say, curves."""

import json
import os

from benchmarks.reproductions import common

AVERAGED = 5


def evaluate(folder: str, model_dir: str, name: str, args, **flags) -> dict:
    """Scores of a model on the test set, kept in the work folder."""
    path, (source, target) = f"{folder}/scores_{name}.json", args.test.split(",")
    if not os.path.exists(path):
        files = {"test_file": source, "target_file": target, "output_file": path}
        common.run("evaluate", task="translate", model_dir=model_dir, **files, **flags)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def score_all(runs: dict[str, str], args, folder: str) -> tuple[dict, dict]:
    """Of the main run (weights, search) -> scores; of the short ones name -> scores and losses."""
    averaged = f"{folder}/averaged"
    if not os.path.exists(averaged):
        common.run("average_checkpoints", model_dir=runs["main"], last=AVERAGED, output_dir=averaged)
    long = {}
    for weights, model_dir in (("last", runs["main"]), (f"mean of {AVERAGED}", averaged)):
        for search, flags in (("greedy", {}), ("beam", {"num_beams": 4, "length_penalty": 0.6})):
            long[weights, search] = evaluate(
                folder, model_dir, f"{os.path.basename(model_dir)}_{search}", args, **flags
            )
    short = {}
    for name in [name for name in runs if name != "main"]:
        scores = evaluate(folder, runs[name], os.path.basename(runs[name]), args)
        losses = [entry["loss"] for entry in entries(runs[name], "train")]
        negative = common.results_of(runs[name])["negative_log_likelihood"]
        short[name] = {"bleu": scores["bleu"], "loss": sum(losses[-3:]) / len(losses[-3:]), "nll": negative}
    return long, short


def entries(run: str, kind: str) -> list[dict]:
    with open(f"{run}/log.jsonl", encoding="utf-8") as file:
        return [entry for entry in map(json.loads, file) if entry["kind"] == kind]


def claims_of(long: dict, short: dict) -> dict[str, bool]:
    """What the papers say, and whether it came out. The margins were set before any score was seen."""
    nll = {name: values["nll"] for name, values in short.items()}
    last, mean = "last", f"mean of {AVERAGED}"
    return {
        "beam search (4, length penalty 0.6) scores higher than greedy decoding": (
            long[last, "beam"]["bleu"] > long[last, "greedy"]["bleu"]
        ),
        f"the mean of {AVERAGED} states scores at least as high as the last state, with beam search": (
            long[mean, "beam"]["bleu"] >= long[last, "beam"]["bleu"]
        ),
        "learned positions do as well as sinusoids, within 0.1 nats a token": (
            abs(nll["pre-norm, no warm-up, learned positions"] - nll["pre-norm, no warm-up"]) < 0.1
        ),
        "without warm-up post-norm is worse than with it, by more than 0.1 nats": (
            nll["post-norm, no warm-up"] - nll["post-norm, warm-up"] > 0.1
        ),
        "without warm-up pre-norm is no worse than with it, within 0.1 nats": (
            nll["pre-norm, no warm-up"] - nll["pre-norm, warm-up"] < 0.1
        ),
        "without warm-up pre-norm is better than post-norm": nll["pre-norm, no warm-up"] < nll["post-norm, no warm-up"],
    }  # fmt: skip


def draw(runs: dict[str, str], figure) -> None:
    """Training loss of the short runs; loss and held-out perplexity of the main one."""
    left, right = figure.subplots(1, 2)
    for name in [name for name in runs if name != "main"]:
        points = entries(runs[name], "train")
        left.plot([p["step"] for p in points], [p["loss"] for p in points], label=name, linewidth=1)
    left.set(xlabel="step", ylabel="training loss (smoothed labels)", title="6 + 6 layers")
    left.legend(fontsize=6, frameon=False)
    for kind, label in (("train", "training"), ("evaluation", "held out")):
        points = entries(runs["main"], kind)
        numbers = [p["negative_log_likelihood"] for p in points]
        right.plot(
            [p["step"] for p in points], numbers, "o-" if kind == "evaluation" else "-", label=label, linewidth=1
        )
    right.set(xlabel="step", ylabel="nats a token", title="main run, 2 + 2 layers")
    right.legend(frameon=False)


def write(runs: dict[str, str], args, introduction: str) -> None:
    """Scores the runs, main and short, and writes the page and the picture."""
    folder = args.work_dir
    long, short = score_all(runs, args, folder)
    rows = [
        [weights, search, f"{scores['bleu']:.2f}", f"{scores['chrf']:.2f}", f"{scores['length_ratio']:.3f}"]
        for (weights, search), scores in long.items()
    ]  # fmt: skip
    main = common.table(["weights", "search", "BLEU", "chrF2", "length"], rows)
    rows = [[name, f"{v['loss']:.3f}", f"{v['nll']:.3f}", f"{v['bleu']:.2f}"] for name, v in short.items()]
    ablations = common.table(
        ["6 + 6 layers", "training loss, last 60 steps", "held-out nats a token", "BLEU, greedy"], rows
    )
    count = next(iter(long.values()))
    held_out = common.results_of(runs["main"])["negative_log_likelihood"]
    command = "python -m benchmarks.reproductions.transformer_multi30k --train=… --valid=… --test=… --work_dir=work"
    parts = [
        introduction,
        common.verdict(claims_of(long, short)),
        f"## BLEU\n\n{main}",
        f"{count['num_translations']:,} sentences; held out, the main run's last state has {held_out:.3f} nats a token. "
        f"Signatures: `{count['bleu_signature']}`, `{count['chrf_signature']}`.",
        f"## Norms, warm-up, positions\n\n{ablations}",
        "![Curves](transformer_multi30k.png)",
        f"## How\n\n{common.environment(command, [args.seed])}",
    ]  # fmt: skip
    common.write_page("transformer_multi30k", "The Transformer on Multi30k", parts, args.output_dir)
    common.write_picture("transformer_multi30k", lambda figure: draw(runs, figure), 8.0, 3.4, folder=args.output_dir)
