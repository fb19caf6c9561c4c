"""The page of the reproduction of the Transformer: scores of its translations, what the paper says, curves."""

import collections
import gzip
import json
import math
import os
import statistics

from benchmarks.measure import table
from benchmarks.reproductions import commands, pages, translation_runs
from data_pipelines.batches.dataset import Batches
from data_pipelines.files import whole_file
from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.records.source import RecordSource
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.runs import loaded as loading

NAME = "transformer_multi30k"
AVERAGED = 5
PENALTIES = (0.6, 1.0, 1.4, 1.8, 2.4)  # of the length, chosen on validation sentences; the paper's is the first
PAPERS, BEST, AS_LONG = f"beam, {PENALTIES[0]}", "beam, best BLEU", "beam, as long as references"  # how it is chosen


def score(run: str, flags) -> dict[tuple[str, str], dict]:
    """(weights, search) -> scores of a run on the test set, the length penalty, and held-out nats."""
    folder = flags.work_dir
    averaged = f"{folder}/averaged_{os.path.basename(run)}"
    if not os.path.exists(averaged):
        commands.run("average_checkpoints", model_dir=run, last=AVERAGED, output_dir=averaged)
    valid = first_rows(flags.valid, flags.validation_rows, folder)
    found = {}
    for weights, model in (("last", run), (f"mean of {AVERAGED}", averaged)):
        nats = held_out_nats(model, f"{folder}/valid")
        found[weights, "greedy"] = {**scores(folder, model, "greedy", flags.test), "nats": nats}
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
            beam = scores(folder, model, f"beam_{penalty}", flags.test, num_beams=4, length_penalty=penalty)
            found[weights, name] = {**beam, "nats": nats, "penalty": penalty}
    return found


def first_rows(pair: str, number: int, folder: str) -> str:
    """Files of the first sentences of a pair of files."""
    written = []
    for path in pair.split(","):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(number), strict=False)]
        written.append(f"{folder}/first_{number}.{os.path.basename(path).removesuffix('.gz').rsplit('.', 1)[-1]}")
        with whole_file(written[-1], "w") as file:  # several processes may write it
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


def nats_by_frequency(model: str, flags) -> float:
    """Held-out nats of a token of the targets where its frequency among those of training, plus one, is all that is known."""
    vocabulary, counted, held_out = (
        loading.load(model).tokenizer.vocabulary,
        collections.Counter(),
        collections.Counter(),
    )
    for part, counts in (("train", counted), ("valid", held_out)):
        for batch in targets_of(f"{flags.work_dir}/{part}", vocabulary):
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


def entries(run: str, kind: str) -> list[dict]:
    with open(f"{run}/log.jsonl", encoding="utf-8") as file:
        return [entry for entry in map(json.loads, file) if entry["kind"] == kind]


def claims_of(runs: list[dict]) -> dict[str, bool]:
    """What the paper says, and whether it came out on average."""
    scores = {key: {name: mean_of(runs, key, name) for name in ("bleu", "nats")} for key in runs[0]}
    last, mean = "last", f"mean of {AVERAGED}"
    return {
        "beam search (4) scores higher than greedy decoding": scores[last, BEST]["bleu"] > scores[last, "greedy"]["bleu"],
        f"the mean of {AVERAGED} states names held-out targets at least as well as the last state, by nats": (
            scores[mean, "greedy"]["nats"] <= scores[last, "greedy"]["nats"]
        ),
        f"the mean of {AVERAGED} states translates at least as well, each with its own length penalty": (
            scores[mean, BEST]["bleu"] >= scores[last, BEST]["bleu"]
        ),
        "and at equal length: each with the penalty that makes translations as long as references": (
            scores[mean, AS_LONG]["bleu"] >= scores[last, AS_LONG]["bleu"]
        ),
    }  # fmt: skip


def mean_of(mains: list[dict], key: tuple[str, str], name: str) -> float:
    return statistics.mean(each[key][name] for each in mains)


def draw(run: str, figure) -> None:
    """Loss and held-out nats of a run."""
    axes = figure.subplots()
    for kind, label in (("train", "training"), ("evaluation", "held out")):
        points = entries(run, kind)
        numbers = [p["negative_log_likelihood"] for p in points]
        style = "o-" if kind == "evaluation" else "-"
        axes.plot([p["step"] for p in points], numbers, style, label=label, linewidth=1)
    axes.set(xlabel="step", ylabel="nats a token", title="2 + 2 layers")
    axes.legend(frameon=False)


def write(run: str, scores_of_runs: list[dict], flags, introduction: str) -> None:
    """Writes the page and the picture."""

    def over_seeds(key: tuple[str, str], name: str, form: str) -> str:
        return pages.mean_and_deviation([each[key][name] for each in scores_of_runs], form)

    first = scores_of_runs[0]
    rows = [
        [
            *key, ", ".join(f"{each[key]['penalty']:g}" for each in scores_of_runs) if "penalty" in first[key] else "",
            over_seeds(key, "bleu", ".2f"), over_seeds(key, "chrf", ".2f"), over_seeds(key, "length_ratio", ".3f"),
            over_seeds(key, "nats", ".3f"),
        ]
        for key in first
    ]  # fmt: skip
    count = next(iter(first.values()))
    parts = [
        introduction,
        pages.verdict(claims_of(scores_of_runs)),
        "## Translations",
        table(["weights", "search", "length penalty", "BLEU", "chrF2", "length", "held-out nats a token"], rows),
        f"{count['num_translations']:,} test sentences; length: of the references. The penalty is one of "
        f"{', '.join(map(str, PENALTIES))}, chosen on the first {flags.validation_rows} validation sentences: by BLEU, or by a "
        f"length as near as it gets to the references'. Signatures: `{count['bleu_signature']}`, `{count['chrf_signature']}`.",
        f"![Curves]({NAME}.png)",
        f"## How\n\n{pages.environment(translation_runs.command(NAME), flags.seeds)}",
    ]  # fmt: skip
    pages.write_page(NAME, "The Transformer on Multi30k", parts, flags.output_dir)
    pages.write_picture(NAME, lambda figure: draw(run, figure), 5.0, 3.4, folder=flags.output_dir)
