"""The page of the reproduction of the Transformer: scores of its runs, what the papers say, curves."""

import collections
import gzip
import json
import math
import os
import statistics

from benchmarks.measure import table
from benchmarks.reproductions import commands, pages
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.records.source import RecordSource
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.runs import loaded as loading

AVERAGED = 5
PENALTIES = (0.6, 1.0, 1.4, 1.8, 2.4)  # of the length, chosen on validation sentences; the paper's is the first
PAPERS, BEST, AS_LONG = f"beam, {PENALTIES[0]}", "beam, best BLEU", "beam, as long as references"  # how it is chosen


PEER = """PyTorch's rows are its `nn.Transformer` (`norm_first`) on the batches of the first seed, at the same rates."""


def score_main(run: str, args, folder: str) -> dict[tuple[str, str], dict]:
    """(weights, search) -> scores of a run on the test set, the length penalty, and held-out nats."""
    averaged = f"{folder}/averaged_{os.path.basename(run)}"
    if not os.path.exists(averaged):
        commands.run("average_checkpoints", model_dir=run, last=AVERAGED, output_dir=averaged)
    valid = first_rows(args.valid, args.validation_rows, folder)
    found = {}
    for weights, model in (("last", run), (f"mean of {AVERAGED}", averaged)):
        nats = held_out_nats(model, f"{folder}/valid")
        found[weights, "greedy"] = {**scores(folder, model, "greedy", args.test), "nats": nats}
        tried = {
            penalty: scores(folder, model, f"beam_{penalty}_valid", valid, num_beams=4, length_penalty=penalty)
            for penalty in PENALTIES
        }
        chosen = {
            PAPERS: PENALTIES[0],
            BEST: max(tried, key=lambda each, tried=tried: tried[each]["bleu"]),
            AS_LONG: min(tried, key=lambda each, tried=tried: abs(tried[each]["length_ratio"] - 1)),
        }
        for name, penalty in chosen.items():
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
        commands.run(
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


def targets_of(records: str, vocabulary) -> Batches:
    """Batches of all pairs, once."""
    source = RecordSource(records)
    return Batches(source, frame_parallel(vocabulary, source.manifest.settings.max_sequence_length), 64).once()


def nats_by_frequency(model: str, folder: str) -> float:
    """Held-out nats of a token of the targets where its frequency among those of training, plus one, is all that is known."""
    vocabulary, counted, held_out = (
        loading.load(model).tokenizer.vocabulary,
        collections.Counter(),
        collections.Counter(),
    )
    for part, counts in (("train", counted), ("valid", held_out)):
        for batch in targets_of(f"{folder}/{part}", vocabulary):
            counts.update(batch["labels"].numpy()[batch["label_weights"].numpy() > 0].tolist())
    known = counted.total() + len(vocabulary)
    return sum(n * math.log(known / (counted[token] + 1)) for token, n in held_out.items()) / held_out.total()


def held_out_nats(model: str, records: str) -> float:
    """The negative log-likelihood of a token of the targets."""
    loaded = loading.load(model)
    objective, total, weight = loaded.objective(), 0.0, 0.0
    for batch in targets_of(records, loaded.tokenizer.vocabulary):
        logits = objective.logits(loaded.backbone(batch)["sequence_output"], loaded.backbone)
        of_batch = weighted_cross_entropy(batch["labels"], logits, batch["label_weights"])
        total, weight = total + float(of_batch[0]), weight + float(of_batch[1])
    return total / weight


def nats_of(run: str) -> float:
    """Held-out nats of a deep run."""
    return commands.results_of(run)["negative_log_likelihood"]


def best_rates(runs: dict[str, dict[float, list[str]]]) -> dict[str, tuple[list[float], float, str]]:
    """Row -> (held-out nats by seed, rate, run folder of the first seed) of the better rate."""
    found = {}
    for name, tried in runs.items():
        rate = min(tried, key=lambda each, tried=tried: nats_of(tried[each][0]))
        found[name] = [nats_of(run) for run in tried[rate]], rate, tried[rate][0]
    return found


def entries(run: str, kind: str) -> list[dict]:
    with open(f"{run}/log.jsonl", encoding="utf-8") as file:
        return [entry for entry in map(json.loads, file) if entry["kind"] == kind]


def claims_of(mains: list[dict], deep: dict) -> dict[str, bool]:
    """What the papers say, and whether it came out on average. The margins were set before any score was seen."""
    nats = {name: statistics.mean(values[0]) for name, values in deep.items()}
    main = {key: {name: mean_of(mains, key, name) for name in ("bleu", "nats")} for key in mains[0]}
    last, mean = "last", f"mean of {AVERAGED}"
    return {
        "beam search (4) scores higher than greedy decoding": main[last, BEST]["bleu"] > main[last, "greedy"]["bleu"],
        f"the mean of {AVERAGED} states names held-out targets at least as well as the last state, by nats": (
            main[mean, "greedy"]["nats"] <= main[last, "greedy"]["nats"]
        ),
        f"the mean of {AVERAGED} states translates at least as well, each with its own length penalty": (
            main[mean, BEST]["bleu"] >= main[last, BEST]["bleu"]
        ),
        "and at equal length: each with the penalty that makes translations as long as references": (
            main[mean, AS_LONG]["bleu"] >= main[last, AS_LONG]["bleu"]
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


def mean_of(mains: list[dict], key: tuple[str, str], name: str) -> float:
    return statistics.mean(each[key][name] for each in mains)


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


def write(main_run: str, mains: list[dict], runs: dict, peers: dict, args, introduction: str) -> None:
    """Writes the page and the picture."""
    deep = best_rates(runs)

    def over_seeds(key: tuple[str, str], name: str, form: str) -> str:
        return pages.mean_and_deviation([each[key][name] for each in mains], form)

    rows = [
        [
            *key, ", ".join(f"{each[key]['penalty']:g}" for each in mains) if "penalty" in mains[0][key] else "",
            over_seeds(key, "bleu", ".2f"), over_seeds(key, "chrf", ".2f"), over_seeds(key, "length_ratio", ".3f"),
            over_seeds(key, "nats", ".3f"),
        ]
        for key in mains[0]
    ]  # fmt: skip
    scored = table(["weights", "search", "length penalty", "BLEU", "chrF2", "length", "held-out nats a token"], rows)
    rates = sorted({rate for tried in runs.values() for rate in tried})
    columns = ["6 + 6 layers", *(f"rate {rate:g}" for rate in rates)]
    rows = [
        [name, *(pages.mean_and_deviation([nats_of(run) for run in tried.get(rate, ())], ".3f") for rate in rates)]
        for name, tried in runs.items()
    ]
    rows += [
        [f"{name}, PyTorch's, one seed", *(f"{tried[rate]:.3f}" if rate in tried else "" for rate in rates)]
        for name, tried in peers.items()
    ]
    count = next(iter(mains[0].values()))
    command = "python -m benchmarks.reproductions.transformer_multi30k --train=… --valid=… --test=… --work_dir=work"
    parts = [
        introduction,
        pages.verdict(claims_of(mains, deep)),
        f"## Translations\n\n{scored}",
        f"{count['num_translations']:,} test sentences; length: of the references. The penalty is one of "
        f"{', '.join(map(str, PENALTIES))}, chosen on the first {args.validation_rows} validation sentences: by BLEU, or by a "
        f"length as near as it gets to the references'. Signatures: `{count['bleu_signature']}`, `{count['chrf_signature']}`.",
        f"## Norms, warm-up, positions: held-out nats a token\n\n{table(columns, rows)}",
        *([PEER] if peers else []),
        "![Curves](transformer_multi30k.png)",
        f"## How\n\n{pages.environment(command, args.seeds)}",
    ]  # fmt: skip
    pages.write_page("transformer_multi30k", "The Transformer on Multi30k", parts, args.output_dir)
    pages.write_picture(
        "transformer_multi30k", lambda figure: draw(main_run, deep, figure), 8.0, 3.4, folder=args.output_dir
    )
