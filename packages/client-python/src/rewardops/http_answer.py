"""What both ways of speaking HTTP have in common."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Exception):
    """
    Nobody answered. `detail`: why, without a full stop. `passing`: False where asking again cannot help, such as a
    certificate that is refused.
    """

    def __init__(self, detail: str, *, passing: bool = True) -> None:
        super().__init__(detail)
        self.detail = detail
        self.passing = passing


class Http(Protocol):
    """Sends requests over connections that are kept."""

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, connect_s: float, answer_s: float
    ) -> Answer:
        """`connect_s` bounds the connecting, `answer_s` the silence until the answer. Raises NoAnswer."""
        ...

    async def close(self) -> None: ...


def no_answer(error: BaseException, connect_s: float, answer_s: float) -> NoAnswer:
    """Any failure of a connection in a few words."""
    if isinstance(error, NoAnswer):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return NoAnswer(f"its certificate is not trusted ({error.verify_message})", passing=False)
    if isinstance(error, ssl.SSLError):
        return NoAnswer(f"it does not speak TLS as it should ({error.reason or error})")
    if isinstance(error, socket.gaierror):
        return NoAnswer(f"its host name is not known ({error.strerror})")
    if isinstance(error, ConnectionRefusedError):
        return NoAnswer("the connection was refused, nothing listens there")
    if isinstance(error, asyncio.IncompleteReadError):
        return NoAnswer("the connection was closed before the answer")
    if isinstance(error, (asyncio.TimeoutError, TimeoutError, socket.timeout)):
        return NoAnswer(f"it was silent for {answer_s:g} s")
    if isinstance(error, (ConnectionError, EOFError)):
        return NoAnswer("the connection broke before the answer")
    if isinstance(error, OSError) and error.strerror:
        # asyncio puts "[Errno 111] Connect call failed" around what the system said.
        return NoAnswer(os.strerror(error.errno).lower() if error.errno else error.strerror)
    return NoAnswer(str(error) or type(error).__name__)


def keep_alive(sock: socket.socket | None) -> None:
    """
    Has the system notice within 35 s that the other machine is gone: a reward may be waited for longer than that in
    silence, and a peer that went away without a word would be waited for until the deadline.
    """
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
    except OSError:
        pass


def connections_allowed() -> int:
    """
    Connections to have at once at most: 4,096, or half of the files this process may open, where 5,000 rewards of 40 s
    side by side need one each and 1,024 is the usual limit of files.
    """
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError, ValueError):
        return 256
    if soft < 0:
        return 4_096
    return max(32, min(4_096, soft // 2))
