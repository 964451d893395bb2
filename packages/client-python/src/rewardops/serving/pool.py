"""Processes that call the function, and the recovery of calls whose process hangs or dies."""

from __future__ import annotations

import collections
import heapq
import itertools
import math
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Callable

from rewardops.serving import messages
from rewardops.serving import worker as child
from rewardops.serving.function import FunctionError
from rewardops.serving.isolation import Enclosure
from rewardops.serving.results import error_entry

Entry = dict[str, Any]
Log = Callable[[str, dict[str, Any]], None]

#: Seconds that a cancelled coroutine has to end before its process is checked.
GRACE_S = 1.0
#: After this many checks, a blocked event loop that runs code of no known call is considered stuck. Before that,
#: it may only lack CPU time.
MAX_CHECKS = 3
#: An event loop that has been blocked for this many seconds gets no new calls.
STALE_S = 1.0
#: Seconds within which a process must load its function. A module with torch takes 5 to 20 s to import on a busy disk.
LOAD_S = 300.0
#: Pauses in seconds before a process is started again, by the number of consecutive failures.
RESTART_AFTER_S = (0.0, 0.5, 1.0, 2.0, 5.0)
#: If no process is alive and this many starts in a row have failed, waiting calls fail.
HOPELESS_STARTS = 3


@dataclass
class Call:
    sample: Mapping[str, Any]
    future: Future[Entry] = field(default_factory=Future)
    #: Changes each time the call is started, so that a late answer to an earlier start is ignored.
    id: int = 0
    #: The call runs without others in its process, because an earlier process died without a known culprit.
    alone: bool = False
    #: End of the call's time limit, by time.monotonic(); set when a process receives the call.
    deadline: float = math.inf
    stopping: bool = False
    #: Number of checks since the call's cancellation.
    checks: int = 0
    unwanted: bool = False
    process: _Process | None = None


