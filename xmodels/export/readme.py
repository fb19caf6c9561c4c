"""README.md of an export, from its signatures: what each takes and gives, a program, and requests with the answers of the model."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from data_pipelines.escaping import for_json_line, for_markdown
from xmodels.tasks.base.serve import Server
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature, as_json, ask, by_rows

VERSION = "1"  # TensorFlow Serving serves the highest version
NOTES = {
    "core": "It uses core ops of TensorFlow only, so it runs wherever TensorFlow does, a stock TensorFlow Serving too.",
    "text": (
        "It uses ops of TensorFlow Text: without `import tensorflow_text` it does not load. Do not count on a stock\n"
        "TensorFlow Serving, which knows no TensorFlow Text or an old one. For that, export with `--serving_ops core`."
    ),
}


def readme(server: Server, served: Mapping[str, Any]) -> str:
    """Returns how to use the folder.

    Args:
        served: {name of the signature: function of the SavedModel}.
    """
    signatures, columns = server.signatures(), server.columns_of(server.examples)
    tables = [table(name, each, served[name]) for name, each in signatures.items()]
    found = ask(served[DEFAULT], columns)
    outputs = {each.name: as_json(found[each.name]) for each in signatures[DEFAULT].outputs}
    parts = [
        f"{server.title}\n",
        f"Variant `{server.serving_ops}`. {NOTES[server.serving_ops]}\n{server.inside}",
        *tables, labels(server), server.notes().strip(), python(server, columns),
        requests(server.model, columns, outputs), server.sections().strip(),
    ]  # fmt: skip
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def table(name: str, signature: Signature, function) -> str:
    """Returns the inputs and outputs of a signature, with what the graph knows of them."""
    rows = [f"| of the signature `{name}` | |", "|---|---|"]
    rows += [cells("input", each, each.spec()) for each in signature.inputs]
    given = function.structured_outputs
    described = {each.name: each for each in signature.outputs}
    others = {name: Column(name, signature.axes) for name in given if name not in described}
    rows += [cells("output", each, given[each.name]) for each in (described | others).values()]
    return "\n".join(rows) + (f"\n\n{signature.note}" if signature.note else "")


def cells(kind: str, column: Column, spec: tf.TensorSpec) -> str:
    """Returns the row of a column."""
    sizes = [str(column.axes[place] if size is None else size) for place, size in enumerate(spec.shape)]
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f"| {kind} `{column.name}` | {spec.dtype.name} {shape}{', ' * bool(column.note)}{column.note} |"


def labels(server: Server) -> str:
    """Returns the names of `probabilities`; nothing if there are none."""
    if server.probability_labels is None:
        return ""
    names = [f"{index}. {for_markdown(for_json_line(label))}" for index, label in enumerate(server.probability_labels)]
    return "\n".join(["Labels:\n", *names])


def python(server: Server, columns: Mapping[str, Any]) -> str:
    """Returns a program that asks the model."""
    return PYTHON.format(
        imports="import tensorflow as tf" + ", tensorflow_text" * (server.serving_ops == "text"),
        version=VERSION,
        arguments=", ".join(f"{name}=tf.constant({value!r})" for name, value in columns.items()),
    )


def requests(model: str, columns: Mapping[str, list], outputs: Mapping[str, list]) -> str:
    """Returns how TensorFlow Serving is asked, by rows and by columns, and what it answers."""
    values = {
        "rows": {"instances": by_rows(columns)},
        "predictions": {"predictions": by_rows(outputs)},
        "columns": {"inputs": columns},
        "outputs": {"outputs": outputs if len(outputs) > 1 else by_rows(outputs)},
    }
    return REQUESTS.format(model=model, **{name: for_json_line(value) for name, value in values.items()})


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
