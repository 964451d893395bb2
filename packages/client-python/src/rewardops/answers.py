"""Classification of HTTP answers: a result, a temporary failure, or a refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rewardops.errors import NOT_REWARDOPS, REDIRECTED, UNREACHABLE, RewardOpsError
from rewardops.http_answer import Answer


@dataclass(frozen=True)
class Result:
    """The result of a procedure."""

    data: Any


@dataclass(frozen=True)
class Later:
    """A temporary failure. `wait_s`: the delay that the service requests; None if it gives none."""

    wait_s: float | None
    error: RewardOpsError


def read_answer(url: str, procedure: str, answer: Answer) -> Result | Later:
    """
    Returns the result, or Later for a temporary failure: the service is starting, stopping, overloaded, unreachable
    behind its proxy, or had an `internal` error. Raises RewardOpsError for a refusal, or if the server is not
    rewardops.
    """
    if 300 <= answer.status < 400:
        raise RewardOpsError(
            f"{url} redirects to {answer.headers.get('location', 'elsewhere')[:200]}.",
            reason=REDIRECTED,
            hint="Use the service's own URL: redirects are not followed.",
            status=answer.status,
        )
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if answer.status == 200 and isinstance(value, dict) and isinstance(value.get("result"), dict):
        return Result(value["result"].get("data"))
    failure = value.get("error") if isinstance(value, dict) else None
    data = failure.get("data") if isinstance(failure, dict) else None
    if not isinstance(failure, dict) or not isinstance(data, dict) or "reason" not in data:
        if answer.status in (502, 503, 504):
            # A proxy answers for the unavailable service.
            silence = RewardOpsError(
                f"{url} does not answer: the proxy in front of it returned {answer.status}.",
                reason=UNREACHABLE,
                hint="Is the service running?",
                status=answer.status,
            )
            return Later(None, silence)
        if answer.status == 413:
            raise RewardOpsError(
                f"A proxy in front of {url} refused the request as too large (HTTP 413).",
                reason="body_too_large",
                hint="Raise the proxy's limit (nginx: client_max_body_size), or submit smaller batches.",
                status=answer.status,
            )
        raise not_rewardops(url, f"answered {answer.status}, which no rewardops service does")
    after_ms = data.get("retryAfterMs")
    after_s = after_ms / 1000 if isinstance(after_ms, (int, float)) else _header_s(answer)
    error = RewardOpsError(
        str(failure.get("message", f"answered {answer.status}")),
        reason=str(data["reason"]),
        hint=data.get("hint"),
        request_id=data.get("requestId") or answer.headers.get("x-request-id"),
        status=answer.status,
        retry_after_s=after_s,
    )
    if answer.status in (429, 503) and error.reason != "query_timeout":
        return Later(after_s if after_s is not None else 1.0, error)
    if error.reason == "internal":
        return Later(None, error)
    if error.reason == "not_found" and procedure == "session.get":
        raise not_rewardops(url, "has no session.get")
    raise error


def not_rewardops(url: str, what: str) -> RewardOpsError:
    return RewardOpsError(
        f"{url} {what}.",
        reason=NOT_REWARDOPS,
        hint="Check the URL: host, port and, behind a proxy, the path.",
    )


def _header_s(answer: Answer) -> float | None:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "")))
    except ValueError:
        return None
