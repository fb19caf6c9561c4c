"""What reproductions on tags share: sentences of three files, and what can be said without a network."""

import argparse
import collections
import os
import random

from benchmarks.reproductions.pages import RESULTS
from data_pipelines.corpora.conll import TaggedSentence
from data_pipelines.files import whole_file
from xmodels.tasks.tag.read import read_sentences
from xmodels.tasks.tag.score import scores


def write_files(folder: str, files: dict[str, list[TaggedSentence]]) -> dict[str, str]:
    """The paths of files of sentences, by name."""
    paths = {name: os.path.join(folder, f"{name}.txt") for name in files}
    for name, sentences in files.items():
        with whole_file(paths[name], "w") as file:
            for sentence in sentences:
                file.writelines(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, sentence.tags, strict=True))
                file.write("\n")
    return paths


def files_of(options) -> dict[str, list[TaggedSentence]]:
    """The sentences of all three files, those to learn from shuffled once."""
    found = {name: read_sentences(getattr(options, name), None, None) for name in ("train", "dev", "test")}
    random.Random(0).shuffle(found["train"])
    found["dev"], found["test"] = found["dev"][: options.dev_sentences], found["test"][: options.test_sentences]
    return found


def without_a_network(train: list[TaggedSentence], test: list[TaggedSentence]) -> tuple[float, float]:
    """The accuracy of words where all are O, and the F1 where each has its commonest tag in the sentences to learn from."""
    common, truth = tags_of_words(train), [sentence.tags for sentence in test]
    silent = scores([["O"] * len(tags) for tags in truth], truth)["accuracy"]
    return silent, scores([[common.get(word, "O") for word in s.words] for s in test], truth)["entity_f1"]


def tags_of_words(train: list[TaggedSentence]) -> dict[str, str]:
    """The commonest tag of each word."""
    by_word: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    return {word: found.most_common(1)[0][0] for word, found in by_word.items()}


def commonest_tags(train: list[TaggedSentence], test: list[TaggedSentence]) -> float:
    """The share of words whose tag is the commonest of the word, or of all words where it is new."""
    common, tags = tags_of_words(train), collections.Counter(tag for sentence in train for tag in sentence.tags)
    usual = tags.most_common(1)[0][0]
    right = [common.get(word, usual) == tag for s in test for word, tag in zip(s.words, s.tags, strict=True)]
    return sum(right) / len(right)


def parser_of(description: str) -> argparse.ArgumentParser:
    """With the flags that all such reproductions have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "dev", "test", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--language", choices=("en", "zh"), required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--dev_sentences", type=int, default=500)
    parser.add_argument("--test_sentences", type=int, default=3000)
    parser.add_argument("--results", default=RESULTS, help="Where the page goes.")
    return parser
