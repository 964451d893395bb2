"""Loads a user's reward function and calls it as verl does."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable

DEFAULT_NAME = "compute_score"

#: Arguments that verl passes by keyword to every reward function.
VERL_KEYWORDS = ("data_source", "solution_str", "ground_truth", "extra_info")
#: Arguments passed only to functions that name them.
EXTRA_KEYWORDS = ("prompt", "messages")
#: Arguments of verl's legacy `batch` manager, which passes whole columns; such functions cannot score single samples.
BATCH_KEYWORDS = ("solution_strs", "data_sources", "ground_truths", "extra_infos")


class FunctionError(Exception):
    """The function cannot be served; the message is for the user."""


def split_spec(spec: str) -> tuple[str, str]:
    """Splits `file.py:name`, `package.module:name`, or either without a name, into (location, name)."""
    where, colon, name = spec.rpartition(":")
    if not colon or name == "" or "/" in name or "\\" in name or name.endswith(".py"):
        where, name = spec.rstrip(":"), DEFAULT_NAME
    for scheme in ("pkg://", "file://"):
        if where.startswith(scheme):
            where = where[len(scheme) :]
    # A quoted `~` is not expanded by the shell.
    where = os.path.expanduser(where)
    if where == "":
        raise FunctionError(f"{spec!r} names no file or module; use path/to/file.py:name")
    return where, name


def is_file(where: str) -> bool:
    """True for a path, False for a module's dotted name."""
    return where.endswith(".py") or os.sep in where or "/" in where


def stem_of(spec: str) -> str:
    """The file's name without `.py`, or the last part of the module's name: the default name of the model."""
    where, _ = split_spec(spec)
    if is_file(where):
        return os.path.splitext(os.path.basename(where))[0]
    return where.rpartition(".")[2]


def load_module(where: str) -> ModuleType:
    """Imports the user's module with its folder on the path, as if it ran as a script."""
    if not is_file(where):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(where)
        except Exception as error:
            raise FunctionError(f"cannot import {where}: {described(error)}") from error
    path = os.path.abspath(where)
    if not os.path.isfile(path):
        raise FunctionError(f"there is no file {path}")
    sys.path.insert(0, os.path.dirname(path))
    # The module's name differs from the file's, because `math.py` must not replace the standard library's module.
    name = "rewardops_reward_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FunctionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # The module is registered before it runs, because dataclasses and pickle look it up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FunctionError(f"{path} cannot be loaded: {described(error)}") from error
    return module


def described(error: BaseException) -> str:
    """Describes an error as `ValueError: message`, with the user's own line if known."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = ""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and os.path.dirname(file) != os.path.dirname(__file__):
            where = f" ({os.path.basename(file)}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return text + where


class RewardFunction:
    """
    A callable with a checked signature. `is_async` is a guess: a result may be awaitable even if `is_async` is False.
    """

    def __init__(self, call: Callable[..., Any], kwargs: Mapping[str, Any], name: str) -> None:
        self._call = call
        self._kwargs = dict(kwargs)
        self.name = name
        self.is_async = is_async(call)
        self._positional = False
        self._passed: tuple[str, ...] = VERL_KEYWORDS
        self._read_signature()

    def _read_signature(self) -> None:
        try:
            parameters = list(inspect.signature(self._call).parameters.values())
        except (TypeError, ValueError):
            return  # A function written in C is called with verl's keywords.
        named = {
            p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        if any(name in named for name in BATCH_KEYWORDS):
            raise FunctionError(
                f"{self.name} takes whole batches ({', '.join(n for n in BATCH_KEYWORDS if n in named)}); "
                "a scorer receives one sample at a time"
            )
        unknown = [] if takes_any else [key for key in self._kwargs if key not in named]
        if unknown:
            raise FunctionError(f"{self.name} takes no {', '.join(unknown)}, which --kwargs gives")
        if "solution_str" in named or takes_any:
            passed = VERL_KEYWORDS if takes_any else tuple(k for k in VERL_KEYWORDS if k in named)
            self._passed = passed + tuple(k for k in EXTRA_KEYWORDS if k in named)
            given = {*self._passed, *self._kwargs}
        else:
            # verl's asynchronous reward agent (PR 2854) passes four values by position, under any parameter names.
            four = [
                p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ][:4]
            if len(four) < 4 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
                raise FunctionError(
                    f"{self.name}{inspect.signature(self._call)} takes neither solution_str nor four values by position; "
                    "verl calls compute_score(data_source=, solution_str=, ground_truth=, extra_info=, **kwargs)"
                )
            self._positional = True
            given = {*self._kwargs, *(p.name for p in four)}
        missing = [
            p.name
            for p in parameters
            if p.default is p.empty
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in given
        ]
        if missing:
            raise FunctionError(f"{self.name} needs {', '.join(missing)}: pass it with --kwargs")

    def __call__(self, sample: Mapping[str, Any]) -> Any:
        """Calls the function with one sample of the HTTP protocol. Returns its result, or an awaitable of it."""
        extra_info = sample.get("extraInfo")
        # verl's managers always set these two keys, and functions read them without checking.
        extra_info = {"num_turns": None, "rollout_reward_scores": {}, **(extra_info or {})}
        values = {
            "data_source": sample.get("dataSource"),
            "solution_str": sample.get("solutionStr"),
            "ground_truth": sample.get("groundTruth"),
            "extra_info": extra_info,
            "prompt": sample.get("prompt"),
            "messages": sample.get("messages"),
        }
        if self._positional:
            return self._call(*(values[key] for key in VERL_KEYWORDS), **self._kwargs)
        # As in verl, arguments from the configuration take precedence.
        return self._call(**{**{key: values[key] for key in self._passed}, **self._kwargs})


def is_async(call: Any) -> bool:
    """
    Returns whether a callable is known to be asynchronous. Partials, methods and objects with an async __call__ count.
    """
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.iscoroutinefunction(call):
        return True
    # For other objects, the type's `__call__` shows whether it is asynchronous.
    return inspect.iscoroutinefunction(type(call).__call__)


def load_function(
    spec: str, kwargs: Mapping[str, Any], init_kwargs: Mapping[str, Any] | None = None
) -> RewardFunction:
    """
    Loads the function named by `spec`. A class is instantiated, and its `compute_score` or the object itself is called.
    """
    where, name = split_spec(spec)
    module = load_module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            theirs = sorted(
                key
                for key, value in vars(module).items()
                if callable(value)
                and not key.startswith("_")
                and getattr(value, "__module__", "") == module.__name__
            )
            raise FunctionError(
                f"{where} has no {name!r}; it has {', '.join(theirs) if theirs else 'no functions'}"
            )
        found = getattr(found, part)
    if inspect.isclass(found):
        if not hasattr(found, "compute_score") and hasattr(found, "run_single"):
            raise FunctionError(
                f"{name} is a verl reward manager (run_single takes a DataProto of tensors): "
                "serve the reward function that it calls"
            )
        try:
            found = found(**(init_kwargs or {}))
        except Exception as error:
            raise FunctionError(f"{name}() cannot be created: {described(error)}") from error
    elif init_kwargs:
        raise FunctionError(f"--init-kwargs is for classes, and {name} is not a class")
    if not inspect.isroutine(found) and hasattr(found, "compute_score"):
        found = found.compute_score
    if not callable(found):
        raise FunctionError(f"{name} of {where} is {type(found).__name__}, which cannot be called")
    return RewardFunction(found, kwargs, name)
