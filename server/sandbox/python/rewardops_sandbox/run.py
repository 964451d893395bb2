"""
The supervisor of one run. It forks the program's process before it reads the job, so the tests are never in memory that
the program inherits. It enforces the limits. When it ends, every process of the run ends.
"""

import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

from . import namespaces, program, values
from .grader import Grader

# Interval at which the total usage of a run's processes is checked, s. The kernel limits each single process.
_WATCH_S = 0.025
_PAGE_BYTES = resource.getpagesize()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_HEADER = struct.Struct("<I")


class Run:
    """One run: the program's process, in strong isolation the grader's process, and the connection to the service."""

    def __init__(self, address, connection, seccomp_filter, base):
        """
        Sends a byte over the connection when the run is ready for its job.
        `base`: address space and resident memory of the interpreter, bytes; they do not count against a program's
        limits.
        """
        self._filter = seccomp_filter
        self._base_bytes, self._shared_bytes = base
        self._hidden = [os.path.dirname(address)]
        self._channel, theirs = socket.socketpair()
        (self._out, out), (self._err, err) = os.pipe(), os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        self._program = self._start(lambda: self._run_program(), (null, out, err, theirs.fileno()))
        for fd in (out, err, null):
            os.close(fd)
        theirs.close()
        self._connection = connection
        self._pids = {self._program: os.pidfd_open(self._program)}
        self._usage = {}
        self._status = {}
        self._output = {self._out: bytearray(), self._err: bytearray()}
        # CPU time of each process when the current case started, s.
        self._cpu_before = {}
        self._limit = None
        connection.sendall(b"\1")

    def serve(self):
        head = values.receive_exactly(self._connection, _HEADER.size)
        data = head and values.receive_exactly(self._connection, *_HEADER.unpack(head))
        if data is None:
            return
        job = json.loads(data)
        answer = json.dumps(self._execute(job)).encode()
        self._connection.sendall(_HEADER.pack(len(answer)) + answer)

    def _start(self, body, descriptors):
        """Starts a process in new namespaces, in which `body` runs with only these descriptors, numbered from 0."""
        pid = namespaces.fork_into_namespaces()
        if pid != 0:
            return pid
        try:
            namespaces.mount_own_folders(self._hidden)
            namespaces.keep_descriptors(*descriptors)
            body()
        except BaseException as error:
            os.write(2, f"the sandbox failed: {error!r}\n".encode())
        finally:
            os._exit(125)

    def _enter(self, limits):
        namespaces.set_limits(limits, self._base_bytes)
        namespaces.give_up_privileges(self._filter)

    def _run_program(self):
        channel = socket.socket(fileno=program.CHANNEL)
        job = values.receive(channel)
        if job is None:
            os._exit(0)
        if job["stdin"] is not None:
            file = os.memfd_create("stdin")
            os.write(file, job["stdin"])
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, 0)
            os.close(file)
        self._enter(job["limits"])
        getattr(program, job["entry"])(channel, job)

    def _run_grader(self, job):
        channel = socket.socket(fileno=program.CHANNEL)
        self._enter(job["limits"])
        Grader(channel, program.CHANNEL + 1, job).judge()
        os._exit(0)

    def _execute(self, job):
        """Runs the job and returns the answer, as the service's `RunReport` describes it."""
        # The tests report the end of loading and of each case. Each report starts a new time limit, but at most
        # `reports` times, so a program that forges reports gains no time.
        reports = 0 if job["mode"] == "run" else 1 + len(job["cases"]) - job["first"]
        limits = job["limits"]
        limits["totalCpuS"] = limits["cpuS"] * (1 + reports)
        entry = {"run": "run_as_main", "strong": "serve_calls", "weak": "judge_in_one_process"}[job["mode"]]
        code = job["helpers"] + job["code"]
        stdin = None if job["stdin"] is None else job["stdin"].encode("utf-8", "surrogatepass")
        tests = {key: job[key] for key in ("setup", "cases", "first")} if job["mode"] == "weak" else {}
        values.send(self._channel, {**tests, "entry": entry, "code": code, "stdin": stdin, "limits": limits})
        started = time.monotonic()
        report = None
        if job["mode"] == "strong":
            report, theirs = os.pipe()
            null = os.open("/dev/null", os.O_RDWR)
            grader = self._start(
                lambda: self._run_grader(job), (null, null, null, self._channel.fileno(), theirs)
            )
            os.close(theirs)
            self._channel.close()
            self._pids[grader] = os.pidfd_open(grader)
            last = grader
        else:
            report = self._channel.fileno()
            last = self._program
        self._output[report] = bytearray()
        self._watch(last, limits, report, reports, started)
        wall_s = time.monotonic() - started
        self._end_all()
        self._drain()
        usage = self._usage[self._program]
        status = os.waitstatus_to_exitcode(self._status[self._program])
        limit = self._limit or self._limit_of(status, usage, limits)
        lines = bytes(self._output[report])
        answer = {
            "limit": limit,
            "wallS": wall_s,
            "cpuS": usage.ru_utime + usage.ru_stime,
            "peakBytes": usage.ru_maxrss * 1024,
            "returnCode": status,
        }
        if job["mode"] == "run":
            answer["limit"] = limit or _reported_limit(lines)
            answer["stdout"] = self._output[self._out].decode("utf-8", "replace")
            answer["stderr"] = self._output[self._err].decode("utf-8", "replace")
        else:
            answer["stderr"] = self._output[self._err][-2_000:].decode("utf-8", "replace")
            answer["report"] = _messages(lines)
        return answer

    def _limit_of(self, status, usage, limits):
        is_killed = status in (-signal.SIGKILL, -signal.SIGXCPU)
        if is_killed and usage.ru_utime + usage.ru_stime >= limits["totalCpuS"] - 0.1:
            return "cpu_time"
        return None

    def _watch(self, last, limits, report, reports, case_started):
        """
        Returns when the process `last` has ended or a limit is exceeded. Each case has its own limits of time; at most
        `reports` times, data in the report starts a case.
        """
        poll = select.poll()
        for fd in (*self._output, *self._pids.values()):
            poll.register(fd, select.POLLIN)
        poll.register(self._connection, select.POLLIN | select.POLLRDHUP)
        watched_at = case_started + _WATCH_S
        while True:
            now = time.monotonic()
            deadline = case_started + limits["wallS"]
            if now >= deadline:
                self._limit = "wall_time"
                return
            if now >= watched_at:
                self._limit = self._exceeded(limits)
                if self._limit is not None:
                    return
                watched_at = now + _WATCH_S
            ready = poll.poll(max(1, 1_000 * (min(deadline, watched_at) - now)))
            for fd, _ in ready:
                if fd == self._connection.fileno():
                    # The service has cancelled the run.
                    os._exit(0)
                if fd in self._output:
                    is_open = self._read(fd)
                    if not is_open:
                        poll.unregister(fd)
                    if fd == report and reports > 0:
                        reports -= 1
                        case_started = time.monotonic()
                        self._cpu_before = {pid: cpu_s for pid, cpu_s, _ in self._alive()}
                    if sum(map(len, self._output.values())) > limits["outputBytes"]:
                        self._limit = "output"
                        return
            for pid, pidfd in self._pids.items():
                if any(fd == pidfd for fd, _ in ready):
                    poll.unregister(pidfd)
                    self._reap(pid)
                    if pid == last:
                        return

    def _read(self, fd):
        try:
            piece = os.read(fd, 1 << 16)
        except ConnectionResetError:
            piece = b""
        self._output[fd] += piece
        return len(piece) > 0

    def _exceeded(self, limits):
        """The limit that all processes of the run together exceed in the current case, or None if they exceed none."""
        alive = list(self._alive())
        cpu_s = sum(max(0, now - self._cpu_before.get(pid, 0)) for pid, now, _ in alive)
        memory = sum(own for *_, own in alive)
        if cpu_s > limits["cpuS"]:
            return "cpu_time"
        # Forks share pages. Only the second, slower count divides the shared pages among the forks.
        if memory > limits["memoryBytes"] and sum(_proportional_bytes(pid) for pid, *_ in alive) > limits["memoryBytes"]:
            return "memory"
        return None

    def _alive(self):
        """Each process of the run that is alive, with its CPU time, s, and its own memory, bytes."""
        for pid in (pid for root in self._pids if root not in self._status for pid in _tree(root)):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            memory = max(0, int(fields[21]) * _PAGE_BYTES - self._shared_bytes)
            yield pid, sum(map(int, fields[11:13])) / _TICKS_PER_S, memory

    def _reap(self, pid):
        _, self._status[pid], self._usage[pid] = os.wait4(pid, 0)

    def _end_all(self):
        # The grader is killed first. Otherwise it would report the end of a program that exceeded a limit.
        for pid in reversed(self._pids):
            if pid not in self._status:
                os.kill(pid, signal.SIGKILL)
                self._reap(pid)

    def _drain(self):
        """Reads the rest of the output from the pipes, whose writers have all ended."""
        for fd in self._output:
            os.set_blocking(fd, False)
            try:
                while len(self._output[fd]) < 1 << 26 and self._read(fd):
                    pass
            except OSError:
                pass


def _tree(pid):
    """A process and its descendants that are alive."""
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                children = file.read().split()
            for child in children:
                yield from _tree(int(child))
    except OSError:
        return


def _proportional_bytes(pid):
    """Resident memory of a process. Shared pages are divided among the processes that use them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def _reported_limit(data):
    """The limit in the first frame of the data. Child processes of the program may have sent further frames."""
    try:
        limit = values.decode(data[_HEADER.size : _HEADER.size + _HEADER.unpack_from(data)[0]])
    except (values.Malformed, struct.error):
        return None
    return limit if limit in program.PROGRAM_LIMITS else None


def _messages(lines):
    """
    The report's lines as JSON. In weak isolation they may hold any values, because the program can write to the report.
    """
    messages = []
    for line in lines.split(b"\n"):
        try:
            messages.append(json.loads(line))
        except ValueError:
            continue
    return messages
