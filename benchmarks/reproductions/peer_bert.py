"""Hugging Face's BERT at the budget of a pretraining of ours: is an effect missing because of our code, or of the budget?

It begins with the weights that our run began with, and reads the same batches with the same masks; the network, its derivatives,
the optimizer, the tokenizer and the fine-tuning are Hugging Face's and PyTorch's. `benchmarks.reproductions.pretraining
--peer_rows=...` calls this and puts the scores beside ours.
"""

import contextlib
import dataclasses
import json
import os
import statistics

from benchmarks.reproductions.common import is_finished
from data_pipelines.corpora.tables import Columns, read_table

NAME = "hugging_face_bert"
BATCH, LENGTH, WARMUP, DECAY = 32, 64, 0.1, 0.01  # of fine-tunings, as in the plan of `pretraining`


def scores(run: str, folder: str, tasks: dict[str, dict], tuning: dict) -> dict[str, dict]:
    """Task -> arm -> accuracies on the test file, with the rate and the epoch that are best on the development file.

    Args:
        run: a pretraining of ours; what is done in `folder` is not repeated.
        tasks: of the plan of `compare`: name -> files `train`, `dev`, `test` and the flag `num_train_epochs`.
        tuning: the plan's `finetuning`: seeds, the rates of `tune`, and of its flags `optimizer` and `pooling`.
    """
    checkpoint, found = os.path.join(folder, "pretrained"), {}
    rates, seeds = [float(rate) for rate in tuning["tune"]["learning_rate"]], tuning["seeds"]
    way = Way(tuning["flags"].get("optimizer") == "muon", tuning["flags"]["pooling"])
    if not os.path.isfile(os.path.join(checkpoint, "results.json")):
        pretrain(run, folder, checkpoint)
    for task, files in tasks.items():
        for arm, start in ((NAME, checkpoint), (f"random-{NAME}", os.path.join(folder, "initial"))):
            tried = {rate: finetuned(folder, task, arm, start, files, rate, seeds[0], way) for rate in rates}
            rate = max(tried, key=lambda each: tried[each]["dev"])
            runs = [tried[rate], *(finetuned(folder, task, arm, start, files, rate, seed, way) for seed in seeds[1:])]
            found.setdefault(task, {})[arm] = {"test_accuracy": [each["test"] for each in runs], "learning_rate": rate}
            print(f"{task}: {arm} at {rate:g}: {statistics.mean(each['test'] for each in runs):.3f}", flush=True)
    return found


@dataclasses.dataclass(frozen=True)
class Way:
    """How it is fine-tuned.

    Attributes:
        muon: whether Muon updates matrices; else AdamW does.
        pooling: which states answer: `mean`, or `mean+max` for the largest values beside it.
    """

    muon: bool
    pooling: str

    @property
    def name(self) -> str:
        return f"{'muon-' * self.muon}{self.pooling}"


def read_results(folder: str) -> dict[str, float]:
    """What the pretraining scored on held-out text."""
    with open(os.path.join(folder, "pretrained/results.json"), encoding="utf-8") as file:
        return json.load(file)


def pretrain(run: str, folder: str, checkpoint: str) -> None:
    """Trains on the batches of our run, by its numbers, and writes a folder of Hugging Face's."""
    import torch
    import transformers

    made, evaluation = prepared(run, os.path.join(folder, "unused"))
    write_initial(made, run, folder)
    model = transformers.BertForPreTraining.from_pretrained(os.path.join(folder, "initial"))
    recipe, streams = made.recipe, made.learner.streams
    optimizers = optimizers_of(model, recipe.learning_rate, muon=True)
    schedules = [with_linear_rate(each, recipe.num_warmup_steps, recipe.num_steps) for each in optimizers]
    batches = {name: iter(stream.batches.training()) for name, stream in streams.items()}
    model.train()
    for step in range(recipe.num_steps):
        name = next(name for name, stream in streams.items() if stream.share(step))
        masked, follows, _ = losses(model, next(batches[name]))
        take_step(masked + follows, model, optimizers, schedules)
        if step % 100 == 99:
            print(f"{NAME}: step {step + 1:,}/{recipe.num_steps:,} · masked LM {float(masked):.2f}", flush=True)
    model.eval()
    with torch.no_grad():
        found = [losses(model, batch) for batch in evaluation]
    means = [statistics.mean(float(each[number]) for each in found) for number in range(3)]
    model.save_pretrained(checkpoint)
    with open(os.path.join(checkpoint, "results.json"), "w", encoding="utf-8") as file:
        json.dump(dict(zip(("masked_lm", "next_sentence", "accuracy"), means, strict=True)), file)


