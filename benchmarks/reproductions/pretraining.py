"""Does pretraining help a small BERT, BERT-wwm or GPT, and how many labels is it worth? (Devlin et al., 2018; Cui et al., 2019;
Radford et al., 2018)

    python -m benchmarks.reproductions.pretraining --language=zh --text=web.txt --work_dir=work \\
        --task=reviews:label:text_a=train.tsv,dev.tsv,test.tsv --task=moods:label:text_a=train2.tsv,dev2.tsv,test2.tsv

A task is NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN[,DEV,TEST]; of one file alone, development and test rows are drawn. What is
pretrained on is `--text`, whose documents are parted by blank lines, and the training texts of the tasks without their labels. All
of it is a plan of `xmodels compare`, which this command writes: each network is pretrained on equally many tokens with each of
`--pretraining_seeds`, and fine-tuned on so many rows as `--rows` names, from there and from random weights, with rates that the
development file chooses for each. Of encoders a second plan compares two lengths in one run with one length, for as long; then
those of Chinese fill gaps of held-out text: whole words and single characters. `--networks=ernie` in the same folder goes on with
what `--networks=bert` has made. `--peer_rows` trains Hugging Face's network on the
batches of ours, and fine-tunes it on so many rows. Interrupted, the same command goes on.
"""

import argparse
import os
import sys

from benchmarks.reproductions import cloze, peer_bert
from benchmarks.reproductions.commands import kept
from benchmarks.reproductions.entities import write_lexicon
from benchmarks.reproductions.pretraining_inputs import compare, numbers, parser_of, path, plan_of, prepare, pretrained
from benchmarks.reproductions.pretraining_networks import ERNIE, ONE_LENGTH, Networks, networks_of
from benchmarks.reproductions.pretraining_report import Results, minutes, report

ENTITIES = "entities.txt"


def main() -> None:
    flags = parse(sys.argv[1:])
    chosen = networks_of(flags.language, flags.networks)
    os.makedirs(flags.work_dir, exist_ok=True)
    tasks = prepare(flags)
    if chosen.gaps:
        write_lexicon(path(flags, "train.jsonl"), path(flags, ENTITIES))
    plan = plan_of(flags, tasks, chosen.title, systems(flags, chosen), chosen.random)
    plan["pretraining"]["seeds"] = flags.pretraining_seeds
    found = compare(flags, "plan", plan)
    lengths = compare(flags, "lengths", as_long(plan, minutes(found, "bert"))) if chosen.lengths else None
    gaps = {
        name: [filled(flags, run, os.path.basename(run)) for run in pretrained(flags, found, name)]
        for name in (plan["systems"] if chosen.gaps else ())
    }
    peer = with_peer(flags, chosen, plan, found) if flags.peer_rows else None
    if peer and "ernie" in plan["systems"]:
        with_ernie(flags, plan, found)
        folders = {chosen.peer.name: "peer", ERNIE.name: "peer_ernie"}
        gaps |= {arm: [filled(flags, f"hf:{path(flags, of)}/pretrained", of)] for arm, of in folders.items()}
    report(flags, chosen, Results(found, lengths, gaps, peer))


def filled(flags, run: str, name: str) -> dict[str, float]:
    """What a network fills of the gaps of held-out text; kept in the work folder."""
    return kept(path(flags, f"gaps-{name}.json"), cloze.score, run, path(flags, "heldout.jsonl"), path(flags, ENTITIES))


def as_long(plan: dict, spent: float) -> dict:
    """The plan of a BERT that reads rows of one length, for so many processor minutes."""
    return {
        **plan,
        "name": "Two lengths against one",
        "budget": {"processor_minutes": round(spent, 1)},
        "pretraining": {**plan["pretraining"], "seeds": plan["pretraining"]["seeds"][:1]},
        "systems": ONE_LENGTH,
        "baselines": {"majority": True, "bag_of_words": True},
        "tasks": dict(list(plan["tasks"].items())[:1]),
    }


def systems(flags, chosen: Networks) -> dict[str, dict]:
    """The arms. ERNIE hides characters, then words as its phrases, then names, which its records have to mark."""
    marked = {"entity_lexicon": path(flags, ENTITIES)}
    return {
        name: {**arm, "records": marked | arm.get("records", {})} if name == "ernie" else arm
        for name, arm in chosen.systems.items()
    }


def with_peer(flags, chosen: Networks, plan: dict, found: dict) -> dict[str, float]:
    """Puts the scores of Hugging Face's network beside ours. Returns what it scored on held-out text."""
    folder, tasks = path(flags, "peer"), tasks_of_peers(flags, plan)
    first = pretrained(flags, found, chosen.measured)[0]
    scores = peer_bert.scores(first, folder, tasks, plan["finetuning"], chosen.peer)
    for task, arms in scores.items():
        found["scores"][task] |= arms
    return peer_bert.read_results(folder)


def with_ernie(flags, plan: dict, found: dict) -> None:
    """Puts the scores of Hugging Face's ERNIE, which learns from the batches of ours, beside ours."""
    folder = path(flags, "peer_ernie")
    checkpoint = os.path.join(folder, "pretrained")
    peer_bert.pretrain(pretrained(flags, found, "ernie")[0], folder, checkpoint, ERNIE)
    for task, files in tasks_of_peers(flags, plan).items():
        given = folder, task, ERNIE.name, checkpoint, files, plan["finetuning"], ERNIE
        found["scores"][task][ERNIE.name] = peer_bert.tuned(*given)


def tasks_of_peers(flags, plan: dict) -> dict[str, dict]:
    return {name: files for name, files in plan["tasks"].items() if int(name.rpartition("-")[2]) in flags.peer_rows}


def parse(arguments) -> argparse.Namespace:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--networks", choices=("bert", "ernie", "gpt"), default="bert", help="what is compared")
    add("--pretraining_seeds", type=numbers, default=[1, 2, 3], help="a pretraining for each")
    add("--peer_rows", type=numbers, default=[], help="of --rows: those that Hugging Face's network learns too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
