"""What each layer of a pretrained network knows of words: parts of speech, chunks and names, by a linear classifier on frozen states
(Tenney et al., 2019, arXiv 1905.05950; Liu, Gardner et al., 2019, arXiv 1903.08855).

    python -m benchmarks.reproductions.layers --language=en --train=eng.train.gz --dev=eng.testa --test=eng.testb \\
        --columns=speech:1,chunk:2,name:3 --checkpoint=run --folder=layers-en

A word is the state of its first piece, standardized. A logistic regression on the words of `--train_sentences` says its tag. Its
strength is chosen by the first draw of sentences, for each task and layer, on the words of `--dev_sentences`; the test file chooses
nothing. Beside each layer of the network stands that of the same network with random weights, and beside all the tag that a word has
most often in the same sentences. States are computed once.
"""

import os

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions import tagging
from benchmarks.reproductions.commands import kept, network_of
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page, write_picture
from data_pipelines.corpora.conll import TaggedSentence, read_conll
from data_pipelines.text.joining import join_words

LENGTH, BATCH, STRENGTHS = 256, 32, (0.01, 0.1, 1.0)
PRETRAINED, RANDOM = "pretrained", "random weights"


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    columns = dict(part.split(":") for part in options.columns.split(","))
    files = {name: list(read_conll(getattr(options, name))) for name in ("train", "dev", "test")}
    tags = {
        task: {name: [s.tags for s in read_conll(getattr(options, name), 0, int(column))] for name in files}
        for task, column in columns.items()
    }
    draws = drawn(options, {name: len(found) for name, found in files.items()})
    scores = {
        network: kept(os.path.join(options.folder, f"{network.split()[0]}.json"), measured, options, network, files, tags, draws)
        for network in (PRETRAINED, RANDOM)
    }  # fmt: skip
    common = {task: [commonest(files, tags[task], draw) for draw in draws] for task in tags}
    write_report(options, files, scores, common)


def drawn(options, sizes: dict[str, int]) -> list[dict[str, list[int]]]:
    """The sentences of each draw, by the name of their file; those of the test are always the same."""
    found = []
    for seed in options.seeds:
        order = np.random.default_rng(seed).permutation(sizes["train"])
        found.append(
            {
                "train": order[: options.train_sentences].tolist(),
                "dev": list(range(min(options.dev_sentences, sizes["dev"]))),
                "test": list(range(min(options.test_sentences, sizes["test"]))),
            }
        )
    return found


def measured(options, network: str, files, tags, draws) -> dict[str, list[list[float]]]:
    """{task: for each layer, the shares of words that are right, one for each draw}."""
    places = {name: sorted({place for draw in draws for place in draw[name]}) for name in files}
    states = {name: states_of(options, network, [files[name][place] for place in places[name]]) for name in files}
    rows = {name: {place: row for row, place in enumerate(places[name])} for name in files}
    found: dict[str, list[list[float]]] = {}
    for task, by_file in tags.items():
        found[task] = []
        for layer in range(len(states["train"])):
            shares, strength = [], None
            for draw in draws:
                parts = {
                    name: (
                        np.concatenate([states[name][layer][rows[name][place]] for place in chosen]),
                        [tag for place in chosen for tag in by_file[name][place]],
                    )
                    for name, chosen in draw.items()
                }
                strength = strength or max(STRENGTHS, key=lambda each, parts=parts: share(parts, each, "dev"))
                shares.append(share(parts, strength, "test"))
            found[task].append(shares)
            print(network, task, f"layer {layer}", strength, [f"{value:.3f}" for value in shares], flush=True)
    return found


