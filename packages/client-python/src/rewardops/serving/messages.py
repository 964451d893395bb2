"""Messages of a function process to the server, which checks them: the function can write to their connection too."""

from __future__ import annotations

import json
import math
from multiprocessing.connection import Connection
from typing import Any

from rewardops.serving.results import brief, error_entry

#: Maximum size of a message. A longer message is not read.
MAX_BYTES = 64 << 20

#: Types of a message's other values, by its first value.
_TYPES: dict[str, list[type]] = {"ready": [bool], "failed": [str], "done": [int, dict]}


def send(connection: Connection, *message: Any) -> None:
    """
    Sends `("ready", is_async)`, `("failed", why)` or `("done", id, entry)`. An entry that is too large is replaced by an
    error.
    """
    body = _encoded(message)
    if len(body) > MAX_BYTES and message[0] == "done":
        body = _encoded(("done", message[1], _too_large(message[2])))
    connection.send_bytes(body)


def _encoded(value: Any) -> bytes:
    # Unlike a pickle, JSON cannot make the server run code.
    return json.dumps(value, allow_nan=False).encode("ascii")


def _too_large(entry: dict[str, Any]) -> dict[str, Any]:
    size = len(_encoded(entry))
    largest = max(entry, key=lambda key: len(_encoded(entry[key])))
    return error_entry(
        "function_error",
        f"the function returned {size} bytes as JSON; {MAX_BYTES} is the maximum: "
        f"return less extra info, above all in {brief(largest)}",
    )


def receive(connection: Connection) -> tuple[Any, ...]:
    """Waits for a message. Raises EOFError or OSError if the connection ended, and ValueError for an invalid message."""
    message = json.loads(
        connection.recv_bytes(MAX_BYTES), parse_constant=_finite, parse_float=_finite
    )
    if not isinstance(message, list) or not message:
        raise ValueError("the process sent no message")
    kind, values = str(message[0]), message[1:]
    if _TYPES.get(kind) != [type(value) for value in values] or (
        kind == "done" and not _is_entry(values[1])
    ):
        raise ValueError("the process sent an invalid message")
    return (kind, *values)


def _is_entry(entry: dict[str, Any]) -> bool:
    if "error" in entry:
        return isinstance(entry["error"], str) and isinstance(entry.get("reason"), str)
    return type(entry.get("score")) in (int, float)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
