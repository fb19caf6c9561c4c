"""An encoder of Hugging Face at the budget of a pretraining of ours: is an effect missing because of our code, or of the budget?

It begins with the weights that our run began with, and reads the same batches with the same masks; the network, its derivatives,
the optimizer, the tokenizer and the fine-tuning are Hugging Face's and PyTorch's. `benchmarks.reproductions.pretraining
--peer_rows=...`, `family --peer` and, with an ALBERT, `effects --peer` call this and put the scores beside ours.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import statistics
from collections.abc import Callable

from benchmarks.reproductions.commands import is_finished
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table

NAME = "hugging_face_bert"
BATCH, LENGTH, WARMUP, DECAY = 32, 64, 0.1, 0.01  # of fine-tunings, as in the plan of `pretraining`


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A network of Hugging Face.

    Attributes:
        name: of the arm.
        pretraining, encoder: its classes in transformers, with the heads of the pretraining and without.
        trunk: the attribute of the former that holds the latter.
        heads: from the former, states of hidden tokens and the pooled state to the logits of the tokens and of the second question.
        second: the label of the second question; None where there is none.
        prepare: changes the latter as soon as it is loaded, such as to share weights.
    """

    name: str
    pretraining: str
    encoder: str
    trunk: str
    heads: Callable
    second: str | None
    prepare: Callable = lambda encoder: None

    def load(self, folder: str, pretraining: bool):
        """The network of a folder, with the heads of the pretraining or without."""
        import transformers

        if pretraining:
            model = getattr(transformers, self.pretraining).from_pretrained(folder)
            self.prepare(getattr(model, self.trunk))
            return model
        model = getattr(transformers, self.encoder).from_pretrained(folder, add_pooling_layer=False)
        self.prepare(model)
        return model

    def begin(self) -> None:
        """Forgets what was read before."""

    def losses(self, model, batch):
        """(masked LM, second question, share of hidden tokens that are right) of a batch of ours."""
        return losses(model, batch, self)

    def states(self, model, ids, mask, segments):
        """(B, L, D): what the network makes of rows, all (B, L)."""
        return model(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state

    def optimizers(self, model, rate: float, muon: bool) -> list:
        return optimizers_of(model, rate, muon)

    def encode(self, start: str, rows, names: list[str]) -> list[tuple[list[int], list[int], int]]:
        """Ids, segments and label of each row, by Hugging Face's tokenizer of the folder `start`."""
        import transformers

        return encode(transformers.BertTokenizerFast(os.path.join(start, "vocab.txt")), rows, names)


BERT = Architecture(
    NAME, "BertForPreTraining", "BertModel", "bert", lambda model, states, pooled: model.cls(states, pooled),
    "next_sentence_labels",
)  # fmt: skip


def scores(run: str, folder: str, tasks: dict[str, dict], tuning: dict, peer: Architecture = BERT) -> dict[str, dict]:
    """Task -> arm -> accuracies on the test file, with the rate and the epoch that are best on the development file.

    Args:
        run: a pretraining of ours; what is done in `folder` is not repeated.
        tasks: of the plan of `compare`: name -> files `train`, `dev`, `test` and the flag `num_train_epochs`.
        tuning: the plan's `finetuning`: seeds, the rates of `tune`, and of its flags `optimizer` and `pooling`.
    """
    checkpoint, found = os.path.join(folder, "pretrained"), {}
    pretrain(run, folder, checkpoint, peer)
    for task, files in tasks.items():
        for arm, start in ((peer.name, checkpoint), (f"random-{peer.name}", os.path.join(folder, "initial"))):
            found.setdefault(task, {})[arm] = tuned(folder, task, arm, start, files, tuning, peer)
    return found


def tuned(folder: str, task: str, arm: str, start: str, files: dict, tuning: dict, peer: Architecture = BERT) -> dict:
    """Accuracies of all seeds on the test file, with the rate that is best on the development file with the first one."""
    rates, seeds = [float(rate) for rate in tuning["tune"]["learning_rate"]], tuning["seeds"]
    way = Way(tuning["flags"].get("optimizer") == "muon", tuning["flags"]["pooling"])

    def run(rate: float, seed: int) -> dict[str, float]:
        return finetuned(folder, task, arm, start, files, rate, seed, way, peer)

    tried = {rate: run(rate, seeds[0]) for rate in rates}
    rate = max(tried, key=lambda each: tried[each]["dev"])
    runs = [tried[rate], *(run(rate, seed) for seed in seeds[1:])]
    print(f"{task}: {arm} at {rate:g}: {statistics.mean(each['test'] for each in runs):.3f}", flush=True)
    return {"test_accuracy": [each["test"] for each in runs], "learning_rate": rate}


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


def pretrain(run: str, folder: str, checkpoint: str, peer: Architecture = BERT, initial: str | None = None) -> None:
    """Trains on the batches of our run, by its numbers, and writes a folder of Hugging Face's; nothing where that is whole.

    Args:
        initial: a folder of Hugging Face with the first weights. Default: those of our run, which are written to `folder`.
    """
    import torch

    if os.path.isfile(os.path.join(checkpoint, "results.json")):
        return
    made, evaluation = prepared(run, os.path.join(folder, "unused"))
    if initial is None:
        initial = os.path.join(folder, "initial")
        if not os.path.isfile(os.path.join(initial, "vocab.txt")):  # which is written last
            shutil.rmtree(initial, ignore_errors=True)
            write_initial(made, run, folder)
    copy_vocabulary(run, checkpoint)
    model = peer.load(initial, pretraining=True)
    recipe, streams = made.recipe, made.learner.streams
    optimizers = peer.optimizers(model, recipe.learning_rate, muon=True)
    schedules = [with_linear_rate(each, recipe.num_warmup_steps, recipe.num_steps) for each in optimizers]
    batches = {name: iter(stream.batches.training()) for name, stream in streams.items()}
    model.train()
    peer.begin()
    for step in range(recipe.num_steps):
        name = next(name for name, stream in streams.items() if not callable(stream.share) or stream.share(step))
        with precision_of(made.options):
            masked, second, _ = peer.losses(model, next(batches[name]))
        take_step(masked + second, model, optimizers, schedules)
        if step % 100 == 99:
            print(f"{peer.name}: step {step + 1:,}/{recipe.num_steps:,} · masked LM {float(masked):.2f}", flush=True)
    model.eval()
    peer.begin()
    with torch.no_grad():
        found = [peer.losses(model, batch) for batch in evaluation]
    means = [statistics.mean(float(each[number]) for each in found) for number in range(3)]
    # Copies: weights that are shared have a name each.
    model.save_pretrained(checkpoint, state_dict={name: value.clone() for name, value in model.state_dict().items()})
    with open(os.path.join(checkpoint, "results.json"), "w", encoding="utf-8") as file:
        json.dump(dict(zip(("masked_lm", "second", "accuracy"), means, strict=True)), file)


def precision_of(options):
    """That of our run."""
    import torch

    kind = options.mixed_precision
    return torch.autocast("cpu", getattr(torch, kind)) if kind != "none" else contextlib.nullcontext()


def prepared(run: str, folder: str, scored: str | None = None):
    """What our run was made of, before its first step, and the batches of its evaluation.

    Args:
        scored: what is evaluated, of several; the first one by default.
    """
    from xmodels import systems
    from xmodels.jobs.pretrain.evaluation import held_out_batches
    from xmodels.jobs.pretrain.options import Options
    from xmodels.jobs.pretrain.plan import plan
    from xmodels.training.devices import distribution

    with open(os.path.join(run, "config.json"), encoding="utf-8") as file:
        stored = json.load(file)
    known = {field.name for field in dataclasses.fields(Options)}
    flags = {name: value for name, value in stored["flags"].items() if name in known}
    options = Options(**flags | {"model_dir": folder, "distribution_strategy": "one_device"})
    made = plan(options, systems.load(options.system), distribution.choose("one_device"))
    if (then := stored["settings"]["max_predictions_per_seq"]) != (now := made.records.num_predictions):
        raise SystemExit(
            f"{run}: up to {then} tokens of a row were masked, now {now}. Make the page in another --work_dir."
        )
    batches = made.scored_batches()[scored] if scored else next(iter(made.scored_batches().values()))
    return made, held_out_batches(options, batches).once(options.eval_steps)


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
    copy_vocabulary(run, os.path.join(folder, "initial"))


def copy_vocabulary(run: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(os.path.join(run, "vocab.txt"), os.path.join(folder, "vocab.txt"))


def is_matrix(name: str, value) -> bool:
    """Whether Muon updates a parameter: a kernel of the network's layers or heads, no embedding."""
    return value.ndim == 2 and "embeddings" not in name and "decoder" not in name and min(value.shape) > 2


def matrices(model) -> list:
    return [value for name, value in model.named_parameters() if is_matrix(name, value)]


def others(model) -> list[tuple[str, object]]:
    return [(name, value) for name, value in model.named_parameters() if not is_matrix(name, value)]


def groups(named) -> list[dict]:
    """Biases and norms are not decayed."""
    free = lambda name: name.endswith("bias") or "LayerNorm" in name or "layer_norm" in name  # noqa: E731
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


def losses(model, batch, peer: Architecture = BERT):
    """(masked LM, second question, share of hidden tokens that are right) of a batch of ours."""
    import torch

    tensors = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
    outputs = getattr(model, peer.trunk)(
        tensors["token_ids"].long(),
        attention_mask=tensors["padding_mask"].long(),
        token_type_ids=tensors["segment_ids"].long(),
    )
    places = tensors["mask_positions"].long()[..., None].expand(-1, -1, model.config.hidden_size)
    logits, answers = peer.heads(model, outputs.last_hidden_state.gather(1, places), outputs.pooler_output)
    labels, weights = tensors["labels"].long(), tensors["label_weights"]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    right = (logits.argmax(-1) == labels).float()
    total = weights.sum().clamp(min=1.0)
    second = torch.zeros(())
    if peer.second:
        second = torch.nn.functional.cross_entropy(answers, tensors[peer.second].long())
    return (each * weights.flatten()).sum() / total, second, (right * weights).sum() / total


# --- fine-tuning


def finetuned(
    folder: str,
    task: str,
    arm: str,
    start: str,
    files: dict,
    rate: float,
    seed: int,
    way: Way,
    peer: Architecture = BERT,
) -> dict[str, float]:
    """Accuracy of the best epoch on the development file, and that epoch's on the test file; read where it was done before."""
    path = os.path.join(folder, "finetunings", f"{task}-{arm}-{way.name}-{rate:g}-{seed}")
    if not is_finished(path):
        found = finetune(start, files, rate, seed, way, peer)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "results.json"), "w", encoding="utf-8") as file:
            json.dump(found, file)
    with open(os.path.join(path, "results.json"), encoding="utf-8") as file:
        return json.load(file)


