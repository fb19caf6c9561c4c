"""The page and the picture of what was found about Transformer-XL and a vanilla Transformer."""

import dataclasses
import itertools
import math

import numpy as np

from benchmarks.reproductions.common import environment, table, verdict, write_page, write_picture
from benchmarks.reproductions.stream_models import SHAPE, TRAINING, Text


@dataclasses.dataclass(frozen=True)
class Found:
    """Of one text and one length of segments. Scores are those of `stream_scores`.

    Attributes:
        length: tokens of a segment, and of the memory in training.
        unknown_share: of the tested tokens.
        parameters: of the Transformer-XL and of the vanilla one, where there is one.
        memory: by its length in segments, and whether distances beyond those of training are clamped.
        vanilla: by the length of its segments in those of the Transformer-XL: in segments, and in windows that slide.
    """

    text: Text
    length: int
    vocabulary_size: int
    steps: int
    train_tokens: int
    test_tokens: int
    unknown_share: float
    parameters: list[int]
    memory: dict[tuple[int, bool], dict]
    vanilla: dict[int, tuple[dict, dict]]

    @property
    def name(self) -> str:
        return f"{self.text.name}, {self.text.units}, segments of {self.length}, {self.steps:,} steps"

    def shown(self, scored: dict) -> str:
        """Perplexity of words, bits of characters."""
        nats = scored["nats"]
        return f"{math.exp(nats):.1f}" if self.text.units == "words" else f"{nats / math.log(2):.3f}"

    @property
    def curve(self) -> list[float]:
        """Nats from the memory of training on, without clamping."""
        return [self.memory[times, False]["nats"] for times in sorted({t for t, _ in self.memory}) if times]


def claims(found: list[Found], ratios: list[float]) -> dict[str, bool]:
    """What the paper says, and whether it came out."""
    said = {}
    for one in found:
        alone, remembering = (one.memory[times, False]["nats"] for times in (0, 1))
        said[f"{one.name}: a memory of one segment lowers the loss"] = remembering < alone
        falls = all(a > b for a, b in itertools.pairwise(one.curve))
        said[f"{one.name}: every longer memory lowers it further, though training had one segment"] = falls
        xl = one.memory[1, False]
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


def _fragmented(scored: dict) -> float:
    """How much worse the first eighth of a segment is than its last half, in nats."""
    places = np.array(scored["places"])
    return float(places[: max(1, len(places) // 8)].mean() - places[len(places) // 2 :].mean())


def memory_table(found: list[Found]) -> str:
    times = sorted({t for t, _ in found[0].memory})
    rows = []
    for one in found:
        for clamped in (False, True):
            cells = [one.shown(one.memory[t, clamped]) if (t, clamped) in one.memory else "" for t in times]
            rows.append([one.name if not clamped else f"— distances clamped at {2 * one.length}", *cells])
    return table(["", *("none" if not t else f"{t} ×" for t in times)], rows)


def vanilla_table(found: list[Found]) -> str:
    rows = []
    for one in (one for one in found if one.vanilla):
        ways = {"Transformer-XL, memory of one segment": (one.memory[1, False], 0)}
        for number, (times, (segments, windows)) in enumerate(one.vanilla.items(), 1):
            length = times * one.length
            ways[f"vanilla, segments of {length}"] = segments, number
            ways[f"vanilla, a window of {length} slides by {length // 4}"] = windows, number
        for way, (scored, number) in ways.items():
            uneven = f"{_fragmented(scored):+.3f}" if "places" in scored else ""
            rows.append([one.name, way, f"{one.parameters[number]:,}", one.shown(scored), uneven])
    return table(["", "", "parameters", "perplexity / bits", "first eighth − last half of a segment, nats"], rows)


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
        times = sorted({t for t, _ in one.memory})
        base = one.memory[1, False]["nats"]
        (line,) = first.plot(
            times,
            [one.memory[t, False]["nats"] - base for t in times],
            marker="o",
            label=f"{one.text.name}, {one.length}, {one.steps:,} steps",
        )
        clamped = [(t, one.memory[t, True]["nats"] - base) for t in times if (t, True) in one.memory]
        first.plot(*zip(*clamped, strict=True), "--", color=line.get_color(), linewidth=1)
        if one.vanilla:
            for scored, style in ((one.memory[1, False], "-"), (one.vanilla[1][0], ":")):
                places = np.array(scored["places"])
                second.plot(np.arange(1, one.length + 1), places - places.mean(), style, color=line.get_color())
    first.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    first.set(
        title="memory at evaluation (dashed: clamped)", xlabel="in segments; training: 1", ylabel="nats − those of 1"
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
            tokens=options.tokens,
            shape=_listed(SHAPE),
            training=_listed(TRAINING),
            times=max(fast),
            table=text_table(found),
        ),
        verdict(claims(found, ratios)),
        "![Loss by memory and place, and speed](transformer_xl.png)",
        "## Longer memories than in training\n\nPerplexity of words, bits of characters, of the whole test text in 8 streams.\n\n"
        + memory_table(found),
        "## Against a vanilla Transformer\n\n" + vanilla_table(found),
        "## Time of evaluation\n\n" + SPEED + "\n\n" + speed_table(fast),
        LIMITS,
        environment(f"python -m benchmarks.reproductions.transformer_xl {options.flags}".rstrip(), [options.seed]),
    ]
    return write_page(
        "transformer_xl", "Transformer-XL: what a memory is worth, and what it saves", parts, options.output
    )


def _listed(numbers: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in numbers.items())


INTRODUCTION = """Dai et al. (2019) say that a memory of past states lowers the loss, the more the longer it is, even beyond
the lengths of training; that it leaves no context fragmented at the borders of segments; and that kept states make
evaluation up to 1,874 times as fast as a window that slides by one token (attention length 3,800, on a GPU).

Here: `xmodels pretrain --system=transformer_xl` with a memory as long as a segment, and `--system=gpt` (post-norm as the
other, learned positions, relu) on the same tokens in the same order, with as many steps of {tokens:,} tokens. Its inner
layer is widened until both have equally many parameters; at equal segments the Transformer-XL looks at up to twice as
many keys, so that its steps cost more; with segments twice as long (where there are such) the vanilla network looks at as
many.

{table}
Networks: {shape}. Training: {training}; a twentieth of the steps is warm-up."""

SPEED = """How many times as long a token takes where a window slides by one token and is read anew, as with kept states
that are read on in segments. Random weights, vocabulary of 100, one text; both are graphs of TensorFlow without XLA.
Processor time of one thread, medians of rounds in which the ways take turns in one process, on a machine that did other
work too: only the ratios mean something."""

LIMITS = """## What this does not show

One seed, networks of four layers, a few epochs of small texts. WikiText-2 is its validation part to learn from and its
test part to be scored on, so perplexities are not those of the literature. The paper's sets, sizes and lengths of
training (150 to 784 tokens) were out of reach. Such short trainings
also tell how fast networks learn, not only what they can: learned positions want more steps than distances."""
