"""A fine-tuned run as a SavedModel: strings in, labels and probabilities out, nothing of this project needed.

The vocabulary, the tokenizer and the labels are part of the graph.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.serving_text import WORDPIECES, GraphTokenizer
from xmodels.export.predictor import Predictor

README = "README.md"
TITLE = "# A text classifier exported by xmodels"
TITLES = (
    TITLE,
    "# A text generator exported by xmodels",
    "# A translator exported by xmodels",
)  # of all that this room exports
VERSION = "1"  # TensorFlow Serving serves the highest number
INPUTS = ("text", "text_pair")
TOLERANCE = 1e-3  # padding to another length reorders sums, and GPUs round the factors of float32 products (TF32)
EXAMPLES = ("The room was clean, and the staff friendly.", "房间很脏，再也不来了。")
CHECKED = (*EXAMPLES, "", " \t\n", "NAÏVE ﬁancé №1 👩‍🚀 [MASK]", "many words " * 300)


@dataclasses.dataclass(frozen=True)
class Export:
    """A finished export.

    Attributes:
        path: the folder that holds it.
        largest_difference: between its probabilities and those of the run, on a few strings.
    """

    path: str
    largest_difference: float


class Served(tf.Module):
    """A predictor whose tokenizer runs in the graph. Owns all that a SavedModel must hold."""

    def __init__(self, predictor: Predictor, serving_ops: str):
        super().__init__()
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.backbone, self.task = predictor.backbone, predictor.task
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.max_sequence_length = predictor.max_sequence_length

    def tokens(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """What the network reads, (B, L), with L the longest of the batch, at least 1 where the batch is empty.

        Of a task that reads pairs in both orders (B, 2, L).
        """
        texts = [text] if text_pair is None else [text, text_pair]
        if (orders := self.task.orders) is None:
            features = self.tokenizer.features(texts, self.max_sequence_length)
        else:
            read = [self.tokenizer.features([texts[i] for i in order], self.max_sequence_length) for order in orders]
            features = {name: tf.stack([each[name] for each in read], axis=1) for name in read[0]}  # (B, 2, L)
        missing = tf.cast(tf.shape(features["token_ids"])[-1] == 0, tf.int32)
        return {n: tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[0, missing]]) for n, x in features.items()}

    def answer(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """label string (B,) and probabilities float32 (B, C) of one or two strings (B,)."""
        outputs = self.task.forward(self.backbone, self.tokens(text, text_pair), training=False)
        answer = self.task.predict(outputs)
        return {"label": tf.gather(self.labels, answer["label_ids"]), "probabilities": answer["probabilities"]}


def export(run: str, export_dir: str, serving_ops: str = "text", overwrite: bool = False) -> Export:
    """Writes the SavedModel of a fine-tuned run, laid out as TensorFlow Serving wants it, and a README.md.

    Args:
        run: the folder of a run of `xmodels finetune`.
        export_dir: a new or empty folder.
        serving_ops: `core` needs TensorFlow only; `text` is faster and needs tensorflow_text.
        overwrite: replace an earlier export. Folders that hold anything else are never replaced.

    Raises:
        UsageError: `export_dir` is taken, or `serving_ops` cannot be had.
        CheckpointError: `run` was not fine-tuned or is damaged.
        RuntimeError: the SavedModel does not answer as the run does. Nothing is left behind.
    """
    check_serving_ops(serving_ops)
    export_dir = os.path.realpath(export_dir)
    check_free(export_dir, overwrite)
    predictor = Predictor.load(run)
    predictor.num_texts = predictor.num_texts or 1  # a signature has to say one number
    with new_folder(export_dir) as path:
        model = os.path.join(path, VERSION)
        save(Served(predictor, serving_ops), model, predictor.num_texts)
        difference = compare(predictor, model)
        with open(os.path.join(path, README), "w", encoding="utf-8") as file:
            file.write(readme(predictor, serving_ops))
    return Export(export_dir, difference)


def check_serving_ops(serving_ops: str) -> None:
    """Raises a UsageError for unknown ops, or without the library that has them."""
    if serving_ops not in WORDPIECES:
        raise UsageError(f"Unknown `serving_ops`: {serving_ops!r}. Known: {', '.join(WORDPIECES)}.")
    if serving_ops == "text" and importlib.util.find_spec("tensorflow_text") is None:
        raise UsageError('`serving_ops` "text" needs tensorflow_text: pip install tensorflow-text, or choose "core".')


def check_free(export_dir: str, overwrite: bool) -> None:
    """Raises a UsageError unless `export_dir` is new or empty, or may be replaced."""
    if not os.path.lexists(export_dir):
        return
    if not os.path.isdir(export_dir):
        raise UsageError(f"{export_dir}: exists and is not a folder; choose another.")
    if not os.listdir(export_dir) or (overwrite and is_export(export_dir)):
        return
    if overwrite:
        raise UsageError(f"{export_dir}: exists and holds more or other than an export of ours; choose another.")
    raise UsageError(f"{export_dir}: exists; choose another or --overwrite.")


def is_export(path: str) -> bool:
    """Whether a folder holds what `export` writes, and nothing else."""
    if set(os.listdir(path)) != {VERSION, README} or not os.path.isfile(os.path.join(path, VERSION, "saved_model.pb")):
        return False
    with open(os.path.join(path, README), encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip() in TITLES


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[str]:
    """A folder beside `path` that takes its place when the body is done, and vanishes if it fails."""
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}.partial-", dir=parent) as temporary:
        unfinished, old = os.path.join(temporary, "new"), os.path.join(temporary, "old")
        os.mkdir(unfinished)  # inside, because the temporary folder is closed to other users
        yield unfinished
        if not os.path.exists(path):
            os.rename(unfinished, path)
            return
        os.rename(path, old)
        try:
            os.rename(unfinished, path)
        except BaseException:  # the old export would vanish with the temporary folder
            os.rename(old, path)
            raise


def save(served: Served, path: str, num_texts: int) -> None:
    """Writes the SavedModel, without gradients. Both signatures take INPUTS, string (B,)."""
    specs = [tf.TensorSpec([None], tf.string, name=name) for name in INPUTS[:num_texts]]
    methods = {"serving_default": served.answer, "tokens": served.tokens}
    signatures = {name: tf.function(method).get_concrete_function(*specs) for name, method in methods.items()}
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(served, path, signatures=signatures, options=options)


def compare(predictor: Predictor, path: str) -> float:
    """The largest difference between the probabilities of a run and of its SavedModel, read back from `path`.

    Raises:
        RuntimeError: it exceeds TOLERANCE, or token ids differ at all, or an empty batch gets answers.
    """
    model = tf.saved_model.load(path)
    answer, tokens = model.signatures["serving_default"], model.signatures["tokens"]
    rows = [(text, other)[: predictor.num_texts] for text, other in zip(CHECKED, reversed(CHECKED), strict=True)]
    expected, found = predictor.features(rows), ask(tokens, rows)
    longest = expected["padding_mask"].sum(axis=-1).max()
    if not all(np.array_equal(found[name], expected[name][..., :longest]) for name in expected):
        raise RuntimeError("The exported model cuts texts into other pieces than the run. Please report this.")
    answers = [ask(answer, [row]) for row in rows]  # one by one, so that each has a length of its own
    found = np.concatenate([x["probabilities"] for x in answers])  # (B, C)
    difference = float(np.max(np.abs(found - probabilities_of(predictor, rows))))
    labels = [x["label"][0].decode() for x in answers]
    if not difference <= TOLERANCE or labels != [predictor.labels[row.argmax()] for row in found]:
        raise RuntimeError(
            f"The exported model does not answer as the run does: probabilities differ by up to {difference:.2g}. "
            "Please report this."
        )
    if len(answer(**{name: tf.constant([], tf.string) for name in INPUTS[: predictor.num_texts]})["label"]):
        raise RuntimeError("The exported model answers an empty batch. Please report this.")
    return difference


def probabilities_of(predictor: Predictor, rows: list[tuple[str, ...]]) -> np.ndarray:
    """float32 (B, C), as the run sees them."""
    return np.array([list(x.probabilities.values()) for x in predictor.predict(rows, len(CHECKED))], np.float32)


def ask(served, rows: list[tuple[str, ...]]) -> dict[str, np.ndarray]:
    """What a signature answers to tuples of texts."""
    columns = {name: tf.constant(column) for name, column in zip(INPUTS, zip(*rows, strict=True), strict=False)}
    return {name: value.numpy() for name, value in served(**columns).items()}


def readme(predictor: Predictor, serving_ops: str) -> str:
    """How to use the folder, with the model's own answers as examples."""
    names = INPUTS[: predictor.num_texts]
    rows = [(text, other)[: len(names)] for text, other in zip(EXAMPLES, reversed(EXAMPLES), strict=True)]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    instances = columns["text"] if len(names) == 1 else [dict(zip(names, row, strict=True)) for row in rows]
    found = probabilities_of(predictor, rows)
    labels = [predictor.labels[row.argmax()] for row in found]
    probabilities = [[round(float(x), 4) for x in row] for row in found]
    predictions = [{"label": x, "probabilities": y} for x, y in zip(labels, probabilities, strict=True)]

    def as_json(value):
        return json.dumps(value, ensure_ascii=False)

    return README_TEXT.format(
        title=TITLE,
        serving_ops=serving_ops,
        imports="import tensorflow as tf" + ", tensorflow_text" * (serving_ops == "text"),
        note=NOTES[serving_ops],
        inputs="\n".join(f"| input `{name}` | string (B,), UTF-8 |" for name in names),
        arguments=", ".join(f"{name}=tf.constant({columns[name]!r})" for name in names),
        num_labels=len(predictor.labels),
        labels="\n".join(f"{index}. {as_json(label)}" for index, label in enumerate(predictor.labels)),
        length=predictor.max_sequence_length,
        rows=as_json({"instances": instances}),
        predictions=as_json({"predictions": predictions}),
        columns=as_json({"inputs": columns}),
        outputs=as_json({"outputs": {"label": labels, "probabilities": probabilities}}),
    )


