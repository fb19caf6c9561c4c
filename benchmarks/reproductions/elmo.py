"""ELMo: features of a frozen bidirectional language model for parts of speech (Peters et al., 2018, table 1 and section 5.1).

    python -m benchmarks.reproductions.elmo --language=en --text=text.txt --train=train.conllu --dev=dev.conllu --test=test.conllu \\
        --folder=elmo-en

One network learns from a text without labels. Taggers of one size, a BiLSTM of two layers, then take equally many steps on few
sentences: over vectors of words that they learn themselves, over a learnt sum of the layers of the frozen network, over the last layer
alone, over that sum below and beside the BiLSTM, and over a network with random weights. The first seed chooses the rate of each
arm on development sentences; the test file chooses nothing. Two lines need no network: the commonest tag, and each word the tag
that it has most often in the same sentences. Interrupted, the same command goes on.
"""

import collections
import os

from benchmarks.measure import table
from benchmarks.reproductions import tagging
from benchmarks.reproductions.commands import fine_tuned, is_finished, make_records, results_of, run, tuned
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page
from data_pipelines.files import write_json

WORDS, STEPS_OF_ROWS, BATCH, LENGTH, DIM = 10_000, 20, 16, 96, 64
SIZES = "hidden_dim=128,cell_dim=256,num_sampled=1024"
OWN, MIXED, LAST, BOTH, RANDOM = (
    "vectors of words, learnt with the task", "ELMo, learnt sum", "ELMo, last layer", "ELMo, sum below and beside",
    "random ELMo, learnt sum",
)  # fmt: skip
FROZEN = {"freeze_backbone": True, "bilstm_dim": DIM}
ARMS = {
    OWN: {},
    MIXED: FROZEN | {"feature_layers": "0,1,2"},
    LAST: FROZEN | {"feature_layers": "-1"},
    BOTH: FROZEN | {"feature_layers": "0,1,2", "combine_layers": "mix_both"},
    RANDOM: FROZEN | {"feature_layers": "0,1,2", "random_init": True},
}


def pretrained(options) -> str:
    """The folder of the network."""
    vocabulary, records, folder = (os.path.join(options.folder, name) for name in ("vocabulary", "records", "model"))
    if not os.path.exists(vocabulary):
        run(
            "train_vocabulary", input_file=options.text, tokenizer="word_characters", vocab_size=WORDS,
            output_file=vocabulary,
        )  # fmt: skip
    make_records(
        records,
        input_file=options.text,
        vocab_file=vocabulary,
        packing="sentence_streams",
        max_seq_length=STEPS_OF_ROWS,
    )
    if not is_finished(folder):
        run(
            "pretrain", system="elmo", size="tiny", set=SIZES, data_dir=records, model_dir=folder, train_batch_size=32,
            num_train_steps=options.pretraining_steps, seed=1,
        )  # fmt: skip
    return folder


