"""Examples a second of reading, parsing, framing and masking, for every objective of `inspect_data`.

    taskset -c 0,1 python benchmarks/data_masking.py --data_dir=records

The objectives take turns, so that other work on the machine meets all of them alike; the table gives the median and
the best turn, and the load of the machine before and after.
"""

import argparse
import os
import statistics
import time

import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.inspect.inspection import setting_of
from data_pipelines.inspect.objectives import OBJECTIVES
from data_pipelines.inspect.showcase import prepare
from data_pipelines.ops.framing import frame_pair
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary

BATCH = 256


def op_of(name: str, setting):
    return frame_pair(setting.vocabulary, setting.length) if name == "no masking" else prepare(name, setting)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="clean records of create_pretraining_data")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="a turn")
    options = parser.parse_args()
    source = RecordSource(options.data_dir)
    setting = setting_of(source.manifest, Vocabulary.read(os.path.join(options.data_dir, "vocab.txt")))
    units = {"phrases": "phrase_start", "entities": "entity_start"}
    names = ["no masking", *(n for n in OBJECTIVES if units.get(n, "token_ids") in source.features)]
    before = os.getloadavg()[0]
    streams = {name: iter(Batches(source, op_of(name, setting), BATCH).training()) for name in names}
    speeds = {name: [] for name in names}
    for turn in range(options.turns + 1):
        for name, stream in streams.items():
            for _ in range(30):  # what other turns have read ahead
                next(stream)
            count, start = 0, time.perf_counter()
            while time.perf_counter() - start < options.seconds:
                next(stream)
                count += BATCH
            if turn:  # the first turn traces
                speeds[name].append(count / (time.perf_counter() - start))
    cores = len(os.sched_getaffinity(0))
    print(f"Length {setting.length}, batches of {BATCH}, {cores} cores, TensorFlow {tf.__version__}, load average "
          f"{before:.1f} before and {os.getloadavg()[0]:.1f} after.\n")  # fmt: skip
    print("| objective | examples/s, median | best |\n| --- | ---: | ---: |")
    for name, values in speeds.items():
        print(f"| {name} | {statistics.median(values):,.0f} | {max(values):,.0f} |")


if __name__ == "__main__":
    main()
