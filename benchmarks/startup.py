"""What a command costs before it answers: processor and wall seconds for one text, beside the same network in transformers.

    python -m benchmarks.startup --model_dir=classifier --peer=PYTHON --output=benchmarks/results/startup.md

`--model_dir` is a fine-tuned classifier that Hugging Face's format can hold. `--peer` names a Python that has torch and transformers.
Each start is a process of its own; files are read once before, so that they lie in memory. The fewest seconds of several rounds count.
"""

import argparse
import os
import sys
import tempfile

from benchmarks import measure

TEXT = "It rained all week, and nobody minded."
PEER = """
import sys
from transformers import pipeline
print(pipeline("text-classification", model=sys.argv[1])(sys.argv[2]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--peer", help="a Python that has torch and transformers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", help="file of the page")
    options = parser.parse_args()
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    ours = [sys.executable, "-m", "launch"]
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "`import tensorflow, keras`": [sys.executable, "-c", "import tensorflow, keras"],
            "`xmodels --help`": [*ours, "--help"],
            "`xmodels predict --text=…`": [*ours, "predict", f"--model_dir={options.model_dir}", f"--text={TEXT}"],
        }
        if options.peer:
            convert = [*ours, "convert_checkpoint", f"--from={options.model_dir}", f"--to=hf:{folder}/theirs"]
            measure.spent(convert, environment)
            commands["`import torch, transformers`"] = [options.peer, "-c", "import torch, transformers"]
            commands["transformers' `pipeline`"] = [options.peer, "-c", PEER, f"{folder}/theirs", TEXT]
        best: dict[str, tuple[float, float]] = {}
        for number in range(options.rounds + 1):
            for name, command in commands.items():
                took = measure.spent(command, environment)
                found = took["processor"], took["wall"]
                print(f"round {number}: {name}: {found}", file=sys.stderr, flush=True)
                if number:  # the first reads the files
                    best[name] = tuple(map(min, found, best.get(name, found)))
    text = (
        f"# What a command costs before it answers\n\nSeconds of one process, the fewest of {options.rounds} rounds.\n\n"
        f"{measure.machine(os.cpu_count())}\n\n"
        + measure.table(
            ["", "processor", "wall"], [[name, *(f"{each:.2f}" for each in found)] for name, found in best.items()]
        )
    )
    measure.publish(text, options.output)


if __name__ == "__main__":
    main()
