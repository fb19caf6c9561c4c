"""What a request may ask for, and the errors that say so."""

import dataclasses

GONE = 499  # the client has closed the connection; nobody reads this code but who counts requests


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """The numbers of a server.

    Attributes:
        max_body_bytes: longest body.
        max_text_length: most characters of a text.
        max_batch_size: most rows that the network reads at a time.
        max_waiting: most rows that wait.
        batch_timeout: seconds that a batch may wait for requests that are being received.
        client_timeout: seconds for headers, for a body, and between requests.
        drain_timeout: seconds that requests have to end.
    """

    max_body_bytes: int = 1 << 20
    max_text_length: int = 20_000
    max_batch_size: int = 64
    max_waiting: int = 4096
    batch_timeout: float = 0.002
    client_timeout: float = 20.0
    drain_timeout: float = 30.0


class RequestError(Exception):
    """What is wrong with a request, as its client is told.

    Args:
        message: what was found, and what is expected.
        code: of HTTP.
        headers: of the answer, besides its own.
    """

    def __init__(self, message: str, code: int = 400, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.code, self.headers = code, headers or {}