def prepared(run: str, folder: str):
    """What our run was made of, before its first step, and the batches of its evaluation."""
    from xmodels import systems
    from xmodels.jobs import pretrain as job
    from xmodels.jobs.options.pretrain import Options
    from xmodels.jobs.pretraining_evaluation import evaluated_on
    from xmodels.training.devices import distribution

    with open(os.path.join(run, "config.json"), encoding="utf-8") as file:
        flags = json.load(file)["flags"]
    known = {field.name for field in dataclasses.fields(Options)}
    flags = {name: value for name, value in flags.items() if name in known}
    options = Options(**flags | {"model_dir": folder, "distribution_strategy": "one_device"})
    made = job._prepare(options, systems.load(options.system), distribution.choose("one_device"))
    batches = next(iter(made.scored().values()))
    return made, evaluated_on(options, batches).once(options.eval_steps)


def write_initial(made, run: str, folder: str) -> None:
    """The network of the first step, with its heads, in both formats."""
    from xmodels.conversion import convert
    from xmodels.models.folder import values_of, write_values

    learner, ours = made.learner, os.path.join(folder, "initial-ours")
    objective = next(iter(learner.streams.values())).objective
    values = values_of("backbone", learner.backbone)
    for part in objective.parts:
        values |= values_of(part.prefix, part)
    os.makedirs(ours, exist_ok=True)
    write_values(ours, made.options.system, learner.backbone.config, values)
    convert.save(convert.load(ours), f"hf:{os.path.join(folder, 'initial')}")
    for target in ("initial", "pretrained"):
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(open(os.path.join(run, "vocab.txt"), encoding="utf-8"))
            stack.enter_context(open(os.path.join(folder, target, "vocab.txt"), "w", encoding="utf-8")).write(
                source.read()
            )


def is_matrix(name: str, value) -> bool:
    """Whether Muon updates a parameter: a kernel of the network's layers or heads, no embedding."""
    return value.ndim == 2 and "embeddings" not in name and "decoder" not in name and min(value.shape) > 2


def matrices(model) -> list:
    return [value for name, value in model.named_parameters() if is_matrix(name, value)]


def others(model) -> list[tuple[str, object]]:
    return [(name, value) for name, value in model.named_parameters() if not is_matrix(name, value)]


def groups(named) -> list[dict]:
    """Biases and norms are not decayed."""
    free = lambda name: name.endswith("bias") or "LayerNorm" in name  # noqa: E731
    return [
        {"params": [value for name, value in named if not free(name)], "weight_decay": DECAY},
        {"params": [value for name, value in named if free(name)], "weight_decay": 0.0},
    ]


def optimizers_of(model, rate: float, muon: bool) -> list:
    import torch

    if not muon:
        return [torch.optim.AdamW(groups(list(model.named_parameters())), lr=rate, eps=1e-6)]
    return [
        torch.optim.Muon(matrices(model), lr=rate, momentum=0.95, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups(others(model)), lr=rate, betas=(0.9, 0.999), eps=1e-6),
    ]


def with_linear_rate(optimizer, warmup: int, steps: int):
    from transformers import get_linear_schedule_with_warmup

    return get_linear_schedule_with_warmup(optimizer, warmup, steps)


def take_step(loss, model, optimizers, schedules) -> None:
    import torch

    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for each in (*optimizers, *schedules):
        each.step()
    model.zero_grad(set_to_none=True)


def losses(model, batch):
    """(masked LM, next sentence, share of hidden tokens that are right) of a batch of ours."""
    import torch

    held = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
    outputs = model.bert(
        held["token_ids"].long(), attention_mask=held["padding_mask"].long(), token_type_ids=held["segment_ids"].long()
    )
    places = held["mask_positions"].long()[..., None].expand(-1, -1, model.config.hidden_size)
    logits, follows = model.cls(outputs.last_hidden_state.gather(1, places), outputs.pooler_output)
    labels, weights = held["labels"].long(), held["label_weights"]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    right = (logits.argmax(-1) == labels).float()
    total = weights.sum().clamp(min=1.0)
    second = torch.nn.functional.cross_entropy(follows, held["next_sentence_labels"].long())
    return (each * weights.flatten()).sum() / total, second, (right * weights).sum() / total


