"""A step of pretraining: ours beside Hugging Face, and for BERT beside KerasHub.

    python -m benchmarks.train_step --output=benchmarks/results/train_step.md [--systems=bert --sizes=mini,base --rounds=2 --cores=1]

Each method is a process of its own on the same cores; they take turns, and the round with the fewest processor seconds
counts. All train the same network (dropout 0.1, AdamW, its published vocabulary, 128 tokens without padding, of which 20 are named; of
XLNet 21, of T5 a text of 32 tokens): ours and Hugging Face's begin with the same weights, whose loss on the same batch is shown;
KerasHub has no next-sentence head. Ours is the step of the real engine, fed by its own pipeline. Take it on a calm machine.
"""

import json
import os
import tempfile
import time

from benchmarks import measure
from benchmarks.step_peers import LENGTH, PEERS, PREDICTIONS
from xmodels.training.devices import processor

NAME = "benchmarks.train_step"
SHAPES = {"tiny": (32, 5), "mini": (32, 5), "small": (32, 2), "base": (8, 2)}  # batch, timed steps
METHODS = {
    "Hugging Face as shipped": ["hugging_face"],
    "Hugging Face, masked positions gathered": ["hugging_face", "--gathered"],
    "KerasHub": ["keras_hub"],
    "ours": ["ours"],
    "ours, XLA": ["ours", "--jit_compile"],
    "Hugging Face, gathered, bfloat16 autocast": ["hugging_face", "--gathered", "--bfloat16"],
    "ours, bfloat16": ["ours", "--bfloat16"],
}
# Where TensorFlow leaves oneDNN off and bfloat16 is emulated: as shipped, and with oneDNN, which `xmodels` asks for.
METHODS_WITHOUT_VNNI = {
    "Hugging Face as shipped": ["hugging_face"],
    "Hugging Face, masked positions gathered": ["hugging_face", "--gathered"],
    "KerasHub": ["keras_hub", "--onednn=0"],
    "KerasHub, with oneDNN": ["keras_hub", "--onednn=1"],
    "ours, without oneDNN": ["ours", "--onednn=0"],
    "ours, without oneDNN, XLA": ["ours", "--onednn=0", "--jit_compile"],
    "ours": ["ours", "--onednn=1"],
    "ours, XLA": ["ours", "--onednn=1", "--jit_compile"],
}


def methods_of(system: str, limited: str | None) -> dict[str, list[str]]:
    """Returns those that the system has, on this processor or on one that is limited."""
    peer = PEERS[system]
    methods = METHODS if processor.uses_onednn() and not limited else METHODS_WITHOUT_VNNI
    return {
        name: arguments
        for name, arguments in methods.items()
        if (peer.gathered or "--gathered" not in arguments) and (system == "bert" or "keras_hub" not in arguments)
    }


def flops(size: str) -> float:
    """Of the matrix products of a step of BERT: three times those of a forward pass with the vocabulary at the masked positions."""
    numbers, (batch, _) = PEERS["bert"].sizes[size], SHAPES[size]
    width, layers = numbers["hidden_dim"], numbers["num_layers"]
    per_token = layers * (2 * 12 * width**2 + 4 * LENGTH * width)
    head = PREDICTIONS * 2 * (width**2 + width * PEERS["bert"].vocabulary_size)
    return 3 * batch * (LENGTH * per_token + head)


def make_weights(system: str, folder: str, size: str) -> None:
    """One network in both formats."""
    import keras

    from xmodels.conversion import convert
    from xmodels.models.folder import values_of, write_values

    keras.utils.set_random_seed(0)
    backbone, objective = network(system, size)
    values = values_of("backbone", backbone)
    for part in objective.parts:
        values |= values_of(part.prefix, part)
    os.makedirs(folder)
    write_values(folder, system, backbone.config, values)
    convert.save(convert.load(folder), f"hf:{folder}-hf")


def network(system: str, size: str):
    """Network and objective of ours, whose heads exist."""
    import numpy as np

    backbone = PEERS[system].backbone(size)
    objective = PEERS[system].objective(backbone.config)
    batch = {**PEERS[system].batch(1), "example_weights": np.ones(1, "float32")}
    objective.score(backbone(batch), batch, backbone)  # creates the heads
    return backbone, objective


