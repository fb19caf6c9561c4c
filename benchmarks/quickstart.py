"""What `xmodels quickstart` learns, and how long it takes, in both languages.

    python -m benchmarks.quickstart --work_dir=work

Each run is the user's own command with all cores, in a folder `quickstart-LANGUAGE` of `--work_dir`; what stands there is begun
anew. Writes results/quickstart.md with the lines that the command prints at its end.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

from benchmarks.measure import machine, publish, table

FACT = re.compile(r"^  ([A-Z][\w ,-]+): (.+)$")
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


def learnt(language: str, folder: str) -> tuple[dict[str, str], float]:
    """The lines of a quickstart by name, and its minutes by the clock."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "launch", "quickstart", f"--language={language}", f"--output_dir={folder}"]
    begun, found = time.monotonic(), {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if fact := FACT.match(line):
                found[fact[1]] = fact[2]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return found, (time.monotonic() - begun) / 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--languages", type=lambda text: text.split(","), default=["en", "zh"], help="parted by commas")
    flags = parser.parse_args()
    parts = [
        "# Quickstart\n\nWhat `xmodels quickstart` says at its end; accuracies with their spread over seeds of the fine-tuning."
    ]
    for language in flags.languages:
        found, minutes = learnt(language, os.path.join(flags.work_dir, f"quickstart-{language}"))
        rows = [*([name, said] for name, said in found.items()), ["Minutes by the clock", f"{minutes:.1f}"]]
        parts.append(f"## --language={language}\n\n{table(['', ''], rows)}".strip())
    cores = os.cpu_count() or 1
    parts.append(f"    python -m benchmarks.quickstart --work_dir=work\n\n{machine(cores)}")
    publish("\n\n".join(parts) + "\n", os.path.join(RESULTS, "quickstart.md"))


if __name__ == "__main__":
    main()