def share(parts, strength: float, name: str) -> float:
    """The share of words of a file whose tag a classifier of the words to learn from names."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=200, tol=1e-3))
    return float(model.fit(*parts["train"]).score(*parts[name]))


def states_of(options, network: str, sentences: list[TaggedSentence]) -> list[list[np.ndarray]]:
    """For each layer, the states (words, D) of each sentence."""
    import keras

    from xmodels.jobs.extract_features.texts import FrozenNetwork, Wanted
    from xmodels.runs.loaded import load

    loaded = load(options.checkpoint)
    if network == RANDOM:
        keras.utils.set_random_seed(0)
        fresh = type(loaded.backbone)(loaded.backbone.config).initialize()
        loaded.backbone.set_weights(fresh.get_weights())
    count = loaded.backbone.config.num_layers + 1
    frozen = FrozenNetwork(loaded, Wanted(",".join(map(str, range(count)))), LENGTH)
    joined = [join_words(sentence.words) for sentence in sentences]
    found: list[list[np.ndarray]] = [[] for _ in range(count)]
    for (text, starts), read in zip(joined, frozen.read([text for text, _ in joined], BATCH), strict=True):
        if read.cut:
            raise ValueError(f"A sentence has more than {LENGTH} pieces: {text[:80]}")
        firsts = [span[0] if span else -1 for span in read.spans]
        pieces = [firsts.index(start) for start in starts]
        for layer, values in enumerate(read.values.values()):
            found[layer].append(values[pieces])
    return found


def commonest(files, tags, draw) -> float:
    """The share of test words whose tag is the one that the word has most often in the sentences to learn from."""
    train = [TaggedSentence(files["train"][p].words, tags["train"][p], []) for p in draw["train"]]
    test = [TaggedSentence(files["test"][p].words, tags["test"][p], []) for p in draw["test"]]
    return tagging.commonest_tags(train, test)


def centre(values: list[float]) -> float:
    """The mean layer, each counted by what it has above the worst one: where in the network something stands."""
    gains = np.array(values) - min(values)
    return float(gains @ np.arange(len(values)) / gains.sum())


def write_report(options, files, scores, common) -> None:
    means = {
        network: {task: [float(np.mean(shares)) for shares in layers] for task, layers in found.items()}
        for network, found in scores.items()
    }
    tasks, layers = list(common), range(len(next(iter(means[PRETRAINED].values()))))
    best = {task: int(np.argmax(means[PRETRAINED][task])) for task in tasks}
    claims = {
        "the best layer of each task is better than the commonest tag of a word, and than every layer of random weights": all(
            max(means[PRETRAINED][task]) > max(np.mean(common[task]), *means[RANDOM][task]) for task in tasks
        ),
        "no task is answered best by the embedding": all(best[task] > 0 for task in tasks),
        f"what stands lower in the network comes earlier in the list of tasks ({', '.join(tasks)})": sorted(
            tasks, key=lambda task: centre(means[PRETRAINED][task])
        ) == tasks,
        "the last layer is the best one for no task": all(best[task] < layers[-1] for task in tasks),
    }  # fmt: skip
    rows = [["commonest tag of each word", *(mean_and_deviation(common[task], scale=100) for task in tasks)]]
    for network in (PRETRAINED, RANDOM):
        for layer in layers:
            name = "embedding" if layer == 0 else f"layer {layer}"
            rows.append(
                [f"{network}, {name}", *(mean_and_deviation(scores[network][t][layer], scale=100) for t in tasks)]
            )
    name = f"layers_{options.language}"
    parts = [
        verdict(claims),
        table(["states", *tasks], rows),
        f"Words with the right tag in percent, {min(options.test_sentences, len(files['test'])):,} test sentences, mean and deviation "
        f"of {len(options.seeds)} draws of {options.train_sentences:,} sentences to learn from. A linear classifier on the state of "
        f"the first piece of a word, its strength by the first draw on {min(options.dev_sentences, len(files['dev'])):,} others. "
        f"Where a task stands, the mean layer weighted by gains over its worst: "
        f"{', '.join(f'{task} {centre(means[PRETRAINED][task]):.2f}' for task in tasks)}. "
        f"The network: {network_of(options.checkpoint)}.",
        f"![words]({name}.png)",
        environment(f"python -m benchmarks.reproductions.layers --language={options.language} …", options.seeds),
    ]  # fmt: skip
    write_picture(name, draw_layers(means, common), folder=options.results)
    print(write_page(name, "What each layer knows of words", parts, folder=options.results))


def draw_layers(means, common):
    def picture(figure):
        axes = figure.subplots(1, len(common), squeeze=False)[0]
        for axis, task in zip(axes, common, strict=True):
            for network, style in ((PRETRAINED, "o-"), (RANDOM, "s:")):
                axis.plot([100 * value for value in means[network][task]], style, label=network)
            axis.axhline(100 * np.mean(common[task]), color="black", linestyle="--", label="commonest tag")
            axis.set(title=task, xlabel="layer")
        axes[0].set_ylabel("words right, %")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

    return picture


def parsed(arguments):
    parser = tagging.parser_of(__doc__)
    parser.add_argument(
        "--columns", required=True, help="tasks and their columns, such as speech:1,chunk:2; the words are column 0"
    )
    parser.add_argument("--checkpoint", required=True, help="a run or model folder, or hf:FOLDER")
    parser.add_argument("--train_sentences", type=int, default=500)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
