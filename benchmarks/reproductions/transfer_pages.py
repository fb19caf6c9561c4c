"""Pages of transfer then and now, from the development data of this project."""

import os
import random
import re
from collections.abc import Callable, Iterable

from benchmarks.reproductions.pretraining_inputs import HELD_OUT, write_once
from benchmarks.reproductions.shared_inputs import Place, chinese, english, parted, text_of, write_text
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table

ROWS = {"few": 100, "more": 1000, "most": 5000}


def transfer(
    language: str, documents: Callable, classes: tuple, sentences: Callable, about: str
) -> Callable[[Place], list[str]]:
    """The command of a page: texts with those of the training rows, tables of three sizes, and translated sentences."""

    def command(place: Place) -> list[str]:
        folder = f"then_and_now_{language}"
        tables = {name: parted(place, f"{folder}/{name}", *classes, rows) for name, rows in ROWS.items()}
        rows = read_table(tables["most"]["train"], Columns("text", None, "label"))
        texts = write_text(place, folder, [*documents(place), *dict.fromkeys(row.texts[0] for row in rows)])
        given = {
            **texts, **translated(place, folder, sentences(place)), "dev": tables["few"]["dev"], "test": tables["few"]["test"],
            **{name: each["train"] for name, each in tables.items()},
            "width": os.path.join("samples", "compare", "width_100.json"),
        }  # fmt: skip
        return [
            "then_and_now", f"--language={language}", f"--output_dir={os.path.join(place.work, folder)}",
            "--set=" + ",".join(f"{name}={path}" for name, path in given.items()), f"--jobs={place.jobs}", f"--about={about}",
        ]  # fmt: skip

    return command


def translated(place: Place, folder: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Files of sentences and of their translations, to learn from and held out."""
    drawn = list(pairs)
    random.Random(0).shuffle(drawn)
    held_out = round(HELD_OUT * len(drawn))
    found = {}
    for part, chosen in (("heldout_", drawn[:held_out]), ("", drawn[held_out:])):
        for side, lines in zip(("source", "target"), zip(*chosen, strict=True), strict=True):
            found[part + side] = place.made(f"{folder}/{part}{side}.txt")
            write_once(found[part + side], lines)
    return found


def captions(place: Place) -> Iterable[tuple[str, str]]:
    """Multi30k, English to German."""
    sides = (text_of(place.given(f"translation/multi30k-en-de/train.{side}.gz")).splitlines() for side in ("en", "de"))
    return zip(*sides, strict=True)


def simple_sentences(place: Place) -> Iterable[tuple[str, str]]:
    """Tatoeba, Chinese to English."""
    lines = text_of(place.given("translation/tatoeba-en-zh/cmn.txt.gz")).splitlines()
    return ((line.split("\t")[1], line.split("\t")[0]) for line in lines if line)


def english_words(place: Place) -> Iterable[str]:
    """Runs of lower-case words."""
    for document in english(place):
        yield " ".join(re.findall(r"[a-z]+", document.lower()))


def chinese_words(place: Place) -> Iterable[str]:
    """Runs of words as jieba cuts them."""
    import jieba

    jieba.setLogLevel("WARNING")
    for document in chinese(place):
        yield " ".join(word for word in jieba.cut(document) if re.match(r"\w", word))


def vectors(
    language: str, runs: Callable, pairs: tuple[str, ...], analogies: str, about: str
) -> Callable[[Place], list[str]]:
    """The command of a page of word vectors; peers are asked for behind `--`."""

    def command(place: Place) -> list[str]:
        path = place.made(f"vectors_{language}/runs.txt")
        if not os.path.exists(path):
            write_once(path, runs(place))
        folder = os.path.join(place.work, f"vectors_{language}")
        os.makedirs(folder, exist_ok=True)
        return [
            "vector_quality", f"--runs={path}", "--pairs=" + ",".join(place.given(f"embeddings/{name}") for name in pairs),
            f"--analogies={place.given(f'embeddings/{analogies}')}", f"--folder={folder}", f"--about={about}",
            f"--output={os.path.join('benchmarks', 'results', f'vector_quality_{language}.md')}",
        ]  # fmt: skip

    return command


# Page -> minutes of one free core, about, and what makes its command.
PAGES: dict[str, tuple[int, Callable[[Place], list[str]]]] = {
    "then_and_now_en": (
        120,
        transfer(
            "en", english, (["classification/agnews-en/test.csv.gz"], Columns("2", None, "0")), captions,
            "Text: news, books, encyclopedia, captions and dialogues in English, with the texts of the 5,000 rows; task: topics of "
            "news (AG News); translations: captions, English to German (Multi30k).",
        ),
    ),
    "then_and_now_zh": (
        120,
        transfer(
            "zh", chinese,
            (
                ["classification/chnsenticorp-zh/train.tsv.gz", "classification/chnsenticorp-zh/test.tsv"],
                Columns("text_a", None, "label"),
            ),
            simple_sentences,
            "Text: the web, novels and dialogues in Chinese, with the texts of the 5,000 rows; task: reviews (ChnSentiCorp); "
            "translations: simple sentences, Chinese to English (Tatoeba).",
        ),
    ),
    "vectors_en": (
        60,
        vectors(
            "en", english_words, tuple(f"word-similarity-en/{name}.csv" for name in ("simlex999", "wordsim353-sim", "wordsim353-rel")),
            "google-analogy-en/questions-words.txt", "Text: news, books, encyclopedia, captions and dialogues in English.",
        ),
    ),
    "vectors_zh": (
        60,
        vectors(
            "zh", chinese_words, ("wordsim-zh/240.txt",), "analogy-zh/analogy.txt",
            "Text: the web, novels and dialogues in Chinese, cut by jieba.",
        ),
    ),
}  # fmt: skip
