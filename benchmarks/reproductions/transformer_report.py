"""The page of the reproduction of the Transformer: scores of its runs, what the papers say, curves."""

import gzip
import json
import os

from benchmarks.reproductions import common
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.records.source import RecordSource
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.runs import loaded as loading

AVERAGED = 5
PENALTIES = (0.6, 1.0, 1.4, 1.8)  # of the length, chosen on validation sentences; the paper's is the first


def score_main(run: str, args, folder: str) -> dict[tuple[str, str], dict]:
    """(weights, search) -> scores on the test set, the length penalty, and held-out nats."""
    averaged = f"{folder}/averaged"
    if not os.path.exists(averaged):
        common.run("average_checkpoints", model_dir=run, last=AVERAGED, output_dir=averaged)
    valid = first_rows(args.valid, args.validation_rows, folder)
    found = {}
    for weights, model in (("last", run), (f"mean of {AVERAGED}", averaged)):
        nats = held_out_nats(model, f"{folder}/valid")
        found[weights, "greedy"] = {**scores(folder, model, "greedy", args.test), "nats": nats}
        tried = {
            penalty: scores(folder, model, f"beam_{penalty}_valid", valid, num_beams=4, length_penalty=penalty)["bleu"]
            for penalty in PENALTIES
        }
        for name, penalty in (("beam, 0.6", PENALTIES[0]), ("beam, penalty chosen", max(tried, key=tried.get))):
            beam = scores(folder, model, f"beam_{penalty}", args.test, num_beams=4, length_penalty=penalty)
            found[weights, name] = {**beam, "nats": nats, "penalty": penalty}
    return found


def first_rows(pair: str, number: int, folder: str) -> str:
    """Files of the first sentences of a pair of files."""
    written = []
    for path in pair.split(","):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(number), strict=False)]
        written.append(f"{folder}/first_{number}.{os.path.basename(path).removesuffix('.gz').rsplit('.', 1)[-1]}")
        with open(written[-1], "w", encoding="utf-8") as file:
            file.writelines(lines)
    return ",".join(written)


def scores(folder: str, model: str, name: str, pair: str, **flags) -> dict:
    """What `evaluate` says of translations, kept in the work folder."""
    path, (source, target) = f"{folder}/scores_{os.path.basename(model)}_{name}.json", pair.split(",")
    if not os.path.exists(path):
        common.run(
            "evaluate",
            task="translate",
            model_dir=model,
            test_file=source,
            target_file=target,
            output_file=path,
            **flags,
        )
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def held_out_nats(model: str, records: str) -> float:
    """The negative log-likelihood of a token of the targets."""
    loaded, source = loading.load(model), RecordSource(records)
    objective, total, weight = loaded.objective(), 0.0, 0.0
    frame = frame_parallel(loaded.tokenizer.vocabulary, source.manifest.settings.max_sequence_length)
    for batch in Batches(source, frame, 64).once():
        logits = objective.logits(loaded.backbone(batch)["sequence_output"], loaded.backbone)
        of_batch = weighted_cross_entropy(batch["labels"], logits, batch["label_weights"])
        total, weight = total + float(of_batch[0]), weight + float(of_batch[1])
    return total / weight


def best_rates(runs: dict[tuple[str, float], str]) -> dict[str, tuple[float, float, str]]:
    """row -> (held-out nats, rate, run folder) of the better rate."""
    found: dict[str, tuple[float, float, str]] = {}
    for (name, rate), run in runs.items():
        each = common.results_of(run)["negative_log_likelihood"], rate, run
        found[name] = min(found.get(name, each), each)
    return found


def entries(run: str, kind: str) -> list[dict]:
    with open(f"{run}/log.jsonl", encoding="utf-8") as file:
        return [entry for entry in map(json.loads, file) if entry["kind"] == kind]


