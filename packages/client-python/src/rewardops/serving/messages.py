"""Messages of a function process to the server, which checks them: the function can write to their connection too."""

from __future__ import annotations

import json
import math
from multiprocessing.connection import Connection
from typing import Any

#: A longer message is not read.
MAX_BYTES = 64 << 20

#: Types of a message's other values, by its first value.
_TYPES: dict[str, list[type]] = {"ready": [bool], "failed": [str], "done": [int, dict]}


def send(connection: Connection, *message: Any) -> None:
    """Sends `("ready", is_async)`, `("failed", why)` or `("done", id, entry)`."""
    # Unlike a pickle, JSON cannot make the server run code.
    connection.send_bytes(json.dumps(message, allow_nan=False).encode("ascii"))


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
