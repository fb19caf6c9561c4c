"""TensorFlow Serving's `model_config_file`: models and their versions as text of Protocol Buffers.

    model_config_list {
      config { name: "topics" base_path: "/models/topics" model_platform: "tensorflow" }
      config {
        name: "tagger" base_path: "/models/tagger"
        model_version_policy { specific { versions: 3 versions: 5 } }
        version_labels { key: "stable" value: 3 }
      }
    }

The messages are described here, so that the file can be read without `tensorflow-serving-api`.
Source: tensorflow_serving/config/model_server_config.proto, file_system_storage_path_source.proto.
"""

import dataclasses
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from data_pipelines.errors import DataError
from xmodels.serving.folder import NAME
from xmodels.serving.policies import Policy

PLATFORM = "tensorflow"
PACKAGE = "tensorflow.serving"
LARGEST = 1 << 20  # bytes of a file
_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {"string": _FIELD.TYPE_STRING, "int64": _FIELD.TYPE_INT64, "uint32": _FIELD.TYPE_UINT32}
_MESSAGES = {
    "ModelServerConfig": {"model_config_list": (1, "ModelConfigList")},
    "ModelConfigList": {"config": (1, "ModelConfig*")},
    "ModelConfig": {
        "name": (1, "string"),
        "base_path": (2, "string"),
        "model_platform": (4, "string"),
        "model_version_policy": (7, "ServableVersionPolicy"),
        "version_labels": (8, "Label*"),
    },
    "Label": {"key": (1, "string"), "value": (2, "int64")},
    "ServableVersionPolicy": {"latest": (100, "Latest"), "all": (101, "All"), "specific": (102, "Specific")},
    "Latest": {"num_versions": (1, "uint32")},
    "All": {},
    "Specific": {"versions": (1, "int64*")},
}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A model of the file."""

    name: str
    folder: str
    policy: Policy
    labels: dict[str, int]


def read_config_file(path: str) -> list[ModelConfig]:
    """Returns the models of a file.

    Raises:
        DataError: it cannot be read; the line and the column say where.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise DataError(
            f"--model_config_file={path}: not readable ({getattr(error, 'strerror', None) or error})."
        ) from None
    if len(text) > LARGEST:
        raise DataError(f"{path}: longer than {LARGEST:,} characters, so no list of models.")
    try:
        server = text_format.Parse(text, _new_message("ModelServerConfig"))
    except text_format.ParseError as error:
        line, column, message = error.GetLine(), error.GetColumn(), str(error).rpartition(" : ")[2].rstrip(".")
        place = f", line {line}, column {column}" if line is not None else ""
        raise DataError(
            f"{path}{place}: {message.rstrip('.')[:300]}. Expected TensorFlow Serving's model_config_list."
        ) from None
    configs = [
        _read_model(each, f"{path}, config {index}") for index, each in enumerate(server.model_config_list.config, 1)
    ]
    if not configs:
        raise DataError(
            f"{path}: names no model. Expected model_config_list {{ config {{ name: ... base_path: ... }} }}."
        )
    return configs


def _read_model(found: Any, place: str) -> ModelConfig:
    if not NAME.fullmatch(found.name):
        raise DataError(
            f"{place}: name is {found.name!r:.100}. Expected letters of a to z, digits and any of _.- (100 at most)."
        )
    if not found.base_path:
        raise DataError(f"{place} ({found.name}): base_path is missing.")
    if found.model_platform not in ("", PLATFORM):
        raise DataError(
            f"{place} ({found.name}): model_platform is {found.model_platform!r:.60}. Expected {PLATFORM!r}."
        )
    chosen = [each for each in ("latest", "all", "specific") if found.model_version_policy.HasField(each)]
    if len(chosen) > 1:
        raise DataError(f"{place} ({found.name}): model_version_policy has both {' and '.join(chosen)}. Give one.")
    policy = Policy(latest=max(1, found.model_version_policy.latest.num_versions))
    if chosen == ["all"]:
        policy = Policy(latest=None)
    elif chosen == ["specific"]:
        policy = Policy(specific=tuple(found.model_version_policy.specific.versions))
        if not policy.specific:
            raise DataError(f"{place} ({found.name}): specific names no versions.")
    return ModelConfig(found.name, found.base_path, policy, {each.key: each.value for each in found.version_labels})


def _new_message(name: str) -> Any:
    """Returns an empty message, in a pool of its own: `tensorflow_serving` may have described the same ones elsewhere."""
    file = descriptor_pb2.FileDescriptorProto(name="model_config_file", package=PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            plain = kind.removesuffix("*")
            label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            described = made.field.add(
                name=field, number=number, label=label, type=_KINDS.get(plain, _FIELD.TYPE_MESSAGE)
            )
            if plain not in _KINDS:
                described.type_name = f".{PACKAGE}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))()
