"""Plain attention on long texts: all scores at once, in chunks of queries, and PyTorch's fused kernel.

    python -m benchmarks.plain_attention --output=benchmarks/results/plain_attention.md

One layer of 4 heads of 64 with its four projections, batch 1, float32, forward and backward, without dropout. Each measurement is a
process of its own on one core. Time is that of the processor, the least of a few steps; memory is what the process holds at its peak
beyond what it held before the first step. All begin with the same weights and inputs; the largest difference of the output and of the
gradient of the inputs from those of `multi_head` is shown. Without PyTorch its lines are left out.
"""

import json
import os
import tempfile

import numpy as np

from benchmarks import measure

NAME = "benchmarks.plain_attention"
LENGTHS = (2048, 8192)
HEADS, HEAD_DIM = 4, 64
WIDTH = HEADS * HEAD_DIM
STEPS = 4
CHUNKS = (256, 512)
OURS = {"`multi_head`": {}, **{f"`chunked`, {size}": {"chunk_size": size} for size in CHUNKS}}
PEER = "PyTorch, `scaled_dot_product_attention`"


def arrays(length: int) -> dict[str, np.ndarray]:
    """Weights of the projections and inputs, the same for all."""
    random = np.random.default_rng(0)
    made = {name: random.normal(0, 1.5 / WIDTH**0.5, (WIDTH, WIDTH)) for name in ("query", "key", "value", "merge")}
    made["x"] = random.normal(0, 1, (1, length, WIDTH))
    return {name: value.astype("float32") for name, value in made.items()}


def repeated(step, before: float) -> dict:
    """Measures calls of a step, which returns the output and the gradient, and keeps those of the last."""
    seconds = []
    for _ in range(STEPS):
        started = measure.processor_seconds()
        found = step()
        seconds.append(measure.processor_seconds() - started)
    return {"processor": min(seconds[1:]), "megabytes": measure.peak_megabytes() - before, "found": found}


def ours(numbers: dict, length: int, is_causal: bool) -> dict:
    import tensorflow as tf

    from xmodels.layers import mixers
    from xmodels.layers.attention.visible import Visible
    from xmodels.layers.initialization import gpt
    from xmodels.models.gpt import GptConfig

    sizes = {"attention_dropout": 0.0, "max_sequence_length": length}
    kind = {"mixer": "chunked", "mixer_numbers": numbers} if numbers else {}
    config, given = GptConfig(9, WIDTH, 1, HEADS, WIDTH, **sizes, **kind), arrays(length)
    mixer = mixers.mixer_for(config, gpt(), frozenset({"causal"} if is_causal else ()))
    mixer(tf.zeros((1, 8, WIDTH)), visible=Visible(causal=is_causal))
    for name in ("query", "key", "value", "merge"):
        kernel = getattr(mixer, name).kernel
        kernel.assign(given[name].reshape(kernel.shape))
    x, weights = tf.constant(given["x"]), [weight.value for weight in mixer.trainable_variables]

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mixer(x, visible=Visible(causal=is_causal), training=True)
            loss = tf.reduce_sum(y * y)
        return y, tape.gradient(loss, [x, *weights])[0]

    return repeated(lambda: [each.numpy() for each in step(x)], measure.peak_megabytes())


def theirs(length: int, is_causal: bool) -> dict:
    import torch

    given = {name: torch.from_numpy(value).requires_grad_() for name, value in arrays(length).items()}

    def step():
        for each in given.values():
            each.grad = None
        heads = [
            (given["x"] @ given[name]).view(1, length, HEADS, HEAD_DIM).transpose(1, 2)
            for name in ("query", "key", "value")
        ]
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=is_causal)
        y = mixed.transpose(1, 2).reshape(1, length, WIDTH) @ given["merge"]
        (y * y).sum().backward()
        return [y.detach().numpy(), given["x"].grad.numpy().copy()]

    return repeated(step, measure.peak_megabytes())


def page(found: dict[tuple[bool, int], dict[str, dict]]) -> str:
    """Returns the tables, as Markdown."""
    parts = [
        "# Plain attention on long texts", "",
        f"`python -m {NAME}`: one layer of {HEADS} heads of {HEAD_DIM} with its projections, batch 1,",
        "float32, forward and back, ours compiled by XLA, one core, processor time. Ratio: how many times as fast as `multi_head`.",
        "Difference: the largest one of outputs and of gradients of the inputs from those of `multi_head`, as a share of the largest",
        "value. " + measure.machine(1), "",
    ]  # fmt: skip
    for (is_causal, length), lines in found.items():
        whole = lines["`multi_head`"]["processor"]
        rows = [
            [name, f"{1000 * each['processor']:,.0f}", f"{whole / each['processor']:.2f}", f"{each['megabytes']:,.0f}"]
            + [f"{each['difference']:.1e}" if each["difference"] else ""]
            for name, each in lines.items()
        ]
        parts += [f"{'Causal' if is_causal else 'Two-sided'}, {length:,} tokens:", ""]
        parts.append(measure.table(["", "ms a step", "ratio", "MB", "difference"], rows))
    return "\n".join(parts)


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--name", help="of one measurement")
    parser.add_argument("--length", type=int, help="of one measurement")
    parser.add_argument("--causal", action="store_true", help="of one measurement")
    args = parser.parse_args()
    if args.method == "step":
        given = args.length, args.causal
        result = theirs(*given) if args.name == PEER else ours(OURS[args.name], *given)
        np.savez(os.path.join(args.folder, "found.npz"), *result.pop("found"))
        print(json.dumps(result))
        return
    found: dict[tuple[bool, int], dict[str, dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for is_causal in (False, True):
            for length in LENGTHS:
                found[is_causal, length] = measured(is_causal, length, folder)
    measure.publish(page(found), args.output)


def measured(is_causal: bool, length: int, folder: str) -> dict[str, dict]:
    lines, whole = {}, None
    for name in (*OURS, PEER):
        flags = [f"--name={name}", f"--length={length}", f"--folder={folder}", *(["--causal"] if is_causal else [])]
        result = measure.alone(NAME, ["step", *flags])
        if "error" in result:
            if name == PEER and "No module" in result["error"]:
                continue
            raise SystemExit(f"{name}, {length} tokens: {result['error']}")
        with np.load(os.path.join(folder, "found.npz")) as file:
            values = [file[key] for key in file.files]
        whole = whole or values
        lines[name] = result | {
            "difference": max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(values, whole, strict=True))
        }
        print(length, is_causal, name, lines[name], flush=True)
    return lines


if __name__ == "__main__":
    main()
