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
from xmodels.conversion import configurations, formats, tensors
from xmodels.conversion.format_types import Format
from xmodels.conversion.naming import TORCH, repeat
from xmodels.conversion.pickles import check_allowed, unpickle
from xmodels.conversion.tables import bart, bert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import read_json

NETWORK, SEGMENTS = "roberta", "backbone.embedding.segment.embeddings"
MODEL, DICTIONARY, ENCODER, MERGES = "model.pt", "dict.txt", "encoder.json", "vocab.bpe"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the ids 0 to 3; the dictionary follows, and last comes:
MASK = "<mask>"
PREFIX = re.compile(r"(?:decoder|encoder)\.(?:sentence_encoder\.)?")
FUSED = re.compile(r"(.*self_attn)\.in_proj_(weight|bias)")  # of the oldest files: query, key and value
TOKENS = "embed_tokens.weight"
FORM = Format(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "embed_tokens",
            "backbone.embedding.position": "embed_positions",
            "backbone.embedding.norm": "emb_layer_norm",
            **repeat(bert.BLOCK, "layers.{block}.", bart.BLOCK),
            "objective.masked_lm.head.dense": "lm_head.dense",
            "objective.masked_lm.head.norm": "lm_head.layer_norm",
        }),
        "objective.masked_lm.head.bias": "lm_head.bias",
    },
    transposed=r"\.weight$",
    settings={
        "vocabulary_size": "vocabulary_size",  # not of fairseq: the rows of the table
        "encoder_embed_dim": "hidden_dim",
        "encoder_layers": "num_layers",
        "encoder_attention_heads": "num_heads",
        "encoder_ffn_embed_dim": "intermediate_dim",
        "max_positions": "max_sequence_length",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    fixed={"activation_fn": "gelu"},
)  # fmt: skip


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
    return to_checkpoint(
        stored["model"], arguments if isinstance(arguments, dict) else vars(arguments), folder or ".", file
    )


def model_of(path: str) -> str:
    """Returns the network whose folders are read."""
    return NETWORK


def to_checkpoint(found: Mapping[str, np.ndarray], arguments: Mapping, folder: str, file: str) -> Checkpoint:
    """Returns a checkpoint from fairseq's tensors and the arguments of its training.

    Raises:
        CheckpointError: as `read`.
    """
    table = formats.table_of(NETWORK)
    tensors_there, left = _rename(found)
    tokens = tensors_there.get(TOKENS)
    if tokens is None:
        raise CheckpointError(f"{file}: holds no table of tokens; is it a RoBERTa?")
    output = tensors_there.pop("lm_head.weight", tokens)
    if not np.array_equal(output, tokens):
        raise CheckpointError(f"{file}: lm_head.weight differs from {TOKENS}; our network has one tensor for both.")
    stored = {**arguments, "vocabulary_size": len(tokens)}
    config = configurations.config_from(FORM, stored, table.config, f"{file}, `args`")
    loaded = tensors.make_checkpoint(
        tensors_there, table.variables(FORM), NETWORK, config, file, tokenizer=_tokenizer(folder)
    )
    segments = {SEGMENTS: np.zeros((1, config.hidden_dim), np.float32)}  # which fairseq's network does not have
    warnings = [f"{file}: {', '.join(left)} are left out."] if left else []
    return dataclasses.replace(loaded, values=loaded.values | segments, warnings=(*loaded.warnings, *warnings))


def _rename(found: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the tensors by the names of `FORM`, and the names of those that stay away: heads of tasks, and what counts
    versions."""
    renamed, left = {}, []
    for name, tensor in found.items():
        short = PREFIX.sub("", name, count=1).replace("layernorm_embedding.", "emb_layer_norm.")
        if short.startswith("classification_heads."):
            left.append(name)
        elif fused := FUSED.fullmatch(short):
            for part, third in zip("qkv", np.split(tensor, 3), strict=True):
                renamed[f"{fused[1]}.{part}_proj.{fused[2]}"] = third
        elif not short.endswith(("version", "_float_tensor")):
            renamed[short] = tensor
    return renamed, left


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
