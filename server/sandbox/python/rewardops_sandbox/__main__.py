"""
Starts runs: `python -m rewardops_sandbox SOCKET`. Each byte on standard input requests one. This process preloads the
modules that programs import most, so forks inherit them. It never receives a job, so a fork holds no data of another run.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time

from . import namespaces
from .run import Run

_PRELOADED = (
    "abc array asyncio bisect cmath collections contextlib copy dataclasses datetime decimal enum fractions functools "
    "hashlib heapq inspect io itertools json math numbers operator os queue random re statistics string struct "
    "textwrap threading time traceback typing unicodedata"
).split()


def main(address):
    # Programs can import only the interpreter's own modules. The first entry becomes the program's folder.
    sys.path[:] = [""] + [one for one in sys.path if not os.path.dirname(__file__).startswith(one or "?")]
    seccomp_filter = _read_all(3)
    for name in _PRELOADED:
        importlib.import_module(name)
    base = namespaces.memory_bytes()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    print(json.dumps({"version": ".".join(map(str, sys.version_info[:3]))}), flush=True)
    while asked := os.read(0, 64):
        for _ in asked:
            with _connection_to(address) as connection:
                _fork_run(address, connection, seccomp_filter, base)
    os._exit(0)


def _read_all(fd):
    with open(fd, "rb") as file:
        return file.read()


def _connection_to(address):
    """
    Connects to the service. This process connects for each run, so that the connection of a run that does not start
    closes, however the run ends.
    """
    while True:
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            return connection
        except OSError as error:
            print(f"a run could not be started: {error}", file=sys.stderr, flush=True)
            # No memory is free until other runs end.
            time.sleep(0.1)


def _fork_run(address, connection, seccomp_filter, base):
    try:
        if os.fork() != 0:
            return
    except OSError as error:
        print(f"a run could not be started: {error}", file=sys.stderr, flush=True)
        return
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        Run(address, connection, seccomp_filter, base).serve()
    except BaseException as error:
        print(f"a run failed: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


main(sys.argv[1])
