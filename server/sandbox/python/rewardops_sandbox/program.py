"""
The process of a program: process 1 of its namespaces. Except in weak isolation, it holds only the program; the tests
and the verdict are in other processes. A program that changes this process can still only send values.
"""

import atexit
import builtins
import errno
import json
import linecache
import os
import sys
import threading
import traceback
import types

from . import values

# File descriptor of the channel to the grader, or to the supervisor of the run.
CHANNEL = 3

MAX_DETAIL_CHARS = 1_000

_FILE = "/tmp/main.py"

_LIMIT_OF_ERRNO = {
    errno.EAGAIN: "processes",
    errno.ENOMEM: "memory",
    errno.EFBIG: "files",
    errno.ENOSPC: "files",
    errno.EMFILE: "files",
}


# Limits that the program's process itself reports.
PROGRAM_LIMITS = ("memory", "processes", "files")


def limit_of(error):
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError):
        return _LIMIT_OF_ERRNO.get(error.errno)
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "processes"
    return None


def new_main(code):
    """Creates a module `__main__` for this code, whose lines appear in tracebacks."""
    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    module.__file__ = _FILE
    sys.modules["__main__"] = module
    sys.argv = [_FILE]
    sys.path[0] = "/tmp"
    linecache.cache[_FILE] = (len(code), None, code.splitlines(True), _FILE)
    return module


def execute(code, module):
    exec(compile(code, _FILE, "exec", dont_inherit=True), module.__dict__)


def run_as_main(channel, job):
    """
    Runs a program as `python main.py` does, and never returns. If it reaches a limit, the limit is sent over the
    channel.
    """
    status = 0
    try:
        execute(job["code"], new_main(job["code"]))
    except SystemExit as error:
        status = _exit_status(error)
    except BaseException as error:
        status = 1
        _print_exception(error)
        limit = limit_of(error)
        if limit is not None:
            values.send(channel, limit)
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException as error:
        status = status or 120
        _print_exception(error)
    os._exit(status)


def _exit_status(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _print_exception(error):
    # The traceback omits the frames of this module.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def serve_calls(channel, job):
    """Runs a program's definitions, then calls its functions by name for the grader until the grader ends."""
    module = new_main(job["code"])
    try:
        execute(job["code"], module)
        values.send(channel, ("loaded",))
    except BaseException as error:
        kind = "compile_error" if isinstance(error, SyntaxError) else "runtime_error"
        values.send(channel, ("not loaded", kind, describe(error), limit_of(error)))
        os._exit(1)
    while True:
        request = values.receive(channel)
        if request is None:
            os._exit(0)
        _answer(channel, module, *request)


def _answer(channel, module, name, arguments, keywords):
    given = {**dict(enumerate(arguments)), **keywords}
    sent = {key: values.encode(argument) for key, argument in given.items()}
    try:
        if name not in module.__dict__:
            raise NameError(f"the program does not define {name}")
        result = module.__dict__[name](*arguments, **keywords)
        # If the function returns a value, changes to arguments are ignored: a test may compare the value with the
        # original argument.
        changed = _changed(given, sent) if result is None else []
        values.send(channel, ("returned", result, changed))
    except values.UnsupportedType as error:
        values.send(channel, ("unsupported", str(error)))
    except values.TooLarge as error:
        values.send(channel, ("too large", str(error)))
    except BaseException as error:
        values.send(channel, ("raised", *_named(error), limit_of(error)))


def _changed(given, sent):
    """The arguments that the call changed in place, with their positions or keywords."""
    changed = []
    for key, argument in given.items():
        if not isinstance(argument, (list, dict, set, bytearray)):
            continue
        try:
            if values.encode(argument) != sent[key]:
                changed.append((key, argument))
        except (values.UnsupportedType, values.TooLarge):
            continue
    return changed


def _named(error):
    """
    The name of an exception's nearest built-in type, and the message, preceded by the exception's own type if it
    differs.
    """
    kind = next(one for one in type(error).__mro__ if getattr(builtins, one.__name__, None) is one)
    own, text = type(error).__name__, _message(error)
    return kind.__name__, text if own == kind.__name__ else f"{own}: {text}"


def _message(error):
    try:
        # The text of a KeyError is the representation of its key.
        is_key = isinstance(error, KeyError) and len(error.args) == 1
        return str.__str__(str(error.args[0] if is_key else error))[:MAX_DETAIL_CHARS]
    except BaseException:
        return "no message"


def describe(error):
    text = _message(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def judge_in_one_process(channel, job):
    """
    Runs the program and its tests in one process, for tests that need the program's objects. The program can reach the
    tests and the report, so the verdict is weak.
    """

    def tell(**message):
        channel.sendall(json.dumps(message).encode() + b"\n")

    module = new_main(job["code"])
    try:
        execute(job["code"], module)
        exec(compile(job["setup"], "<tests>", "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        kind = "compile_error" if isinstance(error, SyntaxError) else "runtime_error"
        tell(notLoaded=_failure(kind, error))
        os._exit(1)
    tell(loaded=True)
    for text in job["cases"][job["first"] :]:
        tell(case=_verdict(text, module.__dict__))
    os._exit(0)


def _verdict(text, scope):
    try:
        exec(compile(text, "<tests>", "exec", dont_inherit=True), scope)
    except AssertionError as error:
        return _failure("wrong_answer", error)
    except BaseException as error:
        return _failure("runtime_error", error)
    return {"status": "passed", "detail": None, "limit": None, "ended": False}


def _failure(status, error):
    return {"status": status, "detail": describe(error), "limit": limit_of(error), "ended": False}
