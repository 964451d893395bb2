"""
The process of the tests. It holds the tests and the verdict, in its own namespaces. It calls the functions of the
program by name in the program's process, and exchanges arguments and results as values of built-in types.
"""

import builtins
import json
import os

from . import values
from .program import PROGRAM_LIMITS, describe
from .test_names import NeedsObjects, functions_called


class ProgramFailed(BaseException):
    """Raised to end a test whose verdict is known. A test that catches it does not change the verdict."""


class Grader:
    def __init__(self, channel, report, job):
        self._channel = channel
        self._report = report
        self._job = job
        # The reason why the tests cannot be judged across processes; set at most once.
        self._needs = None
        # Status, detail and limit of the current case, once it has failed.
        self._failure = None
        self._has_ended = False

    def judge(self):
        """
        Judges the cases from `first` on. Reports each case, or the reason why none can be judged, as a line of JSON.
        """
        try:
            scope, setup, cases = self._prepare()
        except NeedsObjects as error:
            return self._tell(needs=str(error))
        except BaseException as error:
            return self._tell(broken=describe(error))
        answer = self._receive()
        if answer != ("loaded",):
            return self._tell(notLoaded=_why_not_loaded(answer))
        self._tell(loaded=True)
        verdict = self._verdict(setup, scope)
        if self._needs is None and verdict["status"] != "passed":
            return self._tell(broken=verdict["detail"])
        for code in cases:
            if self._needs is None:
                verdict = self._verdict(code, scope)
            if self._needs is not None:
                return self._tell(needs=self._needs)
            self._tell(case=verdict)
            if self._has_ended:
                return None
        return None

    def _prepare(self):
        job = self._job
        scope = {"__name__": "__tests__", "__builtins__": builtins}
        exec(compile(job["helpers"], "<helpers>", "exec", dont_inherit=True), scope)
        texts = [job["setup"], *job["cases"]]
        for name in functions_called(texts, set(scope), job["entryPoint"]):
            scope[name] = self._function(name)
        setup, *cases = (compile(text, "<tests>", "exec", dont_inherit=True) for text in texts)
        return scope, setup, cases[job["first"] :]

    def _function(self, name):
        def function(*arguments, **keywords):
            if self._failure is not None or self._needs is not None:
                raise ProgramFailed
            return self._call(name, arguments, keywords)

        function.__name__ = function.__qualname__ = name
        return function

    def _call(self, name, arguments, keywords):
        try:
            values.send(self._channel, (name, arguments, keywords))
        except values.UnsupportedType as error:
            self._needs = f"a test passes {error} to {name}"
            raise ProgramFailed from None
        except values.TooLarge as error:
            self._fail("runtime_error", f"the arguments of {name} are too large: {error}")
        except OSError:
            self._end(f"the program ended before the call of {name}")
        match self._receive():
            case ("returned", result, list(changed)):
                given = {**dict(enumerate(arguments)), **keywords}
                for key, value in changed:
                    _replace_content(given, key, value)
                return result
            case ("raised", str(kind), str(text), limit):
                if limit is not None:
                    self._fail("runtime_error", f"{kind}: {text}" if text else kind, limit)
                raise _exception(kind, text)
            case ("unsupported", str(kind)):
                self._fail("unsupported_type", f"{name} returned {kind}, which is not a built-in type")
            case ("too large", str(why)):
                self._fail("unsupported_type", f"the result of {name} is too large: {why}")
            case _:
                self._end(f"the program ended in {name}")

    def _receive(self):
        """The program's next answer, or None if it sent none. After None, the program is not called again."""
        try:
            answer = values.receive(self._channel)
        except (values.Malformed, OSError):
            answer = None
        self._has_ended = self._has_ended or answer is None
        return answer

    def _fail(self, status, detail, limit=None):
        if self._failure is None:
            self._failure = _failure(status, detail, limit, self._has_ended)
        raise ProgramFailed

    def _end(self, detail):
        self._has_ended = True
        self._fail("runtime_error", detail)

    def _verdict(self, code, scope):
        self._failure = None
        status, detail = "passed", None
        try:
            exec(code, scope)
        except ProgramFailed:
            pass
        except AssertionError as error:
            status, detail = "wrong_answer", describe(error)
        except BaseException as error:
            status, detail = "runtime_error", describe(error)
        return self._failure or _failure(status, detail)

    def _tell(self, **message):
        os.write(self._report, json.dumps(message).encode() + b"\n")


def _why_not_loaded(answer):
    match answer:
        case ("not loaded", "compile_error" | "runtime_error" as status, str(text), limit):
            return _failure(status, text, limit)
    return _failure("runtime_error", "the program ended before its functions were called", None, True)


def _failure(status, detail, limit=None, has_ended=False):
    """A verdict. `has_ended`: whether the program's process has ended; if so, a limit may be the cause."""
    known = limit if limit in PROGRAM_LIMITS else None
    return {"status": status, "detail": detail, "limit": known, "ended": has_ended}


def _exception(kind, text):
    """The program's exception as the built-in type `kind`, or as `Exception` if that type would end the grader."""
    found = getattr(builtins, kind, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return Exception(text)
    try:
        return found(text)
    except TypeError:
        # Types such as UnicodeDecodeError need more arguments.
        return Exception(text)


def _replace_content(given, key, value):
    """Changes the argument with this position or keyword in place, as the program did."""
    if not (isinstance(key, (int, str)) and key in given):
        return
    target = given[key]
    if type(target) is not type(value):
        return
    if isinstance(target, (list, bytearray)):
        target[:] = value
    elif isinstance(target, (dict, set)):
        target.clear()
        target.update(value)
