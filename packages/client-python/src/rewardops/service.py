"""A minimal client of the service for `serve-reward`."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any

from rewardops.address import parse_address
from rewardops.errors import NOT_REWARDOPS, UNREACHABLE, RewardOpsError

#: The exception of this module; an alias of RewardOpsError.
ServiceError = RewardOpsError


class ServiceClient:
    """Calls a service, each time on a new connection. Proxy settings of the environment are ignored."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 60.0) -> None:
        try:
            self._address = parse_address(url)
        except RewardOpsError as error:
            raise ValueError(error.message) from None
        self.url = url
        self._api_key = api_key
        self._timeout_s = timeout_s

    def mutate(self, procedure: str, given: dict[str, Any]) -> Any:
        """Calls a mutation and returns its result. Raises RewardOpsError."""
        headers = {"Content-Type": "application/json"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        connection = self._connection()
        try:
            connection.request(
                "POST", f"{self._address.base}/api/trpc/{procedure}", json.dumps(given), headers
            )
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException, socket.timeout) as error:
            raise RewardOpsError(
                f"{self.url} does not answer: {error}", reason=UNREACHABLE
            ) from error
        finally:
            connection.close()
        return self._read(answer.status, body)

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.https:
            return http.client.HTTPSConnection(
                self._address.host,
                self._address.port,
                timeout=self._timeout_s,
                context=ssl.create_default_context(),
            )
        return http.client.HTTPConnection(
            self._address.host, self._address.port, timeout=self._timeout_s
        )

    def _read(self, status: int, body: bytes) -> Any:
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if status == 200 and isinstance(value, dict) and "result" in value:
            return value["result"].get("data")
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            raise RewardOpsError(
                f"{self.url} answered {status}, which no rewardops service does: check the URL",
                reason=NOT_REWARDOPS,
                status=status,
            )
        data = error.get("data") or {}
        raise RewardOpsError(
            str(error.get("message", f"answered {status}")),
            reason=data.get("reason"),
            hint=data.get("hint"),
            request_id=data.get("requestId"),
            status=status,
        )