NOTES = {
    "core": "It uses core ops of TensorFlow only, so it runs wherever TensorFlow does, a stock TensorFlow Serving too.",
    "text": (
        "It uses ops of TensorFlow Text: without `import tensorflow_text` it does not load. Do not count on a stock\n"
        "TensorFlow Serving, which knows no TensorFlow Text or an old one. For that, export with `--serving_ops core`."
    ),
}

README_TEXT = """{title}

Variant `{serving_ops}`. {note}
The vocabulary, the tokenizer and the labels are inside.

| of the signature `serving_default` | |
|---|---|
{inputs}
| output `label` | string (B,), the most probable label |
| output `probabilities` | float32 (B, {num_labels}), in the order below |

Labels:

{labels}

An input longer than {length} pieces, special tokens counted, is shortened. An empty string is an input like any other.
A second signature, `tokens`, takes the same inputs and shows what the network reads: `token_ids`, `segment_ids` and
`padding_mask`, (B, L), or (B, 2, L) where a pair is read in both orders.

## Python

```python
{imports}
model = tf.saved_model.load("{version}")
print(model.signatures["serving_default"]({arguments}))
```

## TensorFlow Serving

In this folder:

```sh
docker run --rm -p 8501:8501 --mount type=bind,source="$PWD",target=/models/classifier \\
    -e MODEL_NAME=classifier tensorflow/serving
```

By rows:

```sh
curl http://localhost:8501/v1/models/classifier:predict --data-binary @- <<'JSON'
{rows}
JSON
```

answers, up to the rounding of numbers,

```json
{predictions}
```

By columns the same request and answer are

```json
{columns}
{outputs}
```
""".replace("{version}", VERSION)
