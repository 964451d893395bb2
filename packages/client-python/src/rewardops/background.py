"""One event loop in a thread of its own, for callers who have none, or whose own must not be waited for."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Optional, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a daemon thread until the process ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="rewardops", daemon=True)
        self.thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins it there; the future may be waited for in any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for its end. An interrupt (Ctrl-C) gives the work up."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_shared: Optional[LoopThread] = None
_lock = threading.Lock()
#: Event loops of processes that this one was forked from: collected, they would close what is their parent's.
_of_parents: list[LoopThread] = []


def close_with(
    owner: object, close: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], object]:
    """Has `close` run in the shared loop when `owner` is collected, or the process ends; or when what it gives is called."""
    return weakref.finalize(owner, _close, close, os.getpid())


def _close(close: Callable[[], Coroutine[Any, Any, None]], pid: int) -> None:
    # What was opened before a fork is the parent's to close.
    if _shared is None or pid != os.getpid():
        return
    closing = _shared.start(close())
    if threading.current_thread() is not _shared.thread:
        try:
            closing.result(2.0)
        except Exception:
            # Nobody is left to be told.
            pass


def shared_loop() -> LoopThread:
    """The process's own; a process that was forked has its own, since threads do not come along."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def _forked() -> None:
    global _shared, _lock
    # It may have been held at that moment, by a thread that is not here.
    _lock = threading.Lock()
    if _shared is not None:
        _of_parents.append(_shared)
        _shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
