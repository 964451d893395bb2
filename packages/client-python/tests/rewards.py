"""Reward functions as users of verl write them, without imports of the package: one rule, in every
supported form.
"""

import asyncio
import functools
import gc
import os
import re
import subprocess
import sys
import time
from multiprocessing.connection import Connection

ANSWER = re.compile(r"####\s*(-?[\d,.]+)")


def compute_score(
    data_source, solution_str, ground_truth, extra_info=None, format_score=0.0, score=1.0
):
    found = ANSWER.findall(solution_str)
    if not found:
        return 0.0
    answer = found[-1].replace(",", "").rstrip(".")
    return score if answer == str(ground_truth) else format_score


async def compute_score_async(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """The pause of the event loop stands for a call to a judge."""
    await asyncio.sleep(0)
    found = ANSWER.findall(solution_str)
    value = compute_score(data_source, solution_str, ground_truth, extra_info)
    return {"score": value, "acc": value == 1.0, "pred": found[-1] if found else None}


class Scorer:
    """The asynchronous reward agent's form: an object's compute_score that returns a tuple."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def compute_score(self, data_source, response_str, ground_truth, extra_info):
        value = compute_score(data_source, response_str, ground_truth, extra_info) * self.scale
        return value, f"Is it {ground_truth}?", "by the number after ####"


class AsyncCallable:
    async def __call__(self, data_source, solution_str, ground_truth, extra_info):
        await asyncio.sleep(0.001)
        return compute_score(data_source, solution_str, ground_truth, extra_info)


partial_score = functools.partial(compute_score, format_score=0.1)


def returns_awaitable(data_source, solution_str, ground_truth, extra_info):
    return compute_score_async(data_source, solution_str, ground_truth, extra_info)


def returns_literal(data_source, solution_str, ground_truth, extra_info):
    return eval(solution_str, {"inf": float("inf"), "nan": float("nan")})


def tells_call(solution_str, extra_info, prompt=None):
    return {"score": 1, "extra_info": extra_info, "prompt_": prompt, "pid": os.getpid()}


def misbehaves(data_source, solution_str, ground_truth, extra_info):
    _misbehave(solution_str)
    return 1.0


async def misbehaves_async(data_source, solution_str, ground_truth, extra_info):
    _misbehave(solution_str)
    if solution_str == "crash later":
        asyncio.get_running_loop().call_later(0.05, os._exit, 9)
        await asyncio.sleep(60)
    if solution_str == "sleep":
        await asyncio.sleep(3600)
    if solution_str == "stubborn":
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
    if solution_str == "callback":
        # The loop is blocked by code that belongs to no call.
        asyncio.get_running_loop().call_soon(_misbehave, "loop")
        await asyncio.sleep(3600)
    if solution_str == "background":
        # The loop is blocked by a task that the call started.
        await asyncio.gather(_spin(), asyncio.sleep(3600))
    await asyncio.sleep(float(extra_info.get("seconds", 0.02)))
    return 1.0


async def _spin():
    await asyncio.sleep(0)
    while True:
        pass


def _misbehave(solution_str):
    if solution_str == "loop":
        while True:
            pass
    if solution_str == "regex":
        # The match runs in C and holds the interpreter's lock.
        re.match(r"(a+)+$", "a" * 60 + "b")
    if solution_str == "exit":
        os._exit(7)
    if solution_str == "sys.exit":
        sys.exit(3)
    if solution_str == "raise":
        raise KeyError("answer")
    if solution_str == "print":
        print("the function prints this")
    if solution_str == "slow":
        time.sleep(0.3)


def needs_more(data_source, solution_str, ground_truth, extra_info, judge_url):
    return 1.0


def batch(data_sources, solution_strs, ground_truths, extra_infos):
    return [1.0] * len(solution_strs)


def two(answer, truth):
    return 1.0


not_callable = 7


class Manager:
    def __init__(self, config, tokenizer):
        pass

    async def run_single(self, data):
        return {"reward_score": 1.0, "reward_extra_info": {}}


class _Opens:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def writes_to_the_server(data_source, solution_str, ground_truth, extra_info):
    """Sends the server a pickle that creates the file `extra_info["path"]`, or other invalid messages."""
    if solution_str == "fine":
        return 1.0
    connection = next(one for one in gc.get_objects() if isinstance(one, Connection))
    if solution_str == "pickle":
        connection.send(_Opens(extra_info["path"]))
    else:
        connection.send_bytes(solution_str.encode())
    return 0.0


def attacks(data_source, solution_str, ground_truth, extra_info):
    """Tries to read the server's secrets, and detaches a process; ends its process for the response `end`."""
    if solution_str == "end":
        os._exit(9)

    def tried(path, size=-1):
        try:
            with open(path, "rb") as file:
                return repr(file.read(size))
        except OSError as error:
            return type(error).__name__

    detached = subprocess.run(
        ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True
    )
    with open("/proc/self/status") as status:
        privileges = next(line.split()[1] for line in status if line.startswith("NoNewPrivs"))
    return {
        "score": 1.0,
        "names": list(os.environ),
        "environ": tried(f"/proc/{solution_str}/environ"),
        "memory": tried(f"/proc/{solution_str}/mem", 1),
        "no_new_privileges": privileges,
        "folder": os.environ["TMPDIR"],
        "detached": int(detached.stdout),
    }
