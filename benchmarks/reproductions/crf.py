"""A linear-chain CRF against a softmax for each word, with few labelled sentences (Lample et al., 2016; Devlin et al., 2018).

    python -m benchmarks.reproductions.crf --language=en --train=eng.train.gz --dev=eng.testa --test=eng.testb \\
        --checkpoint=run --folder=crf-en

Each arm is a fine-tuning by so many steps from `--checkpoint`, or without it from random weights with a vocabulary of the training
text. The first seed chooses the rate of each arm and number of sentences on the first `--dev_sentences` of the evaluation file; the
test file chooses nothing. Beside them stand two lines that need no network: all words O, and each word the tag that it has most often
in the same sentences. Interrupted, the same command goes on: what is finished in `--folder` is not made again. A look in two minutes:
`--sentences 40 --seeds 1 --rates 1e-3 --steps 40 --dev_sentences 100 --test_sentences 200`.
"""

import argparse
import collections
import os
import random
import shutil

from benchmarks.measure import table
from benchmarks.reproductions.common import (
    environment,
    is_finished,
    mean_and_deviation,
    results_of,
    run,
    verdict,
    write_page,
    write_picture,
)
from data_pipelines.corpora.conll import TaggedSentence
from xmodels.tasks.tag.read import read_sentences
from xmodels.tasks.tag.score import scores

ARMS = {"softmax": "--nocrf", "CRF": "--crf"}
BATCH, LENGTH, PIECES = 16, 128, 3000
TEST_F1 = "test entity_f1"


def written(path: str, sentences: list[TaggedSentence]) -> str:
    """A file of sentences, which is made unless it is there."""
    if not os.path.isfile(path):
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            for sentence in sentences:
                file.writelines(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, sentence.tags, strict=True))
                file.write("\n")
        os.replace(f"{path}.new", path)
    return path


def files_of(options) -> dict[str, list[TaggedSentence]]:
    """The sentences of all three files, those to learn from shuffled once."""
    found = {name: read_sentences(getattr(options, name), None, None) for name in ("train", "dev", "test")}
    random.Random(0).shuffle(found["train"])
    found["dev"], found["test"] = found["dev"][: options.dev_sentences], found["test"][: options.test_sentences]
    return found


def random_network(options, sentences: list[TaggedSentence]) -> str:
    """A model folder with random weights and a vocabulary of the text."""
    from data_pipelines.text.joining import join_words
    from data_pipelines.text.kinds import open_tokenizer
    from xmodels.models import folder
    from xmodels.models.bert import Bert, BertConfig

    path, text = os.path.join(options.folder, "network"), os.path.join(options.folder, "text.txt")
    if os.path.isdir(path):
        return path
    with open(text, "w", encoding="utf-8") as file:
        file.writelines(f"{join_words(sentence.words)[0]}\n" for sentence in sentences)
    run(
        "train_vocabulary", "--overwrite", input_file=text, language=options.language, vocab_size=PIECES,
        output_file=os.path.join(options.folder, "vocab.txt"),
    )  # fmt: skip
    tokenizer = open_tokenizer(os.path.join(options.folder, "vocab.txt"))
    config = BertConfig(len(tokenizer.vocabulary), 128, 2, 2, 512, max_sequence_length=LENGTH)
    os.makedirs(f"{path}.new")
    made = Bert(config).initialize()
    folder.write_model(f"{path}.new", made, None, tokenizer.files(), tokenizer.describe(), "bert")
    os.rename(f"{path}.new", path)
    return path


def fine_tuned(options, paths: dict[str, str], arm: str, count: int, rate: str, seed: int) -> dict[str, float]:
    """What a fine-tuning scored, which is made unless it is finished."""
    folder = os.path.join(options.folder, f"{arm}-{count}-{rate}-{seed}")
    if not is_finished(folder):
        run(
            "finetune", ARMS[arm], *options.more, task="tag", init_checkpoint=options.checkpoint, model_dir=folder,
            train_file=paths[str(count)], eval_file=paths["dev"], test_file=paths["test"], learning_rate=rate, seed=seed,
            num_train_epochs=options.steps * BATCH / count, train_batch_size=BATCH, max_seq_length=LENGTH,
            save_checkpoints_steps=10**6, length_buckets="auto",
        )  # fmt: skip
    for part in ("checkpoints", "tensorboard", "backbone"):
        shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
    return results_of(folder)


