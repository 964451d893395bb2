"""One event loop in a thread of its own, for callers who have none, or whose own must not be waited for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Optional, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a daemon thread until the process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rewardops", daemon=True)
        self._thread.start()

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


def shared_loop() -> LoopThread:
    """The process's own; a process that was forked has its own, since threads do not come along."""
    global _shared, _lock
    if _shared is not None and _shared.pid != os.getpid():
        # The lock may have been held when the process was forked.
        _lock = threading.Lock()
        _shared = None
    with _lock:
        if _shared is None:
            _shared = LoopThread()
        return _shared
