"""
Calls the service through tRPC over HTTP with JSON. A call is retried until it is answered or times out.

Most calls are safe to send twice: submits and scores carry an idempotency key, appends their index, and others are
idempotent. The calls in `repeatable.py` that are not are sent again only if they were certainly not executed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rewardops import _version
from rewardops.address import Address, parse_address
from rewardops.answers import Later, Result, not_rewardops, read_answer
from rewardops.errors import (
    CLOSED,
    TIMEOUT,
    UNAUTHORIZED,
    UNREACHABLE,
    UNSUPPORTED_VERSION,
    RewardOpsError,
)
from rewardops.http_aiohttp import AiohttpHttp, aiohttp_is_there
from rewardops.http_answer import Http, NoAnswer, connections_allowed
from rewardops.http_streams import StreamsHttp
from rewardops.trace_context import active_trace_headers

log = logging.getLogger("rewardops")

MAX_BACKOFF_S = 2.0
TRIES_OF_INTERNAL = 3
#: Seconds that a client waits until its other event loops have closed their connections.
CLOSE_S = 2.0
#: A call that fails after waiting this many seconds for a reward was probably ended by a time limit of the client or of
#: a proxy.
LONG_S = 5.0
#: Seconds without an answer after which a warning is logged. Long polls are answered sooner.
QUIET_S = 30.0
#: Reasons after which a call is retried until its own timeout, with the delay that the service requests.
BACK_PRESSURE = frozenset(("busy", "queue_full", "run_queue_full"))
#: Reasons for which a call was certainly not executed.
NOT_DONE = BACK_PRESSURE | {"shutting_down"}


@dataclass(frozen=True)
class ServiceInfo:
    """The service's description of itself. `auth`: `key` if calls need an API key, else `open`."""

    url: str
    version: str
    auth: str


_of_parents: list[object] = []
_all: weakref.WeakSet[Calls] = weakref.WeakSet()


def _forked() -> None:
    for calls in list(_all):
        calls.forget_loops()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _OfLoop:
    """State per event loop: connections, and the first check of the service, which all calls await."""

    def __init__(self, http: Http, most_waiting: int) -> None:
        self.http = http
        #: Limits calls that keep a connection for as long as a reward takes.
        self.waiting = asyncio.Semaphore(most_waiting)
        self.check: asyncio.Task[ServiceInfo] | None = None


