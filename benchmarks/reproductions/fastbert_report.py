"""The page of FastBERT: accuracy against layers and time, claims, picture."""

import os

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page, write_picture
from benchmarks.reproductions.students import ALONE, ANSWERS, LAYERS

BATCHES = (1, 32)  # texts at a time, of which time is measured
ROUNDS = 3  # of the clock; the fastest counts


def rows_of(options, found: dict) -> list[list[str]]:
    from xmodels.tasks.fast_classify.costs import full_flops, layer_flops

    config, length, clock = found["config"], options.max_seq_length, found["times"]
    whole = full_flops(config, length)

    def line(title, accuracies, layers, operations, key):
        cells = [f"{clock[key][str(b)]:.2f} ms, {clock['teacher'][str(b)] / clock[key][str(b)]:.2f}x" for b in BATCHES]
        return [title, mean_and_deviation(accuracies, scale=100), layers, f"{operations:.2f}x", *cells]

    teacher = [float(each.accuracies(found["truth"])[-1]) for each in found["exits"]]
    rows = [line("teacher, all layers", teacher, f"{config.num_layers}", 1.0, "teacher")]
    branch = whole - config.num_layers * layer_flops(config, length)
    for speed, points in found["speeds"].items():
        layers = [layers for layers, _ in points]
        cost = np.mean(layers) * (layer_flops(config, length) + branch)
        accuracies = [accuracy for _, accuracy in points]
        rows.append(
            line(
                f"FastBERT, speed {speed:g}",
                accuracies,
                mean_and_deviation(layers, ".2f"),
                whole / cost,
                f"speed {speed:g}",
            )
        )
    for depth, accuracies in found["plain"].items():
        cost = depth * layer_flops(config, length)
        rows.append(line(f"first {depth} layers alone", accuracies, f"{depth}", whole / cost, f"first {depth}"))
    for name, accuracies in found["students"].items():
        depth = options.student_layers.count(",") + 1
        cost = depth * layer_flops(config, length)
        title = f"layers {options.student_layers}, {name}"
        rows.append(line(title, accuracies, f"{depth}", whole / cost, f"student {name}"))
    return rows


def claims(found: dict) -> dict[str, bool]:
    """What the paper says, as it came out here."""
    teacher = np.mean([each.accuracies(found["truth"])[-1] for each in found["exits"]])
    clock = found["times"]
    quick = [
        speed
        for speed, points in found["speeds"].items()
        if np.mean([a for _, a in points]) >= teacher - 0.01
        and all(clock["teacher"][str(b)] >= 2 * clock[f"speed {speed:g}"][str(b)] for b in BATCHES)
    ]
    depths = sorted(found["plain"])
    curve = np.array([np.mean(points, axis=0) for points in found["curve"]])  # (speeds, 2), layers fall
    middle = [k for k in depths if curve[-1, 0] <= k <= curve[0, 0]]
    beaten = [np.interp(k, curve[::-1, 0], curve[::-1, 1]) >= np.mean(found["plain"][k]) for k in middle]
    return {
        "at some speed it is at least twice as fast by the clock as its teacher, at batches of 1 and 32, for at most a point": bool(
            quick
        ),
        "at equally many layers on average it is as accurate as the first layers alone, or better": bool(beaten)
        and all(beaten),
    }


def claims_of_students(found: dict) -> dict[str, bool]:
    """What is said of students and of 8 bits, as it came out here."""
    means = {name: np.mean(values) for name, values in found["students"].items()}
    depth = max(found["plain"])
    lost = [each["float32"]["score"] - each["int8"]["score"] for each in found["exports"].values()]
    return {
        "a teacher makes the student better, by its answers": means[ANSWERS] > means[ALONE],
        "and by its layers too, more so": means[LAYERS] > means[ANSWERS],
        "the best student is within two points of the network of all layers": max(means.values())
        >= np.mean(found["plain"][depth]) - 0.02,
        "8 bits cost a point at most": max(lost) <= 0.01,
    }


def exports_told(options, found: dict) -> list[str]:
    """What 8 bits cost and save."""
    rows = [
        [f"{name}, {precision}", f"{row['megabytes']:.1f}", *(f"{row[key]:.2f}" for key in ("milliseconds", "batched"))]
        + [f"{100 * row['score']:.1f}", f"{100 * row['same']:.1f}"]
        for name, by_precision in found["exports"].items()
        for precision, row in by_precision.items()
    ]
    return [
        f"Students begin with layers {options.student_layers}; those that are taught learn a fine-tuned network of all layers: its "
        f"answers only, or for {options.student_epochs:g} epochs its embeddings, hidden states and attention, and then its answers.",
        "ONNX files of the first seed (`export_model --format=onnx --precision=…`), from strings to answers: MB of all files, "
        "milliseconds of a text asked alone and in batches of 32, accuracy, share of answers that are those of the network in Keras, "
        "in percent:",
        table(["network", "MB", "ms", "ms, 32 together", "accuracy", "same answers"], rows),
    ]


