"""Types and helpers shared by both HTTP implementations."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Exception):
    """
    The request was not answered. `detail`: the cause, without a full stop. `passing`: False if a retry cannot help, as with
    a rejected certificate. `sent`: False if the request certainly was not sent. `hint`: the remedy.
    """

    def __init__(
        self,
        detail: str,
        *,
        passing: bool = True,
        sent: bool = True,
        hint: str = "Is the service running, and is this its URL?",
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.passing = passing
        self.sent = sent
        self.hint = hint


class Http(Protocol):
    """Sends requests over persistent connections."""

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, connect_s: float, answer_s: float
    ) -> Answer:
        """
        Sends a POST. `connect_s` limits the connection time, `answer_s` the silence before the answer. Raises NoAnswer.
        """
        ...

    async def close(self) -> None: ...


def no_answer(error: BaseException, connect_s: float, answer_s: float) -> NoAnswer:
    """Describes a connection failure in a few words."""
    if isinstance(error, NoAnswer):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return NoAnswer(f"its certificate is not trusted ({error.verify_message})", passing=False)
    if isinstance(error, ssl.SSLError):
        return NoAnswer(f"the TLS handshake failed ({error.reason or error})")
    if isinstance(error, socket.gaierror):
        return NoAnswer(f"its host name is unknown ({error.strerror})", sent=False)
    if isinstance(error, ConnectionRefusedError):
        return NoAnswer("the connection was refused", sent=False)
    if isinstance(error, asyncio.IncompleteReadError):
        return NoAnswer("the connection was closed before the answer")
    if isinstance(error, OSError) and error.errno == errno.ETIMEDOUT:
        return NoAnswer("the connection broke before the answer")
    if isinstance(error, (asyncio.TimeoutError, TimeoutError, socket.timeout)):
        return NoAnswer(
            f"it accepted the connection, but was silent for {answer_s:g} s",
            hint="It hangs or is overloaded, or is not a rewardops service. See its log.",
        )
    if isinstance(error, (ConnectionError, EOFError)):
        return NoAnswer("the connection broke before the answer")
    if isinstance(error, OSError) and error.strerror:
        # asyncio wraps the system's message in "[Errno 111] Connect call failed".
        return NoAnswer(os.strerror(error.errno).lower() if error.errno else error.strerror)
    return NoAnswer(str(error) or type(error).__name__)


def keep_alive(sock: socket.socket | None) -> None:
    """Makes a silently lost peer noticeable within 35 s. A reward may take longer than that without any traffic."""
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
    Half of the process's limit of open files, at most 4,096. 5,000 concurrent rewards of 40 s would need 5,000
    connections, but the usual limit is 1,024 files.
    """
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError, ValueError):
        return 256
    if soft < 0:
        return 4_096
    return max(32, min(4_096, soft // 2))
