"""Hugging Face's GPT at the budget of a pretraining of ours, as `peer_bert`.

It begins with the weights of ours and reads the same batches; network, derivatives, optimizers and the loop of fine-tuning are
Hugging Face's and PyTorch's. Rows of tasks are framed by our tokenizer with the three tokens of Radford et al. (2018), which
fine-tuning adds to the vocabulary.
"""

from benchmarks.reproductions.peer_bert import DECAY, LENGTH, Architecture, groups

NAME = "hugging_face_gpt"
FUSED = "c_attn.weight"  # (D, 3 D): queries, keys and values side by side


class Gpt(Architecture):
    """Causal language modelling."""

    def load(self, folder: str, pretraining: bool):
        import transformers

        model = getattr(transformers, self.pretraining if pretraining else self.encoder).from_pretrained(folder)
        if not pretraining:
            model.resize_token_embeddings(model.config.vocab_size + len(added_tokens()), mean_resizing=False)
        return model

    def losses(self, model, batch):
        import torch

        tensors = {name: torch.tensor(value.numpy()) for name, value in batch.items()}
        labels, weights = tensors["labels"].long(), tensors["label_weights"]
        logits = model(tensors["token_ids"].long(), attention_mask=tensors["padding_mask"].long()).logits.float()
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        right, total = (logits.argmax(-1) == labels).float(), weights.sum().clamp(min=1.0)
        return (each * weights).sum() / total, torch.zeros(()), (right * weights).sum() / total

    def states(self, model, ids, mask, segments):
        """Its segments are tokens, and ours has none."""
        return model(ids, attention_mask=mask).last_hidden_state

    def optimizers(self, model, rate: float, muon: bool) -> list:
        import torch

        # Biases and norms are not decayed, by the names of BERT.
        named = [(name.replace("ln_", "LayerNorm_"), value) for name, value in model.named_parameters()]
        if not muon:
            return [torch.optim.AdamW(groups(named), lr=rate, eps=1e-6)]
        matrices = [(name, value) for name, value in named if is_matrix(name, value)]
        others = [(name, value) for name, value in named if not is_matrix(name, value)]
        return [muon_of(matrices, rate), torch.optim.AdamW(groups(others), lr=rate, betas=(0.9, 0.999), eps=1e-6)]

    def encode(self, start: str, rows, names: list[str]):
        from data_pipelines.text.added_tokens import with_tokens
        from data_pipelines.text.frames import GPT
        from data_pipelines.text.framing import pack_texts
        from data_pipelines.text.wordpiece import WordPieceTokenizer

        tokenizer = with_tokens(WordPieceTokenizer.read(f"{start}/vocab.txt"), added_tokens())
        arrays = pack_texts([row.texts for row in rows], tokenizer, LENGTH, GPT, None)
        kept = [mask.astype(bool) for mask in arrays["padding_mask"]]
        ids = [row[real].tolist() for row, real in zip(arrays["token_ids"], kept, strict=True)]
        return [(row, [0] * len(row), names.index(each.label)) for row, each in zip(ids, rows, strict=True)]


GPT = Gpt(NAME, "OpenAIGPTLMHeadModel", "OpenAIGPTModel", "transformer", lambda *_: None, None)


def added_tokens() -> tuple[str, ...]:
    from data_pipelines.text.frames import GPT_TOKENS

    return GPT_TOKENS


def is_matrix(name: str, value) -> bool:
    """Whether Muon updates a parameter: a kernel of the network's layers or of the head."""
    return value.ndim == 2 and "embed" not in name and min(value.shape) > 2


def muon_of(named: list, rate: float):
    """PyTorch's Muon, for which queries, keys and values are a matrix each, as in ours."""
    import torch

    parts = [(value, columns(name, value)) for name, value in named]
    views = [[torch.nn.Parameter(value.data[:, each]) for each in of_value] for value, of_value in parts]

    class Muon(torch.optim.Muon):
        def step(self, closure=None):
            for (value, of_value), of_view in zip(parts, views, strict=True):
                for each, view in zip(of_value, of_view, strict=True):
                    view.grad = None if value.grad is None else value.grad[:, each]
            return super().step(closure)

    flat = [view for of_view in views for view in of_view]
    return Muon(flat, lr=rate, momentum=0.95, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")


def columns(name: str, value) -> list[slice]:
    if not name.endswith(FUSED):
        return [slice(None)]
    width = value.shape[1] // 3
    return [slice(first, first + width) for first in range(0, 3 * width, width)]
