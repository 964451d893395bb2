"""Calls of the service: tRPC over HTTP, plain JSON."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit


class ServiceError(Exception):
    """What the service answered, or why it did not. `reason` is its stable word; None where it gave none."""

    def __init__(
        self, message: str, *, reason: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status

    @property
    def may_pass(self) -> bool:
        """True where the same call may succeed later: nobody answered, or the service is starting or overloaded."""
        return self.status is None or self.status == 429 or self.status >= 500


class ServiceClient:
    """One service by its address. A connection a call; what the environment says of proxies is not looked at."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{url!r} is not an address of a service, such as http://127.0.0.1:3000"
            )
        self.url = url
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._base = parts.path.rstrip("/")
        self._api_key = api_key
        self._timeout_s = timeout_s

    def mutate(self, procedure: str, given: dict[str, Any]) -> Any:
        """Calls a mutation and gives its result. Raises ServiceError with one sentence that says what is wrong."""
        headers = {"Content-Type": "application/json"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        connection = self._connection()
        try:
            connection.request(
                "POST", f"{self._base}/api/trpc/{procedure}", json.dumps(given), headers
            )
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException, socket.timeout) as error:
            raise ServiceError(f"{self.url} does not answer: {error}") from error
        finally:
            connection.close()
        return self._read(answer.status, body)

    def _connection(self) -> http.client.HTTPConnection:
        if self._https:
            return http.client.HTTPSConnection(
                self._host,
                self._port,
                timeout=self._timeout_s,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _read(self, status: int, body: bytes) -> Any:
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if status == 200 and isinstance(value, dict) and "result" in value:
            return value["result"].get("data")
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            raise ServiceError(
                f"{self.url} answered {status}, not as a rewardops service does: check the address",
                status=status,
            )
        data = error.get("data") or {}
        message = str(error.get("message", f"answered {status}"))
        if data.get("hint"):
            message = f"{message} {data['hint']}"
        raise ServiceError(message, reason=data.get("reason"), status=status)