def ours(system: str, size: str, folder: str, bfloat16: bool, jit_compile: bool) -> dict:
    import keras
    import numpy as np
    import tensorflow as tf

    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches
    from xmodels.conversion import convert
    from xmodels.jobs.pretrain.start import initialize
    from xmodels.training.devices import allocator, distribution
    from xmodels.training.optimizers.optimization import Optimization
    from xmodels.training.step.learner import Learner
    from xmodels.training.step.streams import single

    keras.config.set_dtype_policy("mixed_bfloat16" if bfloat16 else "float32")
    batch_size, steps = SHAPES[size]
    begun = time.perf_counter()
    allocator.keep_memory()
    strategy = distribution.choose("one_device")
    loaded, arrays = convert.load(folder), PEERS[system].batch(batch_size)
    with strategy.scope():
        backbone, objective = network(system, size)
        initialize(loaded, folder, backbone, objective)
        held = {name: np.tile(x, (4, *[1] * (x.ndim - 1))) for name, x in arrays.items()}
        batches = Batches(ArraySource(held, "benchmark"), lambda features: features, batch_size)
        numbers = Optimization(optimizer="adamw", learning_rate=1e-4, num_warmup_steps=10, num_steps=1000)
        optimizer = numbers.make_optimizer()
        learner = Learner(strategy, backbone, single(objective, batches), optimizer, jit_compile=jit_compile)
    first = {**arrays, "example_weights": np.ones(batch_size, "float32")}
    loss = learner.evaluate([{name: tf.constant(x) for name, x in first.items()}])["loss"]
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: batches.training()))
    learner.train(iterator, tf.constant(1))
    first_step = time.perf_counter() - begun
    learner.train(iterator, tf.constant(1))
    found = measure.timed(lambda: learner.train(iterator, tf.constant(1)), steps)
    return {**found, "first_step": first_step, "loss": loss, "peak_mb": measure.peak_megabytes()}


def hugging_face(system: str, size: str, folder: str, bfloat16: bool, gathered: bool) -> dict:
    import contextlib

    import torch
    import transformers

    peer, (batch_size, steps) = PEERS[system], SHAPES[size]
    begun = time.perf_counter()
    model = getattr(transformers, peer.theirs).from_pretrained(f"{folder}-hf")
    held = {name: torch.tensor(x) for name, x in peer.batch(batch_size).items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    precision = torch.autocast("cpu", torch.bfloat16) if bfloat16 else contextlib.nullcontext()
    loss_of = peer.gathered if gathered else peer.shipped

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = loss_of(model, held)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model.eval()
    with torch.no_grad(), precision:
        loss = float(loss_of(model, held))
    model.train()
    step()
    first_step = time.perf_counter() - begun
    step()
    found = measure.timed(step, steps)
    return {**found, "first_step": first_step, "loss": loss, "peak_mb": measure.peak_megabytes()}


def keras_hub(size: str) -> dict:
    import keras
    import keras_hub as hub
    import numpy as np

    batch_size, steps = SHAPES[size]
    numbers, held = PEERS["bert"].sizes[size], PEERS["bert"].batch(batch_size)
    begun = time.perf_counter()
    backbone = hub.models.BertBackbone(
        vocabulary_size=PEERS["bert"].vocabulary_size, num_layers=numbers["num_layers"], num_heads=numbers["num_heads"],
        hidden_dim=numbers["hidden_dim"], intermediate_dim=numbers["intermediate_dim"], dropout=0.1,
    )  # fmt: skip
    model = hub.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False,
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0), weighted_metrics=[],
    )  # fmt: skip
    x = {name: held[name] for name in ("token_ids", "segment_ids", "padding_mask", "mask_positions")}

    def step():
        model.train_on_batch(x, held["labels"], sample_weight=np.ones_like(held["labels"], "float32"))

    step()
    first_step = time.perf_counter() - begun
    step()
    return {**measure.timed(step, steps), "first_step": first_step, "peak_mb": measure.peak_megabytes()}