# --- fine-tuning


def finetuned(
    folder: str, task: str, arm: str, start: str, files: dict, rate: float, seed: int, way: Way
) -> dict[str, float]:
    """Accuracy of the best epoch on the development file, and that epoch's on the test file; read where it was done before."""
    path = os.path.join(folder, "finetunings", f"{task}-{arm}-{way.name}-{rate:g}-{seed}")
    if not is_finished(path):
        found = finetune(start, files, rate, seed, way)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "results.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
    with open(os.path.join(path, "results.json"), encoding="utf-8") as file:
        return json.load(file)


def finetune(start: str, files: dict, rate: float, seed: int, way: Way) -> dict[str, float]:
    import torch
    import transformers

    torch.manual_seed(seed)
    model = transformers.BertModel.from_pretrained(start, add_pooling_layer=False)
    tokenizer = transformers.BertTokenizerFast(os.path.join(start, "vocab.txt"))
    rows = {
        part: read_table(files[part], Columns("text", None, "label"), bad_rows=[]) for part in ("train", "dev", "test")
    }
    names = sorted({row.label for row in rows["train"]})
    encoded = {part: encode(tokenizer, each, names) for part, each in rows.items()}
    head = torch.nn.Linear(model.config.hidden_size * len(way.pooling.split("+")), len(names))
    torch.nn.init.normal_(head.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(head.bias)
    both, epochs = torch.nn.ModuleList([model, head]), files["flags"]["num_train_epochs"]
    per_epoch = -(-len(rows["train"]) // BATCH)
    optimizers = optimizers_of(both, rate, way.muon)
    steps = epochs * per_epoch
    schedules = [with_linear_rate(each, round(WARMUP * steps), steps) for each in optimizers]
    best = {"dev": -1.0, "test": 0.0}
    for _ in range(epochs):
        both.train()
        for places in torch.randperm(len(rows["train"])).split(BATCH):
            logits, labels = answers(model, head, encoded["train"], places, way.pooling)
            take_step(torch.nn.functional.cross_entropy(logits, labels), both, optimizers, schedules)
        both.eval()
        dev = accuracy(model, head, encoded["dev"], way.pooling)
        if dev > best["dev"]:
            best = {"dev": dev, "test": accuracy(model, head, encoded["test"], way.pooling)}
    return best


def encode(tokenizer, rows, names: list[str]) -> list[tuple[list[int], int]]:
    pieces = tokenizer([row.texts[0] for row in rows], truncation=True, max_length=LENGTH)["input_ids"]
    return [(ids, names.index(row.label)) for ids, row in zip(pieces, rows, strict=True)]


def answers(model, head, encoded, places, pooling: str):
    """Logits and labels of rows, padded to their longest."""
    import torch

    chosen = [encoded[place] for place in places.tolist()]
    length = max(len(ids) for ids, _ in chosen)
    ids = torch.tensor([ids + [0] * (length - len(ids)) for ids, _ in chosen])
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in chosen])
    states = model(ids, attention_mask=mask).last_hidden_state
    return head(pooled(states, mask, pooling)), torch.tensor([label for _, label in chosen])


def pooled(states, mask, pooling: str):
    """(B, D) of (B, L, D) states and their (B, L) mask; of `mean+max` both, side by side."""
    import torch

    ways = {
        "first": lambda: states[:, 0],
        "mean": lambda: (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
        "max": lambda: states.masked_fill(mask[..., None] == 0, -torch.inf).amax(1),
    }
    return torch.cat([ways[name]() for name in pooling.split("+")], dim=-1)


def accuracy(model, head, encoded, pooling: str) -> float:
    import torch

    order = torch.tensor(sorted(range(len(encoded)), key=lambda place: len(encoded[place][0])))
    with torch.no_grad():
        right = 0
        for places in order.split(256):
            logits, labels = answers(model, head, encoded, places, pooling)
            right += int((logits.argmax(-1) == labels).sum())
    return right / len(encoded)
