"""Does pretraining help a small BERT, BERT-wwm and GPT, and how many labels is it worth? (Devlin et al., 2018; Cui et al.,
2019; Radford et al., 2018)

    python -m benchmarks.reproductions.pretraining --language=zh --text=web.txt --work_dir=work \\
        --task=reviews:label:text_a=train.tsv,dev.tsv,test.tsv --task=moods:label:text_a=train2.tsv,dev2.tsv,test2.tsv

A task is NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN[,DEV,TEST]; of one file alone, development and test rows are drawn. What is
pretrained on is `--text`, whose documents are parted by blank lines, and the training texts of the tasks without their labels. All
of it is a plan of `xmodels compare`, which this command writes: each network is pretrained on equally many tokens and
fine-tuned on so many rows as `--rows` names, from there and from random weights, with rates that the development file chooses for
each. A second plan compares two lengths in one run with one length. Then the pretrained networks of Chinese fill gaps of
held-out text: whole words and single characters. `--peer_rows` trains Hugging Face's BERT on the batches of ours, and fine-tunes it
on so many rows. Interrupted, the same command goes on.
"""

import argparse
import dataclasses
import glob
import os
import sys

from benchmarks.reproductions import cloze, peer_bert
from benchmarks.reproductions.commands import results_of
from benchmarks.reproductions.entities import write_lexicon
from benchmarks.reproductions.pretraining_inputs import compare, numbers, parser_of, path, plan_of, prepare
from benchmarks.reproductions.pretraining_report import PEER_ERNIE, TITLES, report

SYSTEMS = {
    "en": {
        "bert": {},
        "roberta_wwm": {},
        "gpt": {"finetune": {"auxiliary_lm_weight": 0.0}},
        "gpt_lm": {"system": "gpt", "finetune": {"auxiliary_lm_weight": 0.5}},
    },
    "zh": {"bert": {}, "bert_wwm": {}},
}
RANDOM = {"en": ["bert", "gpt"], "zh": ["bert"]}
ENTITIES = "entities.txt"
ERNIE = dataclasses.replace(
    peer_bert.BERT, name=PEER_ERNIE, pretraining="ErnieForPreTraining", encoder="ErnieModel", trunk="ernie"
)
PEERS = {peer_bert.NAME: "peer", ERNIE.name: "peer_ernie"}  # arm -> folder


def main() -> None:
    flags = parse(sys.argv[1:])
    os.makedirs(flags.work_dir, exist_ok=True)
    tasks = prepare(flags)
    plan = plan_of(flags, tasks, TITLES[flags.language], systems(flags), RANDOM[flags.language])
    lengths = {**plan, "name": "Two lengths against one", "baselines": {"majority": True, "bag_of_words": True}}
    lengths["systems"] = {"bert": {}, "one_length": {"system": "bert", "flags": {"length_schedule": "none"}}}
    lengths["tasks"] = dict(list(plan["tasks"].items())[:1])
    found = [compare(flags, name, each) for name, each in (("plan", plan), ("lengths", lengths))]
    cloze_arms = plan["systems"] if flags.language == "zh" else ()
    filled = path(flags, "heldout.jsonl"), path(flags, ENTITIES)
    gaps = {name: cloze.score(pretrained(flags, found[0], name), *filled) for name in cloze_arms}
    peer = with_peer(flags, plan, found[0]) if flags.peer_rows else None
    if peer and "ernie" in plan["systems"]:
        with_ernie(flags, plan, found[0])
        gaps |= {arm: cloze.score(f"hf:{path(flags, folder)}/pretrained", *filled) for arm, folder in PEERS.items()}
    report(flags, *found, gaps, peer)


def systems(flags) -> dict[str, dict]:
    """The networks of a language. ERNIE hides characters, then words as its phrases, then names, which the records have to mark."""
    if flags.language == "en":
        return SYSTEMS["en"]
    write_lexicon(path(flags, "train.jsonl"), path(flags, ENTITIES))
    # Units that find no slot stay visible, so there is room for more than 15 % of the tokens.
    records = {"entity_lexicon": path(flags, ENTITIES), "max_predictions_per_seq": 40}
    return SYSTEMS["zh"] | {"ernie": {"records": records}}


def with_peer(flags, plan: dict, found: dict) -> dict[str, float]:
    """Puts the scores of Hugging Face's BERT beside ours. Returns what it scored on held-out text."""
    folder, tasks = path(flags, PEERS[peer_bert.NAME]), tasks_of_peers(flags, plan)
    scores = peer_bert.scores(pretrained(flags, found, "bert"), folder, tasks, plan["finetuning"])
    for task, arms in scores.items():
        found["scores"][task] |= arms
    return peer_bert.read_results(folder)


def with_ernie(flags, plan: dict, found: dict) -> None:
    """Puts the scores of Hugging Face's ERNIE, which learns from the batches of ours, beside ours."""
    folder = path(flags, PEERS[ERNIE.name])
    checkpoint = os.path.join(folder, "pretrained")
    peer_bert.pretrain(pretrained(flags, found, "ernie"), folder, checkpoint, ERNIE)
    for task, files in tasks_of_peers(flags, plan).items():
        given = folder, task, ERNIE.name, checkpoint, files, plan["finetuning"], ERNIE
        found["scores"][task][ERNIE.name] = peer_bert.tuned(*given)


def tasks_of_peers(flags, plan: dict) -> dict[str, dict]:
    return {name: files for name, files in plan["tasks"].items() if int(name.rpartition("-")[2]) in flags.peer_rows}


def parse(arguments) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--peer_rows", type=numbers, default=[], help="of --rows: those that Hugging Face's BERT, and ERNIE, learn too"
    )
    return parser.parse_args(arguments)


def pretrained(flags, found: dict, arm: str) -> str:
    """The folder of the pretraining of an arm whose numbers were found; plans of other budgets leave theirs beside it."""
    for mark in glob.glob(path(flags, f"comparison/done/pretrain-pretrain-{arm}-????????.json")):
        folder = path(flags, f"comparison/pretrain/{os.path.basename(mark)[len('pretrain-') : -len('.json')]}")
        if results_of(folder)["loss"] in found["objectives"][arm]["losses"]:
            return folder
    raise SystemExit(f"{path(flags, 'comparison')}: no pretraining of {arm} has the loss that results.json names.")


if __name__ == "__main__":
    main()
