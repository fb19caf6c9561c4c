"""Bodies of requests, received piece by piece, within bounds of size and time; and clients that leave."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request

from xmodels.serving.limits import GONE, Limits, RequestError


async def read_body(request: Request, limits: Limits) -> bytes:
    """Returns the body. What is too long is received and thrown away, so that its client reads why.

    Raises:
        RequestError: it is too long (413), too slow (408), compressed (415), or its client has left.
    """
    if (encoding := request.headers.get("content-encoding", "identity")) != "identity":
        raise RequestError(f"Content-Encoding {encoding:.40} is not understood. Send the body as it is.", 415)
    too_long = RequestError(f"The body is longer than {limits.max_body_bytes:,} bytes (--max_body_bytes).", 413)
    length = request.headers.get("content-length", "")
    is_too_long = length.isdecimal() and (len(length) > 18 or int(length) > limits.max_body_bytes)
    if is_too_long and "expect" in request.headers:  # the client asks before it sends
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(limits.client_timeout):
            async for piece in request.stream():
                is_too_long = is_too_long or len(body) + len(piece) > limits.max_body_bytes
                if is_too_long:
                    body.clear()
                else:
                    body += piece
    except ClientDisconnect:
        raise RequestError("The client has left.", GONE) from None
    except TimeoutError:
        if is_too_long:
            raise too_long from None
        raise RequestError(
            f"The body was not there after {limits.client_timeout:g} seconds.", 408, {"Connection": "close"}
        ) from None
    if is_too_long:
        raise too_long
    return bytes(body)


async def while_connected(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Returns what `work` returns; cancels it where the client leaves before.

    Raises:
        RequestError: the client has left.
    """
    answer, left = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise RequestError("The client has left.", GONE)
    finally:
        for task in (answer, left):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