def scores_of(options, checkpoint: str, words: str, paths: dict[str, str], name: str) -> tuple[str, list[float]]:
    """The rate that the first seed chose, and the accuracy of all seeds on the test file."""
    switches = [f"--{key}" for key, value in ARMS[name].items() if value is True]
    values = {key: value for key, value in ARMS[name].items() if value is not True}
    start = {"init_checkpoint": checkpoint}
    if name == OWN:
        sizes = os.path.join(options.folder, "bilstm.json")
        write_json(sizes, {"num_layers": 2, "hidden_dim": 2 * DIM})
        start = {"init_checkpoint": "new:bilstm", "vocab_file": words, "model_config_file": sizes}

    def scored(rate: str, seed: int) -> dict[str, float]:
        label = name.replace(",", "").replace(" ", "-")
        return fine_tuned(
            os.path.join(options.folder, f"{label}-{rate}-{seed}"), *switches, task="tag", train_file=paths["train"],
            eval_file=paths["dev"], test_file=paths["test"], learning_rate=rate, seed=seed,
            num_train_epochs=options.steps * BATCH / options.train_sentences, train_batch_size=BATCH,
            eval_every=max(1, options.steps // 4), max_seq_length=LENGTH, length_buckets="auto", **start, **values,
        )  # fmt: skip

    # Each word counts as a span where tags are no tags of spans, so this is the share of words whose tag is right.
    rate, found = tuned(scored, options.rates, options.seeds, "evaluation entity_f1")
    return rate, [each["test entity_f1"] for each in found]


def without_a_network(train, test) -> tuple[float, float]:
    """The accuracy of the commonest tag, and of the commonest tag of each word."""
    by_word: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            by_word[word][tag] += 1
    ((most, _),) = sum(by_word.values(), collections.Counter()).most_common(1)
    common = {word: found.most_common(1)[0][0] for word, found in by_word.items()}
    pairs = [pair for sentence in test for pair in zip(sentence.words, sentence.tags, strict=True)]
    right = (sum(tag == most for _, tag in pairs), sum(tag == common.get(word, most) for word, tag in pairs))
    return right[0] / len(pairs), right[1] / len(pairs)


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    files = tagging.files_of(options)
    files["train"] = files["train"][: options.train_sentences]
    paths, checkpoint = tagging.write_files(options.folder, files), pretrained(options)
    text, words = (os.path.join(options.folder, name) for name in ("words.txt", "words"))
    if not os.path.exists(words):
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(" ".join(sentence.words) + "\n" for sentence in files["train"])
        run("train_vocabulary", input_file=text, tokenizer="words", vocab_size=WORDS, output_file=words)
    found, rates = {}, {}
    for name in ARMS:
        rates[name], found[name] = scores_of(options, checkpoint, words, paths, name)
    write_report(options, files, results_of(checkpoint), found, rates)


def write_report(options, files, pretraining, found, rates) -> None:
    most, common = without_a_network(files["train"], files["test"])
    means = {name: 100 * sum(values) / len(values) for name, values in found.items()}
    fewer = (100 - means[OWN] - (100 - means[MIXED])) / (100 - means[OWN])
    claims = {
        "features of the frozen network are better than vectors that are learnt with the task": means[MIXED] > means[OWN],
        f"they leave out 15 to 40 % of its errors, or more (here {100 * fewer:.0f} %)": fewer >= 0.15,
        "a learnt sum of all layers is better than the last one": means[MIXED] > means[LAST],
        "a second sum beside the BiLSTM makes it no worse, within half a point": means[BOTH] >= means[MIXED] - 0.5,
        "it is the pretraining: random weights are worse by more than two points": means[MIXED] > means[RANDOM] + 2,
        "the features are better than the commonest tag of each word": means[MIXED] > 100 * common,
    }  # fmt: skip
    rows = [
        ["commonest tag", f"{100 * most:.1f}", ""], ["commonest tag of each word", f"{100 * common:.1f}", ""],
        *([name, mean_and_deviation(values, scale=100), rates[name]] for name, values in found.items()),
    ]  # fmt: skip
    scores = ", ".join(f"{name} {value:.1f}" for name, value in pretraining.items() if "perplexity" in name)
    pages = [
        verdict(claims),
        table(["arm", "words right", "rate"], rows),
        f"Words whose tag is right, in percent, on {len(files['test']):,} sentences; mean and deviation of {len(options.seeds)} "
        "seed(s). "
        f"{len(files['train']):,} sentences to learn from, {options.steps} steps of {BATCH}. Rates by the first seed on "
        f"{len(files['dev']):,} other sentences. BiLSTMs have two layers of {DIM} in each direction. The network: `elmo` tiny with "
        f"`--set={SIZES}`, {options.pretraining_steps:,} steps of 32 x {STEPS_OF_ROWS} words in each direction"
        + (f" ({scores})." if scores else "."),
        environment("python -m benchmarks.reproductions.from_shared_data elmo_en --work_dir=work", options.seeds),
    ]
    print(
        write_page(
            f"elmo_{options.language}", "ELMo: features of a frozen language model", pages, folder=options.results
        )
    )


def parsed(arguments):
    parser = tagging.parser_of(__doc__)
    parser.add_argument("--text", required=True, help="without labels")
    parser.add_argument("--pretraining_steps", type=int, default=800)
    parser.add_argument("--train_sentences", type=int, default=500)
    parser.add_argument("--rates", nargs="+", default=["1e-3", "4e-3"])
    parser.add_argument("--steps", type=int, default=120)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
