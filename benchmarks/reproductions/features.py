"""Fine-tuning against features of a frozen network, for named entities (Devlin et al., 2018, table 7).

    python -m benchmarks.reproductions.features --language=en --train=eng.train.gz --dev=eng.testa --test=eng.testb \\
        --checkpoint=run --folder=features-en

A frozen network is read by a BiLSTM of two layers: from its embedding, from one of its last two layers, from a learnt sum of all, or
from up to four of the last side by side. Beside them stand the last layer read by one Dense layer, the same BiLSTM over random
frozen weights, and fine-tuning from random weights. All arms take equally many steps; the first seed chooses the rate of
each on the first `--dev_sentences` of the evaluation file, and the test file chooses nothing. Two lines need no network: all words O,
and each word the tag that it has most often in the same sentences. Interrupted, the same command goes on.
"""

import os

from benchmarks.measure import table
from benchmarks.reproductions import tagging
from benchmarks.reproductions.commands import fine_tuned, network_of, tuned
from benchmarks.reproductions.pages import environment, mean_and_deviation, take_further_flags, verdict, write_page

BATCH = 16
EVALUATIONS = 4  # of a fine-tuning, which choose the state that is kept
FINE_TUNED, PROBE = "fine-tuning", "last layer, Dense alone"
EMBEDDING, LAST, CONCAT = "embedding", "last layer", "last ones side by side"
RANDOM = "last layer of random weights"
FROZEN = "frozen: "


def arms_of(bilstm_dim: int, num_layers: int) -> dict[str, dict]:
    """The flags of each arm; of those that are frozen without a BiLSTM, one is a probe."""
    read_by = {"bilstm_dim": bilstm_dim}
    every, last = range(num_layers + 1), range(-1, -1 - min(4, num_layers), -1)
    layers = {
        EMBEDDING: {"feature_layers": "0"},
        "second-to-last layer": {"feature_layers": "-2"},
        LAST: {"feature_layers": "-1"},
        "learnt sum of all": {"feature_layers": ",".join(map(str, every))},
        CONCAT: {"feature_layers": ",".join(map(str, last)), "combine_layers": "concat"},
        RANDOM: {"feature_layers": "-1", "random_init": True},
    }
    frozen = {f"{FROZEN}{name}": {"freeze_backbone": True} | flags | read_by for name, flags in layers.items()}
    return {
        FINE_TUNED: {},
        "fine-tuning of random weights": {"random_init": True},
        **frozen,
        f"{FROZEN}{PROBE}": {"freeze_backbone": True, "feature_layers": "-1"},
    }


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    files = tagging.files_of(options)
    files["train"] = files["train"][: options.train_sentences]
    paths = tagging.write_files(options.folder, files)
    found, rates = {}, {}
    for name, flags in arms_of(options.bilstm_dim, num_layers(options.checkpoint)).items():
        rates[name], found[name] = scores_of(options, paths, name, flags, len(files["train"]))
    write_report(options, files, found, rates)


def num_layers(checkpoint: str) -> int:
    from xmodels.conversion import convert

    return convert.load(checkpoint).config.num_layers


def scores_of(options, paths: dict[str, str], name: str, flags: dict, count: int) -> tuple[str, list[float]]:
    """The rate that the first seed chose, and the F1 of all seeds on the test file."""
    switches = [f"--{key}" for key, value in flags.items() if value is True]
    values = {key: value for key, value in flags.items() if value is not True}

    def scored(rate: str, seed: int) -> dict[str, float]:
        label = name.replace(FROZEN, "frozen ").replace(",", "").replace(" ", "-")
        return fine_tuned(
            os.path.join(options.folder, f"{label}-{rate}-{seed}"), *switches, *options.more, task="tag",
            init_checkpoint=options.checkpoint,
            train_file=paths["train"], eval_file=paths["dev"], test_file=paths["test"], learning_rate=rate, seed=seed,
            num_train_epochs=options.steps * BATCH / count, train_batch_size=BATCH,
            eval_every=max(1, options.steps // EVALUATIONS), max_seq_length=options.max_seq_length,
            length_buckets="auto", **values,
        )  # fmt: skip

    rates = options.frozen_rates if "freeze_backbone" in flags else options.rates
    rate, found = tuned(scored, rates, options.seeds, "evaluation entity_f1")
    return rate, [each["test entity_f1"] for each in found]


def write_report(options, files, found, rates) -> None:
    silent, common = tagging.without_a_network(files["train"], files["test"])
    means = {name.removeprefix(FROZEN): 100 * sum(values) / len(values) for name, values in found.items()}
    layers = [name.removeprefix(FROZEN) for name in found if name.startswith(FROZEN)]
    best = max((name for name in layers if name != RANDOM), key=means.get)
    claims = {
        f"the best features are within two points of fine-tuning ({best})": means[best] >= means[FINE_TUNED] - 2,
        "the last layers side by side are as good as the last one, or better": means[CONCAT] >= means[LAST],
        "the embedding alone is the weakest of the pretrained layers": means[EMBEDDING] == min(
            means[name] for name in layers if name not in (RANDOM, PROBE)
        ),
        "features of the pretrained network are better than those of random weights": means[LAST] > means[RANDOM],
    }  # fmt: skip
    rows = [["all words O", "0.0", ""], ["commonest tag of each word", f"{100 * common:.1f}", ""]]
    rows += [[name, mean_and_deviation(values, scale=100), rates[name]] for name, values in found.items()]
    pages = [
        verdict(claims),
        table(["arm", "F1", "rate"], rows),
        f"F1 of entities in percent on {len(files['test']):,} sentences, mean and deviation of {len(options.seeds)} seed(s); all "
        f"words O are {100 * silent:.1f} % of words right. {len(files['train']):,} sentences to learn from, {options.steps} steps of "
        f"{BATCH}. Rates by the first seed on {len(files['dev']):,} other sentences. The BiLSTM has two layers of "
        f"{options.bilstm_dim} in each direction. The network: {network_of(options.checkpoint)}.",
        environment(f"python -m benchmarks.reproductions.features --language={options.language} …", options.seeds),
    ]
    print(
        write_page(
            f"features_{options.language}",
            "Fine-tuning, or features of a frozen network",
            pages,
            folder=options.results,
        )
    )


def parsed(arguments):
    parser = tagging.parser_of(__doc__)
    parser.add_argument("--checkpoint", required=True, help="a run or model folder")
    parser.add_argument("--train_sentences", type=int, default=2000)
    parser.add_argument("--rates", nargs="+", default=["1e-4", "3e-4"], help="of fine-tuning")
    parser.add_argument("--frozen_rates", nargs="+", default=["1e-3", "3e-3"], help="of what reads a frozen network")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--bilstm_dim", type=int, default=128)
    parser.add_argument("--max_seq_length", type=int, default=128)
    take_further_flags(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
