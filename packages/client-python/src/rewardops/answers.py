"""What an HTTP answer of the service means: a result, something that may pass, or a refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rewardops.errors import NOT_REWARDOPS, REDIRECTED, UNREACHABLE, RewardOpsError
from rewardops.http_answer import Answer


@dataclass(frozen=True)
class Result:
    """What a procedure gave."""

    data: Any


@dataclass(frozen=True)
class Later:
    """What may pass. `wait_s`: what the service asked to wait; None where it did not say."""

    wait_s: float | None
    error: RewardOpsError


def read_answer(url: str, procedure: str, answer: Answer) -> Result | Later:
    """
    The result, or what may pass: the service is starting, stopping or overloaded, not there behind its proxy, or met a
    fault of its own (`internal`). Raises RewardOpsError for the rest: a refusal, or somebody who is no rewardops.
    """
    if 300 <= answer.status < 400:
        raise RewardOpsError(
            f"{url} redirects to {answer.headers.get('location', 'elsewhere')[:200]}.",
            reason=REDIRECTED,
            hint="Give the address of the service itself: redirects are not followed.",
            status=answer.status,
        )
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if answer.status == 200 and isinstance(value, dict) and isinstance(value.get("result"), dict):
        return Result(value["result"].get("data"))
    told = value.get("error") if isinstance(value, dict) else None
    data = told.get("data") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(data, dict) or "reason" not in data:
        if answer.status in (502, 503, 504):
            # A proxy in front of a service that is not there.
            silence = RewardOpsError(
                f"{url} does not answer: what stands in front of it says {answer.status}.",
                reason=UNREACHABLE,
                hint="Is the service running?",
                status=answer.status,
            )
            return Later(None, silence)
        raise not_rewardops(url, f"answered {answer.status}, not as a rewardops service does")
    after_ms = data.get("retryAfterMs")
    after_s = after_ms / 1000 if isinstance(after_ms, (int, float)) else _header_s(answer)
    error = RewardOpsError(
        str(told.get("message", f"answered {answer.status}")),
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
        raise not_rewardops(url, "answers, but knows no session.get")
    raise error


def not_rewardops(url: str, what: str) -> RewardOpsError:
    """Somebody else answers at the address."""
    return RewardOpsError(
        f"{url} {what}.",
        reason=NOT_REWARDOPS,
        hint="Check the address: host, port and, behind a proxy, the path.",
    )


def _header_s(answer: Answer) -> float | None:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "")))
    except ValueError:
        return None
