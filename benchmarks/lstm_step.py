"""A training step of the AWD-LSTM at a quarter of its width beside PyTorch's LSTM.

    python -m benchmarks.lstm_step --output=benchmarks/results/lstm_step.md [--rounds=2]

Three layers (100 to 287, 287, 100), a vocabulary of 10,000 whose table is the output matrix too, 20 texts of 70 tokens, AdamW, clipped
gradients, float32. PyTorch's network is `nn.LSTM` with the same sizes and nothing dropped; ours is measured so, and with all that
AWD-LSTM drops. A method is a process of its own on one core; they take turns, and the round with the fewest processor seconds counts.
"""

import json

import numpy as np

from benchmarks import measure
from benchmarks.mixer_quality import learner_of

NAME = "benchmarks.lstm_step"
ROWS, LENGTH, VOCABULARY, WIDTHS, STEPS = 20, 70, 10_000, (100, 287, 287, 100), 10
METHODS = {
    "PyTorch": ["pytorch"],
    "ours": ["ours"],
    "ours, XLA": ["ours", "--jit_compile"],
    "ours, with all that is dropped": ["ours", "--dropped"],
    "ours, with all that is dropped, XLA": ["ours", "--dropped", "--jit_compile"],
}


def tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(4, VOCABULARY, (4 * ROWS, LENGTH + 1)).astype("int32")


def ours(is_dropped: bool, jit_compile: bool) -> dict:
    import tensorflow as tf

    from xmodels.models.awd_lstm import SIZES, AwdLstm, AwdLstmConfig
    from xmodels.objectives.tied_lm import TiedLM
    from xmodels.training.devices import allocator

    allocator.keep_memory()
    numbers = {name: value for name, value in SIZES["base"].items() if name.endswith("dropout")} if is_dropped else {}
    if not is_dropped:
        numbers |= {"dropout": 0.0, "activation_penalty": 0.0, "temporal_penalty": 0.0}
    config = AwdLstmConfig(VOCABULARY, hidden_dim=WIDTHS[0], num_layers=3, recurrent_dim=WIDTHS[1], **numbers)
    drawn = tokens()
    arrays = {
        "token_ids": drawn[:, :-1], "padding_mask": np.ones((len(drawn), LENGTH), bool),
        "labels": drawn[:, 1:], "label_weights": np.ones((len(drawn), LENGTH), "float32"),
    }  # fmt: skip
    learner, iterator = learner_of(
        lambda: (AwdLstm(config).initialize(), TiedLM(config)), arrays, ROWS, jit_compile=jit_compile
    )
    one = tf.constant(1)
    for _ in range(3):
        learner.train(iterator, one)
    return measure.timed(lambda: learner.train(iterator, one), STEPS) | {"memory": measure.peak_megabytes()}


def pytorch() -> dict:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(VOCABULARY, WIDTHS[0])
    layers = torch.nn.ModuleList(
        torch.nn.LSTM(into, out, batch_first=True) for into, out in zip(WIDTHS[:-1], WIDTHS[1:], strict=True)
    )
    bias = torch.nn.Parameter(torch.zeros(VOCABULARY))
    weights = [*embedding.parameters(), *layers.parameters(), bias]
    optimizer = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.01)
    given = torch.from_numpy(tokens()[:ROWS].astype("int64"))

    def step() -> None:
        x = embedding(given[:, :-1])
        for layer in layers:
            x, _ = layer(x)
        logits = torch.nn.functional.linear(x, embedding.weight, bias)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), given[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 0.25)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    for _ in range(3):
        step()
    return measure.timed(step, STEPS) | {"memory": measure.peak_megabytes()}


def flops() -> float:
    """Of the matrix products of a step: three times those of a forward pass."""
    cells = sum(8 * out * (into + out) for into, out in zip(WIDTHS[:-1], WIDTHS[1:], strict=True))
    return 3 * ROWS * LENGTH * (cells + 2 * WIDTHS[-1] * VOCABULARY)


def page(found: dict[str, dict], peak: float) -> str:
    peer, rows = found["PyTorch"]["processor"], []
    for name, each in found.items():
        if "error" in each:
            rows.append([name, each["error"], "", "", ""])
            continue
        rate = flops() / each["processor"] / 1e9
        rows.append([
            name, f"{1000 * each['processor']:,.0f}", f"{peer / each['processor']:.2f}", f"{rate:.0f}", f"{each['memory']:,.0f}"
        ])  # fmt: skip
    return "\n".join([
        "# A step of an LSTM language model beside PyTorch", "",
        f"`python -m {NAME}`; its head says what is measured. A step is {flops() / 1e9:.1f} GFLOP of matrix products; this core does "
        f"{peak:.0f} GFLOP/s of large ones. {measure.machine(1)}", "",
        measure.table(["network", "processor ms a step", "times as fast as PyTorch", "GFLOP/s", "peak MB"], rows),
    ])  # fmt: skip


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--dropped", action="store_true", help="of one measurement")
    parser.add_argument("--jit_compile", action="store_true", help="of one measurement")
    args = parser.parse_args()
    if args.method == "ours":
        print(json.dumps(ours(args.dropped, args.jit_compile)))
    elif args.method == "pytorch":
        print(json.dumps(pytorch()))
    elif args.method == "peak":
        print(json.dumps({"peak": measure.sgemm_peak()}))
    else:
        found = measure.rounds(NAME, METHODS, args.rounds)
        measure.publish(page(found, measure.alone(NAME, ["peak"])["peak"]), args.output)


if __name__ == "__main__":
    main()
