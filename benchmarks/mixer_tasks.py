"""What the mixers of `mixer_quality` are trained on: a language of bytes, a copy, and passages of books."""

import glob
import itertools
import re
from collections import Counter

import numpy as np

BYTES, COPY, BOOKS = "bytes", "copy", "books"
LENGTH = 2048
PLACES, CHOICES, ASKED, NEAR_GAP, GAP = 8, 8, 32, 32, 1088
FIRST, VOCABULARY = 4, 260  # ids of bytes begin behind those of special tokens
WORDS, WORD = 4000, re.compile(r"\w+|[^\w\s]")  # how many words have an id of their own
CLS, SEP = 2, 3
COPIES = 48  # held-out rows of each part


def texts_of(pattern: str) -> list[bytes]:
    """Returns the bytes of the files, in the order of their names."""
    found = []
    for path in sorted(glob.glob(pattern)):
        with open(path, "rb") as file:
            found.append(file.read())
    if len(found) < 2 or min(map(len, found)) < 20 * LENGTH:
        raise SystemExit(f"--texts={pattern}: must name two files or more of at least {20 * LENGTH:,} bytes each.")
    return found


def windows(data: bytes, length: int) -> np.ndarray:
    """Returns the ids of whole windows of a text: int32 (N, length)."""
    count = len(data) // length
    return np.frombuffer(data[: count * length], np.uint8).reshape(count, length).astype("int32") + FIRST


def language(tokens: np.ndarray, scored=None) -> dict[str, np.ndarray]:
    """Returns the arrays of a causal language model; `scored` marks the tokens whose prediction counts, by default all."""
    weights = np.ones(tokens.shape, "float32") if scored is None else np.roll(scored.astype("float32"), -1, axis=1)
    weights[:, -1] = 0.0
    real, labels = np.ones(tokens.shape, bool), np.roll(tokens, -1, axis=1)
    return {"token_ids": tokens, "padding_mask": real, "labels": labels, "label_weights": weights}


def parts_of_bytes(texts: list[bytes]) -> dict[str, dict]:
    rows = [windows(text, LENGTH) for text in texts]
    cut = {"train": slice(0, -20), "dev": slice(-20, -10), "test": slice(-10, None)}  # of each text
    return {part: language(np.concatenate([each[place] for each in rows])) for part, place in cut.items()}


def parts_of_copy(_) -> dict[str, dict]:
    given = {
        "near": (NEAR_GAP, 20_000), "near_test": (NEAR_GAP, COPIES), "train": (GAP, 5_000), "dev": (GAP, COPIES), "test": (GAP, COPIES)
    }  # fmt: skip
    return {part: copies(*each, seed) for seed, (part, each) in enumerate(given.items())}


def copies(gap: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Returns letters by their places, blanks, and places with the letters that stood there."""
    draw = np.random.default_rng(seed)
    letters, asked = draw.integers(0, CHOICES, (count, PLACES)), draw.integers(0, PLACES, (count, ASKED))
    places = FIRST + PLACES * CHOICES  # where the ids of places begin; those of letters stand behind them
    pairs = np.stack([places + asked, places + PLACES + np.take_along_axis(letters, asked, axis=1)], axis=-1)
    told = FIRST + CHOICES * np.arange(PLACES) + letters
    tokens = np.concatenate([told, np.zeros((count, gap), int), pairs.reshape(count, -1)], axis=1).astype("int32")
    is_answer = np.zeros(tokens.shape, bool)
    is_answer[:, PLACES + gap + 1 :: 2] = True
    return language(tokens, is_answer)


def parts_of_books(texts: list[bytes]) -> dict[str, dict]:
    """Returns passages of the commonest words, as many of each text, 10 where they are held out."""
    words = [WORD.findall(text.decode("utf-8", "replace").lower()) for text in texts]
    cut = {"train": (0.0, 0.7), "dev": (0.7, 0.85), "test": (0.85, 1.0)}
    pieces = {part: [each[int(a * len(each)) : int(b * len(each))] for each in words] for part, (a, b) in cut.items()}
    counts = Counter(itertools.chain(*pieces["train"]))
    ids = {word: FIRST + 1 + place for place, (word, _) in enumerate(counts.most_common(WORDS))}
    found: dict[str, dict] = {}
    for part, each in pieces.items():
        passages, labels = [], []
        for label, piece in enumerate(each):
            known = np.array([ids.get(word, FIRST) for word in piece], "int32")
            last = len(known) - (LENGTH - 2)
            begins = np.linspace(0, last, 1000 if part == "train" else 10).astype(int)
            passages += [[CLS, *known[begin : begin + LENGTH - 2], SEP] for begin in begins]
            labels += [label] * len(begins)
        tokens = np.array(passages, "int32")
        found[part] = {
            "token_ids": tokens, "segment_ids": np.zeros_like(tokens), "padding_mask": np.ones(tokens.shape, bool),
            "labels": np.array(labels, "int32"),
        }  # fmt: skip
    return found


PARTS = {BYTES: parts_of_bytes, COPY: parts_of_copy, BOOKS: parts_of_books}


def bag_of_words(texts: list[bytes]) -> float:
    """Returns the accuracy of counted words on the passages, in percent."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression

    parts = parts_of_books(texts)
    counted = {
        part: np.stack([np.bincount(row, minlength=FIRST + 1 + WORDS) for row in arrays["token_ids"]])
        for part, arrays in parts.items()
    }
    weighted = TfidfTransformer(sublinear_tf=True).fit(counted["train"])
    learnt = LogisticRegression(max_iter=1000).fit(weighted.transform(counted["train"]), parts["train"]["labels"])
    return 100 * float(learnt.score(weighted.transform(counted["test"]), parts["test"]["labels"]))
