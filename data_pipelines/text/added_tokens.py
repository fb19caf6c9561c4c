"""Special tokens that are added to a vocabulary after it was trained, as GPT's fine-tuning does (Radford et al., 2018)."""

import json
import os
import tempfile
from collections.abc import Iterable

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import read_tokenizer
from data_pipelines.text.tokenizer import Tokenizer


def with_tokens(tokenizer: Tokenizer, tokens: Iterable[str]) -> Tokenizer:
    """Returns the same tokenizer with further entries at the end of its vocabulary; those that it has stay where they are.

    No merge and no longest match gives them, so they do not come out of text, unless whoever segmented it left one standing
    as a word.

    Raises:
        UsageError: the vocabulary cannot be extended.
    """
    missing = [token for token in tokens if token not in tokenizer.vocabulary.ids]
    if not missing:
        return tokenizer
    with tempfile.TemporaryDirectory() as folder:
        for name, contents in tokenizer.files().items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(_extended(name, contents, missing, tokenizer))
        extended = read_tokenizer(folder, tokenizer.describe())
    extended.extends, extended.vocabulary.source = tokenizer.sha256, tokenizer.vocabulary.source
    return extended


def _extended(name: str, contents: bytes, tokens: list[str], tokenizer: Tokenizer) -> bytes:
    if name == "vocab.txt":
        return contents + "".join(f"{token}\n" for token in tokens).encode()
    if name == "vocab.json":
        ids = json.loads(contents)
        ids |= {token: len(ids) + index for index, token in enumerate(tokens)}
        return json.dumps(ids, ensure_ascii=False, separators=(",", ":")).encode()
    if name == "spiece.model":
        return _with_control_symbols(contents, tokens, tokenizer)
    return contents


def _with_control_symbols(model: bytes, tokens: list[str], tokenizer: Tokenizer) -> bytes:
    """Returns a SentencePiece model with symbols that no text gives."""
    from sentencepiece import sentencepiece_model_pb2

    if tokenizer.options()["num_sentinels"]:
        raise UsageError(
            f"{tokenizer.vocabulary.source}: its sentinels stand behind the pieces of the model, so {', '.join(tokens)} "
            "cannot be added. Take a vocabulary without sentinels."
        )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for token in tokens:
        proto.pieces.add(piece=token, score=0.0, type=sentencepiece_model_pb2.ModelProto.SentencePiece.CONTROL)
    return proto.SerializeToString()
