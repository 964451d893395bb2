"""Telling the service of this scorer, and that it goes."""

from __future__ import annotations

import time
from typing import Any, Callable

from rewardops.service import ServiceClient, ServiceError

#: Between two tries while the service does not answer, in seconds.
RETRY_S = 1.0


def register(
    service: ServiceClient,
    *,
    name: str,
    url: str,
    model: str,
    max_in_flight: int,
    api_key: str | None,
    wait_s: float,
    stopped: Callable[[], bool],
) -> dict[str, Any]:
    """
    Registers a scorer; the same name again replaces what it was. A service that does not answer, or is starting, is
    asked again for `wait_s` seconds, unless `stopped`; a refusal is final. Raises ServiceError.
    """
    wanted: dict[str, Any] = {
        "name": name,
        "url": url,
        "engine": "http",
        "kind": "discriminative",
        "model": model,
        "maxInFlight": max_in_flight,
    }
    if api_key is not None:
        wanted["apiKey"] = api_key
    ends = time.monotonic() + wait_s
    while True:
        try:
            answer: dict[str, Any] = service.mutate("servers.register", wanted)
            return answer
        except ServiceError as error:
            # 503 before it takes work; what it says of this scorer (4xx) will not change.
            if not error.may_pass or stopped() or time.monotonic() + RETRY_S > ends:
                raise
        time.sleep(RETRY_S)
