"""fastText's classifier beside the library: words a second that it learns from and answers for, and how often it is right.

    python -m benchmarks.fasttext_classifier --train=train.tsv --test=test.tsv --library=PYTHON --output=page.md

Tables have the columns `label` and `text`; both read the same words, parted at blanks. `--library` names a Python that has `fasttext`
(such as that of the wheel fasttext-wheel). Width 100, pairs of words in 100,000 buckets. Times are the difference between a run of few
passes and one of many, and between files of different length, so that starting, compiling and reading the table the first time count
for nothing. One core, processor seconds of the whole process, the fewer of two rounds.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile

from benchmarks import measure
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.files import whole_file, write_json

WIDTH, PAIRS, BUCKETS = 100, 2, 100_000
FEW, MANY = 1, 16  # passes
BATCH, LONGEST = 64, 128
ENGINES = {"xmodels": "numba", "xmodels, without Numba": "tensorflow"}
# How often the test's texts stand in a file to be answered for: often enough for compiled loops.
FILES = {"short": 8, "long": 64}
ROUNDS = 2
LIBRARY = """
import fasttext, json, sys
train, test, answers, epochs, rate, width, pairs, buckets = sys.argv[1:]
import resource
seconds = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
begun = seconds()
model = fasttext.train_supervised(train, epoch=int(epochs), lr=float(rate), dim=int(width), wordNgrams=int(pairs), bucket=int(buckets),
                                  thread=1, verbose=0)
learnt = seconds() - begun
_, right, _ = model.test(test)
model.save_model(answers + ".bin")
print(json.dumps({"processor": learnt, "right": right}))
"""
ANSWERS = """
import fasttext, json, resource, sys
fasttext.FastText.eprint = lambda *words: None
model = fasttext.load_model(sys.argv[1])
seconds = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
begun = seconds()
with open(sys.argv[2], encoding="utf-8") as file, open(sys.argv[3], "w", encoding="utf-8") as answers:
    labels, shares = model.f.multilinePredict(file.read().splitlines(), 1, 0.0, "strict")
    answers.writelines(f"{label[0]}\\t{share[0]}\\n" for label, share in zip(labels, shares))
print(json.dumps({"processor": seconds() - begun}))
"""


def words_of(text: str) -> str:
    """The words and marks of a text, parted by blanks."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def write_inputs(folder: str, parts: dict[str, list[Row]]) -> dict[str, int]:
    """The tables in both forms, a vocabulary's text, and files to be answered for. Returns the words of the tables."""
    words = {}
    for part, rows in parts.items():
        texts = [(row.label, words_of(row.texts[0])) for row in rows]
        with whole_file(os.path.join(folder, f"{part}.tsv"), "w") as file:
            file.writelines(["label\ttext\n", *(f"{label}\t{text}\n" for label, text in texts)])
        with whole_file(os.path.join(folder, f"{part}.library"), "w") as file:
            file.writelines(f"__label__{label} {text}\n" for label, text in texts)
        for name, times in FILES.items() if part == "test" else [("short", 1)]:
            with whole_file(os.path.join(folder, f"{part}.{name}.txt"), "w") as file:
                file.writelines(f"{text}\n" for _, text in texts * times)
        words[part] = sum(len(text.split()) for _, text in texts)
    return words


