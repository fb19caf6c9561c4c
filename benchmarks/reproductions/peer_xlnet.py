"""Hugging Face's XLNet at the budget of a pretraining of ours, as `peer_bert`.

It begins with the weights of ours, and reads the same batches with the same orders of factorisation and a memory of as many tokens;
network, derivatives, optimizers and the loop of fine-tuning are Hugging Face's and PyTorch's. Rows of tasks are framed by our
tokenizer, since XLNet's of Hugging Face knows SentencePiece alone.
"""

import dataclasses

from benchmarks.reproductions.peer_bert import DECAY, LENGTH, Architecture, groups

NAME = "hugging_face_xlnet"
KERNELS = tuple(f"rel_attn.{name}" for name in "qkvor")  # (D, H, width of a head)


@dataclasses.dataclass(frozen=True)
class XLNet(Architecture):
    """Permutation language modelling; `memory` holds what the segments before left, layer by layer."""

    memory: list = dataclasses.field(default_factory=list)

    def load(self, folder: str, pretraining: bool):
        import transformers

        return getattr(transformers, self.pretraining if pretraining else self.encoder).from_pretrained(folder)

    def begin(self) -> None:
        self.memory.clear()

    def losses(self, model, batch):
        import torch

        tensors = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
        labels, weights = tensors["labels"].long(), tensors["label_weights"]
        places = torch.nn.functional.one_hot(
            tensors["mask_positions"].long(), tensors["token_ids"].shape[1]
        ).float()  # (B, P, N)
        targets = (places * weights[..., None]).sum(1) > 0  # (B, N)
        seen = tensors["content_mask"].float() * (1 - torch.diag_embed(targets.float()))  # no target sees itself
        outputs = model(
            tensors["token_ids"].long(), attention_mask=tensors["padding_mask"].float(), perm_mask=1 - seen, target_mapping=places,
            token_type_ids=tensors["segment_ids"].long(), mems=self.memory or None, use_mems=True,
        )  # fmt: skip
        self.memory[:] = outputs.mems
        logits = outputs.logits.float()
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        right = (logits.argmax(-1) == labels).float()
        total = weights.sum().clamp(min=1.0)
        return (each * weights.flatten()).sum() / total, torch.zeros(()), (right * weights).sum() / total

    def optimizers(self, model, rate: float, muon: bool) -> list:
        import torch

        if not muon:
            return super().optimizers(model, rate, muon)
        named = list(model.named_parameters())
        matrices = [value for name, value in named if is_matrix(name, value)]
        others = [(name, value) for name, value in named if not is_matrix(name, value)]
        return [muon_of(matrices, rate), torch.optim.AdamW(groups(others), lr=rate, betas=(0.9, 0.999), eps=1e-6)]

    def encode(self, start: str, rows, names: list[str]):
        from data_pipelines.text.frames import XLNET
        from data_pipelines.text.framing import pack_texts
        from data_pipelines.text.wordpiece import WordPieceTokenizer

        tokenizer = WordPieceTokenizer.read(f"{start}/vocab.txt")
        arrays = pack_texts([row.texts for row in rows], tokenizer, LENGTH, XLNET, None)
        kept = [mask.astype(bool) for mask in arrays["padding_mask"]]
        parts = (
            [row[real].tolist() for row, real in zip(arrays[name], kept, strict=True)]
            for name in ("token_ids", "segment_ids")
        )
        return list(zip(*parts, (names.index(row.label) for row in rows), strict=True))


XLNET = XLNet(NAME, "XLNetLMHeadModel", "XLNetModel", "transformer", lambda *_: None, None)


def is_matrix(name: str, value) -> bool:
    """Whether Muon updates a parameter: a kernel of the network's layers or of the head."""
    table = "word_embedding" in name or "lm_loss" in name
    return name.endswith(KERNELS) or (value.ndim == 2 and not table and min(value.shape) > 2)


def muon_of(parameters: list, rate: float):
    """PyTorch's Muon, which takes matrices only: kernels of heads are given to it as views, (D, H times the width of a head)."""
    import torch

    views = [torch.nn.Parameter(value.data.view(value.shape[0], -1)) for value in parameters]

    class Muon(torch.optim.Muon):
        def step(self, closure=None):
            for view, value in zip(views, parameters, strict=True):
                view.grad = None if value.grad is None else value.grad.view_as(view)
            return super().step(closure)

    return Muon(views, lr=rate, momentum=0.95, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