def claims_of(main: dict, deep: dict) -> dict[str, bool]:
    """What the papers say, and whether it came out. The margins were set before any score was seen."""
    nats = {name: values[0] for name, values in deep.items()}
    last, mean, chosen = "last", f"mean of {AVERAGED}", "beam, penalty chosen"
    return {
        "beam search (4) scores higher than greedy decoding": main[last, chosen]["bleu"] > main[last, "greedy"]["bleu"],
        f"the mean of {AVERAGED} states names held-out targets at least as well as the last state, by nats": (
            main[mean, "greedy"]["nats"] <= main[last, "greedy"]["nats"]
        ),
        f"the mean of {AVERAGED} states translates at least as well, each with its own length penalty": (
            main[mean, chosen]["bleu"] >= main[last, chosen]["bleu"]
        ),
        "learned positions do as well as sinusoids, within 0.1 nats a token": (
            abs(nats["pre-norm, no warm-up, learned positions"] - nats["pre-norm, no warm-up"]) < 0.1
        ),
        "without warm-up post-norm is worse than with it, by more than 0.1 nats": (
            nats["post-norm, no warm-up"] - nats["post-norm, warm-up"] > 0.1
        ),
        "without warm-up pre-norm is no worse than with it, within 0.1 nats": (
            nats["pre-norm, no warm-up"] - nats["pre-norm, warm-up"] < 0.1
        ),
        "without warm-up pre-norm is better than post-norm": nats["pre-norm, no warm-up"] < nats["post-norm, no warm-up"],
    }  # fmt: skip


def draw(main: str, deep: dict[str, tuple], figure) -> None:
    """Training loss of the deep rows; loss and held-out nats of the main run."""
    left, right = figure.subplots(1, 2)
    for name, (_, rate, run) in deep.items():
        points = entries(run, "train")
        left.plot([p["step"] for p in points], [p["loss"] for p in points], label=f"{name} ({rate:g})", linewidth=1)
    left.set(xlabel="step", ylabel="training loss (smoothed labels)", title="6 + 6 layers")
    left.legend(fontsize=6, frameon=False)
    for kind, label in (("train", "training"), ("evaluation", "held out")):
        points = entries(main, kind)
        numbers = [p["negative_log_likelihood"] for p in points]
        style = "o-" if kind == "evaluation" else "-"
        right.plot([p["step"] for p in points], numbers, style, label=label, linewidth=1)
    right.set(xlabel="step", ylabel="nats a token", title="main run, 2 + 2 layers")
    right.legend(frameon=False)


def write(main_run: str, main: dict, runs: dict, args, introduction: str) -> None:
    """Writes the page and the picture."""
    deep = best_rates(runs)
    rows = [
        [weights, search, f"{s['penalty']:g}" if "penalty" in s else "", f"{s['bleu']:.2f}", f"{s['chrf']:.2f}",
         f"{s['length_ratio']:.3f}", f"{s['nats']:.3f}"]
        for (weights, search), s in main.items()
    ]  # fmt: skip
    scored = common.table(
        ["weights", "search", "length penalty", "BLEU", "chrF2", "length", "held-out nats a token"], rows
    )
    columns = ["6 + 6 layers", *(f"rate {rate:g}" for rate in sorted({rate for _, rate in runs}))]
    rows = [
        [
            name,
            *(
                f"{common.results_of(runs[name, rate])['negative_log_likelihood']:.3f}"
                for rate in sorted({r for _, r in runs})
            ),
        ]
        for name in deep
    ]
    count = next(iter(main.values()))
    command = "python -m benchmarks.reproductions.transformer_multi30k --train=… --valid=… --test=… --work_dir=work"
    parts = [
        introduction,
        common.verdict(claims_of(main, deep)),
        f"## Translations\n\n{scored}",
        f"{count['num_translations']:,} test sentences; the penalty is the best one of {', '.join(map(str, PENALTIES))} on the first "
        f"{args.validation_rows} validation sentences. Signatures: `{count['bleu_signature']}`, `{count['chrf_signature']}`.",
        f"## Norms, warm-up, positions: held-out nats a token\n\n{common.table(columns, rows)}",
        "![Curves](transformer_multi30k.png)",
        f"## How\n\n{common.environment(command, [args.seed])}",
    ]  # fmt: skip
    common.write_page("transformer_multi30k", "The Transformer on Multi30k", parts, args.output_dir)
    common.write_picture(
        "transformer_multi30k", lambda figure: draw(main_run, deep, figure), 8.0, 3.4, folder=args.output_dir
    )
