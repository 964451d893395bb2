"""
Isolates the processes of the function: they get no secrets and no privileges, and their child processes and files are
removed. The isolation is complete on Linux only. As root, the server gives each process its own user. Otherwise the
kernel keeps other processes of the same user from reading the server's memory and environment.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable

#: The server's environment variables that the function must not see.
SECRETS = ("REWARDOPS_SERVE_KEY", "REWARDOPS_API_KEY")
#: Environment variable that identifies a function process. Its descendants inherit the variable.
MARK = "REWARDOPS_FUNCTION_PROCESS"
#: User ids without an account, from systemd's DynamicUser range. The service's function processes use them too.
FIRST_UID, LAST_UID = 61_184, 65_519
#: Maximum number of processes and threads of a function process that has its own user.
MAX_PROCESSES = 1_024

#: Options of prctl, from linux/prctl.h.
_SET_DUMPABLE, _SET_NO_NEW_PRIVS = 4, 38

IS_LINUX = sys.platform == "linux"


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0
    except Exception:
        return False


def protect_server() -> None:
    """
    Removes the keys from the environment that child processes inherit, and keeps other processes of the same user from
    reading this process's memory and initial environment.
    """
    for name in SECRETS:
        os.environ.pop(name, None)
    if IS_LINUX:
        _prctl(_SET_DUMPABLE, 0)


def needs_own_user() -> bool:
    return IS_LINUX and os.getuid() == 0


def unreadable(paths: Iterable[str]) -> str | None:
    """The first of the paths that a user of a function process cannot read; None if all can be read."""
    there = [path for path in paths if path and os.path.lexists(path)]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = "/"
        try:
            _become(FIRST_UID)
            found = next((path for path in there if not _readable(path)), "")
        finally:
            os.write(writer, found.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or None


def _readable(path: str) -> bool:
    return os.access(path, os.X_OK if os.path.isdir(path) else os.R_OK)


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _claim_user() -> tuple[int, socket.socket]:
    """
    Returns an unused user and the claim on it: a socket with a name that is unique on the machine. The kernel frees the
    name when the server ends. Raises OSError when every user is taken.
    """
    taken = set()
    for pid in _processes():
        try:
            taken.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            pass
    for uid in random.sample(range(FIRST_UID, LAST_UID + 1), LAST_UID + 1 - FIRST_UID):
        if uid in taken:
            continue
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0rewardops-function-user-{uid}")
            return uid, claim
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EAGAIN, "every user of function processes is taken")


class Enclosure:
    """One process's user, marker variable and temporary folder. It is passed to the process, which calls `enter`."""

    def __init__(self, has_own_user: bool) -> None:
        self.uid, self._claim = _claim_user() if has_own_user else (None, None)
        self._has_left = False
        self.folder = tempfile.mkdtemp(prefix="rewardops-function-")
        self.mark = os.path.basename(self.folder)
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)

    def __getstate__(self) -> dict[str, object]:
        # The claim stays with the server, which kills the processes that this process leaves behind.
        return {**self.__dict__, "_claim": None}

    def enter(self) -> None:
        """Gives up privileges and sets limits, in the process, before the function is loaded."""
        os.environ[MARK] = self.mark
        os.environ["TMPDIR"] = tempfile.tempdir = self.folder
        import resource

        _lower(resource.RLIMIT_CORE, 0)
        if self.uid is not None:
            _lower(resource.RLIMIT_NPROC, MAX_PROCESSES)
            _become(self.uid)
        if IS_LINUX:
            _prctl(_SET_NO_NEW_PRIVS, 1)

    def leave(self) -> None:
        """
        Kills the descendants of the ended process, including detached ones, and removes its folder.
        Later calls do nothing.
        """
        if self._has_left:
            # Another function process may have this user by now and must not be killed.
            return
        self._has_left = True
        if IS_LINUX:
            # Descendants may start further processes during the scan.
            for _ in range(50):
                left = [pid for pid in _processes() if pid != os.getpid() and self._started(pid)]
                if not left:
                    break
                for pid in left:
                    _kill(pid)
                time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._claim is not None:
            self._claim.close()

    def _started(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            return state != b"Z" and self._is_own(pid)
        except OSError:
            return False

    def _is_own(self, pid: int) -> bool:
        if self.uid is not None:
            return os.stat(f"/proc/{pid}").st_uid == self.uid
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={self.mark}".encode() in file.read().split(b"\0")


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _lower(limit: int, value: int) -> None:
    import resource

    _, hard = resource.getrlimit(limit)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (lowest, lowest))
