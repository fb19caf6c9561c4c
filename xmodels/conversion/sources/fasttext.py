"""Binary files of the fastText library, `.bin` and quantized `.ftz`: vectors of words with their parts, and classifiers."""

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.subwords import word_table
from data_pipelines.text.vocabulary import SEP, SPECIAL_TOKENS
from xmodels.conversion import fasttext_files
from xmodels.conversion.fasttext_files import END, FastTextFile
from xmodels.conversion.formats import published_heads
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.fasttext import FastTextConfig
from xmodels.models.fasttext_classifier import FastTextClassifierConfig
from xmodels.tasks.base.published_head import MULTI_LABEL, SEQUENCE, SINGLE_LABEL

MODEL = "fasttext"
TITLE = "fastText's .bin and .ftz"
LABEL = "__label__"
# Loss of a file -> what a head for it answers, and back to the number of the loss; a tree of labels has the loss `TREE`.
PROBLEMS = {"hs": SINGLE_LABEL, "softmax": SINGLE_LABEL, "ns": SINGLE_LABEL, "ova": MULTI_LABEL}
LOSSES = {SINGLE_LABEL: 3, MULTI_LABEL: 4}
TREE = 1
# What a file says that a network of ours does not: the defaults of the library.
DEFAULTS = {"ws": 5, "epoch": 5, "minCount": 1, "neg": 5, "wordNgrams": 1, "lrUpdateRate": 100, "t": 1e-4}
SKIP_GRAM, SUPERVISED = 2, 3