def seeds_of(options, paths: dict[str, str], arm: str, count: int) -> tuple[str, list[float]]:
    """The rate that the first seed chose, and the F1 of all seeds on the test file."""
    first, *others = options.seeds
    tried = {rate: fine_tuned(options, paths, arm, count, rate, first) for rate in options.rates}
    rate = max(tried, key=lambda each: tried[each]["evaluation entity_f1"])
    return rate, [tried[rate][TEST_F1], *(fine_tuned(options, paths, arm, count, rate, s)[TEST_F1] for s in others)]


def without_a_network(train: list[TaggedSentence], test: list[TaggedSentence]) -> tuple[float, float]:
    """The accuracy of words where all are O, and the F1 where each has its commonest tag in the sentences to learn from."""
    by_word: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    common = {word: found.most_common(1)[0][0] for word, found in by_word.items()}
    truth = [sentence.tags for sentence in test]
    silent = scores([["O"] * len(tags) for tags in truth], truth)["accuracy"]
    return silent, scores([[common.get(word, "O") for word in s.words] for s in test], truth)["entity_f1"]


def draw(found: dict[str, list[list[float]]], counts: list[int], words: list[float]):
    def picture(figure):
        axis = figure.subplots()
        for name, colour in (("softmax", "#c83232"), ("CRF", "#1450c8")):
            for place in range(len(found[name][0])):
                values = [100 * row[place] for row in found[name]]
                axis.plot(counts, values, "o-", color=colour, alpha=0.5, label=name if not place else None)
        axis.plot(counts, [100 * value for value in words], "k--", label="commonest tag of each word")
        axis.set(xscale="log", xlabel="labelled sentences", ylabel="F1 of entities, %")
        axis.set_xticks(counts, map(str, counts))
        axis.legend(frameon=False)

    return picture


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    files = files_of(options)
    options.checkpoint = options.checkpoint or random_network(options, files["train"])
    paths = {name: written(os.path.join(options.folder, f"{name}.txt"), files[name]) for name in ("dev", "test")}
    for count in options.sentences:
        paths[str(count)] = written(os.path.join(options.folder, f"train-{count}.txt"), files["train"][:count])
    found, rates, rows, by_word = {arm: [] for arm in ARMS}, [], [], []
    for count in options.sentences:
        silent, common = without_a_network(files["train"][:count], files["test"])
        by_word.append(common)
        for arm in ARMS:
            rate, values = seeds_of(options, paths, arm, count)
            found[arm].append(values)
            rates.append(f"{arm} {count}: {rate}")
        rows.append(
            [str(count), f"{100 * common:.1f}", *(mean_and_deviation(found[arm][-1], scale=100) for arm in ARMS)]
        )
    better = [sum(c) / len(c) > sum(s) / len(s) for c, s in zip(found["CRF"], found["softmax"], strict=True)]
    claims = {
        f"with {n} sentences the CRF is better on average": holds
        for n, holds in zip(options.sentences, better, strict=True)
    }
    begun = "random weights" if options.checkpoint.endswith("network") else options.checkpoint
    name = f"crf_{options.language}"
    parts = [
        verdict(claims),
        table(["sentences", "commonest tag of each word", *ARMS], rows),
        f"F1 of entities in percent on {len(files['test']):,} sentences, mean and deviation of {len(options.seeds)} seed(s). All "
        f"words O: F1 0, accuracy of words {100 * silent:.1f} %. {options.steps} steps of {BATCH} sentences from {begun}. Rates by "
        f"the first seed on {len(files['dev']):,} other sentences: {', '.join(rates)}.",
        f"![F1]({name}.png)",
        environment(f"python -m benchmarks.reproductions.crf --language={options.language} …", options.seeds),
    ]
    write_picture(name, draw(found, options.sentences, by_word), folder=options.results)
    print(write_page(name, "Tags one by one or together, with few labels", parts, folder=options.results))


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "dev", "test", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--language", choices=("en", "zh"), required=True)
    parser.add_argument("--checkpoint", help="A run or model folder. Default: random weights.")
    parser.add_argument("--sentences", type=int, nargs="+", default=[50, 100, 200, 500])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["1e-4", "3e-4", "1e-3"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--dev_sentences", type=int, default=500)
    parser.add_argument("--test_sentences", type=int, default=3000)
    parser.add_argument("--results", help="Where the page goes. Default: the folder.")
    parser.add_argument("--more", nargs="*", default=[], help="Further flags of finetune.")
    options = parser.parse_args(arguments)
    options.results = options.results or options.folder
    return options


if __name__ == "__main__":
    main()
