"""Registration of this scorer with the service, and its removal."""

from __future__ import annotations

import time
from typing import Any, Callable

from rewardops.service import ServiceClient, ServiceError

#: Seconds between attempts while the service does not answer.
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
    Registers a scorer; an existing server of the same name is updated. A service that is unreachable or starting is retried
    for `wait_s` seconds, unless `stopped`; a refusal is final. Raises ServiceError.
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
            # 503 means that the service is starting; a 4xx about this scorer will not change.
            if not error.may_pass or stopped() or time.monotonic() + RETRY_S > ends:
                raise
        time.sleep(RETRY_S)
