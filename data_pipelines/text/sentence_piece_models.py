"""The contents of SentencePiece models, for changes of their pieces."""

from data_pipelines.errors import DataError


def parse(model: bytes, source: str):
    """Returns the message of a model, and the kinds of its pieces. Raises a DataError where it is none."""
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    try:
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    except DecodeError as error:
        raise DataError(f"{source}: not a SentencePiece model ({error}).") from None
    return proto, sentencepiece_model_pb2.ModelProto.SentencePiece
