"""Hugging Face's BART as a MASS, on the batches of ours: is a share of the text better because of our code, or of the budget?

The networks are the same: post-norm blocks over sums of tokens and learned positions. Hugging Face's decoder counts positions from 0,
and that of MASS reads a fragment at the places that it has in its text, so the difference of both is added to what it reads. First
weights, derivatives, optimizers and the fine-tuning are Hugging Face's and PyTorch's.
"""

import json
import os

from benchmarks.reproductions.commands import is_finished, results_of
from benchmarks.reproductions.peer_bert import (
    copy_vocabulary,
    groups,
    precision_of,
    prepared,
    take_step,
    with_linear_rate,
)

NAME = "Hugging Face's BART"
WARMUP, SMOOTHING = 0.1, 0.1  # of fine-tunings, as in ours


def pretrain(run: str, folder: str, untrained: bool = False) -> None:
    """Trains on the batches of our run, by its numbers; nothing where the folder is whole.

    Args:
        untrained: the folder gets the first weights, and no step is taken.
    """
    import torch

    if is_finished(folder):
        return
    made, evaluation = prepared(run, f"{folder}-unused")
    recipe, (stream,) = made.recipe, made.learner.streams.values()
    torch.manual_seed(made.options.seed)
    model = network(made.learner.backbone.config)
    optimizers = optimizers_of(model, recipe.learning_rate)
    schedules = [with_linear_rate(each, recipe.num_warmup_steps, recipe.num_steps) for each in optimizers]
    batches = iter(stream.batches.training())
    model.train()
    for step in range(0 if untrained else recipe.num_steps):
        with precision_of(made.options):
            total, _, weight = measured(model, tensors_of(next(batches)))
        take_step(total / weight, model, optimizers, schedules)
        if step % 100 == 99:
            print(f"{NAME}: step {step + 1:,}/{recipe.num_steps:,} · loss {float(total / weight):.3f}", flush=True)
    model.eval()
    found = summed(model, map(tensors_of, evaluation))
    unfinished = f"{folder}-unfinished"
    model.save_pretrained(unfinished)
    copy_vocabulary(run, unfinished)
    write_results(unfinished, {"negative_log_likelihood": found[0]})
    os.rename(unfinished, folder)


def network(config):
    """A network of the shape of ours, with weights that are drawn as widely."""
    import transformers

    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=config.vocabulary_size, max_position_embeddings=config.max_sequence_length, d_model=config.hidden_dim,
            encoder_layers=config.num_layers, decoder_layers=config.num_layers, encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads, encoder_ffn_dim=config.intermediate_dim,
            decoder_ffn_dim=config.intermediate_dim, dropout=config.dropout, attention_dropout=config.attention_dropout,
            init_std=config.initializer_stddev, pad_token_id=0,
        )
    )  # fmt: skip


def optimizers_of(model, rate: float) -> list:
    """Muon for the matrices of the blocks, AdamW for tables, biases and norms."""
    import torch

    named = list(model.named_parameters())
    matrices = [(name, value) for name, value in named if ".layers." in name and value.ndim == 2]
    rest = [(name, value) for name, value in named if not (".layers." in name and value.ndim == 2)]
    muon = torch.optim.Muon(
        [value for _, value in matrices], lr=rate, momentum=0.95, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(groups(rest), lr=rate, betas=(0.9, 0.999), eps=1e-6)]


def tensors_of(batch) -> dict:
    import torch

    return {name: torch.tensor(value.numpy()) for name, value in batch.items()}


