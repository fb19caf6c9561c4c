"""README.md of an export whose network stands apart: its files, what it takes and gives, programs, and a request."""

import os

from data_pipelines.escaping import for_json_line
from xmodels.export import tokenizer_json
from xmodels.export.apart import TOKENIZER
from xmodels.export.readme import VERSION, labels
from xmodels.serving.apart import READ, TEXT, WRITE, ApartModel
from xmodels.serving.folder import ModelFolder
from xmodels.serving.kinds import FILES, LITERT
from xmodels.serving.model import Tensor
from xmodels.tasks.base.serve import Server
from xmodels.tasks.base.signatures import DEFAULT, as_json, by_rows

PRECISIONS = {
    "float32": "float32",
    "float16": "float16: weights take 16 bits",
    "int8": "int8: weights take 8 bits, and what is multiplied with them is quantized as it comes",
}


def readme(server: Server, path: str, kind: str, precision: str) -> str:
    """Returns how to use the folder, of which all but its description is written.

    Args:
        path: the folder of the version.
    """
    model = ApartModel.of_parts(ModelFolder(path, server.model, VERSION), kind)
    columns = server.columns_of(server.examples)
    found = model.signatures[DEFAULT](columns)
    outputs = {name: as_json(value) for name, value in found.items()}
    read, write = model.signatures[DEFAULT].read, model.signatures[DEFAULT].write
    numbers = [each for name, each in write.inputs.items() if name in server.numbers]
    features = [each for name, each in read.outputs.items() if name in model.network.inputs]
    parts = [
        f"{server.title}\n",
        ABOUT.format(kind=kind, file=f"{VERSION}/{FILES[kind]}", precision=PRECISIONS[precision]),
        _table("the network", features, numbers),
        *(_table(f"the signature `{name}`", each.inputs.values(), each.outputs.values()) for name, each in model.signatures.items()),
        labels(server), server.notes().strip(), FILES_OF.format(version=VERSION, file=FILES[kind], text=TEXT, tokenizer=TOKENIZER),
        SERVE.format(
            model=server.model, asked=for_json_line({"instances": by_rows(columns)}),
            answered=for_json_line({"predictions": by_rows(outputs)}),
        ),
        _python(kind, columns, write, server.serving_ops),
        _python_alone(server, path, kind),
    ]  # fmt: skip
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _table(what: str, inputs, outputs) -> str:
    rows = [f"| of {what} | |", "|---|---|"]
    return "\n".join(
        [*rows, *(_cells("input", each) for each in inputs), *(_cells("output", each) for each in outputs)]
    )


def _cells(kind: str, tensor: Tensor) -> str:
    letters = iter("BLMNO")
    sizes = [next(letters) if size is None else str(size) for size in tensor.shape]
    return f"| {kind} `{tensor.name}` | {tensor.dtype} ({', '.join(sizes)}{',' * (len(sizes) == 1)}) |"


def _python(kind: str, columns, write, serving_ops: str) -> str:
    names = ", ".join(f"{name}=tf.constant({value!r})" for name, value in columns.items())
    asked = [name for name in columns if name in write.inputs]
    further = "".join(f", {name}=tf.constant({columns[name]!r})" for name in asked)
    return PYTHON.format(
        imports="import tensorflow as tf" + ", tensorflow_text" * (serving_ops == "text"),
        version=VERSION, text=TEXT, read=READ + DEFAULT, write=WRITE + DEFAULT, texts=names, further=further, network=RUN[kind],
    )  # fmt: skip


def _python_alone(server: Server, path: str, kind: str) -> str:
    if not os.path.isfile(os.path.join(path, TOKENIZER, tokenizer_json.FILE)):
        return ALONE_NOT
    rows = [row[0] if len(row) == 1 else tuple(row) for row in server.examples]
    features = ", ".join(
        f'"{feature}": np.array([each.{name} for each in read], np.{"bool_" if name == "attention_mask" else "int32"})'
        for feature, name in tokenizer_json.FEATURES.items()
    )
    return ALONE.format(
        version=VERSION, tokenizer=TOKENIZER, file=tokenizer_json.FILE, rows=repr(rows),
        features=features.replace("), ", "),\n    "), network=RUN[kind],
    )  # fmt: skip


ABOUT = """The network stands in `{file}`, in the format {kind} ({precision}). It takes ids of tokens and gives numbers; the
batch and the length are open. What makes ids of strings, and answers of numbers, stands beside it as a SavedModel, so `xmodels
serve` takes strings and answers as an export that is a SavedModel as a whole."""

FILES_OF = """## Files

| in `{version}` | |
|---|---|
| `{file}` | the network |
| `{text}` | a SavedModel without a network: `read_...` makes ids of strings, `write_...` makes answers of numbers |
| `{tokenizer}`, `task.json` | the vocabulary and the settings of the tokenizer, and what was learnt: labels, tokens of an input |
| `export.json` | the format, and the SHA-256 of each file, which `xmodels serve` checks |"""

SERVE = """## Serve it

With the name of this folder:

```sh
xmodels serve --export_dir=FOLDER
curl http://localhost:8501/v1/models/{model}:predict --data-binary @- <<'JSON'
{asked}
JSON
```

answers, up to the rounding of numbers,

```json
{answered}
```"""

RUN = {
    "onnx": """import onnxruntime

session = onnxruntime.InferenceSession("1/model.onnx", providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_outputs()]
numbers = dict(zip(names, session.run(names, {each.name: features[each.name] for each in session.get_inputs()})))""",
    LITERT: """from ai_edge_litert.interpreter import Interpreter

runner = Interpreter("1/model.tflite").get_signature_runner("serving_default")
numbers = runner(**{name: features[name] for name in runner.get_input_details()})""",
}

PYTHON = """## Python, from strings

```python
{imports}

text = tf.saved_model.load("{version}/{text}").signatures
features = {{name: value.numpy() for name, value in text["{read}"]({texts}).items()}}
{network}
numbers = {{name: tf.constant(value) for name, value in numbers.items()}}
print(text["{write}"](**numbers{further}))
```"""

ALONE = """## Python, without TensorFlow

```python
import numpy as np
from tokenizers import Tokenizer

read = Tokenizer.from_file("{version}/{tokenizer}/{file}").encode_batch({rows})
features = {{
    {features},
}}
{network}
print(numbers)
```"""

ALONE_NOT = """There is no `tokenizer.json` for the library `tokenizers`, since it would read some texts otherwise than the network
has learnt to; take the SavedModel above."""
