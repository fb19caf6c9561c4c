"""fairseq's RoBERTa: a folder with `model.pt`, `dict.txt`, and GPT-2's `encoder.json` and `vocab.bpe`. Read only.

`model.pt` is a pickle, so it is read where that is allowed explicitly, by PyTorch's `weights_only`.
"""

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Mapping

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.byte_pairs import HEADER
from xmodels.conversion import formats, tensors
from xmodels.conversion.pickles import check_allowed, unpickle
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import read_json

MODEL, DICTIONARY, ENCODER, MERGES = "model.pt", "dict.txt", "encoder.json", "vocab.bpe"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the ids 0 to 3; the dictionary follows, and last comes:
MASK = "<mask>"
# An attribute of the arguments of fairseq's training -> our field.
ARGUMENTS = {
    "encoder_embed_dim": "hidden_dim", "encoder_layers": "num_layers", "encoder_attention_heads": "num_heads",
    "encoder_ffn_embed_dim": "intermediate_dim", "max_positions": "max_sequence_length", "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}  # fmt: skip
PREFIX = re.compile(r"(?:decoder|encoder)\.(?:sentence_encoder\.)?")
# fairseq's name of a part -> Hugging Face's.
PARTS = {
    "embed_tokens": "roberta.embeddings.word_embeddings",
    "embed_positions": "roberta.embeddings.position_embeddings",
    "emb_layer_norm": "roberta.embeddings.LayerNorm",
    "layernorm_embedding": "roberta.embeddings.LayerNorm",
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
FUSED = re.compile(r"(.*self_attn)\.in_proj_(weight|bias)")  # of the oldest files: query, key and value


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads the folder of a published RoBERTa, or its `model.pt`.

    Raises:
        CheckpointError: a file is missing or damaged, a pickle is not allowed, or a tensor is not accounted for.
    """
    folder, file = (path, os.path.join(path, MODEL)) if os.path.isdir(path) else (os.path.dirname(path), path)
    if not os.path.isfile(file):
        raise CheckpointError(
            f"{file}: no such file. `fairseq:` takes the folder of a published RoBERTa, or its {MODEL}."
        )
    check_allowed(file, allow_pickle)
    stored = unpickle(file, [argparse.Namespace])
    if not isinstance(stored, dict) or not isinstance(stored.get("model"), dict):
        raise CheckpointError(f"{file}: expected a checkpoint of fairseq, a dictionary with `model` and `args`.")
    arguments = stored.get("args") or {}
    if not arguments and isinstance(stored.get("cfg"), dict):  # of newer versions
        arguments = stored["cfg"].get("model") or {}
    if not isinstance(arguments, dict | argparse.Namespace):
        raise CheckpointError(
            f"{file}: `args` or `cfg` is of the type {type(arguments).__name__}, which says no sizes."
        )
    return loaded_from(
        stored["model"], arguments if isinstance(arguments, dict) else vars(arguments), folder or ".", file
    )


def loaded_from(found: Mapping[str, np.ndarray], arguments: Mapping, folder: str, file: str) -> Checkpoint:
    """Returns a checkpoint from fairseq's tensors and the arguments of its training.

    Raises:
        CheckpointError: as `read`.
    """
    table, form = formats.table_of("roberta"), formats.table_of("roberta").hugging_face
    renamed, left = _renamed(found)
    config = _config(table.config, arguments, renamed, file)
    segments = np.zeros((1, config.hidden_dim), np.float32)  # which fairseq's network does not have
    renamed["roberta.embeddings.token_type_embeddings.weight"] = segments
    loaded = tensors.loaded_from(
        _without_copies(renamed, form, file), form.variables, "roberta", config, file, tokenizer=_tokenizer(folder)
    )
    if left:
        loaded = dataclasses.replace(loaded, warnings=(*loaded.warnings, f"{file}: {', '.join(left)} are left out."))
    return loaded


def _config(config_class, arguments: Mapping, found: Mapping[str, np.ndarray], file: str):
    missing = [name for name in ("encoder_layers", "encoder_attention_heads") if name not in arguments]
    if missing:
        raise CheckpointError(f"{file}: its `args` lack {', '.join(missing)}.")
    if arguments.get("activation_fn", "gelu") != "gelu":
        raise CheckpointError(f"{file}: cannot convert `activation_fn` = {arguments['activation_fn']!r}; only 'gelu'.")
    values = {ours: arguments[theirs] for theirs, ours in ARGUMENTS.items() if theirs in arguments}
    table = found.get("roberta.embeddings.word_embeddings.weight")
    if table is None:
        raise CheckpointError(f"{file}: holds no table of tokens; is it a RoBERTa?")
    spelled = {ours: theirs for theirs, ours in ARGUMENTS.items()}
    return config_class.from_json({**values, "vocabulary_size": len(table)}, file, spelled)


def _renamed(found: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the tensors by Hugging Face's names, and the names of those that stay away: heads of tasks, and what counts
    versions."""
    renamed, left = {}, []
    for name, tensor in found.items():
        short = PREFIX.sub("", name, count=1)
        if short.startswith("classification_heads."):
            left.append(name)
        elif short.endswith(("version", "_float_tensor")):
            continue
        elif fused := FUSED.fullmatch(short):
            for part, third in zip("qkv", np.split(tensor, 3), strict=True):
                renamed[_name(f"{fused[1]}.{part}_proj.{fused[2]}")] = third
        else:
            renamed[_name(short)] = tensor
    return renamed, left


def _name(short: str) -> str:
    if short.startswith("lm_head."):
        return short.replace("lm_head.weight", "lm_head.decoder.weight")
    part, _, kind = short.rpartition(".")
    layer = re.fullmatch(r"layers\.(\d+)\.(.+)", part)
    if layer and layer[2] in PARTS:
        return f"roberta.encoder.layer.{layer[1]}.{PARTS[layer[2]]}.{kind}"
    return f"{PARTS[part]}.{kind}" if part in PARTS else short


def _without_copies(found: dict[str, np.ndarray], form: formats.HuggingFace, file: str) -> dict[str, np.ndarray]:
    kept = dict(found)
    for copy, original in form.tied.items():
        if copy in kept and not np.array_equal(kept.pop(copy), kept[original]):
            raise CheckpointError(f"{file}: the tensor that is {copy} elsewhere differs from {original}.")
    return kept


def _tokenizer(folder: str) -> TokenizerFiles | None:
    """GPT-2's byte pairs, numbered as the dictionary says; None where the three files are not all there."""
    paths = [os.path.join(folder, name) for name in (DICTIONARY, ENCODER, MERGES)]
    if not all(map(os.path.isfile, paths)):
        return None
    dictionary, encoder, merges = paths
    spelled = {number: token for token, number in read_json(encoder).items()}
    tokens = list(SPECIAL)
    with open(dictionary, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            entry = line.split(" ")[0]
            token = spelled.get(int(entry)) if entry.isdigit() else entry  # fillers such as madeupword0000
            if token is None:
                raise CheckpointError(f"{dictionary}, line {number}: {entry} is no id of {ENCODER}.")
            tokens.append(token)
    ids = {token: index for index, token in enumerate([*tokens, MASK])}
    with open(merges, encoding="utf-8", newline="\n") as file:
        pairs = [line for line in file if line.strip() and not line.startswith("#version")]
    files = {
        "vocab.json": json.dumps(ids, ensure_ascii=False).encode(),
        "merges.txt": (HEADER + "".join(f"{line.rstrip()}\n" for line in pairs)).encode(),
    }
    settings = {"tokenizer": "byte_bpe", "do_lower_case": False, "add_prefix_space": False}
    return TokenizerFiles(files, settings, folder)
