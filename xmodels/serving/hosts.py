"""Which requests a server answers: by the names that it goes by, by the page that sends them, and by how their body is framed.

A page from elsewhere can send requests to a server on its reader's machine, though it cannot read the answers; with a name of its own
that leads to that machine (DNS rebinding) it can read them too. So other names than those of the server, and requests from pages of
other origins, are refused.
"""

import dataclasses
import ipaddress
import re

from starlette.datastructures import Headers

from data_pipelines.errors import UsageError
from xmodels.serving.limits import RequestError

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
READS = ("GET", "HEAD")
ONCE, CLOSE = ("host", "content-length", "transfer-encoding", "origin"), {"Connection": "close"}


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The names by which a server is asked.

    Attributes:
        listens: the address that it listens on, which is a name too.
        allowed: further names; `*` allows all.
        origins: of pages of elsewhere that may ask and read answers, such as `https://app.example`.
    """

    listens: str = "127.0.0.1"
    allowed: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def check(self, method: str, headers: Headers) -> None:
        """Raises a RequestError where a request is not for this server, or comes from a page of elsewhere."""
        host = headers.get("host")
        if host is not None and not self._is_allowed(host):
            raise RequestError(
                f"The host {host!r:.100} is not served here. Start the server with --allowed_hosts=NAME if the name leads to it.",
                403,
            )
        origin = headers.get("origin")
        if method not in READS and origin is not None and not self._is_own(origin, host):
            raise RequestError(
                f"Requests from pages of {origin!r:.100} are not answered. Pass --allowed_hosts=NAME if it serves them, or "
                "--allowed_origins=ORIGIN if its pages may ask.",
                403,
            )
        if (
            method not in READS
            and origin is None
            and headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        ):
            raise RequestError("Requests from pages of elsewhere are not answered.", 403)

    def _is_allowed(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        if "*" in self.allowed:
            return True
        if not found:
            return False
        name = found["name"].strip("[]").lower()
        if name in {*LOCAL_NAMES, self.listens.lower(), *(each.lower() for each in self.allowed)}:
            return True
        # An address is no name that somebody could lead here; one that listens to this machine only has no further ones.
        return _is_address(name) and not _is_loopback(self.listens)

    def _is_own(self, origin: str, host: str | None) -> bool:
        """Returns whether a page is the server's own, perhaps behind a proxy that takes its name away."""
        if "*" in self.allowed or origin.lower() in self.origins:
            return True
        scheme, found, place = origin.partition("://")
        if not found or scheme not in ("http", "https"):  # such as `null`
            return False
        match = HOST.fullmatch(place)
        named = match is not None and match["name"].strip("[]").lower() in {each.lower() for each in self.allowed}
        return named or (host is not None and place.lower() == host.lower())


def origins_of(text: str) -> tuple[str, ...]:
    """Returns the origins that a flag lists. Raises a UsageError where one is none."""
    found = tuple(each.strip().lower() for each in text.split(",") if each.strip())
    for each in found:
        scheme, _, place = each.partition("://")
        if scheme not in ("http", "https") or not HOST.fullmatch(place):
            raise UsageError(
                f"--allowed_origins={each}: is no origin of pages, such as https://app.example or http://localhost:3000."
            )
    return found


def check_framing(headers: Headers) -> None:
    """Raises a RequestError where headers say twice where a body ends or for whom it is, since a proxy may read the other one."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RequestError("Content-Length and Transfer-Encoding contradict each other. Send one of them.", 400, CLOSE)
    for name in ONCE:
        if len(headers.getlist(name)) > 1:
            raise RequestError(f"The header {name} stands twice. Send it once.", 400, CLOSE)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)
