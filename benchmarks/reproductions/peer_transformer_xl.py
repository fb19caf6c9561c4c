"""Hugging Face's XLNet as a Transformer-XL (`attn_type="uni"`) at the budget of a run of ours: is an effect missing because of our
code, or of the budget?

It reads the batches of our run in their order; the network, its memory, its derivatives and the optimizer are Hugging Face's and
PyTorch's. Weights begin as the paper's, with a deviation of 0.02. Each layer has its own u and v, where ours share them.
"""

import math
import os

import numpy as np

from benchmarks.reproductions.commands import is_finished, kept
from benchmarks.reproductions.peer_bert import prepared
from benchmarks.reproductions.stream_scores import segments_of

NAMES = {"clamp_length": "clamp_len", "same_length": "same_length"}  # of settings: ours -> Hugging Face's


def scores(run: str, records: str, segment: int, ways: dict[tuple[int, str], dict]) -> dict[tuple[int, str], dict]:
    """Scores by the length of the memory at evaluation and the way to read distances, as of `stream_scores.with_memory`.

    Args:
        run: a pretraining of ours. What is done already in the folder beside it is not repeated.
        records: what is scored.
        segment: the length of segments, in which memories are counted.
        ways: (length of the memory in segments, name) -> settings of the network.
    """
    checkpoint, found = f"{run}_hugging_face", {}
    if not is_finished(checkpoint):
        pretrain(run, checkpoint)
    for (times, way), changes in ways.items():
        path = os.path.join(checkpoint, f"memory_{times}_{way.replace(' ', '_')}.json")
        found[times, way] = kept(path, score, checkpoint, records, times * segment, changes)
        print(f"Hugging Face's, memory of {times} {way}: {found[times, way]['nats']:.4f} nats", flush=True)
    return {key: {**each, "by_seed": [each["nats"]]} for key, each in found.items()}


def network(config):
    """Hugging Face's network of the shape of one of ours."""
    import transformers

    return transformers.XLNetLMHeadModel(
        transformers.XLNetConfig(
            vocab_size=config.vocabulary_size, d_model=config.hidden_dim, n_layer=config.num_layers, n_head=config.num_heads,
            d_inner=config.intermediate_dim, ff_activation="relu", attn_type="uni", dropout=config.dropout,
            mem_len=config.memory_length, use_mems_train=True, layer_norm_eps=config.layer_norm_epsilon,
        )
    )  # fmt: skip


def pretrain(run: str, checkpoint: str) -> None:
    """Trains by the numbers of our run, and writes a folder of Hugging Face's."""
    import torch
    import transformers

    made, _ = prepared(run, f"{checkpoint}_unused")
    recipe, (stream,) = made.recipe, made.learner.streams.values()
    torch.manual_seed(made.options.seed)
    model = network(made.learner.backbone.config)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, eps=recipe.adam_epsilon, weight_decay=recipe.weight_decay
    )
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, recipe.num_warmup_steps, recipe.num_steps)
    batches, past = iter(stream.batches.training()), None
    model.train()
    for step in range(recipe.num_steps):
        nats, weights, past = losses(model, next(batches), past)
        loss = (nats * weights).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        schedule.step()
        model.zero_grad(set_to_none=True)
        if step % 100 == 99:
            print(f"Hugging Face's: step {step + 1:,}/{recipe.num_steps:,} · {float(loss):.2f} nats", flush=True)
    model.save_pretrained(checkpoint)
    with open(os.path.join(checkpoint, "results.json"), "w", encoding="utf-8") as file:
        file.write("{}")


def losses(model, batch, past):
    """Nats of the labels and their weights, both (B, N), and the memory after a segment."""
    import torch

    held = {name: torch.tensor(batch[name].numpy()) for name in ("token_ids", "labels", "label_weights")}
    # The paper's embeddings, which the softmax shares, are scaled where they enter; XLNet's are not.
    states = model.transformer.word_embedding(held["token_ids"].long()) * math.sqrt(model.config.d_model)
    outputs = model(inputs_embeds=states, mems=past, use_mems=True)
    nats = torch.nn.functional.cross_entropy(outputs.logits.transpose(1, 2), held["labels"].long(), reduction="none")
    return nats, held["label_weights"], outputs.mems


def score(checkpoint: str, records: str, memory_length: int, changes: dict, rows: int = 8) -> dict:
    """Mean nats of a token of a stream that is read in `rows` parts."""
    import torch
    import transformers

    changes = {NAMES[name]: value for name, value in changes.items()}
    model = transformers.XLNetLMHeadModel.from_pretrained(checkpoint, mem_len=memory_length or None, **changes).eval()
    past, total, weight = None, 0.0, 0.0
    with torch.no_grad():
        for batch in segments_of(records, rows):
            nats, weights, after = losses(model, batch, past)
            past = after if memory_length else None
            total, weight = total + float((nats * weights).double().sum()), weight + float(np.sum(weights.numpy()))
    return {"nats": total / weight}
