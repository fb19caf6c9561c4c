"""Hugging Face's ERNIE on the sentence reordering of ours: is the order of parts not learnt because of our code, or of the budget?

It reads the batches of our run's reordering for as many steps, with random weights before the first; network, derivatives and
optimizers are Hugging Face's and PyTorch's.
"""

from benchmarks.reproductions.peer_bert import optimizers_of, prepared, take_step

NAME = "Hugging Face's ERNIE"
TASK, LABELS = "reordering", "reordering_labels"


def right(run: str, folder: str, steps: int, seed: int) -> float:
    """The share of held-out orders that it names, after so many steps of reordering alone.

    Args:
        run: an ERNIE 2.0 of ours, whose numbers it takes.
        folder: for what `prepared` writes.
    """
    import torch

    made, evaluation = prepared(run, folder, TASK)
    stream, config = made.learner.streams[TASK], made.learner.backbone.config
    (head,) = stream.objective.classes.values()
    torch.manual_seed(seed)
    model = torch.nn.ModuleDict({"ernie": encoder(config), "head": torch.nn.Linear(config.hidden_dim, len(head[1]))})
    optimizers = optimizers_of(model, made.recipe.learning_rate, muon=True)
    warmup = steps // 5
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: min((step + 1) / warmup, (warmup / (step + 1)) ** 0.5))
        for each in optimizers
    ]
    batches = iter(stream.batches.training())
    for step in range(steps):
        logits, labels, _ = answers(model, next(batches))
        loss = torch.nn.functional.cross_entropy(logits, labels)
        take_step(loss, model, optimizers, schedules)
        if step % 100 == 99:
            print(f"{NAME}: step {step + 1:,}/{steps:,} · loss {float(loss):.3f}", flush=True)
    model.eval()
    with torch.no_grad():
        found = [answers(model, batch) for batch in evaluation]
    hits = torch.cat([(logits.argmax(-1) == labels)[real] for logits, labels, real in found])
    return float(hits.float().mean())


def encoder(config):
    """A network of the shape of ours, with weights that are drawn as widely."""
    import transformers

    return transformers.ErnieModel(
        transformers.ErnieConfig(
            vocab_size=config.vocabulary_size, hidden_size=config.hidden_dim, num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads, intermediate_size=config.intermediate_dim, hidden_act=config.activation,
            hidden_dropout_prob=config.dropout, attention_probs_dropout_prob=config.attention_dropout,
            max_position_embeddings=config.max_sequence_length, type_vocab_size=config.num_segments,
            initializer_range=config.initializer_stddev, layer_norm_eps=config.layer_norm_epsilon,
        )
    )  # fmt: skip


def answers(model, batch):
    """Logits of the orders, labels, and which examples count."""
    import torch

    tensors = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
    outputs = model["ernie"](
        tensors["token_ids"].long(),
        attention_mask=tensors["padding_mask"].long(),
        token_type_ids=tensors["segment_ids"].long(),
    )
    return model["head"](outputs.pooler_output), tensors[LABELS].long(), tensors["example_weights"] > 0
