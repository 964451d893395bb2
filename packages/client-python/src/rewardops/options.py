"""What calls take beside their samples."""

from __future__ import annotations

from typing import Any, TypedDict

from rewardops.rewards import OnFailure, Reward
from rewardops.samples import Prompt


class SubmitOptions(TypedDict, total=False):
    """
    Of everything that submits. `step`: of the run; default the DataProto's own, else 0. `split`: "train" or "val".
    `priority`: higher goes first. `deadline_ms`: from acceptance; what is not scored by then fails with the reason
    `deadline`. `idempotency_key`: the same key and content is the same batch.
    """

    run: str | None
    step: int | None
    split: str
    reward: Reward
    on_failure: OnFailure
    open: bool
    priority: int
    deadline_ms: int | None
    idempotency_key: str | None
    timeout_s: Any


class ScoreOptions(TypedDict, total=False):
    """Of `compute_score`. `uid` and `prompt`: default those of `extra_info`. `batch_id`: of an open batch to join."""

    prompt: Prompt | None
    uid: str | None
    response_length: int | None
    run: str | None
    step: int
    split: str
    reward: Reward
    on_failure: OnFailure
    batch_id: str | None
    idempotency_key: str | None
    timeout_s: Any
