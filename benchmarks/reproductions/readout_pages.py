"""Pages of readouts: each is a command with networks that another page has pretrained."""

import glob
import os

from benchmarks.reproductions.shared_inputs import Place, parted
from data_pipelines.corpora.headers import Columns

READ = "bert", "roberta", "albert", "xlnet", "gpt"  # systems whose readouts are compared
POOLINGS = "published,first,last,mean,max,mean+max,attention"


def pretrained(place: Place, comparison: str, system: str) -> str:
    """The network of a system that another page has pretrained; of several budgets the last one."""
    pattern = os.path.join(place.work, comparison, f"pretrain/pretrain-{system}-????????/backbone")
    found = max(glob.glob(pattern), key=os.path.getmtime, default=None)
    if not found:
        page = comparison.partition("/")[0]
        raise SystemExit(f"{pattern}: nothing there. The network is that of another page: make {page} first.")
    return os.path.dirname(found)


def readouts(place: Place) -> list[str]:
    """Each way of reading a text, with networks of the family's English page and topics of news."""
    news = ["classification/agnews-en/test.csv.gz"]
    table = parted(place, "readouts_en", news, Columns("2", None, "0"), 1000)
    return [*read_by(place, READ, table, POOLINGS, "readouts"), "--epochs=6", *READ_FLAGS]


def readouts_of_pairs(place: Place) -> list[str]:
    """Mean and largest values against the published state, with the same networks and inference."""
    pairs = ["sentence_pair/snli-en/dev.txt.gz", "sentence_pair/snli-en/test.txt.gz"]
    table = parted(place, "family_en/pair", pairs, Columns("0", "1", "2"), 3000)
    command = read_by(place, [name for name in READ if name != "albert"], table, "published,mean+max", "readouts_pairs")
    more = "--text_pair_column=text_pair", "--title=Which state answers, of pairs", "--epochs=4"
    return [*command, *more, *READ_FLAGS]


def readouts_of_pretraining(place: Place) -> list[str]:
    """The networks and the table of 1,000 rows of the page `pretraining_en`, which mask 40 % in training."""
    work = os.path.join(place.work, "pretraining_en")
    parts = {"train": "1000", "dev": "dev", "test": "test"}
    table = {part: os.path.join(work, f"topics-{name}.jsonl") for part, name in parts.items()}
    poolings = "published,first,mean,max,mean+max,attention"
    command = read_by(
        place, ("bert", "roberta_wwm"), table, poolings, "readouts_pretraining", "pretraining_en/comparison"
    )
    title, tuned = "--title=Which state answers, after 8 million tokens", ("--rates=2e-3,4e-3,8e-3", "--seeds=1,2,3")
    return [*command, title, "--epochs=6", *tuned, *BY_MUON]


BY_MUON = "--max_seq_length=64", "--", "--optimizer=muon", "--length_buckets=auto"
READ_FLAGS = "--rates=1e-3,4e-3", "--seeds=1,2", *BY_MUON


def read_by(
    place: Place, systems, table: dict[str, str], poolings: str, name: str, made: str = "family_en"
) -> list[str]:
    """Networks of the comparison `made`, tables, poolings and places of the page `name`."""
    return [
        "readouts", *(f"--run={system}={pretrained(place, made, system)}" for system in systems), f"--poolings={poolings}",
        *(f"--{part}_file={table[of]}" for part, of in (("train", "train"), ("eval", "dev"), ("test", "test"))),
        f"--folder={os.path.join(place.work, f'{name}_en')}", f"--output=benchmarks/results/{name}.md",
    ]  # fmt: skip
