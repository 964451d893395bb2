"""`rewardops serve-reward`."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any

from rewardops.service import ServiceClient, ServiceError
from rewardops.serving import isolation
from rewardops.serving.function import FunctionError, is_file, split_spec, stem_of
from rewardops.serving.http_server import RewardServer, is_loopback
from rewardops.serving.log import EventLog
from rewardops.serving.pool import FunctionPool
from rewardops.serving.registration import register

DONE = 0
USAGE = 2
NOT_LOADED = 3
NOT_LISTENING = 4
NOT_REGISTERED = 5

#: Maximum number of processes if the user sets none. Low, because each process loads the function's modules itself.
MAX_PROCESSES = 8
ASYNC_PROCESSES = 2
#: Concurrent calls per process of an asynchronous function. High, because such calls mostly wait.
ASYNC_PER_PROCESS = 64

DESCRIPTION = """\
Serves a verl reward function, unchanged, to rewardops. The function is called as in verl:

    compute_score(data_source=, solution_str=, ground_truth=, extra_info=, **kwargs)

Arguments that the function does not name are left out. An async function, a class (each process creates one object, and
calls its compute_score or the object itself) or any callable object is accepted too. The function returns a number, a
dict with "score", or a tuple that begins with one of them. Calls run in separate processes: a process that hangs or dies
is killed and replaced, and only its sample fails. An exception, a timeout or NaN is an error with its reason, never a
score of 0.
"""

EPILOG = """\
examples:
  rewardops serve-reward my_reward.py:compute_score --register http://127.0.0.1:3000
      then in a batch: "reward": {"model": "my_reward"}
  rewardops serve-reward my_pkg.rewards:Judge --kwargs '{"threshold": 0.5}' --max-in-flight 256

environment: REWARDOPS_SERVE_KEY (as --api-key), REWARDOPS_API_KEY (as --service-key). Prefer these variables, because
other users of the machine can read options.

exit codes: 0 stopped by SIGTERM or Ctrl-C, 2 wrong options, 3 the function cannot be loaded, 4 the server cannot
listen on the address, 5 the registration failed.
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `serve-reward` to the command line."""
    parser = commands.add_parser(
        "serve-reward",
        help="serve a verl reward function, unchanged",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "function",
        help="path/to/file.py:name or package.module:name; the default name is compute_score",
    )
    add(
        "--host",
        default="127.0.0.1",
        help="address to listen on; a key is required unless it is loopback (default %(default)s)",
    )
    add("--port", type=_port, default=0, help="0: any free port (default)")
    add(
        "--register",
        metavar="URL",
        help="the service to register with, such as http://127.0.0.1:3000",
    )
    add(
        "--advertise",
        metavar="URL",
        help="the URL at which the service reaches this scorer (default http://HOST:PORT/)",
    )
    add("--name", type=_name, help="name of this server in the service (default MODEL-HOSTNAME-PORT)")
    add(
        "--model",
        help='name of the model in "reward": {"model": …} (default: the file\'s name without .py)',
    )
    add(
        "--keep-registered",
        action="store_true",
        help="keep the server registered after the program ends",
    )
    add(
        "--register-wait",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="seconds to wait for the service to answer (default 30)",
    )
    add(
        "--processes",
        type=_count,
        metavar="N",
        help=f"number of processes (default: one per CPU, at most {MAX_PROCESSES}; async {ASYNC_PROCESSES})",
    )
    add(
        "--max-in-flight",
        type=_count,
        metavar="N",
        help=f"maximum concurrent samples from the service (default: 2 per process, at least 8; async {ASYNC_PER_PROCESS} per process)",
    )
    add(
        "--timeout",
        type=_seconds,
        default=120.0,
        metavar="S",
        help="time limit of a call, from its start in a process (default 120)",
    )
    add(
        "--kwargs",
        type=_object,
        default={},
        metavar="JSON",
        help="additional arguments of the function, as verl's reward_kwargs",
    )
    add(
        "--init-kwargs",
        type=_object,
        default={},
        metavar="JSON",
        help="constructor arguments, if a class is served",
    )
    add(
        "--api-key",
        default=os.environ.get("REWARDOPS_SERVE_KEY") or None,
        help="key that callers must send as a bearer token",
    )
    add(
        "--service-key",
        default=os.environ.get("REWARDOPS_API_KEY") or None,
        help="the service's API key, for --register",
    )
    add("--json", action="store_true", help="log one JSON object per line on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C; returns the exit code."""
    log = EventLog(arguments.json)
    if not is_loopback(arguments.host) and arguments.api_key is None:
        detail = f"--host {arguments.host} is not loopback: set --api-key, because every host on that network could run the function"
        log.say("refused", {"detail": detail})
        return USAGE
    try:
        service = (
            ServiceClient(arguments.register, arguments.service_key) if arguments.register else None
        )
        model = arguments.model or stem_of(arguments.function)
    except (ValueError, FunctionError) as error:
        log.say("refused", {"detail": str(error)})
        return USAGE
    stop = _Stop()
    isolation.protect_server()
    pool = FunctionPool(
        arguments.function,
        arguments.kwargs,
        arguments.init_kwargs,
        arguments.timeout,
        log.say,
        _has_own_users(arguments.function, log),
    )
    about: dict[str, Any] = {"function": arguments.function, "model": model}
    try:
        server = RewardServer(
            arguments.host, arguments.port, pool, arguments.api_key, lambda: about
        )
    except OSError as error:
        log.say(
            "refused",
            {
                "detail": f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror or error}"
            },
        )
        return NOT_LISTENING
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.request)
    try:
        return _serve(arguments, log, service, pool, server, about, stop)
    finally:
        server.server_close()
        pool.stop()