def peer_told(found: dict) -> list[str]:
    """What depth is worth in a known implementation."""
    rows = [
        [f"{depth}", *(mean_and_deviation(values, scale=100) for values in (found["plain"][depth], accuracies))]
        for depth, accuracies in found["peer"].items()
    ]
    return [
        "The first layers alone, and in Hugging Face's BERT (`benchmarks/reproductions/peer_bert.py`), which begins with the same "
        "weights and reads the same rows as often, by PyTorch's Muon and AdamW at the rates that are best for ours:",
        table(["layers", "ours", "Hugging Face"], rows),
    ]


def draw(options, figure, found: dict) -> None:
    left, right = figure.subplots(1, 2)
    curve = 100 * np.array([np.mean(points, axis=0) for points in found["curve"]])
    left.plot(curve[:, 0] / 100, curve[:, 1], color="#1450c8", label="FastBERT, speed 0 to 1")
    for speed, points in found["speeds"].items():
        layers, accuracy = np.mean(points, axis=0)
        left.annotate(f"{speed:g}", (layers, 100 * accuracy), textcoords="offset points", xytext=(2, -10), fontsize=7)
    means = {k: (100 * np.mean(values), 100 * np.std(values)) for k, values in found["plain"].items()}
    heights, spread = zip(*means.values(), strict=True)
    left.errorbar(list(means), heights, spread, fmt="o", color="#c83232", capsize=2, label="first layers alone")
    depths = [found["students"] and options.student_layers.count(",") + 1]
    for mark, (name, values) in zip("^sD", found["students"].items(), strict=False):
        left.plot(depths, [100 * np.mean(values)], mark, color="#2a8c4a", label=f"{depths[0]} layers, {name}")
    left.axhline(100 * found["words"], color="grey", linewidth=0.8, linestyle="--", label="bag of words")
    left.set(xlabel="layers on average", ylabel="accuracy, %")
    left.legend(frameon=False)
    edges = np.array([0.0, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0])
    depth = found["exits"][0].logits.shape[1]
    for layer in range(depth):
        unsure = np.concatenate([each.uncertainties[:, layer] for each in found["exits"]])
        right_ones = np.concatenate(
            [each.logits[:, layer].argmax(axis=-1) == found["truth"] for each in found["exits"]]
        )
        groups = [right_ones[np.digitize(unsure, edges[1:-1]) == k] for k in range(len(edges) - 1)]
        there = [((edges[k] + edges[k + 1]) / 2, 100 * g.mean()) for k, g in enumerate(groups) if len(g) >= 30]
        right.plot(
            *zip(*there, strict=True),
            marker=".",
            color="#1450c8",
            alpha=0.3 + 0.7 * layer / (depth - 1),
            label=f"layer {layer + 1}",
        )
    right.set(xlabel="uncertainty", ylabel="accuracy, %")
    right.legend(frameon=False, fontsize=7)


def report(options, found: dict) -> None:
    sizes, config = found["rows"], found["config"]
    write_picture(options.name, lambda figure: draw(options, figure, found), width=8.0, folder=options.results)
    parts = [
        f"{config.num_layers} layers of {config.hidden_dim}, {sizes['train']:,} rows to learn from, {sizes['eval']:,} to choose "
        f"the rate and the epoch by, {sizes['test']:,} to test on; texts of at most {options.max_seq_length} tokens. Accuracy in "
        f"percent, mean and standard deviation over {len(options.seeds)} seeds. Operations as the paper counts them. Milliseconds a "
        f"text, tokenizer included, at batches of {BATCHES[0]} and {BATCHES[1]}: the fastest of {ROUNDS} rounds over "
        f"{min(options.timed_rows, sizes['test']):,} texts, first seed; behind them, how many times as fast as the teacher.",
        f"{options.epochs:g} epochs, and {options.distill_epochs:g} of FastBERT's second phase, in batches of {options.batch_size}"
        f"{''.join(f', `{flag}`' for flag in options.more)}; rates to choose from: {', '.join(options.rates)}.",
        table(["network", "accuracy", "layers", "operations", *(f"batch {b}" for b in BATCHES)], rows_of(options, found)),
        f"{max(options.depths)} layers of random weights, rates to choose from {', '.join(options.random_rates)}: "
        f"{mean_and_deviation(found['random'], scale=100)}. Without a network: commonest label {100 * found['majority']:.1f}, bag of "
        f"words {100 * found['words']:.1f}.",
        *(exports_told(options, found) if found["students"] else ()),
        *(peer_told(found) if found["peer"] else ()),
        verdict(claims(found) | (claims_of_students(found) if found["students"] else {})),
        f"![Accuracy by layers, and by uncertainty]({options.name}.png)",
        "Right: accuracy of the labels of each layer by their uncertainty, of all seeds.",
        environment("python -m benchmarks.reproductions.fastbert …", options.seeds, os.cpu_count() or 1),
    ]  # fmt: skip
    print(write_page(options.name, "FastBERT", parts, options.results))
