"""A predictor as a TensorFlow graph from strings to predictions. `xmodels.export` saves it without knowing the task.

`serve.py` of a task defines one `Server`, a subclass of this one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from data_pipelines.escaping import for_json_line
from data_pipelines.ops.length_sorting import answer_in_parts

NOTES = {
    "core": "It uses core ops of TensorFlow only, so it runs wherever TensorFlow does, a stock TensorFlow Serving too.",
    "text": (
        "It uses ops of TensorFlow Text: without `import tensorflow_text` it does not load. Do not count on a stock\n"
        "TensorFlow Serving, which knows no TensorFlow Text or an old one. For that, export with `--serving_ops core`."
    ),
}
TOLERANCE = 1e-3  # padding to another length reorders sums, and GPUs round the factors of float32 products (TF32)
VERSION = "1"  # TensorFlow Serving serves the highest version
LABELS = "assets.extra/labels.json"  # in the folder of the version; TensorFlow Serving ignores the files there
Signature = tuple[Any, list[tf.TensorSpec]]  # a method and its arguments, named by the specs


class Server(tf.Module):
    """Holds everything that goes into a SavedModel: the network, its head, the tables of the tokenizer.

    Args:
        predictor: of the task.
        serving_ops: `core` needs only TensorFlow; `text` is faster and needs tensorflow_text.

    Attributes:
        title: the first line of the README, by which an earlier export is recognised.
        answers: describes the SavedModel in the line that is printed.
        flags: flags of `xmodels export_model` that only this task takes; they are keyword arguments here.
        probability_labels: the labels of the output `probabilities`, in order, if no output contains them.
    """

    title: ClassVar[str] = "# A network exported by xmodels"
    answers: ClassVar[str] = "of raw strings"
    flags: ClassVar[tuple[str, ...]] = ()
    probability_labels: Sequence[str] | None = None

    def __init__(self, predictor, serving_ops: str):
        super().__init__()
        self.predictor = predictor  # plain Python: it is not saved
        self.serving_ops = serving_ops
        self.backbone, self.task = predictor.backbone, predictor.task

    def outputs(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the predictions for rows of features, (B, L) or (B, S, L). Rows of similar length are computed together."""

        def answer(part):
            return self.task.predict(self.task.forward(self.backbone, part, training=False))

        return answer_in_parts(answer, features)

    def signatures(self) -> Mapping[str, Signature]:
        """Returns the signatures by name; `serving_default` is one of them."""
        raise NotImplementedError

    def compare(self, served: Mapping[str, Any]) -> float | None:
        """Returns the largest difference between the outputs of the SavedModel and those of the run; None for texts, which must
        be equal.

        Args:
            served: {name of the signature: function of the SavedModel}.

        Raises:
            RuntimeError: the outputs of the SavedModel are not those of the run.
        """
        raise NotImplementedError

    def readme(self) -> str:
        """Returns the part of the README that explains the use, after title and variant."""
        raise NotImplementedError

    def python(self, arguments: str) -> str:
        """Returns the section of the README that calls the model from Python."""
        return PYTHON.format(imports=imports(self.serving_ops), version=VERSION, arguments=arguments)


def imports(serving_ops: str) -> str:
    """Returns the import statement of a program that calls the model."""
    return "import tensorflow as tf" + ", tensorflow_text" * (serving_ops == "text")


def spelled(ids: tf.RaggedTensor, spelling: tf.Tensor) -> tf.Tensor:
    """Converts ragged ids (B, None) to texts, string (B,), as `text.spelling.spell_out` does."""
    with tf.device("CPU:0"):
        text = tf.strings.reduce_join(tf.gather(spelling, ids), axis=-1)
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        return tf.strings.regex_replace(text, "^ +| +$", "")


def requests(model: str, rows, predictions, columns, outputs) -> str:
    """Returns the section of the README that calls TensorFlow Serving, with two requests and their responses as JSON.

    Args:
        model: the name of the model.
        rows, predictions: request and response by rows.
        columns, outputs: request and response by columns.
    """
    values = {"rows": rows, "predictions": predictions, "columns": columns, "outputs": outputs}
    return REQUESTS.format(model=model, **{name: for_json_line(value) for name, value in values.items()})


def example_inputs(names: Sequence[str], examples: Sequence[str]):
    """Returns rows of one or two texts, and the same for TensorFlow Serving, by rows ("instances") and by columns ("inputs").

    Args:
        names: of the texts of a row.
        examples: texts.
    """
    rows = [(text, other)[: len(names)] for text, other in zip(examples, reversed(examples), strict=True)]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    instances = columns["text"] if len(names) == 1 else [dict(zip(names, row, strict=True)) for row in rows]
    return rows, instances, columns


def check_difference(difference: float) -> float:
    """Returns the difference of probabilities. Raises a RuntimeError if it is above `TOLERANCE`."""
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"The exported model does not answer as the run does: probabilities differ by up to {difference:.2g}. "
            "Please report this."
        )
    return difference


PYTHON = """## Python

```python
{imports}
model = tf.saved_model.load("{version}")
print(model.signatures["serving_default"]({arguments}))
```"""

REQUESTS = """## TensorFlow Serving

In this folder:

```sh
docker run --rm -p 8501:8501 --mount type=bind,source="$PWD",target=/models/{model} \\
    -e MODEL_NAME={model} tensorflow/serving
```

By rows:

```sh
curl http://localhost:8501/v1/models/{model}:predict --data-binary @- <<'JSON'
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
```"""
