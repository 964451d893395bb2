"""Keyword options of calls."""

from __future__ import annotations

from typing import Any, TypedDict

from rewardops.rewards import OnFailure, Reward
from rewardops.samples import Prompt


class SubmitOptions(TypedDict, total=False):
    """
    Options of every submit. `step`: default the DataProto's, else 0. `split`: "train" or "val". `priority`: higher
    values are scored first. `deadline_ms`: time limit, counted from acceptance; samples without a score then fail
    (`deadline`). `idempotency_key`: a submit with the same key and content returns the same batch.
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
    """
    Options of `compute_score`. `uid` and `prompt` default to those of `extra_info`. `batch_id`: an open batch to join.
    """

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
