"""A masked-LM training step of BERT: ours beside Hugging Face and KerasHub.

    python -m benchmarks.train_step --output=benchmarks/results/train_step.md [--sizes=mini,base --rounds=2 --cores=1]

Each method is a process of its own on the same cores; they take turns, and the round with the fewest processor seconds
counts. All train the same network (dropout 0.1, AdamW, vocabulary 30,522, 20 predictions in 128 tokens, no padding): ours
and Hugging Face's begin with the same weights, whose loss on the same batch is shown; KerasHub has no next-sentence head.
Ours is the step of the real engine, fed by its own pipeline. Take it on a calm machine.
"""

import argparse
import json
import tempfile
import time

from benchmarks import measure

VOCABULARY, LENGTH, PREDICTIONS = 30_522, 128, 20
SHAPES = {"tiny": (32, 5), "mini": (32, 5), "base": (8, 2)}  # batch, timed steps
METHODS = {
    "Hugging Face as shipped": ["hugging_face"],
    "Hugging Face, masked positions gathered": ["hugging_face", "--gathered"],
    "KerasHub": ["keras_hub"],
    "ours": ["ours"],
    "ours, XLA": ["ours", "--jit_compile"],
    "Hugging Face, gathered, bfloat16 autocast": ["hugging_face", "--gathered", "--bfloat16"],
    "ours, bfloat16": ["ours", "--bfloat16"],
}


