"""HTTP with aiohttp, which is optional. Its parser is written in C, so thousands of concurrent calls cost less."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from rewardops.address import Address
from rewardops.http_answer import Answer, NoAnswer, keep_alive, no_answer


def aiohttp_is_there() -> bool:
    """Returns whether aiohttp 3.8 or newer can be imported."""
    try:
        import aiohttp
    except Exception:
        # An aiohttp built for another Python version raises errors other than ImportError.
        return False
    try:
        major, minor = (int(part) for part in aiohttp.__version__.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) >= (3, 8)


class AiohttpHttp:
    """Connections to one service through aiohttp, at most `most` concurrently, for one event loop."""

    def __init__(self, address: Address, context: ssl.SSLContext | None, most: int) -> None:
        import aiohttp

        self._aiohttp: Any = aiohttp
        self._address = address
        self._scheme = "https" if address.https else "http"
        given: dict[str, Any] = {"limit": most, "keepalive_timeout": 30.0}
        if context is not None:
            given["ssl"] = context
        if "socket_factory" in inspect.signature(aiohttp.TCPConnector.__init__).parameters:
            # Available since aiohttp 3.12. With older versions, a silently lost peer is noticed only after `answer_s`.
            given["socket_factory"] = _watched_socket
        self._session: Any = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(**given),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, connect_s: float, answer_s: float
    ) -> Answer:
        """See Http."""
        aiohttp = self._aiohttp
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=answer_s)
        url = f"{self._scheme}://{self._address.host_header}{path}"
        try:
            async with self._session.post(
                url, data=body, headers=dict(headers), timeout=timeout, allow_redirects=False
            ) as answer:
                content = await answer.read()
                lowered = {name.lower(): value for name, value in answer.headers.items()}
                return Answer(answer.status, lowered, content)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise self._no_answer(error, connect_s, answer_s) from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()

    def _no_answer(self, error: Exception, connect_s: float, answer_s: float) -> NoAnswer:
        aiohttp = self._aiohttp
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return no_answer(error.certificate_error, connect_s, answer_s)
        # aiohttp's connector errors are OSErrors with the errno of the system error that they wrap.
        inner = getattr(error, "os_error", None)
        if isinstance(inner, ssl.SSLError):
            return no_answer(inner, connect_s, answer_s)
        if isinstance(error, aiohttp.ClientConnectorError) and isinstance(inner, OSError):
            return no_answer(inner, connect_s, answer_s)
        # Before aiohttp 3.10, only the message distinguishes a timeout of the connection from a timeout of the answer.
        if isinstance(error, asyncio.TimeoutError) and "Connection timeout" in str(error):
            return NoAnswer(f"no connection within {connect_s:g} s", sent=False)
        if isinstance(error, asyncio.TimeoutError):
            return no_answer(error, connect_s, answer_s)
        if isinstance(error, aiohttp.ClientResponseError):
            return NoAnswer("its answer is not HTTP")
        if isinstance(error, aiohttp.ClientError):
            return NoAnswer("the connection broke before the answer")
        return no_answer(error, connect_s, answer_s)


def _watched_socket(about: Any) -> socket.socket:
    family, kind, protocol = about[:3]
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made
