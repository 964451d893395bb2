"""Converts the rewards and failure policies that callers pass to the service's `reward`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Union

from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.samples import plain

#: A reward model's name, or the service's `reward` (docs/api.md). None means the rule of `data_source`.
Reward = Union[str, Mapping[str, Any], None]
#: A number that replaces a missing score; `null`, `group_mean`, `drop_group` or `fail_batch`; or the service's
#: `onFailure`.
OnFailure = Union[float, str, Mapping[str, Any], None]


def reward_spec(reward: Reward, on_failure: OnFailure = None) -> Optional[dict[str, Any]]:
    """The service's `reward`; None if nothing is given. Raises RewardOpsError (`invalid_input`)."""
    if isinstance(reward, str):
        spec: dict[str, Any] = {"model": reward}
    elif isinstance(reward, Mapping):
        spec = plain(reward)
    elif reward is None:
        spec = {}
    else:
        raise RewardOpsError(
            f"reward is a {type(reward).__name__}; it must be a reward model's name or a dict.",
            reason=INVALID_INPUT,
        )
    if on_failure is not None:
        spec["onFailure"] = _policy(on_failure)
    return spec or None


def _policy(on_failure: Any) -> dict[str, Any]:
    if isinstance(on_failure, str):
        return {"policy": on_failure}
    if isinstance(on_failure, Mapping):
        made: dict[str, Any] = plain(on_failure)
        return made
    return {"policy": "constant", "value": float(on_failure)}
