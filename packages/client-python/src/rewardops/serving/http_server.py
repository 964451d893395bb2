"""The protocol of engine `http`: `POST {"samples":[…]}` → `{"results":[{"score", …} | {"error", "reason"}]}`."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import selectors
import socket
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Callable

from rewardops.serving.pool import Call, FunctionPool

#: Maximum size of a call's body. A call usually has several rollouts of at most 1 MB each.
MAX_BODY_BYTES = 256 * 2**20
#: Maximum number of accepted samples without an answer; further calls get status 429 with `Retry-After`.
MAX_WAITING = 20_000
RETRY_AFTER_S = 1
#: Seconds after which an idle connection is closed. The header `Keep-Alive` announces 5 s less.
IDLE_S = 120
#: How often a waiting call checks that its caller is still connected, in seconds.
LOOK_S = 0.5


def is_loopback(host: str) -> bool:
    """Returns whether a name or address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class RewardServer(ThreadingHTTPServer):
    """Accepts connections and passes samples to the pool. Each connection has a thread, which only waits."""

    daemon_threads = True
    allow_reuse_address = True
    # The backlog of unaccepted connections. A service opens one connection per call in flight, possibly
    # all at once; the library's default is 5.
    request_queue_size = 1024

    def __init__(
        self,
        host: str,
        port: int,
        pool: FunctionPool,
        api_key: str | None,
        about: Callable[[], dict[str, Any]],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.pool = pool
        self.api_key = api_key
        self.about = about
        self._count = threading.Lock()
        self.in_flight = 0
        self.served = 0
        self.failed = 0

    def server_bind(self) -> None:
        # The library's method resolves the host's name, which takes seconds without a resolver.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Suppresses the library's traceback for connections broken by the caller."""

    def admit(self, samples: int) -> bool:
        with self._count:
            if self.in_flight > 0 and self.in_flight + samples > MAX_WAITING:
                return False
            self.in_flight += samples
            return True

    def release(self, samples: int, failed: int) -> None:
        with self._count:
            self.in_flight -= samples
            self.served += samples
            self.failed += failed

    def wait_idle(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while self.in_flight > 0:
            if time.monotonic() > ends:
                return False
            time.sleep(0.02)
        return True


class _Refused(Exception):
    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class _CallerGone(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    server: RewardServer
    protocol_version = "HTTP/1.1"
    server_version = "rewardops-serve-reward"
    sys_version = ""
    timeout = IDLE_S
    disable_nagle_algorithm = True
    # The answer is buffered, so that its headers and body are sent in one packet.
    wbufsize = 65_536

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing, because a line per request would be a line per sample."""

    def do_GET(self) -> None:
        if self.path not in ("/", "/healthz"):
            return self._answer(404, {"error": f"there is no {self.path}; POST samples to /"})
        try:
            self._check_caller()
        except _Refused as refused:
            return self._refuse(refused)
        server = self.server
        counts = {"inFlight": server.in_flight, "samples": server.served, "failed": server.failed}
        self._answer(200, {**server.about(), **counts})

    def do_POST(self) -> None:
        try:
            body = self._body()
            self._check_caller()
            if self.path not in ("/", "/score"):
                raise _Refused(404, f"there is no {self.path}; POST samples to /")
            results = self._score(_samples(body))
        except _Refused as refused:
            return self._refuse(refused)
        except _CallerGone:
            self.close_connection = True
            return
        self._answer(200, {"results": results})

    def _check_caller(self) -> None:
        key = self.server.api_key
        if key is not None:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {key}".encode()):
                raise _Refused(401, "send the key as Authorization: Bearer <key>")
            return
        # Without a key, callers on this machine are accepted, except web pages.
        host = re.sub(r":\d+$", "", self.headers.get("Host", "localhost"))
        if self.headers.get("Origin") is not None or not is_loopback(host):
            raise _Refused(
                403, "without a key, only callers on this machine are accepted, and no web pages"
            )

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length")
        if length is None or not length.isdigit():
            self.close_connection = True
            raise _Refused(411, "send a Content-Length")
        if int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise _Refused(413, f"the body has {length} bytes; {MAX_BODY_BYTES} is the maximum")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _CallerGone
        return body

    def _score(self, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not self.server.admit(len(samples)):
            raise _Refused(429, f"{self.server.in_flight} samples are waiting", RETRY_AFTER_S)
        results: list[dict[str, Any]] = []
        calls: list[Call] = []
        try:
            calls = [self.server.pool.submit(sample) for sample in samples]
            results = [self._result(call) for call in calls]
            return results
        finally:
            for call in calls[len(results) :]:
                self.server.pool.give_up(call)
            failed = sum("error" in entry for entry in results) + len(calls) - len(results)
            self.server.release(len(samples), failed)

    def _result(self, call: Call) -> dict[str, Any]:
        while True:
            try:
                return call.future.result(timeout=LOOK_S)
            except FutureTimeout:
                if call.future.done():
                    return call.future.result()
                if self._caller_is_gone():
                    raise _CallerGone from None

    def _caller_is_gone(self) -> bool:
        try:
            # select() runs first, because recv() on a socket with a timeout waits for bytes regardless of its flags.
            with selectors.DefaultSelector() as selector:
                selector.register(self.connection, selectors.EVENT_READ)
                if not selector.select(0):
                    return False
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _refuse(self, refused: _Refused) -> None:
        headers = (
            {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
        )
        self._answer(refused.status, {"error": str(refused)}, headers)

    def _answer(
        self, status: int, value: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        # ASCII output escapes lone surrogates, so every reader can decode the body.
        body = json.dumps(value, allow_nan=False).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Keep-Alive", f"timeout={IDLE_S - 5}")
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


def _samples(body: bytes) -> list[dict[str, Any]]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"the body is not JSON: {error}") from None
    samples = value.get("samples") if isinstance(value, dict) else None
    if not isinstance(samples, list):
        raise _Refused(400, 'the body must be {"samples":[…]}')
    for index, sample in enumerate(samples):
        problem = _problem_of(sample)
        if problem is not None:
            raise _Refused(400, f"samples[{index}]{problem}")
    return samples


def _problem_of(sample: Any) -> str | None:
    if not isinstance(sample, dict):
        return " is not an object"
    if not isinstance(sample.get("solutionStr"), str):
        return ".solutionStr is not text"
    if not isinstance(sample.get("extraInfo"), (dict, type(None))):
        return ".extraInfo is not an object"
    return None
