"""What is raised when the service cannot do what was asked: one class, one sentence."""

from __future__ import annotations

#: Reasons of the client's own, beside those of the service (docs/api.md).
UNREACHABLE = "unreachable"
NOT_REWARDOPS = "not_rewardops"
REDIRECTED = "redirected"
UNSUPPORTED_VERSION = "unsupported_version"
UNAUTHORIZED = "unauthorized"
INVALID_INPUT = "invalid_input"
TIMEOUT = "timeout"
NOT_SCORED = "not_scored"
CLOSED = "closed"


class RewardOpsError(Exception):
    """
    A call that was refused, or that nobody answered. Its text is one sentence that says what is wrong, and what to do.

    `reason`: a stable word, of the service (docs/api.md) or one of this module. `hint`: what to do about it.
    `request_id`: under which the service logged it; None where it never answered. `status`: of the HTTP answer.
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
        # Exceptions with keyword arguments do not survive pickling by themselves, and trainers' workers are processes.
        state = {
            "reason": self.reason,
            "hint": self.hint,
            "request_id": self.request_id,
            "status": self.status,
            "retry_after_s": self.retry_after_s,
        }
        return (_made_again, (type(self), self.message, state))

    @property
    def may_pass(self) -> bool:
        """True where the same call may succeed later: nobody answered, or the service is starting or overloaded."""
        return self.status is None or self.status == 429 or self.status >= 500


def _made_again(
    kind: type[RewardOpsError], message: str, state: dict[str, object]
) -> RewardOpsError:
    return kind(message, **state)  # type: ignore[arg-type]
