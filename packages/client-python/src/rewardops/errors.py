"""The client's only exception class, and its reasons."""

from __future__ import annotations

#: Reasons of the client, in addition to those of the service (docs/api.md).
UNREACHABLE = "unreachable"
NOT_REWARDOPS = "not_rewardops"
REDIRECTED = "redirected"
UNSUPPORTED_VERSION = "unsupported_version"
UNAUTHORIZED = "unauthorized"
INVALID_INPUT = "invalid_input"
TIMEOUT = "timeout"
NOT_SCORED = "not_scored"
CLOSED = "closed"
MISSING_PACKAGE = "missing_package"


class RewardOpsError(Exception):
    """
    A failed call, invalid input or a missing score. Its text states the problem and the remedy.

    `reason`: a stable code of the service (docs/api.md) or of this module. `hint`: the remedy. `request_id`:
    identifies the call in the service's log; None if there was no answer. `status`: the HTTP status.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        hint: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message = message
        self.reason = reason
        self.hint = hint
        self.request_id = request_id
        self.status = status
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        # Trainers pass exceptions between processes. Without this method, exceptions with keyword arguments cannot be
        # pickled.
        state = {
            "reason": self.reason,
            "hint": self.hint,
            "request_id": self.request_id,
            "status": self.status,
            "retry_after_s": self.retry_after_s,
        }
        return (_rebuilt, (type(self), self.message, state))

    @property
    def may_pass(self) -> bool:
        """Whether a repeated call may succeed: the error has no HTTP status, or the status is 429 or 5xx."""
        return self.status is None or self.status == 429 or self.status >= 500


def _rebuilt(
    kind: type[RewardOpsError], message: str, state: dict[str, object]
) -> RewardOpsError:
    return kind(message, **state)  # type: ignore[arg-type]
