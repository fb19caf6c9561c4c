"""Memory and time of the gradients of BERT-base for long texts: what a process holds at its peak, in a step without an optimizer.

    python -m benchmarks.long_texts --output=benchmarks/results/long_texts.md [--length=4096] [--cores=2]

Each measurement is a process of its own: a classifier of one text, float32, a graph without XLA, with dropout. `kept` is what
`training/watching/memory_estimate.py` counts. Peaks are those of the whole process, with TensorFlow's 0.5 GiB and the weights.
"""

import json
import resource
import time

from benchmarks import measure

NAME = "benchmarks.long_texts"
GIB = 2**30
# Name -> the mixer with its numbers, and whether blocks are recomputed.
METHODS = {
    "longformer, recomputed": ("longformer", {"num_global": 1}, True),
    "bigbird, recomputed": ("bigbird", {}, True),
    "full attention, recomputed": ("multi_head", {}, True),
    "longformer": ("longformer", {"num_global": 1}, False),
}


def step_of(method: str, length: int) -> dict:
    """Returns GiB at the peak and seconds of one step, and the GiB that the graph keeps for the backward pass."""
    import numpy as np
    import tensorflow as tf

    from xmodels.layers.dropout import dropout_seed
    from xmodels.layers.rematerialization import rematerialized
    from xmodels.models.bert import SIZES, Bert, BertConfig
    from xmodels.tasks.classify.task import Classify
    from xmodels.training.watching.memory_estimate import kept_for_backward

    mixer, numbers, again = METHODS[method]
    config = BertConfig(30_522, **SIZES["base"], max_sequence_length=length, mixer=mixer, mixer_numbers=numbers)
    backbone, task = Bert(config).initialize(), Classify(config, ["a", "b"])
    batch = {
        "token_ids": np.random.default_rng(0).integers(999, 30_000, size=(1, length)).astype("int32"),
        "segment_ids": np.zeros((1, length), "int32"), "padding_mask": np.ones((1, length), bool),
        "labels": np.zeros(1, "int32"), "example_weights": np.ones(1, "float32"),
    }  # fmt: skip
    task.forward(backbone, backbone.tiny_batch())
    kept = kept_for_backward(backbone, task, batch, again)
    variables = backbone.trainable_variables + task.trainable_variables

    @tf.function(autograph=False)
    def step(batch, seed):
        with tf.GradientTape() as tape, dropout_seed(seed), rematerialized(again):
            _, losses, _ = task.run(backbone, batch, training=True)
            loss = tf.add_n([total for total, _ in losses.values()])
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        return tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])

    start, processor = time.perf_counter(), time.process_time()
    norm = float(step(batch, tf.constant([1, 2], tf.uint32)))
    return {
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB, "kept": kept / GIB, "norm": norm,
        "wall": time.perf_counter() - start, "processor": time.process_time() - processor,
    }  # fmt: skip


def page(found: dict[str, dict], length: int, cores: int) -> str:
    """Returns the table, as Markdown."""
    rows = [
        [name, each["error"], "", ""] if "error" in each
        else [name, f"{each['peak']:.1f}", f"{each['kept']:.1f}", f"{each['processor']:.0f}"]
        for name, each in found.items()
    ]  # fmt: skip
    return "\n".join([
        "# Gradients of BERT-base for long texts", "",
        f"`python -m {NAME} --length={length} --cores={cores}`: one text of {length:,} tokens, float32, dropout, no XLA.",
        "Windows of 256 on each side and one global token, blocks of 64. The peak is that of the whole process, without an",
        "optimizer (AdamW adds 0.9 GiB).",
        measure.machine(cores), "",
        measure.table(["attention", "peak, GiB", "kept for the backward pass, GiB", "processor s, with tracing"], rows), "",
    ])  # fmt: skip


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--attention", help="of one step")
    options = parser.parse_args()
    if options.method == "step":
        print(json.dumps(step_of(options.attention, options.length)))
        return
    found = {}
    for name in METHODS:
        found[name] = measure.alone(NAME, ["step", f"--attention={name}", f"--length={options.length}"], options.cores)
        print(f"{name}: {found[name]}", flush=True)
    measure.publish(page(found, options.length, options.cores), options.output)


if __name__ == "__main__":
    main()