def report(results: dict, system: str, size: str, peak: float) -> str:
    tokens = SHAPES[size][0] * LENGTH
    shipped = results.get("Hugging Face as shipped", {}).get("processor")
    rows = []
    for name, found in results.items():
        if "error" in found:
            rows.append([name, found["error"], *[""] * 6])
            continue
        seconds = found["processor"]
        rows.append([
            name, f"{seconds:.3f}", f"{tokens / seconds:,.0f}", f"{shipped / seconds:.2f}" if shipped else "",
            f"{flops(size) / seconds / 1e9 / peak:.0%}" if system == "bert" else "", f"{found['first_step']:.0f}",
            f"{found['peak_mb']:,.0f}", f"{found['loss']:.4f}" if "loss" in found else "",
        ])  # fmt: skip
    columns = ["", "processor s / step", "tokens / s", "times Hugging Face as shipped", "of the float32 peak",
               "s to the first step", "peak MB", "first loss"]  # fmt: skip
    if system != "bert":
        columns, rows = [*columns[:4], *columns[5:]], [[*row[:4], *row[5:]] for row in rows]
    return f"\n## {system}, {size}, batch {SHAPES[size][0]} x {LENGTH}\n\n{measure.table(columns, rows)}"


def main() -> None:
    parser = measure.parser_of(__doc__)
    for name in ("--gathered", "--bfloat16", "--jit_compile"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--onednn", choices=("0", "1"), help="of one method: whether TensorFlow uses oneDNN")
    parser.add_argument("--system", help="of one method")
    parser.add_argument("--only", help="names of methods with | between them; by default all")
    parser.add_argument("--systems", default="bert", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--sizes", default="mini,base")
    given = parser.parse_args()
    of = given.system, given.size
    if given.onednn:
        os.environ[processor.ONEDNN] = given.onednn
    if given.method == "peak":
        found = {"processor": 1, "peak": measure.sgemm_peak()}
    elif given.method == "make_weights":
        found = make_weights(given.system, given.folder, given.size) or {}
    elif given.method == "ours":
        found = ours(*of, given.folder, given.bfloat16, given.jit_compile)
    elif given.method == "hugging_face":
        found = hugging_face(*of, given.folder, given.bfloat16, given.gathered)
    elif given.method == "keras_hub":
        found = keras_hub(given.size)
    else:
        return compare(given)
    print(json.dumps(found))


def chosen_methods(system: str, given) -> dict[str, list[str]]:
    """Returns the methods that are measured. Ends the program if one that is asked for does not exist."""
    known = methods_of(system, given.instructions)
    chosen = given.only.split("|") if given.only else list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise SystemExit(f"--only: {system} has no method {unknown[0]!r} here; it has {'|'.join(known)}.")
    return {name: known[name] for name in chosen}


def compare(given) -> None:
    methods = {system: chosen_methods(system, given) for system in given.systems.split(",")}
    peak = max(measure.alone(NAME, ["peak"], given.cores)["peak"] for _ in range(3))
    flags = f"--systems={given.systems} --sizes={given.sizes} --rounds={given.rounds} --cores={given.cores}"
    flags += f" --instructions={given.instructions}" if given.instructions else ""
    flags += f" --only='{given.only}'" if given.only else ""
    machine = measure.machine(given.cores)
    text = (
        f"Made by `python -m {NAME} {flags}`; its head says what is measured.\n\n{machine} Peak of a float32 "
        f"matrix product: {peak:.0f} GFLOP a processor second.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for system, chosen in methods.items():
            for size in given.sizes.split(","):
                more = [f"--system={system}", f"--size={size}", f"--folder={folder}/{system}-{size}"]
                measure.prepare(NAME, ["make_weights", *more])
                arguments = {name: [*each, *more] for name, each in chosen.items()}
                text += report(measure.rounds(NAME, arguments, given.rounds, given.cores), system, size, peak)
    measure.publish(text, given.output)


if __name__ == "__main__":
    main()
