"""Speed of our Chinese segmenters against jieba's own, on one core, and how far they agree.

    python benchmarks/segmenters.py [--input_file=FILE] [--seconds=5] [--output=benchmarks/results/segmenters.md]

Speeds count processor time, best of several passes, so that other work on the machine disturbs them less. Agreement is the
share of jieba's words that stand at the same place.
"""

import argparse
import glob
import gzip
import os
import pathlib
import platform
import time
from importlib.metadata import version

from data_pipelines.text import words

ROOT = pathlib.Path(__file__).parent.parent


def read(path: str) -> list[str]:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


def spans(numbers: list[int]) -> set[tuple[int, int]]:
    """The first and one past the last character of each word."""
    bounds = [i for i in range(len(numbers)) if i == 0 or numbers[i] != numbers[i - 1]]
    return set(zip(bounds, [*bounds[1:], len(numbers)], strict=True))


def measure(segment, lines: list[str], seconds: float) -> float:
    """MB of UTF-8 a second of processor time; the dictionary is loaded before the clock runs."""
    segment(lines[0] + "a-1.5")
    size, best, end = sum(len(line.encode()) for line in lines) / 1e6, float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.process_time()
        for line in lines:
            segment(line)
        best = min(best, time.process_time() - start)
    return size / best


def table(title: str, lines: list[str], seconds: float) -> list[str]:
    segmenters = {name: words.segmenter(name) for name in ("jieba_python", "jieba")}
    size = sum(len(line.encode()) for line in lines) / 1e6
    out = [
        f"{title} ({size:.2f} MB)",
        "",
        "| segmenter | MB/s | ratio | same words as jieba |",
        "| --- | --- | --- | --- |",
    ]
    reference = [spans(segmenters["jieba_python"](line)) for line in lines]
    base = 0.0
    for name, segment in segmenters.items():
        speed = measure(segment, lines, seconds)
        base = base or speed
        same = sum(len(spans(segment(line)) & known) for line, known in zip(lines, reference, strict=True))
        share = same / sum(map(len, reference))
        out.append(f"| `{name}` | {speed:.2f} | {speed / base:.1f} | {share:.4%} |")
    return [*out, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input_file", help="another file of Chinese text, also .gz")
    parser.add_argument("--seconds", type=float, default=5, help="time for each measurement")
    parser.add_argument("--output", help="a file for the table; else it is printed only")
    options = parser.parse_args()
    lines = [line for path in sorted(glob.glob(str(ROOT / "samples/zh/*.txt"))) for line in read(path)]
    out = ["# Chinese segmenters, MB of UTF-8 a second of processor time, one core", ""]
    out += [
        f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start; Python "
        f"{platform.python_version()}, jieba {version('jieba')}, rjieba {version('rjieba')}.",
        "",
        "    python benchmarks/segmenters.py "
        + (f"--input_file={os.path.basename(options.input_file)} " if options.input_file else "")
        + f"--seconds={options.seconds:g}",
        "",
    ]
    out += table("samples/zh", lines, options.seconds)
    if options.input_file:
        out += table(os.path.basename(options.input_file), read(options.input_file), options.seconds)
    text = "\n".join(out)
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