def arrays(batch_size: int):
    """A batch that all methods learn from."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (batch_size, PREDICTIONS)
    places = rng.permuted(np.tile(np.arange(1, LENGTH), (batch_size, 1)), axis=1)
    return {
        "token_ids": rng.integers(min(1000, VOCABULARY // 5), VOCABULARY, (batch_size, LENGTH)).astype("int32"),
        "segment_ids": np.repeat(np.arange(LENGTH)[None] >= 64, batch_size, axis=0).astype("int32"),
        "padding_mask": np.ones((batch_size, LENGTH), bool),
        "mask_positions": np.sort(places[:, :PREDICTIONS]).astype("int32"),
        "labels": rng.integers(min(1000, VOCABULARY // 5), VOCABULARY, shape).astype("int32"),
        "label_weights": np.ones(shape, "float32"),
        "next_sentence_labels": rng.integers(2, size=batch_size).astype("int32"),
    }  # fmt: skip


def flops(size: str) -> float:
    """Of the matrix products of a step: three times those of a forward pass with the vocabulary at the masked positions."""
    from xmodels.models.bert import SIZES

    numbers, (batch, _) = SIZES[size], SHAPES[size]
    width, layers = numbers["hidden_dim"], numbers["num_layers"]
    per_token = layers * (2 * 12 * width**2 + 4 * LENGTH * width)
    head = PREDICTIONS * 2 * (width**2 + width * VOCABULARY)
    return 3 * batch * (LENGTH * per_token + head)


def make_weights(size: str, folder: str) -> None:
    """One network in both formats."""
    import os

    import keras

    from xmodels.conversion import convert
    from xmodels.models.bert import SIZES, Bert, BertConfig
    from xmodels.models.folder import values_of, write_values

    keras.utils.set_random_seed(0)
    backbone, objective = network(Bert(BertConfig(VOCABULARY, activation="gelu", **SIZES[size])).initialize())
    values = values_of("backbone", backbone)
    for part in objective.parts:
        values |= values_of(part.prefix, part)
    os.makedirs(f"{folder}/{size}")
    write_values(f"{folder}/{size}", "bert", backbone.config, values)
    convert.save(convert.load(f"{folder}/{size}"), f"hf:{folder}/{size}-hf")


def network(backbone):
    import numpy as np

    from xmodels.objectives.base import together
    from xmodels.objectives.masked_lm import MaskedLM
    from xmodels.objectives.next_sentence import NextSentence

    objective = together(MaskedLM(backbone.config), NextSentence(backbone.config))
    batch = {**arrays(1), "example_weights": np.ones(1, "float32")}
    objective.score(backbone(batch), batch, backbone)  # creates the heads
    return backbone, objective


def ours(size: str, folder: str, bfloat16: bool, jit_compile: bool) -> dict:
    import keras
    import numpy as np
    import tensorflow as tf

    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches
    from xmodels.conversion import convert
    from xmodels.jobs.pretraining_network import initialize
    from xmodels.models.bert import Bert
    from xmodels.training.devices import distribution
    from xmodels.training.optimizers.optimization import Optimization
    from xmodels.training.step.learner import Learner
    from xmodels.training.step.streams import single

    keras.config.set_dtype_policy("mixed_bfloat16" if bfloat16 else "float32")
    batch_size, steps = SHAPES[size]
    begun = time.perf_counter()
    strategy = distribution.choose("one_device")
    loaded = convert.load(f"{folder}/{size}")
    with strategy.scope():
        backbone, objective = network(Bert(loaded.config).initialize())
        initialize(loaded, folder, backbone, objective)
        held = {name: np.tile(x, (4, *[1] * (x.ndim - 1))) for name, x in arrays(batch_size).items()}
        batches = Batches(ArraySource(held, "benchmark"), lambda features: features, batch_size)
        numbers = Optimization(optimizer="adamw", learning_rate=1e-4, num_warmup_steps=10, num_steps=1000)
        optimizer = numbers.make_optimizer()
        learner = Learner(strategy, backbone, single(objective, batches), optimizer, jit_compile=jit_compile)
    first = {**arrays(batch_size), "example_weights": np.ones(batch_size, "float32")}
    loss = learner.evaluate([{name: tf.constant(x) for name, x in first.items()}])["loss"]
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: batches.training()))
    learner.train(iterator, tf.constant(1))
    first_step = time.perf_counter() - begun
    learner.train(iterator, tf.constant(1))
    found = measure.timed(lambda: learner.train(iterator, tf.constant(1)), steps)
    return {**found, "first_step": first_step, "loss": loss, "peak_mb": measure.peak_megabytes()}


def hugging_face(size: str, folder: str, bfloat16: bool, gathered: bool) -> dict:
    import contextlib

    import torch
    import transformers

    batch_size, steps = SHAPES[size]
    begun = time.perf_counter()
    model = transformers.BertForPreTraining.from_pretrained(f"{folder}/{size}-hf")
    held = {name: torch.tensor(x) for name, x in arrays(batch_size).items()}
    positions, labels = held["mask_positions"].long(), held["labels"].long()
    inputs = {
        "input_ids": held["token_ids"].long(), "token_type_ids": held["segment_ids"].long(),
        "attention_mask": held["padding_mask"].long(),
    }  # fmt: skip
    full = torch.full((batch_size, LENGTH), -100).scatter(1, positions, labels)
    next_sentence = held["next_sentence_labels"].long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    precision = torch.autocast("cpu", torch.bfloat16) if bfloat16 else contextlib.nullcontext()

    def loss_of():
        if not gathered:
            return model(**inputs, labels=full, next_sentence_label=next_sentence).loss
        outputs = model.bert(**inputs)
        states = outputs.last_hidden_state.gather(1, positions[..., None].expand(-1, -1, model.config.hidden_size))
        logits, follows = model.cls(states, outputs.pooler_output)
        cross_entropy = torch.nn.functional.cross_entropy
        return cross_entropy(logits.float().flatten(0, 1), labels.flatten()) + cross_entropy(
            follows.float(), next_sentence
        )

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model.eval()
    with torch.no_grad(), precision:
        loss = float(loss_of())
    model.train()
    step()
    first_step = time.perf_counter() - begun
    step()
    found = measure.timed(step, steps)
    return {**found, "first_step": first_step, "loss": loss, "peak_mb": measure.peak_megabytes()}


def keras_hub(size: str, folder: str) -> dict:
    import keras
    import keras_hub as hub
    import numpy as np

    from xmodels.models.bert import SIZES

    batch_size, steps = SHAPES[size]
    numbers = SIZES[size]
    begun = time.perf_counter()
    backbone = hub.models.BertBackbone(
        vocabulary_size=VOCABULARY, num_layers=numbers["num_layers"], num_heads=numbers["num_heads"],
        hidden_dim=numbers["hidden_dim"], intermediate_dim=numbers["intermediate_dim"], dropout=0.1,
    )  # fmt: skip
    model = hub.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False,
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0), weighted_metrics=[],
    )  # fmt: skip
    held = arrays(batch_size)
    x = {name: held[name] for name in ("token_ids", "segment_ids", "padding_mask", "mask_positions")}

    def step():
        model.train_on_batch(x, held["labels"], sample_weight=np.ones_like(held["labels"], "float32"))

    step()
    first_step = time.perf_counter() - begun
    step()
    return {**measure.timed(step, steps), "first_step": first_step, "peak_mb": measure.peak_megabytes()}


def report(results: dict, size: str, peak: float) -> str:
    tokens = SHAPES[size][0] * LENGTH
    shipped = results["Hugging Face as shipped"].get("processor")
    rows = []
    for name, found in results.items():
        if "error" in found:
            rows.append([name, found["error"], *[""] * 6])
            continue
        seconds = found["processor"]
        rows.append([
            name, f"{seconds:.3f}", f"{tokens / seconds:,.0f}", f"{shipped / seconds:.2f}" if shipped else "",
            f"{flops(size) / seconds / 1e9 / peak:.0%}", f"{found['first_step']:.0f}", f"{found['peak_mb']:,.0f}",
            f"{found['loss']:.4f}" if "loss" in found else "",
        ])  # fmt: skip
    columns = ["", "processor s / step", "tokens / s", "times Hugging Face as shipped", "of the float32 peak",
               "s to the first step", "peak MB", "first loss"]  # fmt: skip
    return f"\n## BERT-{size}, batch {SHAPES[size][0]} x {LENGTH}\n\n{measure.table(columns, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", nargs="?", help="one method, in this process")
    for name in ("--gathered", "--bfloat16", "--jit_compile"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--size")
    parser.add_argument("--sizes", default="mini,base")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--output")
    given = parser.parse_args()
    if given.method == "peak":
        print(json.dumps({"processor": 1, "peak": measure.sgemm_peak()}))
    elif given.method == "make_weights":
        make_weights(given.size, given.folder)
        print("{}")
    elif given.method == "ours":
        print(json.dumps(ours(given.size, given.folder, given.bfloat16, given.jit_compile)))
    elif given.method == "hugging_face":
        print(json.dumps(hugging_face(given.size, given.folder, given.bfloat16, given.gathered)))
    elif given.method == "keras_hub":
        print(json.dumps(keras_hub(given.size, given.folder)))
    else:
        compare(given)


def compare(given) -> None:
    peak = max(measure.alone("benchmarks.train_step", ["peak"], given.cores)["peak"] for _ in range(3))
    text = (
        f"Made by `python -m benchmarks.train_step --sizes={given.sizes} --rounds={given.rounds} --cores={given.cores}`; its head "
        f"says what is measured.\n\n{measure.machine(given.cores)} Peak of a float32 matrix product: {peak:.0f} GFLOP a "
        "processor second.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in given.sizes.split(","):
            made = measure.alone("benchmarks.train_step", ["make_weights", f"--size={size}", f"--folder={folder}"])
            if "error" in made:
                raise SystemExit(f"weights: {made['error']}")
            more = [f"--size={size}", f"--folder={folder}"]
            methods = {name: [*arguments, *more] for name, arguments in METHODS.items()}
            text += report(measure.rounds("benchmarks.train_step", methods, given.rounds, given.cores), size, peak)
    print(text)
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
