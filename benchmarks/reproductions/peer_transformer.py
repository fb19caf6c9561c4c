"""PyTorch's `nn.Transformer` at the budget of a deep run of ours: is an effect missing because of our code, or of the budget?

It reads the batches of our run in their order, at its rates; the network, its first weights, its derivatives and the optimizer are
PyTorch's. The table of tokens, which the softmax shares, and sinusoids stand before it, as in the paper.
"""

import json
import math
import os

from benchmarks.reproductions.commands import is_finished, results_of
from benchmarks.reproductions.peer_bert import prepared


def nats(run: str) -> float:
    """Held-out nats of a token of the targets, on the batches that our run is evaluated on.

    Args:
        run: a pre-norm pretraining of ours. What is done already in the folder beside it is not repeated.
    """
    folder = f"{run}_pytorch"
    if not is_finished(folder):
        found = train(run, f"{folder}_unused")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
            json.dump({"results": {"negative_log_likelihood": found}}, file)
    return results_of(folder)["negative_log_likelihood"]


def train(run: str, folder: str) -> float:
    import torch

    made, evaluation = prepared(run, folder)
    recipe, (stream,), config = made.recipe, made.learner.streams.values(), made.learner.backbone.config
    torch.manual_seed(made.options.seed)
    parts = torch.nn.ModuleDict(
        {
            "tokens": torch.nn.Embedding(config.vocabulary_size, config.hidden_dim),
            "network": torch.nn.Transformer(
                config.hidden_dim, config.num_heads, config.num_layers, config.num_layers, config.intermediate_dim,
                config.dropout, layer_norm_eps=config.layer_norm_epsilon, batch_first=True, norm_first=True,
            ),
        }
    )  # fmt: skip
    torch.nn.init.normal_(parts["tokens"].weight, std=config.hidden_dim**-0.5)
    optimizer = torch.optim.Adam(parts.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / max(1, recipe.num_warmup_steps))
    )
    batches = iter(stream.batches.training())
    parts.train()
    for step in range(recipe.num_steps):
        total, weight = losses(parts, next(batches), config.dropout, stream.objective.label_smoothing)
        (total / weight).backward()
        optimizer.step()
        schedule.step()
        parts.zero_grad(set_to_none=True)
        if step % 100 == 99:
            print(f"PyTorch: step {step + 1:,}/{recipe.num_steps:,} · loss {float(total / weight):.3f}", flush=True)
    parts.eval()
    with torch.no_grad():
        found = [losses(parts, batch, 0.0, 0.0) for batch in evaluation]
    return float(sum(total for total, _ in found) / sum(weight for _, weight in found))


def losses(parts, batch, dropout: float, label_smoothing: float):
    """The sum of the nats of the labels, and their number."""
    import torch

    held = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
    padding, target, labels = ~held["padding_mask"].bool(), held["target_ids"].long(), held["labels"].long()
    padding[:, 0] = False  # rows that fill up the last batch have no source, of which attention would make NaN
    read = torch.nn.functional.pad(parts["tokens"](target[:, 1:]), (0, 0, 1, 0))  # the start is a vector of zeros
    states = parts["network"](
        positioned(parts["tokens"](held["token_ids"].long()), dropout),
        positioned(read, dropout),
        tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
        tgt_is_causal=True,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    logits = states @ parts["tokens"].weight.T
    each = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), labels, reduction="none", label_smoothing=label_smoothing
    )
    return (each * held["label_weights"]).sum(), held["label_weights"].sum()


def positioned(embeddings, dropout: float):
    """(B, L, D): scaled, with sinusoids added (section 3.5), and dropped."""
    import torch

    length, width = embeddings.shape[1:]
    inverse = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length)[:, None] * inverse
    signal = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return torch.nn.functional.dropout(embeddings * math.sqrt(width) + signal, dropout, training=dropout > 0)
