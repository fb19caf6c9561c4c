"""An encoder-decoder as a SavedModel: texts in, translations out, nothing of this project needed."""

import os

import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import EXTRA_TOKENS
from xmodels.export.exporter import README, Export, check_free, check_serving_ops, new_folder
from xmodels.export.generator import GREEDY
from xmodels.export.text_generator import spelled
from xmodels.export.translator import Translator
from xmodels.tasks.base.serve import NOTES, VERSION

TITLE = "# A translator exported by xmodels"
CHECKED = ("Ein Hund rennt.", "今天天气很好。", "", "A somewhat longer text, which shares its batch with shorter ones.")


class ServedTranslator(tf.Module):
    """A translator whose tokenizer runs in the graph. Owns all that a SavedModel must hold."""

    def __init__(self, translator: Translator, serving_ops: str, beam: Decoding):
        super().__init__()
        self.tokenizer = GraphTokenizer(translator.tokenizer, serving_ops)
        self.backbone, self.objective = translator.backbone, translator.objective  # tracked, so that they are saved
        self._translator, self._beam = translator, beam
        with tf.device("CPU:0"):
            self.spelling = tf.constant(translator.spelling)  # (V,)

    def translated(self, text: tf.Tensor, decoding: Decoding) -> dict[str, tf.Tensor]:
        translator = self._translator
        ids = self.tokenizer.tokenize(text)[:, : translator.longest - 1]
        lengths = tf.cast(ids.row_lengths(), tf.int32) + 1
        ends = tf.fill([ids.nrows(), 1], translator.end_id)
        token_ids = tf.concat([ids, ends], axis=1).to_tensor(translator.pad_id)
        limits = tf.minimum(lengths + EXTRA_TOKENS, translator.longest - 1)
        most = tf.reduce_max(tf.concat([limits, [1]], axis=0))  # also of an empty batch
        targets, found = translator.targets(token_ids, lengths, limits, tf.zeros([2], tf.int32), decoding, most)
        found = tf.where(lengths > 1, found, 0)  # a text without pieces has no translation
        ragged = tf.RaggedTensor.from_tensor(targets, lengths=found)
        return {"translation": spelled(ragged, self.spelling), "num_tokens": found}

    def greedy(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The translation of each text, string (B,), by the likeliest token each time."""
        return self.translated(text, GREEDY)

    def beam(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation that a beam search finds."""
        return self.translated(text, self._beam)


def export(
    run: str, export_dir: str, serving_ops: str = "text", overwrite: bool = False, num_beams: int = 4,
    length_penalty: float = 0.6,
) -> Export:  # fmt: skip
    """Writes the SavedModel of a run of an encoder-decoder, laid out as TensorFlow Serving wants it, and a README.md.

    Args, errors: as of `exporter.export`.
    """
    check_serving_ops(serving_ops)
    export_dir = os.path.realpath(export_dir)
    check_free(export_dir, overwrite)
    translator = Translator.load(run)
    beam = Decoding(temperature=0.0, num_beams=num_beams, length_penalty=length_penalty)
    with new_folder(export_dir) as path:
        model = os.path.join(path, VERSION)
        save(ServedTranslator(translator, serving_ops, beam), model)
        compare(translator, beam, model)
        with open(os.path.join(path, README), "w", encoding="utf-8") as file:
            file.write(readme(translator, serving_ops, beam))
    return Export(export_dir, "that translates", None)


def save(served: ServedTranslator, path: str) -> None:
    """Writes the SavedModel, without gradients."""
    text = tf.TensorSpec([None], tf.string, name="text")
    signatures = {
        "serving_default": tf.function(served.greedy).get_concrete_function(text),
        "beam": tf.function(served.beam).get_concrete_function(text),
    }
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(served, path, signatures=signatures, options=options)


def compare(translator: Translator, beam: Decoding, path: str) -> None:
    """Raises a RuntimeError unless the SavedModel translates as the run does."""
    served = tf.saved_model.load(path).signatures
    for name, decoding in (("serving_default", GREEDY), ("beam", beam)):
        found = served[name](text=tf.constant(CHECKED))["translation"].numpy()
        if [text.decode() for text in found] != translator.generate(CHECKED, decoding):
            raise RuntimeError(f"The exported model ({name}) does not translate as the run does. Please report this.")


def readme(translator: Translator, serving_ops: str, beam: Decoding) -> str:
    """How to use the folder."""
    imports = "import tensorflow as tf" + ", tensorflow_text" * (serving_ops == "text")
    return README_TEXT.format(
        title=TITLE, serving_ops=serving_ops, note=NOTES[serving_ops], imports=imports, version=VERSION,
        length=translator.longest - 1, beams=beam.num_beams, alpha=beam.length_penalty, extra=EXTRA_TOKENS,
    )  # fmt: skip


README_TEXT = """{title}

Variant `{serving_ops}`. {note}
The vocabulary and the tokenizer are inside.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `text` string (B,) | `translation` string (B,), the likeliest token each time; `num_tokens` int32 (B,) |
| `beam` | `text` string (B,) | the same, the best that a search with {beams} beams and a length penalty of {alpha:g} finds |

A text has at most {length} tokens; a longer one loses its end. A translation has at most {extra} tokens more than its text.
An empty text has an empty translation. Texts of like length are best sent together.

```python
{imports}
model = tf.saved_model.load("{version}")
print(model.signatures["serving_default"](text=tf.constant(["Ein Hund rennt."]))["translation"])
```

With TensorFlow Serving, in this folder:

```sh
docker run --rm -p 8501:8501 --mount type=bind,source="$PWD",target=/models/translator \\
    -e MODEL_NAME=translator tensorflow/serving
curl http://localhost:8501/v1/models/translator:predict --data-binary '{{"instances": ["Ein Hund rennt."]}}'
```
"""
