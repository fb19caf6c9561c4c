"""SentencePiece models whose pieces fairseq numbers anew, as XLM-R does (Conneau et al., 2019, arXiv 1911.02116).

A model begins with `<unk> <s> </s>`; the network has `<s> <pad> </s> <unk>` in their place, and `<mask>` at its end. The order of the
pieces of a model is that of their ids, so a model with another order does all that the numbering asks for.
"""

from data_pipelines.errors import DataError
from data_pipelines.text.sentence_piece_models import parse

THEIRS, OURS, MASK = ("<unk>", "<s>", "</s>"), ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"


def to_fairseq(model: bytes, source: str) -> bytes:
    """Returns a model whose ids are those of the network.

    Raises:
        DataError: it does not begin as those of XLM-R.
    """
    proto, kinds = parse(model, source)
    pieces = list(proto.pieces)
    found = tuple(piece.piece for piece in pieces[: len(THEIRS)])
    if found != THEIRS:
        raise DataError(f"{source}: expected {', '.join(THEIRS)} as its first pieces. Found: {', '.join(found)}.")
    control = kinds.CONTROL
    first = [(name, kinds.UNKNOWN if name == "<unk>" else control) for name in OURS]
    _fill(proto, [*first, *pieces[len(THEIRS) :], (MASK, control)], unk_id=3, bos_id=0, eos_id=2, pad_id=1)
    return proto.SerializeToString()


def from_fairseq(model: bytes, source: str) -> bytes | None:
    """Returns the inverse of `to_fairseq`; None where the model is none of these."""
    proto, kinds = parse(model, source)
    pieces = list(proto.pieces)
    if tuple(piece.piece for piece in pieces[: len(OURS)]) != OURS or pieces[-1].piece != MASK:
        return None
    first = [(name, kinds.UNKNOWN if name == "<unk>" else kinds.CONTROL) for name in THEIRS]
    _fill(proto, [*first, *pieces[len(OURS) : -1]], unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    return proto.SerializeToString()


def _fill(proto, pieces, **ids: int) -> None:
    """Gives a model these pieces, each of which is one of its own, or (piece, kind) of a new one; and ids of special ones."""
    made = []
    for each in pieces:
        new = type(proto.pieces[0])()
        if isinstance(each, tuple):
            new.piece, new.score, new.type = each[0], 0.0, each[1]
        else:
            new.CopyFrom(each)
        made.append(new)
    del proto.pieces[:]
    proto.pieces.extend(made)
    for name, value in ids.items():
        setattr(proto.trainer_spec, name, value)
