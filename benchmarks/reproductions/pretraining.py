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
import glob
import json
import os
import sys

import yaml

from benchmarks.reproductions import cloze, peer_bert
from benchmarks.reproductions.common import run
from benchmarks.reproductions.pretraining_inputs import EPOCHS, path, prepare, write_once
from benchmarks.reproductions.pretraining_report import TITLES, report

VOCABULARY = {"en": 4000, "zh": 4000}
WORDS = {"do_whole_word_mask": True}
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


def main() -> None:
    flags = parse(sys.argv[1:])
    os.makedirs(flags.work_dir, exist_ok=True)
    tasks = prepare(flags)
    plan = plan_of(flags, tasks)
    lengths = {**plan, "name": "Two lengths against one", "baselines": {"majority": True, "bag_of_words": True}}
    lengths["systems"] = {"bert": {}, "one_length": {"system": "bert", "flags": {"length_schedule": "none"}}}
    lengths["tasks"] = dict(list(plan["tasks"].items())[:1])
    found = [compare(flags, name, each) for name, each in (("plan", plan), ("lengths", lengths))]
    cloze_arms = plan["systems"] if flags.language == "zh" else ()
    gaps = {name: cloze.score(pretrained(flags, name), path(flags, "heldout.jsonl")) for name in cloze_arms}
    peer = with_peer(flags, plan, found[0]) if flags.peer_rows else None
    report(flags, *found, gaps, peer)


def with_peer(flags, plan: dict, found: dict) -> dict[str, float]:
    """Puts the scores of Hugging Face's BERT beside ours. Returns what it scored on held-out text."""
    tasks = {name: files for name, files in plan["tasks"].items() if int(name.rpartition("-")[2]) in flags.peer_rows}
    rates = plan["finetuning"]["tune"]["learning_rate"]
    scores = peer_bert.scores(pretrained(flags, "bert"), path(flags, "peer"), tasks, rates, flags.seeds)
    for task, arms in scores.items():
        found["scores"][task] |= arms
    return peer_bert.read_results(path(flags, "peer"))


def parse(arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--language", choices=tuple(SYSTEMS), required=True)
    parser.add_argument("--text", required=True, help="files, parted by commas")
    parser.add_argument("--task", action="append", required=True, help="NAME:LABEL_COLUMN:TEXT_COLUMN=TRAIN[,DEV,TEST]")
    parser.add_argument("--work_dir", required=True)
    parser.add_argument(
        "--paragraphs", type=int, default=1, help="of --text that are one document, parted by blank lines"
    )
    parser.add_argument("--rows", type=numbers, default=list(EPOCHS), help="sizes of the labelled sets")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--million_tokens", type=float, default=8, help="of each pretraining")
    parser.add_argument("--epochs", type=numbers, help="of fine-tuning, one for each of --rows")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--peer_rows", type=numbers, default=[], help="of --rows: those that Hugging Face's BERT learns too"
    )
    return parser.parse_args(arguments)


def plan_of(flags, tasks: dict) -> dict:
    return {
        "name": TITLES[flags.language], "language": flags.language, "budget": {"tokens": int(flags.million_tokens * 1e6)},
        "corpus": {name: path(flags, f"{name}.jsonl") for name in ("train", "heldout")}
        | {"flags": {"input_format": "jsonl"}},
        "vocabulary": {"size": VOCABULARY[flags.language]},
        "records": {**WORDS, **({"segmenter": "jieba"} if flags.language == "zh" else {})},
        "pretraining": {"max_seq_length": 128, "train_batch_size": 32, "flags": {"recipe": "small"}},
        "systems": SYSTEMS[flags.language],
        "baselines": {"random": RANDOM[flags.language]},
        "finetuning": {
            "seeds": flags.seeds, "tune": {"learning_rate": [3e-4, 1e-3]},
            "flags": {"train_batch_size": 32, "max_seq_length": 64, "pooling": "mean", "length_buckets": "auto"},
        },
        "tasks": tasks,
    }  # fmt: skip


def compare(flags, name: str, plan: dict) -> dict:
    """Runs a plan in the common folder, where what the other one made is used. Returns its numbers."""
    file, folder = path(flags, f"{name}.yaml"), path(flags, "comparison")
    write_once(file, [yaml.safe_dump(plan, allow_unicode=True, sort_keys=False)])
    run("compare", plan=file, output_dir=folder, jobs=flags.jobs)
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as stream:
        return json.load(stream)


def pretrained(flags, arm: str) -> str:
    """The folder of a pretraining that is done."""
    (mark,) = glob.glob(path(flags, f"comparison/done/pretrain-pretrain-{arm}-????????.json"))
    return path(flags, f"comparison/pretrain/{os.path.basename(mark)[len('pretrain-') : -len('.json')]}")


if __name__ == "__main__":
    main()
