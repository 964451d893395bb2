"""Event log: lines of text on stderr, or one JSON object per line on stdout."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

#: Maximum number of events of one kind logged in full per minute, so that a failing function does not fill a disk.
FULL_A_MINUTE = 60


class EventLog:
    """Logs events. Thread-safe."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._lock = threading.Lock()
        self._minute = 0
        self._said: dict[str, int] = {}

    def say(self, event: str, fields: dict[str, Any]) -> None:
        with self._lock:
            minute = int(time.monotonic() // 60)
            if minute != self._minute:
                for name, count in self._said.items():
                    if count > FULL_A_MINUTE:
                        self._write("left_out", {"of": name, "count": count - FULL_A_MINUTE})
                self._minute = minute
                self._said = {}
            self._said[event] = self._said.get(event, 0) + 1
            if self._said[event] <= FULL_A_MINUTE:
                self._write(event, fields)

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        try:
            if self._json:
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                print(json.dumps({"event": event, "at": at, **fields}), flush=True)
            else:
                words = " ".join(f"{key}={value}" for key, value in fields.items() if key != "detail")
                detail = f": {fields['detail']}" if "detail" in fields else ""
                text = f"{event.replace('_', ' ')}{': ' if words else ''}{words}{detail}"
                print(
                    text.encode("ascii", "backslashreplace").decode(), file=sys.stderr, flush=True
                )
        except (BrokenPipeError, OSError):
            pass  # The reader of the log is gone; scoring continues.
