"""The process that calls the function. Its main thread runs the calls; the parent may kill it at any moment."""

from __future__ import annotations

import asyncio
import collections.abc
import contextvars
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Mapping, MutableSequence
from multiprocessing.connection import Connection
from typing import Any

from rewardops.serving import messages
from rewardops.serving.function import FunctionError, RewardFunction, described, load_function
from rewardops.serving.isolation import Enclosure
from rewardops.serving.results import error_entry, result_entry

#: Slots of the memory shared with the parent.
CURRENT = 0  # the call whose code runs at this moment, or 0 if there is none
BEAT = 1  # time.monotonic() of the event loop's last turn
STATE_SIZE = 2

#: Interval at which the event loop records that it runs, in seconds.
BEAT_EVERY_S = 0.25

State = MutableSequence[float]

_call_id: contextvars.ContextVar[int] = contextvars.ContextVar("rewardops_call", default=0)


def main(
    connection: Connection,
    state: State,
    spec: str,
    kwargs: Mapping[str, Any],
    init_kwargs: Mapping[str, Any],
    parent: int,
    enclosure: Enclosure,
) -> None:
    """Loads the function, sends `ready` or `failed`, then answers `("call", id, sample)` with `("done", id, entry)`."""
    _settle_in(parent, enclosure)
    try:
        function = load_function(spec, kwargs, init_kwargs)
    except FunctionError as error:
        messages.send(connection, "failed", str(error))
        return
    except BaseException as error:
        messages.send(connection, "failed", f"{spec} cannot be loaded: {described(error)}")
        return
    messages.send(connection, "ready", function.is_async)
    if function.is_async:
        asyncio.run(_serve_async(connection, function, state))
    else:
        _serve_sync(connection, function, state)


def _settle_in(parent: int, enclosure: Enclosure) -> None:
    # The process gets its own group. Ctrl-C in the terminal then reaches only the server, and child processes die with
    # this process.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The function's output must not mix with the server's.
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    enclosure.enter()
    # Set after the change of user, which would clear the parent-death signal.
    _die_with(parent)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        try:
            import ctypes

            # PR_SET_PDEATHSIG also works during an endless loop in C, when no Python thread can run.
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
        except Exception:
            pass

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def _serve_sync(connection: Connection, function: RewardFunction, state: State) -> None:
    """Runs one call at a time on the main thread, because functions that set an alarm (math_verify's) need it."""
    loop = None
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if message[0] == "exit":
            return
        _, call, sample = message
        state[CURRENT] = call
        try:
            result = function(sample)
            if inspect.isawaitable(result):
                loop = loop or asyncio.new_event_loop()
                result = loop.run_until_complete(_awaited(result))
            entry = result_entry(result)
        except BaseException as error:  # SystemExit too: a function must not end the process
            entry = _raised(error)
        state[CURRENT] = 0
        messages.send(connection, "done", call, entry)


async def _awaited(result: Any) -> Any:
    return await result


def _raised(error: BaseException) -> dict[str, Any]:
    # A TimeoutError is also a `function_error`, because the function itself raised it, such as in a call to a judge.
    return error_entry("function_error", described(error))


class _Tracked(collections.abc.Coroutine):  # type: ignore[type-arg]
    """A coroutine that records, at each step, which call's code is running."""

    def __init__(self, inner: Any, call: int, state: State) -> None:
        self._inner = inner
        self._call = call
        self._state = state

    def send(self, value: Any) -> Any:
        before = self._state[CURRENT]
        self._state[CURRENT] = self._call
        try:
            return self._inner.send(value)
        finally:
            self._state[CURRENT] = before

    def throw(self, *error: Any) -> Any:
        before = self._state[CURRENT]
        self._state[CURRENT] = self._call
        try:
            return self._inner.throw(*error)
        finally:
            self._state[CURRENT] = before

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, None, Any]:
        return (yield from self._inner.__await__())


async def _serve_async(connection: Connection, function: RewardFunction, state: State) -> None:
    """Runs calls concurrently on one event loop; the message `stop` cancels one call."""
    loop = asyncio.get_running_loop()
    tasks: dict[int, asyncio.Task[None]] = {}
    stopped: set[int] = set()

    def track(loop: asyncio.AbstractEventLoop, inner: Any, **rest: Any) -> Any:
        # Tasks inherit the context of the call that starts them, so they count as that call's code.
        call = _call_id.get()
        if call and asyncio.iscoroutine(inner):
            inner = _Tracked(inner, call, state)
        return asyncio.Task(inner, loop=loop, **rest)

    loop.set_task_factory(track)

    async def run(call: int, sample: Any) -> None:
        try:
            result = function(sample)
            if inspect.isawaitable(result):
                result = await result
            entry = result_entry(result)
        except asyncio.CancelledError as error:
            detail = "cancelled" if call in stopped else described(error)
            entry = error_entry("function_error", detail)
        except BaseException as error:
            entry = _raised(error)
        tasks.pop(call, None)
        stopped.discard(call)
        messages.send(connection, "done", call, entry)

    def take(message: Any) -> None:
        kind, call = message[0], message[1]
        if kind == "call":
            token = _call_id.set(call)
            tasks[call] = loop.create_task(run(call, message[2]))
            _call_id.reset(token)
        elif kind == "stop" and call in tasks:
            stopped.add(call)
            tasks[call].cancel()

    def read() -> None:
        try:
            while True:
                message = connection.recv()
                if message[0] == "exit":
                    os._exit(0)
                loop.call_soon_threadsafe(take, message)
        except (EOFError, OSError, RuntimeError):
            os._exit(0)

    threading.Thread(target=read, daemon=True, name="reader").start()
    while True:
        state[BEAT] = time.monotonic()
        await asyncio.sleep(BEAT_EVERY_S)
