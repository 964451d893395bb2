"""An event loop in its own thread, for synchronous callers and callers whose loop may be busy."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Optional, TypeVar

T = TypeVar("T")

#: Seconds that an interrupted call may take to end. A submit needs them to cancel its batch.
END_S = 6.0


class LoopThread:
    """An event loop that runs in a daemon thread until the process ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="rewardops", daemon=True)
        self.thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine; any thread can wait for the future."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and blocks until it ends. Ctrl-C cancels it."""
        ended = threading.Event()

        async def worked() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self.start(worked())
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                ended.wait(END_S)
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_shared: Optional[LoopThread] = None
_lock = threading.Lock()
#: Event loops inherited by fork. They are kept, because collecting them would close the parent's resources.
_of_parents: list[LoopThread] = []


def close_with(
    owner: object, close: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], object]:
    """Runs `close` in the shared loop when `owner` is collected, the process ends, or the returned function is called."""
    return weakref.finalize(owner, _close, close, os.getpid())


def _close(close: Callable[[], Coroutine[Any, Any, None]], pid: int) -> None:
    # The parent process closes resources opened before a fork.
    if _shared is None or pid != os.getpid():
        return
    closing = _shared.start(close())
    if threading.current_thread() is not _shared.thread:
        try:
            closing.result(2.0)
        except Exception:
            # No caller is left to receive an error.
            pass


def shared_loop() -> LoopThread:
    """The process's shared loop. A forked process starts a new one, because threads are not inherited."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def _forked() -> None:
    global _shared, _lock
    # Another thread may hold the lock at the fork, and that thread does not exist in the child.
    _lock = threading.Lock()
    if _shared is not None:
        _of_parents.append(_shared)
        _shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