class _Process:
    """
    A process that calls the function.

    starting ──ready──▶ ready ──a call that cannot be cancelled──▶ retiring; any phase ──killed, ended──▶ gone
    """

    def __init__(self, pool: FunctionPool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.state: Any = context.RawArray("d", child.STATE_SIZE)
        self.enclosure = Enclosure(pool.has_own_users)
        parent = os.getpid()
        given = (pool.spec, pool.kwargs, pool.init_kwargs, parent, self.enclosure)
        arguments = (theirs, self.state, *given)
        # The process is not daemonic, because daemonic processes may have no children, and some scorers (verl's prime)
        # use a process pool.
        self.process = context.Process(target=child.main, args=arguments, name="rewardops-function")
        self.phase = "starting"
        self.is_async = False
        self.calls: dict[int, Call] = {}
        self.loaded_by = time.monotonic() + LOAD_S
        self.outbox: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        try:
            self.process.start()
        except OSError:
            self.enclosure.leave()
            raise
        theirs.close()
        for target, name in ((lambda: self._read(pool), "read"), (self._write, "write")):
            threading.Thread(target=target, daemon=True, name=f"function-{name}").start()

    def _read(self, pool: FunctionPool) -> None:
        try:
            while True:
                pool.post("message", self, messages.receive(self.connection))
        except Exception:
            # The connection ended, possibly within a message, or the message is invalid.
            self.connection.close()
            pool.post("gone", self)

    def _write(self) -> None:
        # A process stuck in C code does not read, and its full pipe must not block the pool.
        while True:
            message = self.outbox.get()
            if message is None:
                return
            try:
                self.connection.send(message)
            except OSError:
                return

    def kill(self) -> None:
        for kill, target in ((os.killpg, self.process.pid), (os.kill, self.process.pid)):
            try:
                kill(target or 0, signal.SIGKILL) if target else None
            except (ProcessLookupError, PermissionError):
                pass
        self.enclosure.leave()

    def current(self) -> Call | None:
        """The call whose code runs now, or ran when the process ended."""
        number = float(self.state[child.CURRENT])
        # The function can write to the shared memory, so `number` may be anything.
        return self.calls.get(int(number)) if math.isfinite(number) else None

    def turns(self) -> bool:
        """Whether the process's event loop has run within STALE_S."""
        return time.monotonic() - float(self.state[child.BEAT]) < STALE_S

    def ended_how(self) -> str:
        self.process.join(2)
        code = self.process.exitcode
        if code is None:
            return "its process closed the connection"
        if code < 0:
            try:
                return f"its process was ended by {signal.Signals(-code).name}"
            except ValueError:
                return f"its process was ended by signal {-code}"
        return f"its process exited with code {code}"


class FunctionPool:
    """
    Calls a function in separate processes. A call of a synchronous function has a process to itself; calls of an
    asynchronous one share a process's event loop, up to `per_process`. All state belongs to one thread, which reads events
    from a queue; other threads only post to it.
    """

    def __init__(
        self,
        spec: str,
        kwargs: Mapping[str, Any],
        init_kwargs: Mapping[str, Any],
        timeout_s: float,
        log: Log,
        has_own_users: bool = False,
    ) -> None:
        self.spec = spec
        self.has_own_users = has_own_users
        self.kwargs = kwargs
        self.init_kwargs = init_kwargs
        self.is_async = False
        self._timeout_s = timeout_s
        self._per_process = 1
        self._wanted = 1
        self._log = log
        self._events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._processes: list[_Process] = []
        self._waiting: collections.deque[Call] = collections.deque()
        self._alarms: list[tuple[float, int, Call, int]] = []
        self._ids = itertools.count(1)
        self._order = itertools.count()
        self._failed_starts = 0
        self._next_start_at = 0.0
        self._first: Future[bool] = Future()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="function-pool")

    # ── from any thread ──

    def start(
        self, size: Callable[[bool], tuple[int, int]], stopped: Callable[[], bool] = lambda: False
    ) -> bool:
        """
        Starts one process and, once it has loaded the function, the others. `size` returns the number of processes
        and of concurrent calls per process, given whether the function is asynchronous. Returns False if `stopped`
        becomes true first. Raises FunctionError.
        """
        self._thread.start()
        while not self._first.done():
            if stopped():
                return False
            wait([self._first], timeout=0.1)
        self.is_async = self._first.result()
        self._wanted, self._per_process = size(self.is_async)
        self.post("wake")
        return True

    def submit(self, sample: Mapping[str, Any]) -> Call:
        """Starts a call. Its future ends with an entry of `results` and never raises."""
        call = Call(sample)
        self.post("submit", call)
        return call

    def give_up(self, call: Call) -> None:
        """
        Reports that the caller has gone. A synchronous call runs to its end or timeout, because replacing its process
        would cost more.
        """
        self.post("unwanted", call)

    def post(self, *event: Any) -> None:
        self._events.put(event)

    def stop(self) -> None:
        """Ends the processes; running calls fail."""
        self.post("stop")
        self._thread.join(5)

    # ── the pool's own thread ──

    def _run(self) -> None:
        while not self._stopping:
            self._start_processes()
            event = self._next_event()
            if event is not None:
                getattr(self, "_on_" + event[0])(*event[1:])
            self._ring_alarms()
            self._give_out()
        self._end_all()

    def _next_event(self) -> tuple[Any, ...] | None:
        until = self._alarms[0][0] if self._alarms else math.inf
        if len(self._processes) < self._wanted:
            until = min(until, self._next_start_at)
        for process in self._processes:
            if process.phase == "starting":
                until = min(until, process.loaded_by)
        # Polls while calls wait, because an event loop that is no longer blocked sends no event.
        if self._waiting and self.is_async:
            until = min(until, time.monotonic() + 0.1)
        try:
            if until == math.inf:
                return self._events.get()
            return self._events.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None

    def _start_processes(self) -> None:
        now = time.monotonic()
        for process in list(self._processes):
            if process.phase == "starting" and now > process.loaded_by:
                self._not_started(process, f"the function was not loaded within {LOAD_S:g} s")
        while len(self._processes) < self._wanted and time.monotonic() >= self._next_start_at:
            try:
                self._processes.append(_Process(self))
            except OSError as error:
                self._start_failed(f"no process could be started: {error}")

    def _not_started(self, process: _Process, why: str) -> None:
        self._drop(process)
        self._start_failed(why)

    def _start_failed(self, why: str) -> None:
        if not self._first.done():
            self._wanted = 0
            self._first.set_exception(FunctionError(why))
            return
        self._failed_starts += 1
        after = RESTART_AFTER_S[min(self._failed_starts, len(RESTART_AFTER_S) - 1)]
        self._next_start_at = time.monotonic() + after
        self._log("start_failed", {"detail": why, "againAfterS": after})
        if self._failed_starts >= HOPELESS_STARTS and not self._processes:
            while self._waiting:
                self._settle(self._waiting.popleft(), error_entry("function_error", why))

    def _on_wake(self) -> None:
        pass

    def _on_stop(self) -> None:
        self._stopping = True

    def _on_submit(self, call: Call) -> None:
        self._waiting.append(call)

    def _on_unwanted(self, call: Call) -> None:
        call.unwanted = True
        if call.process is None:
            self._settle(call, error_entry("function_error", "given up by the caller"))
        elif call.process.is_async and not call.stopping:
            call.process.outbox.put(("stop", call.id))

    def _on_message(self, process: _Process, message: tuple[Any, ...]) -> None:
        if process.phase == "gone" or (message[0] != "done" and process.phase != "starting"):
            return
        if message[0] == "ready":
            process.phase = "ready"
            process.is_async = message[1]
            self._failed_starts = 0
            if not self._first.done():
                self._first.set_result(message[1])
        elif message[0] == "failed":
            self._not_started(process, message[1])
        else:
            _, number, entry = message
            call = process.calls.pop(number, None)
            if call is not None:
                self._settle(call, self._timed_out() if call.stopping else entry)
            self._retire(process)

    def _on_gone(self, process: _Process) -> None:
        if process.phase == "gone":
            process.process.join(1)
            return
        if process.phase == "starting":
            how = process.ended_how()
            self._not_started(process, f"while the function was loaded, {how}")
            return
        how = process.ended_how()
        calls = list(process.calls.values())
        culprit = calls[0] if len(calls) == 1 else process.current()
        self._replace(process, culprit, error_entry("function_error", how), how)

    def _replace(
        self, process: _Process, culprit: Call | None, entry: Entry | None, why: str
    ) -> None:
        """
        The call at fault (`culprit`) ends with `entry`. The others run again elsewhere, each alone if no culprit is
        known.
        """
        others = [call for call in process.calls.values() if call is not culprit]
        fields = {"pid": process.process.pid, "detail": why, "startedAgain": len(others)}
        if culprit is not None:
            fields["sample"] = _name_of(culprit.sample)
        self._log("process_replaced", fields)
        self._drop(process)
        if culprit is not None and entry is not None:
            self._settle(culprit, entry)
        for call in others:
            call.alone = call.alone or culprit is None
            self._start_again(call)

    def _start_again(self, call: Call) -> None:
        # The number of restarts needs no limit, because each time another call was the culprit, or this call now runs
        # alone.
        call.process = None
        call.stopping = False
        call.checks = 0
        self._waiting.appendleft(call)

    def _drop(self, process: _Process) -> None:
        process.phase = "gone"
        if process in self._processes:
            self._processes.remove(process)
        process.kill()
        process.outbox.put(None)

    def _retire(self, process: _Process) -> None:
        if process.phase == "retiring" and not process.calls:
            self._drop(process)

    def _settle(self, call: Call, entry: Entry) -> None:
        call.process = None
        if call.future.done():
            return
        call.future.set_result(entry)
        if "error" in entry and not call.unwanted:
            fields = {"reason": entry["reason"], "detail": entry["error"]}
            self._log("sample_failed", {**fields, "sample": _name_of(call.sample)})

    def _timed_out(self) -> Entry:
        return error_entry("timeout", f"took longer than {self._timeout_s:g} s")

    def _ring_alarms(self) -> None:
        now = time.monotonic()
        while self._alarms and self._alarms[0][0] <= now:
            _, _, call, number = heapq.heappop(self._alarms)
            process = call.process
            if process is None or call.id != number:
                continue
            if not process.is_async:
                self._replace(process, call, self._timed_out(), "a call took too long")
            elif not call.stopping:
                call.stopping = True
                process.outbox.put(("stop", call.id))
                self._alarm(now + GRACE_S, call)
            else:
                self._would_not_stop(process, call)

    def _would_not_stop(self, process: _Process, call: Call) -> None:
        """Handles a cancelled asynchronous call that keeps running after its timeout."""
        running = process.current()
        if running is not None and not process.turns():
            if running.deadline <= time.monotonic():
                self._replace(process, running, self._timed_out(), "a call blocked the event loop")
                return
            # Another call within its time limit blocks the loop, so this call runs again elsewhere.
            del process.calls[call.id]
            self._start_again(call)
        elif process.turns():
            # The call ignores its cancellation. The process is killed after its other calls have ended.
            del process.calls[call.id]
            self._settle(call, self._timed_out())
            process.phase = "retiring"
            self._log("process_retired", {"pid": process.process.pid})
            self._retire(process)
        elif call.checks < MAX_CHECKS and len(process.calls) > 1:
            call.checks += 1
            self._alarm(time.monotonic() + GRACE_S, call)
        else:
            why = "code of no known call blocked the event loop"
            alone = len(process.calls) == 1
            self._replace(process, call if alone else None, self._timed_out(), why)

    def _alarm(self, at: float, call: Call) -> None:
        if at != math.inf:
            heapq.heappush(self._alarms, (at, next(self._order), call, call.id))

    def _give_out(self) -> None:
        passed: list[Call] = []
        kept_free: _Process | None = None
        while self._waiting:
            call = self._waiting.popleft()
            if call.future.done():
                continue
            process = self._room_for(call, kept_free)
            if process is None:
                passed.append(call)
                if not call.alone:
                    break
                # The call waits until a process is empty. That process gets no other calls; the other processes
                # continue.
                ready = [p for p in self._processes if p.phase == "ready"]
                kept_free = kept_free or min(ready, key=lambda p: len(p.calls), default=None)
                continue
            call.id = next(self._ids)
            call.process = process
            call.deadline = time.monotonic() + self._timeout_s
            process.calls[call.id] = call
            process.outbox.put(("call", call.id, call.sample))
            self._alarm(call.deadline, call)
        self._waiting.extendleft(reversed(passed))

    def _room_for(self, call: Call, kept_free: _Process | None) -> _Process | None:
        best = None
        for process in self._processes:
            if process is kept_free and not call.alone:
                continue
            if process.phase != "ready" or len(process.calls) >= self._per_process:
                continue
            if process.calls and (call.alone or any(c.alone for c in process.calls.values())):
                continue
            if process.is_async and not process.turns():
                continue
            if best is None or len(process.calls) < len(best.calls):
                best = process
        return best

    def _end_all(self) -> None:
        left = [call for process in self._processes for call in process.calls.values()]
        for call in [*left, *self._waiting]:
            if not call.future.done():
                call.future.set_result(error_entry("function_error", "the server was stopped"))
        processes = list(self._processes)
        for process in processes:
            process.outbox.put(("exit",))
            process.outbox.put(None)
        ends = time.monotonic() + 1
        for process in processes:
            process.process.join(max(0.0, ends - time.monotonic()))
            process.kill()
            process.process.join(1)


def _name_of(sample: Mapping[str, Any]) -> str:
    """A sample's name in the log: its data source, its index if known, and the first characters of its response."""
    extra = sample.get("extraInfo")
    index = extra.get("index") if isinstance(extra, dict) else None
    name = f"{sample.get('dataSource')}" + ("" if index is None else f" #{index}")
    text = sample.get("solutionStr")
    begins = " ".join(text.split())[:60] if isinstance(text, str) else ""
    return f"{name}: {begins!r}"
