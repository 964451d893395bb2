"""
verl: a reward manager and a reward function, scored by the service.

A manager (`reward.reward_manager.source=importlib`), which receives the whole row with uid, tokens and step:

    reward:
      reward_manager:
        source: importlib
        name: RewardOpsRewardManager
        module:
          path: pkg://rewardops.verl
      rewardops:
        url: http://127.0.0.1:3000
        run: my-run

Or a function (`custom_reward_function`), for any of verl's managers:

    reward:
      custom_reward_function:
        path: pkg://rewardops.verl
        name: compute_score
        reward_kwargs:
          url: http://127.0.0.1:3000
          run: my-run

Both raise for a sample without a score, unless `on_failure` is a number. That number is then the reward, and the extra info
has `rewardops_failed` 1. The package imports without verl; only the manager's class needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rewardops.adapters import CLIENT_SETTINGS, connection, failure_policy, run_name, settled
from rewardops.dataproto import samples_of
from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.samples import whole_or_none
from rewardops.scores import ScoredSample

if TYPE_CHECKING:

    class RewardOpsRewardManager:
        """See `manager_class`."""

        def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None) -> None: ...

        async def run_single(self, data: Any) -> dict[str, Any]: ...


class ExtraInfo(dict):  # type: ignore[type-arg]
    """
    A sample's extra info, in which a missing key is None. verl reads the first sample's keys from all samples, and a
    plain dict would fail the step.
    """

    def __missing__(self, key: str) -> None:
        return None


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """
    Scores one sample in the service; can be used as verl's asynchronous reward function.

    `settings` (verl's `reward_kwargs`): `url` `api_key` `run` `step` `split` `reward` `on_failure` `timeout_s` `connect_s`
    `outage_s` `max_connections` `http` `media`. `step`: default `max_global_steps` of `extra_info`, else 0. verl's other
    arguments (`reward_router_address`, …) are ignored. Returns `score`, the reward extra info, `acc` and
    `rewardops_failed`. Raises RewardOpsError.
    """
    given = _Settings(settings)
    result = await given.connection.run(
        given.scored(data_source, solution_str, ground_truth, extra_info)
    )
    return _in_verls_form(result)


def compute_score_sync(
    data_source: str,
    solution_str: str,
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`compute_score` for synchronous callers, such as verl's older managers; each call blocks a thread."""
    given = _Settings(settings)
    return _in_verls_form(
        given.connection.wait(given.scored(data_source, solution_str, ground_truth, extra_info))
    )


#: Arguments that verl passes to every function and that are ignored.
_OF_VERL = ("reward_router_address", "reward_model_tokenizer", "prompt")


class _Settings:
    """The adapter's settings, from `reward_kwargs` or a configuration."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        left = {key: value for key, value in given.items() if key not in _OF_VERL}
        client = {key: left.pop(key, None) for key in CLIENT_SETTINGS}
        self.connection = connection(left.pop("url", None), left.pop("api_key", None), **client)
        self.run = run_name(left.pop("run", None), "verl")
        step = left.pop("step", None)
        # A configuration may take the step from an environment variable.
        if isinstance(step, str):
            step = int(step) if step.isdecimal() else step or None
        self.step = whole_or_none(step, "step")
        self.split = left.pop("split", None) or "train"
        on_failure = left.pop("on_failure", None)
        self.reward = failure_policy(
            settled(left.pop("reward", None)), "raise" if on_failure is None else on_failure
        )
        if left:
            raise RewardOpsError(
                f"rewardops.verl has no setting {sorted(left)[0]!r}.", reason=INVALID_INPUT
            )

    async def scored(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any,
        extra_info: Any,
        *,
        row_step: int | None = None,
        **more: Any,
    ) -> ScoredSample:
        step = self.step if row_step is None else row_step
        if step is None:
            step = _step_of(extra_info or {}) or 0
        return await self.connection.client.compute_score(
            data_source,
            solution_str,
            ground_truth,
            extra_info,
            **{
                "run": self.run,
                "step": step,
                "split": self.split,
                "reward": self.reward,
                **more,
            },
        )


def _step_of(extra_info: Mapping[str, Any]) -> int | None:
    """The step of the model that ended the response. verl's managers add it to the extra info."""
    return _known(extra_info, "max_global_steps")


def _known(about: Mapping[str, Any], name: str) -> int | None:
    try:
        step = whole_or_none(about.get(name), name)
    except RewardOpsError:
        # A dataset may use this name for a value that is not a step.
        return None
    return None if step is None or step < 0 else step


def _in_verls_form(result: ScoredSample) -> dict[str, Any]:
    """Raises RewardOpsError (`not_scored`) if there is no score."""
    score = float(result)
    info = ExtraInfo(result.reward_extra_info)
    info.pop("score", None)
    info.setdefault("acc", score)
    info["rewardops_failed"] = 0.0 if result.reason is None else 1.0
    return ExtraInfo({"score": score, **info})


def manager_class() -> Any:
    """
    The reward manager class, a subclass of the installed verl's RewardManagerBase; `RewardOpsRewardManager` is this class.
    Raises ImportError if verl is missing or older than 0.7.
    """
    global _manager_class
    if _manager_class is not None:
        return _manager_class
    try:
        from verl.experimental.reward_loop.reward_manager.base import (  # type: ignore[import-not-found]
            RewardManagerBase,
        )
    except ImportError as error:
        raise ImportError(
            "rewardops.verl.RewardOpsRewardManager needs verl 0.7 or newer in this environment "
            f"({error}); rewardops.verl.compute_score does not need verl."
        ) from error

    class RewardOpsRewardManager(RewardManagerBase):  # type: ignore[misc]
        """
        Scores each row in the service as it arrives. Its settings are `reward.rewardops` (or `rewardops`) of the
        configuration, with the names of `compute_score`'s settings.
        """

        def __init__(
            self,
            config: Any,
            tokenizer: Any,
            compute_score: Any = None,
            reward_router_address: Any = None,
            reward_model_tokenizer: Any = None,
            **_: Any,
        ) -> None:
            try:
                super().__init__(config, tokenizer, compute_score)
            except TypeError:
                # Before verl 0.8, the base class takes only two arguments.
                super().__init__(config, tokenizer)
            self._settings = _Settings(_configured(config))

        async def run_single(self, data: Any) -> dict[str, Any]:
            """Scores one row, or the last row of a trajectory with several outputs."""
            settings = self._settings
            data = data[-1:]
            # Decoding a long response takes milliseconds, and thousands of calls share the loop.
            sample = await asyncio.get_running_loop().run_in_executor(
                None, lambda: next(samples_of(data, self.tokenizer))
            )
            about = getattr(data, "meta_info", None) or {}
            step = _known(about, "global_steps")
            result = await settings.connection.run(
                settings.scored(
                    sample["dataSource"],
                    sample["response"],
                    sample["groundTruth"],
                    sample["extraInfo"],
                    prompt=sample["prompt"],
                    uid=sample.get("uid"),
                    response_length=sample["responseLength"],
                    # A streamed row may have its step in the extra info instead.
                    row_step=_step_of(sample["extraInfo"]) if step is None else step,
                    split="val" if about.get("validate") else settings.split,
                )
            )
            reward = _in_verls_form(result)
            return {"reward_score": reward["score"], "reward_extra_info": reward}

    # Lets Ray's workers import the class by name.
    RewardOpsRewardManager.__module__ = __name__
    RewardOpsRewardManager.__qualname__ = "RewardOpsRewardManager"
    _manager_class = RewardOpsRewardManager
    return RewardOpsRewardManager


_manager_class: Any = None


def _configured(config: Any) -> Mapping[str, Any]:
    reward = _section(config, "reward")
    for where in (reward, config):
        found = _section(where, "rewardops")
        if found is not None:
            return {str(key): found[key] for key in found}
    return {}


def _section(config: Any, name: str) -> Any:
    get = getattr(config, "get", None)
    return get(name) if callable(get) else getattr(config, name, None)


def __getattr__(name: str) -> Any:
    # Created on first use, because users of the function alone do not need verl.
    if name == "RewardOpsRewardManager":
        return manager_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