def measured(model, batch, label_smoothing: float = 0.0):
    """Sums over the labels: of their nats and of those that are right; and their number."""
    import torch

    encoder, decoder = model.model.encoder, model.model.decoder
    states = encoder(input_ids=batch["token_ids"].long(), attention_mask=batch["encoder_mask"].long()).last_hidden_state
    read = decoder.embed_tokens(batch["target_ids"].long())
    if "target_position_ids" in batch:
        counted = torch.arange(read.shape[1]).expand(len(read), -1)
        table, first = decoder.embed_positions.weight, decoder.embed_positions.offset
        read = read + table[batch["target_position_ids"].long() + first] - table[counted + first]
    written = decoder(
        inputs_embeds=read, encoder_hidden_states=states, encoder_attention_mask=batch["cross_mask"].long(), use_cache=False
    ).last_hidden_state  # fmt: skip
    logits, labels, weights = model.lm_head(written), batch["labels"].long(), batch["label_weights"]
    each = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), labels, reduction="none", label_smoothing=label_smoothing
    )
    right = (logits.argmax(-1) == labels).float()
    return (each * weights).sum(), (right * weights).sum(), weights.sum().clamp(min=1.0)


def summed(model, batches) -> tuple[float, float]:
    """Nats of a label, and the share of those that are right, over batches."""
    import torch

    with torch.no_grad():
        total, right, weight = (float(sum(part)) for part in zip(*(measured(model, b) for b in batches), strict=True))
    return total / weight, right / weight


# --- fine-tuning


def finetuned(
    start: str, folder: str, files: dict[str, str], rate: float, seed: int, epochs: int, batch_size: int, length: int
) -> dict:
    """Nats of a token of the development targets after the epoch that names most of them; read where it was done before.

    Args:
        start: a folder of Hugging Face.
        files: tables of pairs, `train` and `dev`.
        length: of sources and targets, special tokens included.
    """
    if not is_finished(folder):
        os.makedirs(folder, exist_ok=True)
        write_results(folder, finetune(start, files, rate, seed, epochs, batch_size, length))
    return results_of(folder)


def finetune(
    start: str, files: dict[str, str], rate: float, seed: int, epochs: int, batch_size: int, length: int
) -> dict:
    import torch
    import transformers

    torch.manual_seed(seed)
    model = transformers.BartForConditionalGeneration.from_pretrained(start)
    tokenizer = transformers.BertTokenizerFast(os.path.join(start, "vocab.txt"), do_lower_case=False)
    rows = {part: encoded(tokenizer, files[part], length) for part in ("train", "dev")}
    optimizers = optimizers_of(model, rate)
    warmup = max(1, round(WARMUP * epochs * -(-len(rows["train"]) // batch_size)))
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: min((step + 1) / warmup, (warmup / (step + 1)) ** 0.5))
        for each in optimizers
    ]
    best = {"accuracy": -1.0}
    for _ in range(epochs):
        model.train()
        for places in torch.randperm(len(rows["train"])).split(batch_size):
            total, _, weight = measured(model, batch_of([rows["train"][each] for each in places.tolist()]), SMOOTHING)
            take_step(total / weight, model, optimizers, schedules)
        model.eval()
        parts = (rows["dev"][first : first + 100] for first in range(0, len(rows["dev"]), 100))
        nats, accuracy = summed(model, map(batch_of, parts))
        if accuracy > best["accuracy"]:
            best = {"accuracy": accuracy, "nats": nats}
    return best


def encoded(tokenizer, table: str, length: int) -> list[tuple[list[int], list[int]]]:
    """Ids of source and target of JSON lines, each with the token that opens it and the one that ends it."""
    with open(table, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    sides = ([row[side] for row in rows] for side in ("text", "text_pair"))
    return list(zip(*(tokenizer(each, truncation=True, max_length=length)["input_ids"] for each in sides), strict=True))


def batch_of(pairs) -> dict:
    import torch

    def padded(lists):
        longest = max(map(len, lists))
        return torch.tensor([each + [0] * (longest - len(each)) for each in lists])

    sources, targets = zip(*pairs, strict=True)
    mask = padded([[1] * len(each) for each in sources])
    return {
        "token_ids": padded(sources), "encoder_mask": mask, "cross_mask": mask,
        "target_ids": padded([each[:-1] for each in targets]), "labels": padded([each[1:] for each in targets]),
        "label_weights": padded([[1.0] * (len(each) - 1) for each in targets]),
    }  # fmt: skip


def write_results(folder: str, found: dict) -> None:
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"results": found}, file)
