"""The page and the picture of what was found about Transformer-XL and a vanilla Transformer."""

import dataclasses
import itertools
import math

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page, write_picture
from benchmarks.reproductions.stream_models import REMEMBERED, SHAPE, TRAINING, Text
from benchmarks.reproductions.stream_scores import BLOCK, gain

CLAMPED, EQUAL = "clamped", "clamped, same length"  # how distances beyond those of training are read
BEYOND = (
    0.001  # of the loss: the paper's gain beyond the lengths of training is a hundredth, so a tenth of that shows it
)


@dataclasses.dataclass(frozen=True)
class Found:
    """Of one text and one length of segments. Scores are those of `stream_scores`.

    Attributes:
        length: tokens of a segment.
        unknown_share: of the tested tokens.
        parameters: of the Transformer-XL and of the vanilla ones.
        rates: of the Transformer-XL and of the vanilla ones: the best ones on development text.
        memory: by its length in segments, and how distances beyond those of training are read.
        vanilla: by the length of its segments in those of the Transformer-XL: in segments, and in windows that slide.
        peer: as `memory`, of Hugging Face's network on the batches of the first seed; or nothing.
    """

    text: Text
    length: int
    vocabulary_size: int
    steps: int
    train_tokens: int
    test_tokens: int
    unknown_share: float
    parameters: list[int]
    rates: list[float]
    memory: dict[tuple[int, str], dict]
    vanilla: dict[int, tuple[dict, dict]]
    peer: dict[tuple[int, str], dict]

    @property
    def name(self) -> str:
        return f"{self.text.name}, {self.text.units}, segments of {self.length}, {self.steps:,} steps"

    def shown(self, scored: dict) -> str:
        """Perplexity of words, bits of characters: mean and deviation over seeds."""
        if self.text.units == "words":
            return mean_and_deviation([math.exp(nats) for nats in scored["by_seed"]])
        return mean_and_deviation(scored["by_seed"], ".3f", 1 / math.log(2))

    @property
    def trained(self) -> dict:
        """The scores with the memory of training."""
        return self.memory[REMEMBERED, ""]

    @property
    def beyond(self) -> list[tuple[int, str]]:
        """The memories that are longer than in training."""
        return [(times, way) for times, way in self.memory if times > REMEMBERED]


def claims(found: list[Found], ratios: list[float]) -> dict[str, bool]:
    """What the paper says, and whether it came out."""
    said = {}
    for one in found:
        alone, short, xl = one.memory[0, ""], one.memory[1, ""], one.trained
        said[f"{one.name}: a memory of one segment lowers the loss"] = shown(gain(short, alone))
        said[f"{one.name}: one of {REMEMBERED}, as in training, lowers it further"] = shown(gain(xl, short))
        said[
            f"{one.name}: a longer one than in training lowers it by another {BEYOND:.1%}, in one of the ways to read distances"
        ] = any(shown(each) and each[0] > BEYOND for each in (gain(one.memory[key], xl) for key in one.beyond))
        for times, (segments, windows) in one.vanilla.items():
            long = f" with segments {times} × as long" if times > 1 else ""
            said[f"{one.name}: better than the vanilla Transformer{long} in segments"] = xl["nats"] < segments["nats"]
            said[f"{one.name}: better than it{long} also where its window slides"] = xl["nats"] < windows["nats"]
            if times == 1:
                even = _fragmented(xl) < _fragmented(segments)
                said[f"{one.name}: its loss is more even over the places of a segment"] = even
    grows = all(a < b for a, b in itertools.pairwise(ratios))
    said["kept states save more, the more tokens a token sees"] = grows
    return said


def shown(gained: tuple[float, float]) -> bool:
    """Whether a gain is larger than two of its standard errors."""
    return gained[0] > 2 * gained[1]


