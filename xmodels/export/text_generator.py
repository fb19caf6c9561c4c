"""A causal network as a SavedModel: prompts in, texts out, nothing of this project needed."""

import os

import numpy as np
import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.decoding import filters
from xmodels.decoding.sampling import generate, greedy, sample
from xmodels.export.causal import remembers
from xmodels.export.exporter import README, Export, check_free, check_serving_ops, new_folder
from xmodels.export.generator import GREEDY, Generator
from xmodels.tasks.base.serve import NOTES, VERSION

LONGEST = 1024  # tokens of a text with its prompt, where the network sets no bound
TITLE = "# A text generator exported by xmodels"
CHECKED = ("The", "今天天气", "", "A somewhat longer beginning of a text, which")


class ServedGenerator(tf.Module):
    """A generator whose tokenizer runs in the graph. Owns all that a SavedModel must hold."""

    def __init__(self, generator: Generator, serving_ops: str):
        super().__init__()
        self.tokenizer = GraphTokenizer(generator.tokenizer, serving_ops)
        self.backbone, self.objective = generator.backbone, generator.objective
        self.end_id, self.max_length = generator.end_id, generator.max_length
        self.forbidden, self.rewinds = generator.forbidden, generator.rewinds
        with tf.device("CPU:0"):
            self.spelling = tf.constant(generator.spelling)  # (V,)

    def continued(self, prompt: tf.Tensor, pick, more_filters) -> dict[str, tf.Tensor]:
        ids = self.tokenizer.tokenize(prompt)[:, -(self.max_length - 1) :]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        token_ids = ids.to_tensor(shape=(None, self.max_length))
        # A prompt without pieces is the token that ends documents.
        start = tf.one_hot(0, self.max_length, self.end_id, 0, dtype=tf.int32)
        token_ids = tf.where(lengths[:, None] == 0, start, token_ids)
        lengths = tf.maximum(lengths, 1)
        changes = [*([filters.forbid(self.forbidden)] if self.forbidden else []), *more_filters]
        past, read = self.backbone.start(tf.shape(token_ids)[0], self.max_length), None
        if not self.rewinds:  # then prompts are read token by token, as the past cannot go back from the longest
            states, past = self.backbone.decode(token_ids[:, :1], past, 0)
            read = tf.constant(1), states[:, 0]
        texts, ends = generate(
            self.backbone.decode, lambda states: self.objective.logits(states, self.backbone), past, token_ids, lengths,
            self.max_length, self.end_id, pick=pick, filters=changes, read=read,
        )  # fmt: skip
        new = tf.RaggedTensor.from_tensor(texts, lengths=ends)
        place = tf.ragged.range(tf.cast(new.row_lengths(), tf.int32))
        continuation = tf.ragged.boolean_mask(new, place >= lengths[:, None])
        return {"continuation": spelled(continuation, self.spelling), "num_tokens": ends - lengths}

    def greedy(self, prompt: tf.Tensor) -> dict[str, tf.Tensor]:
        """The likeliest continuation of each prompt, string (B,)."""
        return self.continued(prompt, greedy, [])

    def sample(self, prompt, temperature, top_p, seed) -> dict[str, tf.Tensor]:
        """A continuation drawn from the network."""
        return self.continued(prompt, sample(seed), [filters.temperature(temperature), filters.top_p(top_p)])


def spelled(ids: tf.RaggedTensor, spelling: tf.Tensor) -> tf.Tensor:
    """Ragged ids (B, None) -> string (B,), as `text.spelling.spell_out` has it."""
    with tf.device("CPU:0"):
        text = tf.strings.reduce_join(tf.gather(spelling, ids), axis=-1)
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        return tf.strings.regex_replace(text, "^ +| +$", "")


def export(
    run: str, export_dir: str, serving_ops: str = "text", overwrite: bool = False, max_length: int | None = None
):
    """Writes the SavedModel of a run of a causal system, laid out as TensorFlow Serving wants it, and a README.md.

    Args, errors: as of `exporter.export`; `max_length` counts the tokens of a text with its prompt.
    """
    check_serving_ops(serving_ops)
    export_dir = os.path.realpath(export_dir)
    check_free(export_dir, overwrite)
    generator = Generator.load(run, max_length)
    if (
        remembers(type(generator.backbone)) and max_length is None
    ):  # such a network reads texts of any length, a graph does not
        generator.max_length = LONGEST
    with new_folder(export_dir) as path:
        model = os.path.join(path, VERSION)
        save(ServedGenerator(generator, serving_ops), model)
        compare(generator, model)
        with open(os.path.join(path, README), "w", encoding="utf-8") as file:
            file.write(readme(generator, serving_ops))
    return Export(export_dir, "that continues prompts", None)


def save(served: ServedGenerator, path: str) -> None:
    """Writes the SavedModel, without gradients."""
    prompt = tf.TensorSpec([None], tf.string, name="prompt")
    number = {name: tf.TensorSpec([], tf.float32, name=name) for name in ("temperature", "top_p")}
    seed = tf.TensorSpec([2], tf.int32, name="seed")
    signatures = {
        "serving_default": tf.function(served.greedy).get_concrete_function(prompt),
        "sample": tf.function(served.sample).get_concrete_function(prompt, *number.values(), seed),
    }
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(served, path, signatures=signatures, options=options)


def compare(generator: Generator, path: str) -> None:
    """Raises a RuntimeError unless the SavedModel continues texts as the run does."""
    served = tf.saved_model.load(path).signatures
    found = served["serving_default"](prompt=tf.constant(CHECKED))["continuation"].numpy()
    expected = generator.generate(CHECKED, GREEDY, generator.max_length)
    if [text.decode() for text in found] != expected:
        raise RuntimeError("The exported model does not continue texts as the run does. Please report this.")
    drawn = served["sample"](
        prompt=tf.constant(CHECKED), temperature=tf.constant(1.0), top_p=tf.constant(0.9), seed=tf.constant([1, 2])
    )
    if np.any(drawn["num_tokens"].numpy() > generator.max_length):
        raise RuntimeError("The exported model writes more than it may. Please report this.")


def readme(generator: Generator, serving_ops: str) -> str:
    """How to use the folder."""
    imports = "import tensorflow as tf" + ", tensorflow_text" * (serving_ops == "text")
    return README_TEXT.format(
        title=TITLE, serving_ops=serving_ops, note=NOTES[serving_ops], imports=imports, version=VERSION,
        length=generator.max_length,
    )  # fmt: skip


README_TEXT = """{title}

Variant `{serving_ops}`. {note}
The vocabulary and the tokenizer are inside.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `prompt` string (B,) | `continuation` string (B,), the likeliest, token by token; `num_tokens` int32 (B,) |
| `sample` | also `temperature` and `top_p`, float32 scalars, and `seed`, int32 (2,) | the same, drawn at random |

A text with its prompt has at most {length} tokens; a longer prompt loses its beginning. An empty prompt begins a text.

```python
{imports}
model = tf.saved_model.load("{version}")
print(model.signatures["serving_default"](prompt=tf.constant(["Once upon a time"]))["continuation"])
```

With TensorFlow Serving, in this folder:

```sh
docker run --rm -p 8501:8501 --mount type=bind,source="$PWD",target=/models/generator \\
    -e MODEL_NAME=generator tensorflow/serving
curl http://localhost:8501/v1/models/generator:predict --data-binary '{{"instances": ["Once upon a time"]}}'
```
"""
