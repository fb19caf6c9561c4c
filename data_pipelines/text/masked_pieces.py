"""SentencePiece models without a piece for masks, behind whose pieces a network has one, as those of DeBERTa's versions 2 and 3 (He et
al., 2020, arXiv 2006.03654).

With such a piece at its end the model says all ids by itself.
"""

from data_pipelines.text.sentence_piece_models import parse
from data_pipelines.text.vocabulary import MASK


def add_mask(model: bytes, source: str) -> bytes:
    """Returns a model with `[MASK]` as its last piece; one that has it already as it stands.

    Raises:
        DataError: it is no SentencePiece model.
    """
    proto, kinds = parse(model, source)
    if any(piece.piece == MASK for piece in proto.pieces):
        return model
    proto.pieces.add(piece=MASK, score=0.0, type=kinds.CONTROL)
    return proto.SerializeToString()


def drop_mask(model: bytes, source: str) -> bytes:
    """Returns the inverse of `add_mask`; a model that has `[MASK]` elsewhere, or not, as it stands."""
    proto, kinds = parse(model, source)
    if not proto.pieces or (proto.pieces[-1].piece, proto.pieces[-1].type) != (MASK, kinds.CONTROL):
        return model
    del proto.pieces[-1]
    return proto.SerializeToString()
