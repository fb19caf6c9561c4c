"""Shows what records hold."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "inspect_data",
    "Shows records: decoded examples with their hidden tokens, statistics of the masking, and whether files are whole.",
    "xmodels inspect_data --data_dir=records --masking=words --verify",
)
COMMAND.section("Data")
COMMAND.string("data_dir", None, "Records of create_pretraining_data.", required=True)
COMMAND.boolean("verify", False, "Compare the SHA-256 of every shard with the manifest.")
COMMAND.section("What to show")
COMMAND.choice("masking", "words", ["words", "tokens"], "Draw whole words or single tokens (for clean records).")
COMMAND.integer("num_examples", 3, "Examples to print, at most 64.", minimum=1)
COMMAND.integer("num_statistics", 2000, "Examples for the statistics of the masking.", minimum=1)
COMMAND.integer("seed", 0, "Another seed draws other masks.")


def run() -> None:
    with quiet_start():
        from data_pipelines.inspection import inspect

    options = COMMAND.options()
    inspect(check=options.pop("verify"), **options)


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
