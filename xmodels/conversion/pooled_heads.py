"""Heads that read poolings of all states, beside a network in Hugging Face's format, which has no such heads: the weights, what they
mean, and a README.md that says how to use them with transformers.
"""

import dataclasses
import json
import os

import numpy as np
from safetensors.numpy import save_file

from data_pipelines.files import whole_file
from xmodels.layers.poolings import is_mixed, parts
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.find import task_class

HEAD, SETTINGS, README = "head.safetensors", "head.json", "README.md"
POOLINGS = ("mean", "max")  # that README.md computes
TEXT = """# {model} with a head of its own

The network is in the format of transformers. Its head, for `--task={task}`, reads the {poolings} of all states, which no class there
does. It lies beside the network: `{head}` holds its weights, and `{settings}` says what they mean.

```python
import json

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

folder = "."
head, settings = load_file(f"{{folder}}/{head}"), json.load(open(f"{{folder}}/{settings}"))
tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
batch = tokenizer(["a text", "another one"], padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    states = network(**batch).last_hidden_state
real = batch["attention_mask"].unsqueeze(-1)
pools = {{"mean": (states * real).sum(1) / real.sum(1), "max": states.masked_fill(real == 0, -1e9).amax(1)}}
logits = torch.cat([pools[name] for name in settings["poolings"]], 1) @ head["weight"].T + head["bias"]
print(settings["labels"], logits)  # softmax(-1) where one label is right, sigmoid() where several may be; a number is itself
```
"""


@dataclasses.dataclass(frozen=True)
class PooledHead:
    """A head of one Dense layer on several poolings side by side.

    Attributes:
        kernel: float32 (poolings * D, outputs).
        bias: float32 (outputs,).
        labels: names of the outputs, where they have any.
    """

    model: str
    task: str
    poolings: tuple[str, ...]
    kernel: np.ndarray
    bias: np.ndarray
    labels: list[str]

    def write(self, folder: str) -> None:
        """Writes the files into the folder of the network."""
        weights = {"weight": np.ascontiguousarray(self.kernel.T), "bias": self.bias}  # as torch has them
        save_file(weights, os.path.join(folder, HEAD), metadata={"format": "pt"})
        settings = {"task": self.task, "poolings": self.poolings, "labels": self.labels}
        with whole_file(os.path.join(folder, SETTINGS), "w") as file:
            file.write(json.dumps(settings, ensure_ascii=False, indent=2) + "\n")
        named = " and the ".join(self.poolings)
        with whole_file(os.path.join(folder, README), "w") as file:
            file.write(TEXT.format(model=self.model, task=self.task, poolings=named, head=HEAD, settings=SETTINGS))


def part(loaded: Checkpoint) -> tuple[Checkpoint, PooledHead | None]:
    """Returns a checkpoint without its head, and the head, where that can lie beside the network; else all as it is, and None."""
    tasks, pooling = list(filter(task_class, loaded.heads)), loaded.pooling or ""
    if len(tasks) != 1 or is_mixed(pooling) or not set(parts(pooling)) <= set(POOLINGS):
        return loaded, None
    prefix = f"objective.{tasks[0]}."
    own = {name.removeprefix(prefix): value for name, value in loaded.values.items() if name.startswith(prefix)}
    if set(own) != {"head.kernel", "head.bias"}:
        return loaded, None
    labels = list(loaded.labels or ())
    if task_class(tasks[0]).names_labels and not labels:
        labels = [f"LABEL_{index}" for index in range(len(own["head.bias"]))]
    head = PooledHead(loaded.model, tasks[0], parts(pooling), own["head.kernel"], own["head.bias"], labels)
    network = {name: value for name, value in loaded.values.items() if name.startswith("backbone.")}
    return dataclasses.replace(loaded, values=network, heads=frozenset(), labels=None, pooling=None), head