def model_of(path: str) -> str:
    """Returns the network of a file."""
    return "fasttext_classifier" if fasttext_files.read(path).model == "supervised" else MODEL


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a file. A classifier by softmax or by a tree becomes the head of one label, one-versus-all that of several.

    Raises:
        CheckpointError: the file is damaged, or holds what has no place here.
    """
    found = fasttext_files.read(path)
    own = [word for word in found.words if word != END]
    odd = next((word for word in own if not word or word in SPECIAL_TOKENS or any(c in word for c in "\n\r")), None)
    if odd is not None:
        raise CheckpointError(f"{path}: the word {odd!r} cannot stand in a vocabulary of ours.")
    tokens = [*SPECIAL_TOKENS, *own]
    files = {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode("utf-8", "replace")}
    settings = {"tokenizer": "word_characters", "do_lower_case": False, "segmenter": "presegmented"}
    values = {"backbone.rows.table.embeddings": _rows(found, tokens)}
    numbers = {
        "vocabulary_size": len(tokens), "hidden_dim": found.inputs.shape[1], "buckets": int(found.arguments["bucket"]),
        "shortest_ngram": int(found.arguments["minn"]), "longest_ngram": int(found.arguments["maxn"]),
        "kept_buckets": len(found.kept or ()),
        "unknown_id": SPECIAL_TOKENS.index("[UNK]"),
    }  # fmt: skip
    if found.kept is not None:
        numbers["buckets"] = numbers["buckets"] if found.kept else 0
    if found.kept:
        values["backbone.rows.kept"] = np.array(sorted(found.kept), np.float32)
    tokenizer = TokenizerFiles(files, settings, path)
    if found.model != "supervised":
        values["backbone.contexts.embeddings"] = _outputs(found, tokens)
        return Checkpoint(MODEL, FastTextConfig(**numbers), values, tokenizer, system="fasttext")
    return _classifier(found, numbers, values, tokenizer, path)


def _classifier(found: FastTextFile, numbers, values, tokenizer, path: str) -> Checkpoint:
    task = _heads()[PROBLEMS[found.loss]]
    config = FastTextClassifierConfig(**numbers, word_ngrams=int(found.arguments["wordNgrams"]))
    labels, settings, outputs = tuple(label.removeprefix(LABEL) for label in found.labels), {}, found.outputs
    if found.loss == "hs":
        settings = {"label_counts": np.maximum(found.label_counts, 1).tolist()}
        outputs = outputs[: max(1, len(labels) - 1)]  # a tree has one inner node less than it has labels
    values[f"objective.{task}.head.kernel"] = outputs.T.copy()
    return Checkpoint("fasttext_classifier", config, values, tokenizer, frozenset({task}), labels, settings=settings)


def _rows(found: FastTextFile, tokens: list[str]) -> np.ndarray:
    """Returns the rows of our words, then those of buckets in their order. The end of a line is our separator."""
    ids = {word: place for place, word in enumerate(found.words)}
    rows = np.zeros((len(tokens), found.inputs.shape[1]), np.float32)
    for place, token in enumerate(tokens):
        wanted = END if token == SEP else token
        if wanted in ids and token not in set(SPECIAL_TOKENS) - {SEP}:
            rows[place] = found.inputs[ids[wanted]]
    buckets = found.inputs[len(found.words) :]
    if found.kept:
        buckets = buckets[[found.kept[bucket] for bucket in sorted(found.kept)]]
    return np.concatenate([rows, buckets])


def _outputs(found: FastTextFile, tokens: list[str]) -> np.ndarray:
    ids = {word: place for place, word in enumerate(found.words)}
    outputs = np.zeros((len(tokens), found.inputs.shape[1]), np.float32)
    if found.loss == "ns":
        for place, token in enumerate(tokens):
            wanted = END if token == SEP else token
            if wanted in ids:
                outputs[place] = found.outputs[ids[wanted]]
    return outputs


def to_file(loaded: Checkpoint, target: str) -> FastTextFile:
    """Returns what a `.bin` holds of a network and its head. How often words occur is not known any more: their order stands for it.

    Raises:
        CheckpointError: the format has no place for the network or its head, or there is no vocabulary.
    """
    config, values = loaded.config, loaded.values
    if loaded.model not in (MODEL, "fasttext_classifier") or loaded.tokenizer is None:
        raise CheckpointError(
            f"{target}: fastText's binary files hold a fasttext or fasttext_classifier with its vocabulary; this is a {loaded.model}. "
            "Write fasttext:FILE.vec."
        )
    if config.kept_buckets:
        raise CheckpointError(
            f"{target}: of this network buckets were pruned, which only quantized files of fastText express."
        )
    vocabulary = loaded.tokenizer.open().vocabulary
    own = [place for place in range(len(vocabulary)) if place not in vocabulary.special_ids]
    order = [vocabulary[SEP], *own]
    table = values["backbone.rows.table.embeddings"]
    inputs = np.concatenate([table[order], table[config.vocabulary_size :]])
    arguments = {
        **DEFAULTS, "dim": config.hidden_dim, "bucket": config.buckets, "minn": config.shortest_ngram, "maxn": config.longest_ngram,
        "loss": 2, "model": SKIP_GRAM,
    }  # fmt: skip
    labels: list[str] = []
    if loaded.model == MODEL:
        outputs = values["backbone.contexts.embeddings"][order]
    else:
        labels, outputs, loss = _answers(loaded, target)
        arguments |= {"model": SUPERVISED, "loss": loss, "wordNgrams": config.word_ngrams}
    words = [END, *(vocabulary.tokens[place] for place in own)]
    counts, label_counts = (np.arange(len(entries), 0, -1, np.int64) for entries in (words, labels))
    if tree := loaded.settings.get("label_counts"):  # the library builds it again, of labels whose counts fall
        order = np.argsort(-np.array(tree), kind="stable")
        labels, label_counts = [labels[place] for place in order], np.array(tree, np.int64)[order]
    return FastTextFile(arguments, words, counts, labels, label_counts, None, inputs, outputs, int(counts.sum()))


def _answers(loaded: Checkpoint, target: str) -> tuple[list[str], np.ndarray, int]:
    """Returns the labels, the matrix of outputs, and the number of the loss."""
    heads = {task: problem for problem, task in _heads().items() if task in loaded.heads}
    if len(heads) != 1 or not loaded.labels or any(f"objective.{task}.head.bias" in loaded.values for task in heads):
        known = " or ".join(f"--task={task}" for task in _heads().values())
        raise CheckpointError(f"{target}: fastText's classifiers have the head of {known}, without a bias.")
    ((task, problem),) = heads.items()
    if odd := [label for label in loaded.labels if not label or any(c.isspace() for c in label)]:
        raise CheckpointError(f"{target}: the label {odd[0]!r} holds a blank, which a file of fastText cannot express.")
    outputs = loaded.values[f"objective.{task}.head.kernel"].T.copy()
    if loaded.settings.get("label_counts"):
        return [f"{LABEL}{label}" for label in loaded.labels], np.pad(outputs, ((0, 1), (0, 0))), TREE
    loss = LOSSES[SINGLE_LABEL if loaded.settings.get("softmax") else problem]
    return [f"{LABEL}{label}" for label in loaded.labels], outputs, loss


def _heads() -> dict[str, str]:
    """Returns the tasks that classify a text, {what they answer: task}."""
    heads = published_heads().items()
    return {head.problem: task for task, head in heads if head.kind == SEQUENCE and head.problem in LOSSES}


def vectors_of_words(config: FastTextConfig, values, words) -> np.ndarray | None:
    """Returns the vectors (V, D) of the words of a vocabulary among the weights {name: array} of a network, with their parts; None
    of a pruned network."""
    if config.kept_buckets:
        return None
    rows, sizes = word_table(words, config.vocabulary_size, config.shortest_ngram, config.longest_ngram, config.buckets)
    starts = np.cumsum([0, *sizes[:-1]])
    sums = np.add.reduceat(values["backbone.rows.table.embeddings"][rows], starts, axis=0)
    return (sums / np.array(sizes)[:, None]).astype(np.float32)