class Calls:
    """
    Calls a service, from any number of event loops.

    `timeout_s`: default total time of a call, with waits and retries; None is unlimited. `connect_s`: retry time for a
    service that was never reached. `outage_s`: retry time for a service that was reached before; covers a restart.
    """

    def __init__(
        self,
        url: str | None,
        api_key: str | None,
        *,
        timeout_s: float | None,
        connect_s: float,
        outage_s: float,
        max_connections: int | None,
        http: str,
        ssl_context: ssl.SSLContext | None,
        trace_headers: Callable[[], Mapping[str, str]] | None,
    ) -> None:
        self.address: Address = parse_address(
            url or os.environ.get("REWARDOPS_URL") or "http://127.0.0.1:3000"
        )
        self.timeout_s = timeout_s
        self._api_key = api_key or os.environ.get("REWARDOPS_API_KEY") or None
        if self._api_key is not None and not _sendable(self._api_key):
            raise RewardOpsError(
                "The API key has characters that are invalid in a header.", reason=UNAUTHORIZED
            )
        self._connect_s = connect_s
        self.outage_s = outage_s
        self._most = max_connections or connections_allowed()
        if http not in ("auto", "aiohttp", "streams"):
            raise ValueError(f"http is {http!r}; it must be 'auto', 'aiohttp' or 'streams'")
        self._aiohttp = http == "aiohttp" or (http == "auto" and aiohttp_is_there())
        self.ssl_context = ssl_context
        self._trace_headers = trace_headers or active_trace_headers
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = (
            weakref.WeakKeyDictionary()
        )
        self._info: ServiceInfo | None = None
        self._closed = False
        #: Start of the current outage, which is logged once for all calls.
        self._down_since: float | None = None
        self._outage_logged = False
        #: The time.monotonic() of the last check on behalf of calls that wait for a reward.
        self._waits_checked_at = float("-inf")
        _all.add(self)

    @property
    def transport(self) -> str:
        """The HTTP implementation: `aiohttp` or `streams`."""
        return "aiohttp" if self._aiohttp else "streams"

    def deadline(self, timeout_s: float | None, given: bool = True) -> float | None:
        """The time.monotonic() at which a call ends. Unless `given`, the client's own timeout applies."""
        whole = timeout_s if given else self.timeout_s
        return None if whole is None else time.monotonic() + whole

    async def call(
        self,
        procedure: str,
        given: dict[str, Any] | bytes,
        *,
        deadline: float | None = None,
        answer_s: float = 60.0,
        waits: bool = False,
        repeatable: bool = True,
    ) -> Any:
        """
        Calls a procedure and returns its result. `given`: the input, or the input as JSON. `answer_s`: seconds of silence
        before a retry. `waits`: whether the answer takes as long as a reward; the number of such calls in flight is
        limited. `repeatable`: whether the call may be executed twice. Raises RewardOpsError.
        """
        await self._checked(procedure, deadline)
        body = given if isinstance(given, bytes) else json.dumps(given, allow_nan=False).encode()
        if not waits:
            return await self._call_until_answered(
                procedure, body, deadline, answer_s, repeatable=repeatable
            )
        waiting = self._here().waiting
        begun = time.monotonic()
        try:
            left = None if deadline is None else max(0.0, deadline - begun)
            await asyncio.wait_for(waiting.acquire(), left)
        except asyncio.TimeoutError:
            raise self._too_late(procedure, begun) from None
        try:
            return await self._call_until_answered(
                procedure, body, deadline, answer_s, waits=True, repeatable=repeatable
            )
        finally:
            waiting.release()

    async def check(self) -> ServiceInfo:
        """
        Checks that the service is reachable, has a compatible version and accepts the key. If nothing answers, the
        check gives up after `connect_s`. If the service answers that it is starting or busy, the check is retried for
        `outage_s`. Raises RewardOpsError.
        """
        self._info = None
        return await self._checked("session.get", None)

    async def checked(self) -> ServiceInfo:
        """Like `check`, but does nothing after a successful check."""
        return await self._checked("session.get", None)

    def headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"rewardops-python/{_version.VERSION}", **self._trace_headers()}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        return headers

    async def close(self) -> None:
        """Closes the connections of all event loops; later calls are refused."""
        self._closed = True
        here = asyncio.get_running_loop()
        closing = []
        for loop in list(self._loops):
            of_loop = self._loops.pop(loop, None)
            if of_loop is None:
                continue
            if loop is here:
                await of_loop.http.close()
            elif loop.is_running():
                elsewhere = asyncio.run_coroutine_threadsafe(of_loop.http.close(), loop)
                closing.append(asyncio.wrap_future(elsewhere))
        if closing:
            # A loop that is blocked closes its connections later.
            await asyncio.wait(closing, timeout=CLOSE_S)

    def forget_loops(self) -> None:
        """Abandons inherited connections in a forked process; they belong to its parent."""
        # The connections are never closed. Closing or collecting them would remove them from the epoll set that both
        # processes share, and the parent would get no further answers.
        _of_parents.append(self._loops)
        self._loops = weakref.WeakKeyDictionary()

    def _here(self) -> _OfLoop:
        if self._closed:
            raise RewardOpsError("This client is closed.", reason=CLOSED)
        loop = asyncio.get_running_loop()
        of_loop = self._loops.get(loop)
        if of_loop is None:
            make = AiohttpHttp if self._aiohttp else StreamsHttp
            of_loop = self._loops[loop] = _OfLoop(
                make(self.address, self.ssl_context, self._most),
                # Some connections stay free, so that a submit does not wait for thousands of rewards.
                max(1, self._most - max(4, self._most // 8)),
            )
        return of_loop

    async def _checked(self, procedure: str, deadline: float | None) -> ServiceInfo:
        here = self._here()
        if self._info is not None:
            return self._info
        if here.check is None or here.check.done():
            here.check = asyncio.ensure_future(self._check())
            # Retrieving the outcome prevents asyncio's warning if all waiting calls are cancelled.
            here.check.add_done_callback(lambda check: check.cancelled() or check.exception())
        # With wait(), cancelling one call does not cancel the check for the others.
        begun = time.monotonic()
        left = None if deadline is None else max(0.0, deadline - begun)
        await asyncio.wait({here.check}, timeout=left)
        if not here.check.done():
            raise self._too_late(procedure, begun)
        return here.check.result()

    async def _check(self) -> ServiceInfo:
        session = await self._call_until_answered("session.get", b"{}", None, self._connect_s, first=True)
        version = session.get("version") if isinstance(session, dict) else None
        if not isinstance(version, str):
            raise not_rewardops(self.address.url, "returned no version")
        if _generation(version) != _generation(_version.VERSION):
            raise RewardOpsError(
                f"The service at {self.address.url} is version {version}, this client {_version.VERSION}.",
                reason=UNSUPPORTED_VERSION,
                hint="Install the client that comes with the service: pip install ./packages/client-python in its folder.",
            )
        auth = str(session.get("auth"))
        if auth == "key" and not session.get("signedIn"):
            had = "none was set" if self._api_key is None else "rejected the given one"
            raise RewardOpsError(
                f"The service at {self.address.url} requires an API key, and {had}.",
                reason=UNAUTHORIZED,
                hint="Pass one of its API keys as api_key, or set REWARDOPS_API_KEY.",
                status=401,
            )
        self._info = ServiceInfo(self.address.url, version, auth)
        return self._info

    async def _call_until_answered(
        self,
        procedure: str,
        body: bytes,
        deadline: float | None,
        answer_s: float,
        *,
        first: bool = False,
        waits: bool = False,
        repeatable: bool = True,
    ) -> Any:
        headers = {
            **self.headers(),
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        path = f"{self.address.base}/api/trpc/{procedure}"
        begun = time.monotonic()
        tries = internal = 0
        failing_since: float | None = None
        # A starting service answers, so a service that does not answer is retried only for `connect_s`.
        met = not first
        while True:
            now = time.monotonic()
            within = answer_s if met else max(0.05, begun + self._connect_s - now)
            if deadline is not None:
                within = min(within, deadline - now)
                if within <= 0:
                    raise self._too_late(procedure, begun)
            tries += 1
            sent_at = now
            watch = _Watch(self, procedure, within, waits)
            try:
                answer = await self._here().http.post(
                    path, headers, body, min(self._connect_s, within), within
                )
                outcome = read_answer(self.address.url, procedure, answer)
                if isinstance(outcome, Result):
                    self._answered()
                    return outcome.data
                later, met = outcome, True
                not_done = later.error.reason in NOT_DONE
            except NoAnswer as silence:
                if deadline is not None and time.monotonic() >= deadline:
                    raise self._too_late(procedure, begun) from None
                later = Later(
                    None,
                    RewardOpsError(
                        f"{self.address.url} does not answer: {silence.detail}.",
                        reason=UNREACHABLE,
                        hint=silence.hint,
                    ),
                )
                if not silence.passing:
                    raise later.error from None
                not_done = not silence.sent
            finally:
                watch.end()
            if not (repeatable or not_done):
                raise later.error
            internal += later.error.reason == "internal"
            if internal >= TRIES_OF_INTERNAL:
                raise later.error
            took = time.monotonic() - sent_at
            # If a call fails after a long wait for its reward, but the service can be reached, there is no outage.
            reachable = (
                waits
                and later.error.reason == UNREACHABLE
                and took >= LONG_S
                and await self._is_reachable(deadline)
            )
            now = time.monotonic()
            pause = later.wait_s
            if pause is None:
                pause = min(MAX_BACKOFF_S, 0.05 * 2 ** min(tries, 10))
            # A random delay keeps thousands of interrupted calls from being retried at the same moment.
            pause *= random.uniform(0.75, 1.25)
            if reachable or (later.error.reason in BACK_PRESSURE and not first):
                # An overloaded service is running, so its answer ends an outage.
                failing_since = None
                self._answered()
            else:
                failing_since = failing_since or now
                gives_up_at = failing_since + self.outage_s if met else begun + self._connect_s
                if now >= gives_up_at:
                    raise later.error
                # A single quick failure is not logged, because usually an idle connection was closed or a restart was
                # quick.
                if (tries > 1 or took >= LONG_S) and met and later.error.reason != "internal":
                    self._is_down(later.error, now)
                pause = min(pause, max(0.05, gives_up_at - now))
            if deadline is not None:
                pause = min(pause, max(0.0, deadline - now))
            await asyncio.sleep(pause)

    async def _is_reachable(self, deadline: float | None) -> bool:
        within = self._connect_s
        if deadline is not None:
            within = min(within, deadline - time.monotonic())
        if within <= 0:
            return False
        headers = {**self.headers(), "Content-Type": "application/json"}
        path = f"{self.address.base}/api/trpc/session.get"
        try:
            # The pool of connections may be used up, so the check has its own time limit.
            post = self._here().http.post(path, headers, b"{}", within, within)
            answer = await asyncio.wait_for(post, within)
            return isinstance(read_answer(self.address.url, "session.get", answer), Result)
        except (NoAnswer, RewardOpsError, asyncio.TimeoutError):
            return False

    def _too_late(self, procedure: str, begun: float) -> RewardOpsError:
        took = time.monotonic() - begun
        return RewardOpsError(
            f"{procedure} timed out after {took:.1f} s without an answer from {self.address.url}.",
            reason=TIMEOUT,
        )

    def _is_down(self, error: RewardOpsError, now: float) -> None:
        if self._down_since is None:
            self._down_since = now
        if not self._outage_logged:
            self._outage_logged = True
            log.warning("%s Retrying for up to %g s.", error, self.outage_s)

    def _answered(self) -> None:
        if self._down_since is not None:
            log.warning(
                "%s answers again, after %.1f s.",
                self.address.url,
                time.monotonic() - self._down_since,
            )
            self._down_since, self._outage_logged = None, False


class _Watch:
    """Logs a warning if a call has no answer, except for a call that waits for a reward of a reachable service."""

    # A timer is much cheaper than a task per call, and most calls end before the timer fires.
    def __init__(self, calls: Calls, procedure: str, answer_s: float, waits: bool) -> None:
        self._calls = calls
        self._procedure = procedure
        self._answer_s = answer_s
        self._waits = waits
        self._begun = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._checking: asyncio.Task[None] | None = None
        self._ended = False
        self._again()

    def end(self) -> None:
        self._ended = True
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _again(self) -> None:
        self._timer = self._loop.call_later(QUIET_S, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        if self._waits:
            # One check serves thousands of waiting calls.
            if now - self._calls._waits_checked_at < QUIET_S:
                self._again()
                return
            self._calls._waits_checked_at = now
        self._checking = asyncio.ensure_future(self._check(now))

    async def _check(self, now: float) -> None:
        reachable = await self._calls._is_reachable(None)
        # Before Python 3.12, wait_for can ignore a cancellation.
        if self._ended:
            return
        if not (self._waits and reachable):
            log.warning(
                "%s has not answered %s for %.0f s; it %s. Waiting for up to %g s.",
                self._calls.address.url,
                self._procedure,
                now - self._begun,
                "answers other calls" if reachable else "does not answer other calls either",
                self._answer_s,
            )
        self._again()


def _generation(version: str) -> str:
    """The part of a version that both sides must share: the major version, and before 1.0 also the minor one."""
    parts = version.split(".")
    return ".".join(parts[:2]) if parts[0] == "0" else parts[0]


def _sendable(key: str) -> bool:
    return all("!" <= c <= "~" for c in key)
