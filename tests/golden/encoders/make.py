"""Makes the goldens of this folder with Hugging Face transformers and torch: `python tests/golden/encoders/make.py`."""

import os

import numpy as np
import torch
import transformers

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
DEBERTA = SIZES | {
    "max_position_embeddings": 20, "relative_attention": True, "position_biased_input": False, "pos_att_type": "p2c|c2p",
    "position_buckets": 4, "type_vocab_size": 0,
}  # fmt: skip
NETWORKS = {
    "electra": ("Electra", "ForPreTraining", SIZES | {"embedding_size": 6, "max_position_embeddings": 20}),
    "distilbert": (
        "DistilBert",
        "ForMaskedLM",
        {"vocab_size": 30, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 20},
    ),
    "mpnet": ("MPNet", "ForMaskedLM", SIZES | {"max_position_embeddings": 22}),
    "modernbert": (
        "ModernBert",
        "ForMaskedLM",
        SIZES | IDS | {"num_hidden_layers": 4, "local_attention": 6, "max_position_embeddings": 20},
    ),
    # As the released networks, with the convolution of version 2; and with what the class may have besides.
    "deberta_v2": (
        "DebertaV2",
        "ForMaskedLM",
        DEBERTA | {"share_att_key": True, "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    "deberta_v2_apart": (
        "DebertaV2",
        "ForMaskedLM",
        DEBERTA
        | {
            "position_buckets": -1,
            "type_vocab_size": 2,
            "position_biased_input": True,
            "pos_att_type": ["p2c"],
            "legacy": False,
        },
    ),
}


def main() -> None:
    for name, (family, ending, numbers) in NETWORKS.items():
        generator = torch.Generator().manual_seed(0)
        network = getattr(transformers, family + ending)(getattr(transformers, f"{family}Config")(**numbers)).eval()
        with torch.no_grad():
            for weight in network.parameters():
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.4)
        network.tie_weights()
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        network.save_pretrained(folder)
        lengths, padding = np.array([[14], [9]]), 1 if name == "mpnet" else 0
        mask = np.arange(14) < lengths
        ids = np.where(mask, np.random.default_rng(0).integers(5, 30, (2, 14)), padding)
        given = {"input_ids": ids, "attention_mask": mask.astype("int64")}
        if name in ("electra", "deberta_v2_apart"):
            given["token_type_ids"] = (mask & (np.arange(14) >= 6)).astype("int64")
        with torch.no_grad():
            found = network(**{key: torch.from_numpy(value) for key, value in given.items()}, output_hidden_states=True)
        np.savez_compressed(
            os.path.join(folder, "expected.npz"),
            **given,
            logits=found.logits.numpy(),
            states=found.hidden_states[-1].numpy(),
        )


if __name__ == "__main__":
    main()
