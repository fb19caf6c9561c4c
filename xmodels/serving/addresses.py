"""The addresses below /v1/models, as TensorFlow Serving has them."""

import dataclasses
import re

from starlette.requests import Request

from xmodels.serving.limits import RequestError

NUMBER = re.compile("[0-9]{1,18}")
PATH = re.compile(
    rf"(?P<name>[^/:]+)(?:/versions/(?P<version>{NUMBER.pattern})|/labels/(?P<label>[^/:]+))?"
    r"(?P<verb>/metadata|:predict|:classify|:regress)?"
)


@dataclasses.dataclass(frozen=True)
class Address:
    """What is asked of which model.

    Attributes:
        number, label: of the version; None for the highest.
        verb: such as ":predict" or "/metadata"; None for its state.
    """

    name: str
    number: int | None
    label: str | None
    verb: str | None


def read_address(request: Request) -> Address:
    """Returns what a request asks.

    Raises:
        RequestError: in the words of TensorFlow Serving, the address does not go with the method (400).
    """
    found = PATH.fullmatch(request.path_params["path"])
    if not found or (found["verb"] in (None, "/metadata")) != (request.method != "POST"):
        raise malformed_error(request)
    version = found["version"]
    return Address(found["name"], None if version is None else int(version), found["label"], found["verb"])


def malformed_error(request: Request) -> RequestError:
    """Returns what is wrong with a request whose address or method is none."""
    return RequestError(
        f"Malformed request: {request.method} {request.url.path:.200}. Expected "
        "POST /v1/models/NAME[/versions/N|/labels/LABEL]:predict, :classify or :regress, or "
        "GET /v1/models/NAME[/versions/N|/labels/LABEL][/metadata]."
    )
