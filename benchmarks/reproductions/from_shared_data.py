"""Makes the pages of reproductions from the development data of this project (`XMODELS_SHARED_DIR`, as the tests do).

    python -m benchmarks.reproductions.from_shared_data --list
    python -m benchmarks.reproductions.from_shared_data family_en --work_dir=work --jobs=2

Each page is a command of another module, with texts and tables that are written to `--work_dir` first. This one knows which files
they come from, and how long it takes, about: in minutes of one free core. Interrupted, the same command goes on.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable

from benchmarks.reproductions import mixer_pages, published_pages, transfer_pages
from benchmarks.reproductions.effects import EFFECTS
from benchmarks.reproductions.pretraining_inputs import write_once
from benchmarks.reproductions.readout_pages import pretrained, readouts, readouts_of_pairs, readouts_of_pretraining
from benchmarks.reproductions.shared_inputs import (
    FOLLOWED,
    Place,
    chinese,
    english,
    paragraphs,
    parted,
    text_of,
    write_text,
)
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.files import whole_file

SHARED = os.environ.get("XMODELS_SHARED_DIR", os.path.join("..", "shared"))
# By language and networks: what fits about two hours of a core.
BUDGETS = {
    ("en", "bert"): ("--million_tokens=8", "--train_batch_size=16", "--peer_rows=1000,5000"),
    ("en", "gpt"): ("--million_tokens=14", "--train_batch_size=32", "--peer_rows=5000"),
    ("zh", "bert"): ("--million_tokens=6", "--train_batch_size=16", "--rows=100,5000", "--peer_rows=5000"),
}
BUDGETS["zh", "ernie"] = BUDGETS["zh", "bert"]  # whose networks it goes on with


def family(
    language: str, peers: tuple[str, ...], documents, classes: tuple, pairs: tuple, about: str
) -> Callable[[Place], list[str]]:
    """The command of a page of the family: texts with those of the training rows, a table of classes and one of pairs."""

    def command(place: Place) -> list[str]:
        tables = {
            name: parted(place, f"family_{language}/{name}", *given)
            for name, given in (("class", classes), ("pair", pairs))
        }
        rows = [
            row
            for each in tables.values()
            for row in read_table(
                each["train"], Columns("text", "text_pair" if each is tables["pair"] else None, "label")
            )
        ]
        learnt = list(dict.fromkeys(text for row in rows for text in row.texts))
        texts = write_text(place, f"family_{language}", [*documents(place), *learnt])
        given = {**texts, **{f"{name}_{part}": path for name, each in tables.items() for part, path in each.items()}}
        return [
            "family", f"--language={language}", f"--output_dir={os.path.join(place.work, f'family_{language}')}", "--peers", *peers,
            "--set=" + ",".join(f"{name}={path}" for name, path in given.items()), f"--jobs={place.jobs}", f"--about={about}",
        ]  # fmt: skip

    return command


def pretraining(language: str, networks: str = "bert") -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        given = {"en": english_pretraining, "zh": chinese_pretraining}[language](place)
        work = os.path.join(place.work, f"pretraining_{'gpt_' * (networks == 'gpt')}{language}")
        own = f"--language={language}", f"--networks={networks}", *BUDGETS[language, networks]
        return ["pretraining", *own, f"--work_dir={work}", f"--jobs={place.jobs}", *given]

    return command


def english_pretraining(place: Place) -> list[str]:
    science = place.made("science.txt")
    write_once(science, text_of(place.given("lm/abc-news-en/science.txt.gz")).split("\n"))
    return [
        f"--text={place.given('lm/abc-news-en/rural.txt.gz')},{science}", f"--paragraphs={FOLLOWED}",
        f"--task=topics:0:2={place.given('classification/agnews-en/test.csv.gz')}", "--mixed_precision=bfloat16",
    ]  # fmt: skip


def chinese_pretraining(place: Place) -> list[str]:
    tasks = {"reviews": "chnsenticorp-zh", "moods": "weibo-emotion-zh"}
    files = {
        name: ",".join(
            place.given(f"classification/{folder}/{part}") for part in ("train.tsv.gz", "dev.tsv", "test.tsv")
        )
        for name, folder in tasks.items()
    }
    return [
        f"--text={place.given('lm/cluecorpussmall-zh/sentences_by_doc.txt.gz')}",
        "--mixed_precision=bfloat16",
        *(f"--task={name}:label:text_a={paths}" for name, paths in files.items()),
    ]  # fmt: skip


def captions(place: Place, parts: dict[str, str]) -> list[str]:
    """Multi30k, German to English: flags for parts of it."""
    folder = place.given("translation/multi30k-en-de")
    return [
        f"--{flag}=" + ",".join(os.path.join(folder, f"{part}.{side}.gz") for side in ("de", "en"))
        for flag, part in parts.items()
    ]


def transformer(module: str, *more: str) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        pairs = captions(place, {"train": "train", "valid": "val", "test": "test_2016_flickr"})
        return [module, *pairs, f"--work_dir={os.path.join(place.work, 'transformer')}", f"--jobs={place.jobs}", *more]

    return command


def mass(place: Place) -> list[str]:
    pairs = captions(place, {"train": "train", "dev": "val", "test": "test_2016_flickr"})
    work = os.path.join(place.work, "mass")
    return [
        "mass_fragments", *pairs, f"--work_dir={work}", "--mixed_precision=bfloat16", "--peer", f"--jobs={place.jobs}",
    ]  # fmt: skip


def ernie2(place: Place) -> list[str]:
    news = (place.given(f"lm/abc-news-en/{name}.txt.gz") for name in ("rural", "science"))
    texts = write_text(place, "ernie2", (document for path in news for document in paragraphs(path, FOLLOWED)))
    work = os.path.join(place.work, "ernie2")
    return ["ernie2", f"--text={texts['train']}", f"--heldout={texts['heldout']}", f"--work_dir={work}", "--peer"]


def transformer_xl(place: Place) -> list[str]:
    work = os.path.join(place.work, "transformer_xl")
    return ["transformer_xl", f"--workdir={work}", f"--data={place.given('lm')}", "--peer", f"--jobs={place.jobs}"]


def universal_transformer(place: Place) -> list[str]:
    work = os.path.join(place.work, "universal_transformer")
    return [
        "universal_transformer_babi",
        f"--data={place.given('qa/babi-en-10k')}",
        f"--work={work}",
        f"--jobs={place.jobs}",
    ]


def siamese(place: Place) -> list[str]:
    checkpoint = pretrained(place, "pretraining_zh/comparison", "bert")
    pairs = place.given("sentence_pair/lcqmc-zh")
    return [
        "siamese", f"--rows={pairs}/dev.txt", f"--test={pairs}/test.txt", f"--checkpoint={checkpoint}",
        f"--folder={os.path.join(place.work, 'siamese_zh')}", "--epochs=2", "--rates", "1e-3", "4e-3", "--peer",
        "--", "--optimizer=muon",
    ]  # fmt: skip


def siatl(place: Place) -> list[str]:
    """Topics of news: the text is news, with what the tables of labelled rows leave."""
    news, columns = "classification/agnews-en/test.csv.gz", Columns("2", None, "0")
    parts = parted(place, "siatl", [news], columns, 250)
    known = {row.texts for path in parts.values() for row in read_table(path, Columns("text", None, "label"))}
    rows = read_table(place.given(news), columns, bad_rows=[])
    rest = (text for row in rows for text in row.texts if (" ".join(text.split()),) not in known)
    told = (
        document
        for name in ("rural", "science")
        for document in paragraphs(place.given(f"lm/abc-news-en/{name}.txt.gz"))
    )
    text = write_text(place, "siatl", [*told, *rest])
    folder = os.path.join(place.work, "siatl_en")
    return [
        "siatl",
        f"--text={text['train']}",
        *(f"--{part}={path}" for part, path in parts.items()),
        f"--folder={folder}",
    ]


def word_order(place: Place) -> list[str]:
    folder = place.given("translation/multi30k-en-de")
    texts = {"text": "train.en.gz", "test_text": "test_2016_flickr.en.gz"}
    files = (f"--{flag}={os.path.join(folder, name)}" for flag, name in texts.items())
    return ["word_order", *files, f"--folder={os.path.join(place.work, 'word_order_en')}"]


def elmo(place: Place) -> list[str]:
    parts = {"train": "train.conllu.gz", "dev": "dev.conllu", "test": "test.conllu"}
    files = (
        f"--{part}={place.given(f'tagging/ud-english-partut/en_partut-ud-{name}')}" for part, name in parts.items()
    )
    text = write_text(place, "elmo", english(place))
    return [
        "elmo",
        "--language=en",
        f"--text={text['train']}",
        *files,
        f"--folder={os.path.join(place.work, 'elmo_en')}",
    ]


def relations(place: Place) -> str:
    """How two parts of a scientific abstract hang together (SciDTB), as a task of the reproductions."""
    files = []
    for part in ("train", "dev", "test"):
        source, made = f"discourse/eng.dep.scidtb/eng.dep.scidtb_{part}.rels.gz", place.made(f"relations/{part}.tsv")
        write_once(made, text_of(place.given(source)).splitlines())
        files.append(made)
    return f"--task=relations:label:unit1_txt+unit2_txt={','.join(files)}"


def effect(name: str, more: Callable[[Place], str] | None = None) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        work = os.path.join(place.work, "effects")
        chosen = [each for each in english_pretraining(place) if not each.startswith("--mixed")]
        return [
            "effects",
            f"--effect={name}",
            "--language=en",
            f"--work_dir={work}",
            f"--jobs={place.jobs}",
            "--rows=1000",
            "--mixed_precision=bfloat16",
            *(["--peer"] if EFFECTS[name].has_peer else []),
            *chosen,
            *([more(place)] if more else ()),
        ]

    return command


PAGES: dict[str, tuple[int, Callable[[Place], list[str]]]] = {  # name -> (minutes of a core, its command)
    "family_en": (
        120,
        family(
            "en", ("bert",), english, (["classification/agnews-en/test.csv.gz"], Columns("2", None, "0"), 200),
            (["sentence_pair/snli-en/dev.txt.gz", "sentence_pair/snli-en/test.txt.gz"], Columns("0", "1", "2"), 3000),
            "Text: news, books, encyclopedia, captions and dialogues in English, with the texts of the training rows. classification: "
            "topics of news (AG News), 200 rows to learn from; pairs: inference (SNLI's development file), 3,000 rows.",
        ),
    ),
    "family_zh": (
        90,
        family(
            "zh", ("bert", "xlnet"), chinese,
            (
                ["classification/chnsenticorp-zh/train.tsv.gz", "classification/chnsenticorp-zh/test.tsv"],
                Columns("text_a", None, "label"), 1000,
            ),
            (["sentence_pair/lcqmc-zh/dev.txt", "sentence_pair/lcqmc-zh/test.txt"], Columns("0", "1", "2"), 4000),
            "Text: the web, novels and dialogues in Chinese, with the texts of the training rows. classification: reviews "
            "(ChnSentiCorp), 1,000 rows to learn from; pairs: equal questions (LCQMC's development file), 4,000 rows.",
        ),
    ),
    "pretraining_en": (115, pretraining("en")),
    "pretraining_gpt_en": (130, pretraining("en", "gpt")),
    "pretraining_zh": (125, pretraining("zh")),
    "pretraining_ernie_zh": (60, pretraining("zh", "ernie")),
    "siamese_zh": (60, siamese),
    "readouts_en": (55, readouts),
    "readouts_pairs_en": (20, readouts_of_pairs),
    "readouts_pretraining_en": (35, readouts_of_pretraining),
    **published_pages.PAGES,
    **mixer_pages.PAGES,
    **transfer_pages.PAGES,
    "siatl_en": (6, siatl),
    "elmo_en": (25, elmo),
    "word_order_en": (20, word_order),
    "effect_masks_en": (60, effect("masks")),
    "effect_sharing_en": (210, effect("sharing")),
    "effect_order_en": (90, effect("order", relations)),
    "ernie2": (80, ernie2),
    "mass_fragments": (210, mass),
    "transformer_multi30k": (60, transformer("transformer_multi30k")),
    "transformer_norms": (75, transformer("transformer_norms", "--peer")),
    "transformer_xl": (90, transformer_xl),
    "universal_transformer_babi": (110, universal_transformer),
}  # fmt: skip


def parted_at_dashes(given: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and behind `--`. argparse gives nothing to a second positional where flags stand between them."""
    place = given.index("--") if "--" in given else len(given)
    return given[:place], given[place + 1 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", choices=tuple(PAGES))
    parser.add_argument("--list", action="store_true", help="the pages, with the minutes that each takes of a core")
    parser.add_argument("--data", default=os.path.join(SHARED, "data"), help="folder of the development data")
    parser.add_argument("--work_dir", help="kept for a run that goes on")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, where the page has several")
    parser.add_argument("--print", action="store_true", help="write the inputs and print the command only")
    parser.epilog = "What stands behind `--` are further flags of the page's command, such as --seeds=1."
    own, more = parted_at_dashes(sys.argv[1:])
    flags = parser.parse_args(own)
    if flags.list or not flags.page:
        print("\n".join(f"{name:28} {minutes:4} minutes" for name, (minutes, _) in PAGES.items()))
        return
    if not flags.work_dir:
        parser.error("--work_dir: missing. It holds what a page is made from.")
    if not os.path.isdir(flags.data):
        parser.error(
            f"--data={flags.data}: no such folder. Name that of the development data, or set XMODELS_SHARED_DIR."
        )
    place = Place(os.path.abspath(flags.data), os.path.abspath(flags.work_dir), flags.jobs)
    module, *arguments = PAGES[flags.page][1](place)
    command = [sys.executable, "-m", f"benchmarks.reproductions.{module}", *arguments, *more]
    print(shlex.join(command), flush=True)
    if flags.print:
        return
    code = subprocess.run(command, check=False).returncode
    print(f"{flags.page}: {spent(place, flags.page):.0f} processor minutes so far.")
    sys.exit(code)


def spent(place: Place, page: str) -> float:
    """Processor minutes of a page, those of this run and of the ones that were interrupted."""
    path = place.made("minutes.json")
    found = {}
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found[page] = found.get(page, 0.0) + (used.ru_utime + used.ru_stime) / 60
    with whole_file(path, "w") as file:
        json.dump(found, file)
    return found[page]


if __name__ == "__main__":
    main()