def of_ours(folder: str, rate: str, engine: str) -> dict[str, float]:
    """Processor seconds of a pass and of answering for the test's texts once, and how many of them are right."""
    measure.launch(
        "train_vocabulary",
        input_file=f"{folder}/train.short.txt",
        tokenizer="word_characters",
        vocab_size=50_000,
        output_file=f"{folder}/words",
        overwrite="true",
    )
    write_json(f"{folder}/sizes.json", {"hidden_dim": WIDTH, "word_ngrams": PAIRS, "buckets": BUCKETS})

    def trained(passes: int, name: str) -> float:
        return measure.launch(
            "finetune", task="classify", init_checkpoint="new:fasttext_classifier", model_config_file=f"{folder}/sizes.json",
            vocab_file=f"{folder}/words", train_file=f"{folder}/train.tsv", test_file=f"{folder}/test.tsv", learning_rate=rate,
            num_train_epochs=passes, train_batch_size=BATCH, max_seq_length=LONGEST, length_buckets="auto",
            save_checkpoints_steps=10**6, step_engine=engine, model_dir=f"{folder}/{engine}-{name}",
        )["processor"]  # fmt: skip

    def answered(name: str, number: int) -> float:
        return measure.launch(
            "predict", model_dir=f"{folder}/{engine}-{MANY}-0", input_file=f"{folder}/test.{name}.txt",
            output_file=f"{folder}/{engine}-{name}-{number}.tsv",
        )["processor"]  # fmt: skip

    trained(FEW, "first")  # Numba compiles
    spent = {passes: min(trained(passes, f"{passes}-{number}") for number in range(ROUNDS)) for passes in (FEW, MANY)}
    answers = {name: min(answered(name, number) for number in range(ROUNDS)) for name in FILES}
    with open(f"{folder}/{engine}-{MANY}-0/results.json", encoding="utf-8") as file:
        right = json.load(file)["results"]["test accuracy"]
    return {
        "pass": (spent[MANY] - spent[FEW]) / (MANY - FEW),
        "answer": (answers["long"] - answers["short"]) / (FILES["long"] - FILES["short"]),
        "right": right,
    }


def of_library(python: str, folder: str, rate: str) -> dict[str, float]:
    """The same of the library."""
    sizes = [rate, *map(str, (WIDTH, PAIRS, BUCKETS))]
    files = [f"{folder}/train.library", f"{folder}/test.library", f"{folder}/library"]
    model = f"{folder}/library.bin"
    learnt = {passes: fewest(python, LIBRARY, *files, str(passes), *sizes) for passes in (FEW, MANY)}
    answered = {
        name: fewest(python, ANSWERS, model, f"{folder}/test.{name}.txt", f"{folder}/library.{name}.tsv")
        for name in FILES
    }
    return {
        "pass": (learnt[MANY]["processor"] - learnt[FEW]["processor"]) / (MANY - FEW),
        "answer": (answered["long"]["processor"] - answered["short"]["processor"]) / (FILES["long"] - FILES["short"]),
        "right": learnt[MANY]["right"],
    }


def fewest(*command: str) -> dict[str, float]:
    """What is `told` in the round of the fewest seconds."""
    return min((told(*command) for _ in range(ROUNDS)), key=lambda found: found["processor"])


def told(python: str, program: str, *arguments: str) -> dict[str, float]:
    """What a program of the library's Python says in its last line."""
    done = subprocess.run(
        [*measure.ONE_CORE, python, "-c", program, *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--library", help="a Python that has fasttext")
    parser.add_argument("--rate", default="3e-3", help="of ours, by Adam of the rows that are read")
    parser.add_argument("--library_rate", default="0.5")
    parser.add_argument("--output", help="file of the page")
    options = parser.parse_args()
    columns = Columns("text", None, "label")
    parts = {part: read_table(getattr(options, part), columns, bad_rows=[]) for part in ("train", "test")}
    with tempfile.TemporaryDirectory() as folder:
        words = write_inputs(folder, parts)
        found = {name: of_ours(folder, options.rate, engine) for name, engine in ENGINES.items()}
        if options.library:
            found["fastText"] = of_library(options.library, folder, options.library_rate)
    rows = [
        [
            name,
            *(f"{words[part] / each[kind]:,.0f}" for part, kind in (("train", "pass"), ("test", "answer"))),
            f"{each['right']:.1%}",
        ]
        for name, each in found.items()
    ]
    text = (
        f"# fastText's classifier\n\n{len(parts['train']):,} texts of {words['train']:,} words to learn from, "
        f"{len(parts['test']):,} of {words['test']:,} to answer for. Width {WIDTH}, pairs of words in {BUCKETS:,} buckets, {MANY} "
        f"passes; ours in batches of {BATCH} by `lazy_adam` at {options.rate}, the library one by one at {options.library_rate}. "
        "Processor seconds of one core: what a further pass and a further text take, so without starting and compiling.\n\n"
        f"{measure.machine(1)}\n\n"
        + measure.table(["", "words a second, learning", "words a second, answering from file to file", "right"], rows)
    )
    measure.publish(text, options.output)


if __name__ == "__main__":
    main()