def finetune(start: str, files: dict, rate: float, seed: int, way: Way, peer: Architecture = BERT) -> dict[str, float]:
    import torch

    torch.manual_seed(seed)
    model = peer.load(start, pretraining=False)
    columns = Columns("text", "text_pair" if has_pairs(files["train"]) else None, "label")
    rows = {part: read_table(files[part], columns, bad_rows=[]) for part in ("train", "dev", "test")}
    names = sorted({row.label for row in rows["train"]})
    encoded = {part: peer.encode(start, each, names) for part, each in rows.items()}
    head = torch.nn.Linear(model.config.hidden_size * len(way.pooling.split("+")), len(names))
    torch.nn.init.normal_(head.weight, std=model.config.initializer_range)
    torch.nn.init.zeros_(head.bias)
    both, epochs = torch.nn.ModuleList([model, head]), files["flags"]["num_train_epochs"]
    per_epoch = -(-len(rows["train"]) // BATCH)
    optimizers = peer.optimizers(both, rate, way.muon)
    steps = epochs * per_epoch
    schedules = [with_linear_rate(each, round(WARMUP * steps), steps) for each in optimizers]
    best = {"dev": -1.0, "test": 0.0}
    for _ in range(epochs):
        both.train()
        for places in torch.randperm(len(rows["train"])).split(BATCH):
            logits, labels = answers(model, head, encoded["train"], places, way.pooling, peer)
            take_step(torch.nn.functional.cross_entropy(logits, labels), both, optimizers, schedules)
        both.eval()
        dev = accuracy(model, head, encoded["dev"], way.pooling, peer)
        if dev > best["dev"]:
            best = {"dev": dev, "test": accuracy(model, head, encoded["test"], way.pooling, peer)}
    return best


def has_pairs(file: str) -> bool:
    """Whether the rows of a table have two texts."""
    with open(file, encoding="utf-8") as stream:
        return "text_pair" in stream.readline()


def encode(tokenizer, rows, names: list[str]) -> list[tuple[list[int], list[int], int]]:
    """Ids, segments and label of each row."""
    texts = zip(*(row.texts for row in rows), strict=True)
    pieces = tokenizer(*(list(each) for each in texts), truncation=True, max_length=LENGTH)
    labels = (names.index(row.label) for row in rows)
    return list(zip(pieces["input_ids"], pieces["token_type_ids"], labels, strict=True))


def answers(model, head, encoded, places, pooling: str, peer: Architecture):
    """Logits and labels of rows, padded to their longest."""
    import torch

    rows, segments, labels = zip(*(encoded[place] for place in places.tolist()), strict=True)
    length = max(map(len, rows))

    def padded(lists) -> torch.Tensor:
        return torch.tensor([each + [0] * (length - len(each)) for each in lists])

    mask = padded([[1] * len(ids) for ids in rows])
    states = peer.states(model, padded(rows), mask, padded(segments))
    return head(pooled(states, mask, pooling)), torch.tensor(labels)


def pooled(states, mask, pooling: str):
    """(B, D) of (B, L, D) states and their (B, L) mask; of `mean+max` both, side by side."""
    import torch

    ways = {
        "first": lambda: states[:, 0],
        "mean": lambda: (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
        "max": lambda: states.masked_fill(mask[..., None] == 0, -torch.inf).amax(1),
    }
    return torch.cat([ways[name]() for name in pooling.split("+")], dim=-1)


def accuracy(model, head, encoded, pooling: str, peer: Architecture) -> float:
    import torch

    order = torch.tensor(sorted(range(len(encoded)), key=lambda place: len(encoded[place][0])))
    with torch.no_grad():
        right = 0
        for places in order.split(256):
            logits, labels = answers(model, head, encoded, places, pooling, peer)
            right += int((logits.argmax(-1) == labels).sum())
    return right / len(encoded)