class _Stop:
    """
    A polled flag instead of an Event, because a signal handler may run in the thread that holds an Event's lock, and a
    signal delivered to another thread does not wake a waiter.
    """

    LOOK_S = 0.1

    def __init__(self) -> None:
        self.requested = False

    def request(self, *_: object) -> None:
        if self.requested:
            # The processes die with the program.
            os._exit(130)
        self.requested = True

    def wait(self) -> None:
        while not self.requested:
            time.sleep(self.LOOK_S)


def _serve(
    arguments: argparse.Namespace,
    log: EventLog,
    service: ServiceClient | None,
    pool: FunctionPool,
    server: RewardServer,
    about: dict[str, Any],
    stop: _Stop,
) -> int:
    sizes: dict[str, int] = {}

    def size(is_async: bool) -> tuple[int, int]:
        processes, in_flight = _sizes(is_async, arguments.processes, arguments.max_in_flight)
        sizes["processes"], sizes["maxInFlight"] = processes, in_flight
        return processes, -(-in_flight // processes) if is_async else 1

    try:
        if not pool.start(size, lambda: stop.requested):
            return DONE
    except FunctionError as error:
        log.say("not_loaded", {"detail": str(error)})
        return NOT_LOADED
    about.update(sizes)
    about["async"] = pool.is_async
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True, name="http").start()
    url = arguments.advertise or _url(arguments.host, server.port)
    log.say("ready", {"url": url, "port": server.port, "pid": os.getpid(), **about})
    name = None
    if service is not None and not stop.requested:
        name = arguments.name or _default_name(str(about["model"]), server.port)
        try:
            registration = register(
                service,
                name=name,
                url=url,
                model=str(about["model"]),
                max_in_flight=sizes["maxInFlight"],
                api_key=arguments.api_key,
                wait_s=arguments.register_wait,
                stopped=lambda: stop.requested,
            )
        except ServiceError as error:
            log.say("not_registered", {"detail": str(error), "reason": error.reason})
            return NOT_REGISTERED
        log.say("registered", {"name": name, "id": registration.get("id"), "state": registration.get("state")})
    stop.wait()
    if service is not None and name is not None and not arguments.keep_registered:
        _leave(service, name, log)
    finished = server.wait_idle(10)
    server.shutdown()
    log.say("stopped", {"samples": server.served, "failed": server.failed, "finished": finished})
    return DONE


def _has_own_users(function: str, log: EventLog) -> bool:
    """Whether the processes can have their own users. If the server is root and they cannot, logs the reason."""
    if not isolation.needs_own_user():
        return False
    where, _ = split_spec(function)
    home = os.path.expanduser("~")
    paths = [sys.executable, os.path.dirname(os.__file__), *sys.path, tempfile.gettempdir(), home]
    problem = isolation.unreadable([os.path.abspath(where) if is_file(where) else "", *paths])
    if problem is not None:
        detail = f"the function runs as root, because another user cannot read {problem}"
        log.say("no_own_user", {"detail": detail})
    return problem is None


def _leave(service: ServiceClient, name: str, log: EventLog) -> None:
    try:
        service.mutate("servers.remove", {"name": name})
        log.say("removed", {"name": name})
    except ServiceError as error:
        # The service may have stopped before this scorer. If it is running, its health checks notice that this scorer
        # is gone.
        log.say("not_removed", {"name": name, "detail": str(error)})


def _sizes(is_async: bool, processes: int | None, in_flight: int | None) -> tuple[int, int]:
    """The number of processes, and the maximum number of samples in flight over all of them."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if is_async:
        count = processes or min(cpus, ASYNC_PROCESSES)
        return count, in_flight or count * ASYNC_PER_PROCESS
    count = processes or min(cpus, MAX_PROCESSES)
    # Two samples per process, so that the next sample is already there when a process becomes free.
    return count, in_flight or max(8, 2 * count)


def _url(host: str, port: int) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _default_name(model: str, port: int) -> str:
    return re.sub(r"[^\w.:-]+", "-", f"{model}-{socket.gethostname()}-{port}", flags=re.ASCII)[
        -128:
    ]


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError("must be 0 to 65535")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return value


def _name(text: str) -> str:
    if not re.fullmatch(r"[\w.:-]{1,128}", text, flags=re.ASCII):
        raise argparse.ArgumentTypeError('use letters, digits, ".", "_", ":" and "-", at most 128')
    return text


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('must be an object, such as {"threshold": 0.5}')
    return value