def _fragmented(scored: dict) -> float:
    """How much worse the first eighth of a segment is than its last half, in nats."""
    places = np.array(scored["places"])
    return float(places[: max(1, len(places) // 8)].mean() - places[len(places) // 2 :].mean())


def memory_table(found: list[Found]) -> str:
    times = sorted({t for t, _ in found[0].memory})
    rows = []
    for one in found:
        for title, scores in ((one.name, one.memory), ("Hugging Face's, one seed", one.peer)):
            for way in ("", CLAMPED, EQUAL) if scores else ():
                cells = [one.shown(scores[t, way]) if (t, way) in scores else "" for t in times]
                rows.append([f"— {way}" if way else title, *cells])
    return table(["", *("none" if not t else f"{t} ×" for t in times)], rows)


def gain_table(found: list[Found]) -> str:
    """What each longer memory adds, in percent of the loss with the one before, or with that of training."""
    rows = []
    for one in found:
        steps = [((1, ""), (0, "")), ((REMEMBERED, ""), (1, "")), *((key, (REMEMBERED, "")) for key in one.beyond)]
        for (times, way), (before, _) in steps:
            share, error = gain(one.memory[times, way], one.memory[before, ""])
            title = f"{before} × → {times} ×" + (way and f", {way}")
            rows.append([one.name, title, f"{100 * share:+.2f} ± {100 * error:.2f}"])
    return table(["", "memory, in segments", "lower loss, %"], rows)


def vanilla_table(found: list[Found]) -> str:
    rows = []
    for one in (one for one in found if one.vanilla):
        ways = {f"Transformer-XL, memory of {REMEMBERED} segments": (one.trained, 0)}
        for number, (times, (segments, windows)) in enumerate(one.vanilla.items(), 1):
            length = times * one.length
            ways[f"vanilla, segments of {length}"] = segments, number
            ways[f"vanilla, a window of {length} slides by {length // 4}"] = windows, number
        for way, (scored, number) in ways.items():
            uneven = f"{_fragmented(scored):+.3f}" if "places" in scored else ""
            rate = f"{one.rates[number]:g}"
            rows.append([one.name, way, f"{one.parameters[number]:,}", rate, one.shown(scored), uneven])
    columns = ["", "", "parameters", "rate", "perplexity / bits", "first eighth − last half of a segment, nats"]
    return table(columns, rows)


def text_table(found: list[Found]) -> str:
    rows = []
    for one in {one.text: one for one in found}.values():
        numbers = [f"{number:,}" for number in (one.train_tokens, one.test_tokens, one.vocabulary_size)]
        rows.append([f"{one.text.name}, {one.text.units}", *numbers, f"{one.unknown_share:.1%}"])
    return table(["", "tokens to learn from", "tested", "vocabulary", "unknown of the tested"], rows)


def speed_table(fast: dict[int, dict[str, float]]) -> str:
    names = [name for name in next(iter(fast.values())) if name != "vanilla"]
    rows = [[length, *(f"{ways['vanilla'] / ways[name]:,.0f}" for name in names)] for length, ways in fast.items()]
    return table(["memory, and window of the vanilla network", *names], rows)


def draw(found: list[Found], fast: dict[int, dict[str, float]], figure) -> None:
    """Three panels: the loss over the length of the memory, over the places of a segment, and the speed."""
    first, second, third = figure.subplots(1, 3)
    for one in found:
        times, base, colour = sorted({t for t, _ in one.memory}), one.trained["nats"], None
        for way, style in (("", "-"), (CLAMPED, "--"), (EQUAL, ":")):
            points = [(t, one.memory[t, way]["nats"] - base) for t in times if (t, way) in one.memory]
            label = f"{one.text.name}, {one.length}, {one.steps:,} steps" if not way else None
            (line,) = first.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=colour, label=label)
            colour = line.get_color()
        if one.vanilla:
            for scored, style in ((one.trained, "-"), (one.vanilla[1][0], ":")):
                places = np.array(scored["places"])
                second.plot(np.arange(1, one.length + 1), places - places.mean(), style, color=colour)
    first.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    first.set(
        title="memory (--: clamped; ··: same length)",
        xlabel=f"in segments; training: {REMEMBERED}",
        ylabel="nats − those of training",
    )
    first.legend(frameon=False)
    second.set(title="Transformer-XL (—), vanilla (⋯)", xlabel="place in a segment", ylabel="nats − their mean")
    for name in next(iter(fast.values())):
        if name != "vanilla":
            third.loglog(list(fast), [ways["vanilla"] / ways[name] for ways in fast.values()], marker="o", label=name)
    third.minorticks_off()
    third.set_xticks(list(fast), map(str, fast))
    third.set_yticks([50, 100, 200, 400], ["50", "100", "200", "400"])
    third.set(title="time a token: vanilla / Transformer-XL", xlabel="tokens that a token sees")
    third.legend(frameon=False)


def report(found: list[Found], fast: dict[int, dict[str, float]], options) -> str:
    """Writes the page; returns its path."""
    ratios = [ways["vanilla"] / ways["segments of 64"] for ways in fast.values()]
    write_picture("transformer_xl", lambda figure: draw(found, fast, figure), 11, 3.4, options.output)
    parts = [
        INTRODUCTION.format(
            remembered=REMEMBERED,
            tokens=options.tokens,
            shape=_listed(SHAPE),
            training=_listed(TRAINING),
            rates=options.rates,
            times=max(fast),
            table=text_table(found),
        ),
        verdict(claims(found, ratios)),
        "![Loss by memory and place, and speed](transformer_xl.png)",
        "## Longer memories than in training\n\nPerplexity of words, bits of characters, of the whole test text in 8 streams."
        + PEER * any(one.peer for one in found)
        + "\n\n"
        + memory_table(found),
        GAINS.format(block=BLOCK, beyond=BEYOND) + "\n\n" + gain_table(found),
        "## Against a vanilla Transformer\n\n" + vanilla_table(found),
        "## Time of evaluation\n\n" + SPEED + "\n\n" + speed_table(fast),
        LIMITS,
        environment(f"python -m benchmarks.reproductions.transformer_xl {options.flags}".rstrip(), options.seeds),
    ]
    return write_page(
        "transformer_xl", "Transformer-XL: what a memory is worth, and what it saves", parts, options.output
    )


def _listed(numbers: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in numbers.items())


INTRODUCTION = """Dai et al. (2019) say that a memory of past states lowers the loss, the more the longer it is, even beyond
the lengths of training; that it leaves no context fragmented at the borders of segments; and that kept states make
evaluation up to 1,874 times as fast as a window that slides by one token (attention length 3,800, on a GPU).

Here: `xmodels pretrain --system=transformer_xl` with a memory of {remembered} segments, and `--system=gpt` (post-norm as the
other, learned positions, relu) on the same tokens in the same order, with as many steps of {tokens:,} tokens. Its inner
layer is widened until both have equally many parameters; at equal segments the Transformer-XL looks at up to five times as
many keys, so that its steps cost more. Beyond the lengths of training distances are read as they are, or as the longest
one of training (clamped), or also with equally many keys for every token (same length).

{table}
Networks: {shape}. Training: {training}; a twentieth of the steps is warm-up. The rate is the best one of {rates} on
development text (the last twentieth of what there is to learn from) with the first seed, for each network."""

GAINS = """What is added, with the standard error over parts of the text ({block} segments of each of 8 streams; both memories
read the same tokens, so differences are paired). The paper's gain beyond the lengths of training is about one per cent of the
loss; here {beyond:.1%} and two standard errors would show it."""

PEER = """ Hugging Face's is their XLNet as a
Transformer-XL (`attn_type="uni"`), trained by PyTorch in float32 on the same batches at the same rate."""

SPEED = """How many times as long a token takes where a window slides by one token and is read anew, as with kept states
that are read on in segments. Random weights, vocabulary of 100, one text; both are graphs of TensorFlow without XLA.
Processor time of one thread, medians of rounds in which the ways take turns in one process, on a machine that did other
work too: only the ratios mean something."""

LIMITS = """## What this does not show

Networks of four layers, a few epochs of small texts.
WikiText-2 is its validation part to learn from and the first 100,000 words of its test part to be scored on, so perplexities are
not those of the literature. The paper's sets, sizes and lengths of training (150 to 784 tokens) were out of reach. Such short
trainings also tell how fast networks learn, not only what they can: learned positions want more steps than distances."""
