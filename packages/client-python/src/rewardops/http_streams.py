"""HTTP/1.1 on asyncio's streams, without any package."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping

from rewardops.address import Address
from rewardops.http_answer import Answer, NoAnswer, keep_alive, no_answer

#: A connection that was idle for this many seconds is not reused. The service closes idle connections after 65 s,
#: proxies often after 60 s.
IDLE_S = 30.0
HEAD_BYTES = 64 << 10


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.idle_since = 0.0

    def usable(self) -> bool:
        return (
            not self.reader.at_eof()
            and not self.writer.is_closing()
            and time.monotonic() - self.idle_since < IDLE_S
        )

    def drop(self) -> None:
        self.writer.transport.abort()


class StreamsHttp:
    """Connections to one service, at most `most` concurrently, for one event loop. Further requests wait."""

    def __init__(self, address: Address, context: ssl.SSLContext | None, most: int) -> None:
        self._address = address
        self._context = context or (ssl.create_default_context() if address.https else None)
        self._idle: list[_Connection] = []
        self._places = asyncio.Semaphore(most)

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, connect_s: float, answer_s: float
    ) -> Answer:
        """See Http."""
        async with self._places:
            connection = await self._connected(connect_s, answer_s)
            try:
                answer, kept = await asyncio.wait_for(
                    self._exchange(connection, path, headers, body), answer_s
                )
            except asyncio.CancelledError:
                connection.drop()
                raise
            except Exception as error:
                connection.drop()
                raise no_answer(error, connect_s, answer_s) from None
            if kept:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.drop()
            return answer

    async def close(self) -> None:
        """Closes the idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.drop()

    async def _connected(self, connect_s: float, answer_s: float) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.drop()
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(
                    self._address.host,
                    self._address.port,
                    ssl=self._context,
                    limit=HEAD_BYTES,
                ),
                connect_s,
            )
        except asyncio.TimeoutError:
            raise NoAnswer(f"no connection within {connect_s:g} s", sent=False) from None
        except (OSError, ssl.SSLError) as error:
            raise no_answer(error, connect_s, answer_s) from None
        keep_alive(writer.get_extra_info("socket"))
        return _Connection(reader, writer)

    async def _exchange(
        self, connection: _Connection, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[Answer, bool]:
        reader, writer = connection.reader, connection.writer
        lines = [f"POST {path} HTTP/1.1", f"Host: {self._address.host_header}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        # A large body is not copied just to prepend the header.
        writer.write(head + body if len(body) < HEAD_BYTES else head)
        if len(body) >= HEAD_BYTES:
            writer.write(body)
        try:
            await writer.drain()
        except ConnectionError:
            # The service may refuse a request before it has read the body; its answer explains more than the broken pipe.
            if reader.at_eof():
                raise
        status, received = await _read_head(reader)
        while 100 <= status < 200:
            status, received = await _read_head(reader)
        kept = received.get("connection", "").lower() != "close"
        if "chunked" in received.get("transfer-encoding", "").lower():
            content = await _read_chunks(reader)
        elif "content-length" in received:
            content = await reader.readexactly(int(received["content-length"]))
        elif status in (204, 304):
            content = b""
        else:
            content, kept = await reader.read(), False
        return Answer(status, received, content), kept


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise NoAnswer("its answer is not HTTP") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise NoAnswer("its answer is not HTTP") from None
        raise
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
        raise NoAnswer("its answer is not HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return int(parts[1]), headers


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";", 1)[0], 16)
        if size == 0:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return b"".join(parts)
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
