"""A linear-chain CRF against a softmax for each word, with few labelled sentences (Lample et al., 2016; Devlin et al., 2018).

    python -m benchmarks.reproductions.crf --language=en --train=eng.train.gz --dev=eng.testa --test=eng.testb \\
        --checkpoint=run --folder=crf-en

Each arm is a fine-tuning by so many steps from `--checkpoint`, or without it from random weights with a vocabulary of the training
text. The first seed chooses the rate of each arm and number of sentences on the first `--dev_sentences` of the evaluation file; the
test file chooses nothing. Beside them stand both from random weights, at rates of their own, and two lines that need no network: all
words O, and each word the tag that it has most often in the same sentences. Interrupted, the same command goes on: what is finished in
`--folder` is not made again. A look in two minutes:
`--sentences 40 --seeds 1 --rates 1e-3 --steps 40 --dev_sentences 100 --test_sentences 200`.
"""

import os

from benchmarks.measure import table
from benchmarks.reproductions import tagging
from benchmarks.reproductions.commands import fine_tuned, network_of, run, tuned
from benchmarks.reproductions.pages import (
    environment,
    mean_and_deviation,
    take_further_flags,
    verdict,
    write_page,
    write_picture,
)
from data_pipelines.corpora.conll import TaggedSentence

ARMS = {"softmax": ("--nocrf",), "CRF": ("--crf",)}
RANDOM = {f"{arm}, random weights": (*flags, "--random_init") for arm, flags in ARMS.items()}
BATCH, LENGTH, PIECES = 16, 128, 3000
EVALUATIONS = 8  # of a fine-tuning, which choose the state that is kept


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


def seeds_of(options, paths: dict[str, str], arm: str, count: int) -> tuple[str, list[float]]:
    """The rate that the first seed chose, and the F1 of all seeds on the test file."""
    label = arm.replace(", ", "-").replace(" ", "-")

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            os.path.join(options.folder, f"{label}-{count}-{rate}-{seed}"), *(ARMS | RANDOM)[arm], *options.more, task="tag",
            init_checkpoint=options.checkpoint, train_file=paths[str(count)], eval_file=paths["dev"], test_file=paths["test"],
            learning_rate=rate, seed=seed, num_train_epochs=options.steps * BATCH / count, train_batch_size=BATCH,
            eval_every=max(1, options.steps // EVALUATIONS),
            max_seq_length=LENGTH, length_buckets="auto",
        )  # fmt: skip

    rates = options.random_rates if arm in RANDOM else options.rates
    rate, found = tuned(scored, rates, options.seeds, "evaluation entity_f1")
    return rate, [each["test entity_f1"] for each in found]


def draw(found: dict[str, list[list[float]]], counts: list[int], words: list[float]):
    def picture(figure):
        axis = figure.subplots()
        for name, colour in (("softmax", "#c83232"), ("CRF", "#1450c8")):
            for place in range(len(found[name][0])):
                values = [100 * row[place] for row in found[name]]
                axis.plot(counts, values, "o-", color=colour, alpha=0.5, label=name if not place else None)
            arm = f"{name}, random weights"
            if arm in found:
                axis.plot(counts, [100 * sum(row) / len(row) for row in found[arm]], ":", color=colour, label=arm)
        axis.plot(counts, [100 * value for value in words], "k--", label="commonest tag of each word")
        axis.set(xscale="log", xlabel="labelled sentences", ylabel="F1 of entities, %")
        axis.set_xticks(counts, map(str, counts))
        axis.legend(frameon=False)

    return picture


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    files = tagging.files_of(options)
    begun = network_of(options.checkpoint) if options.checkpoint else "random weights"
    arms = [*(RANDOM if options.checkpoint else ()), *ARMS]
    options.checkpoint = options.checkpoint or random_network(options, files["train"])
    parts = {str(count): files["train"][:count] for count in options.sentences}
    paths = tagging.write_files(options.folder, {"dev": files["dev"], "test": files["test"], **parts})
    found, rates, rows, by_word = {arm: [] for arm in arms}, [], [], []
    for count in options.sentences:
        silent, common = tagging.without_a_network(files["train"][:count], files["test"])
        by_word.append(common)
        for arm in arms:
            rate, values = seeds_of(options, paths, arm, count)
            found[arm].append(values)
            rates.append(f"{arm} {count}: {rate}")
        rows.append(
            [str(count), f"{100 * common:.1f}", *(mean_and_deviation(found[arm][-1], scale=100) for arm in arms)]
        )
    better = [sum(c) / len(c) > sum(s) / len(s) for c, s in zip(found["CRF"], found["softmax"], strict=True)]
    claims = {
        f"with {n} sentences the CRF is better on average": holds
        for n, holds in zip(options.sentences, better, strict=True)
    }
    name = f"crf_{options.language}"
    parts = [
        verdict(claims),
        table(["sentences", "commonest tag of each word", *arms], rows),
        f"F1 of entities in percent on {len(files['test']):,} sentences, mean and deviation of {len(options.seeds)} seed(s). All "
        f"words O: F1 0, accuracy of words {100 * silent:.1f} %. {options.steps} steps of {BATCH} sentences from {begun}. Rates by "
        f"the first seed on {len(files['dev']):,} other sentences: {', '.join(rates)}.",
        f"![F1]({name}.png)",
        environment(f"python -m benchmarks.reproductions.crf --language={options.language} …", options.seeds),
    ]
    write_picture(name, draw(found, options.sentences, by_word), folder=options.results)
    print(write_page(name, "Tags one by one or together, with few labels", parts, folder=options.results))


def parsed(arguments):
    parser = tagging.parser_of(__doc__)
    parser.add_argument("--checkpoint", help="A run or model folder. Default: random weights.")
    parser.add_argument("--sentences", type=int, nargs="+", default=[50, 100, 200, 500])
    parser.add_argument("--rates", nargs="+", default=["1e-4", "3e-4", "1e-3"])
    parser.add_argument(
        "--random_rates", nargs="+", default=["1e-4", "3e-4", "1e-3"], help="of networks of random weights"
    )
    parser.add_argument("--steps", type=int, default=600)
    take_further_flags(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
