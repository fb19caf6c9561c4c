"""A causal network inside a graph: prompts in, texts out."""

from typing import ClassVar

import numpy as np
import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.decoding import filters
from xmodels.decoding.sampling import generate, greedy, sample
from xmodels.tasks.base import serve
from xmodels.tasks.base.generation import GREEDY
from xmodels.tasks.base.serve import VERSION, imports, spelled
from xmodels.tasks.language_model.answer import TextGenerator

LONGEST = 1024  # tokens of a text with its prompt, where the network sets no bound
MAX_NEW_TOKENS = 64  # as `xmodels generate`: who serves a network does not wait for all the tokens that it could write
CHECKED = ("The", "今天天气", "", "A somewhat longer beginning of a text, which")


class Server(serve.Server):
    """A generator whose tokenizer runs in the graph.

    Args:
        max_new_tokens: most tokens behind a prompt.
    """

    title = "# A text generator exported by xmodels"
    answers = "that continues prompts"
    flags: ClassVar[tuple[str, ...]] = ("max_new_tokens",)

    def __init__(self, generator: TextGenerator, serving_ops: str, max_new_tokens: int = MAX_NEW_TOKENS):
        super().__init__(generator, serving_ops)
        self.max_new_tokens = max_new_tokens
        if self.backbone.carries_memory:  # such a network reads texts of any length, a graph does not
            generator.max_length = LONGEST
        self.tokenizer = GraphTokenizer(generator.tokenizer, serving_ops)
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
        changes.append(filters.end_after(lengths + self.max_new_tokens, self.end_id))
        past, read = self.backbone.start(tf.shape(token_ids)[0], self.max_length), None
        if not self.rewinds:  # then prompts are read token by token, as the past cannot go back from the longest
            states, past = self.backbone.decode(token_ids[:, :1], past, 0)
            read = tf.constant(1), states[:, 0]
        texts, ends = generate(
            self.backbone.decode, lambda states: self.task.logits(states, self.backbone), past, token_ids, lengths,
            self.max_length, self.end_id, pick=pick, filters=changes, read=read,
        )  # fmt: skip
        ends = tf.minimum(ends, lengths + self.max_new_tokens)
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

    def signatures(self):
        prompt = tf.TensorSpec([None], tf.string, name="prompt")
        numbers = [tf.TensorSpec([], tf.float32, name=name) for name in ("temperature", "top_p")]
        seed = tf.TensorSpec([2], tf.int32, name="seed")
        return {"serving_default": (self.greedy, [prompt]), "sample": (self.sample, [prompt, *numbers, seed])}

    def compare(self, served):
        found = served["serving_default"](prompt=tf.constant(CHECKED))["continuation"].numpy()
        expected = self.predictor.generate(CHECKED, GREEDY, self.max_new_tokens)
        if [text.decode() for text in found] != expected:
            raise RuntimeError("The exported model does not continue texts as the run does. Please report this.")
        drawn = served["sample"](
            prompt=tf.constant(CHECKED), temperature=tf.constant(1.0), top_p=tf.constant(0.9), seed=tf.constant([1, 2])
        )
        if np.any(drawn["num_tokens"].numpy() > self.max_new_tokens):
            raise RuntimeError("The exported model writes more than it may. Please report this.")
        return None

    def readme(self):
        return README_TEXT.format(
            imports=imports(self.serving_ops), version=VERSION, length=self.max_length, most=self.max_new_tokens
        )


README_TEXT = """The vocabulary and the tokenizer are inside.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `prompt` string (B,) | `continuation` string (B,), the likeliest, token by token; `num_tokens` int32 (B,) |
| `sample` | also `temperature` and `top_p`, float32 scalars, and `seed`, int32 (2,) | the same, drawn at random |

At most {most} tokens are written behind a prompt (`xmodels export_model --max_new_tokens`). An empty prompt begins a text.
A text with its prompt has at most {length} tokens; a longer prompt loses its beginning.

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
