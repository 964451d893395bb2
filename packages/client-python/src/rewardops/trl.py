"""
TRL: reward functions for GRPOTrainer.

    from rewardops.trl import reward_function

    trainer = GRPOTrainer(model, reward_funcs=reward_function(run="my-run"), train_dataset=dataset, args=config)

Completions are scored whole; `rewardops.turns` describes how messages and tool calls become text. Images are
refused, unless `media` is "placeholder" or "send". A sample without a score has the reward None, which TRL leaves out.
With several reward functions, choose `multi_objective_aggregation="normalize_then_sum"`, because TRL's default adds a
None as 0. The package imports without trl.
"""

from __future__ import annotations

from typing import Any

from rewardops.adapters import Connection, run_name
from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.rewards import OnFailure, Reward, reward_spec
from rewardops.samples import plain, prepare, prompt_uid
from rewardops.turns import completion_sent

#: Columns of a dataset that may hold the ground truth; the first one present is used.
GROUND_TRUTH_COLUMNS = ("ground_truth", "answer", "solution", "label", "target")
#: Arguments that TRL passes in addition to the dataset's columns.
_OF_TRL = frozenset(("trainer_state", "log_extra", "log_metric", "environments"))


def reward_function(
    url: str | None = None,
    api_key: str | None = None,
    *,
    run: str | None = None,
    reward: Reward = None,
    on_failure: OnFailure = None,
    data_source: str | None = None,
    ground_truth: str | None = None,
    split: str = "train",
    name: str = "rewardops",
    **client: Any,
) -> RewardFunction:
    """
    Creates an asynchronous reward function that scores a step's completions as one batch in the service.

    `data_source`: selects the rule; default the column `data_source`. `ground_truth`: the column with the ground
    truth; default the first of GROUND_TRUTH_COLUMNS. The column `prompt_id`, if present, identifies prompts over the
    steps. Other columns become `extra_info`. `name`: name of the function's metrics in TRL. `client`: `timeout_s`
    `connect_s` `outage_s` `http` `media`, as in AsyncRewardOps. The function raises RewardOpsError if the service cannot
    be reached.
    """
    return RewardFunction(
        name=name,
        run=run_name(run, "trl"),
        split=split,
        reward=reward_spec(reward, on_failure),
        data_source=data_source,
        ground_truth=ground_truth,
        connection=Connection(url, api_key, **client),
    )


async def _like_this(prompts: list[Any], completions: list[Any], **columns: Any) -> Any: ...


class RewardFunction:
    """
    The result of `reward_function`. It is an object, because TRL's asynchronous trainer sends it to another process and a
    closure cannot be pickled. It has the attributes by which `inspect` recognizes a coroutine function, because some
    releases of TRL check the object itself. `__name__` names its metrics in TRL.
    """

    __code__ = _like_this.__code__
    __defaults__ = None
    __kwdefaults__ = None

    def __init__(
        self,
        *,
        name: str,
        run: str,
        split: str,
        reward: dict[str, Any] | None,
        data_source: str | None,
        ground_truth: str | None,
        connection: Connection,
    ) -> None:
        self.__name__ = name
        self.run = run
        self.split = split
        self.reward = reward
        self.data_source = data_source
        self.ground_truth = ground_truth
        self.connection = connection

    async def __call__(
        self, prompts: list[Any], completions: list[Any], **columns: Any
    ) -> list[float | None]:
        """Called by TRL: returns the rewards in order, None for samples that were not scored. Raises RewardOpsError."""
        log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
        state = columns.get("trainer_state")
        media = self.connection.client.media
        prepared = prepare(_samples(self, prompts, completions, columns, media), media=media)
        scores = await self.connection.run(
            self.connection.client.rm_score_prepared(
                prepared,
                None,
                run=self.run,
                step=getattr(state, "global_step", None),
                split=self.split,
                reward=self.reward,
            )
        )
        if callable(log_extra):
            sample_ids = [f"{scores.batch_id}-{i}" for i in scores.index]
            log_extra(f"{self.__name__}_sample", sample_ids)
        if callable(log_metric):
            log_metric(f"{self.__name__}/failed", float(len(scores.failed)))
        return scores.score


def _samples(
    function: RewardFunction,
    prompts: list[Any],
    completions: list[Any],
    columns: dict[str, Any],
    media: str,
) -> list[dict[str, Any]]:
    ids = columns.pop("completion_ids", None)
    rows = {
        key: values
        for key, values in columns.items()
        if key not in _OF_TRL and isinstance(values, (list, tuple)) and len(values) == len(prompts)
    }
    sources = rows.pop("data_source", None)
    if function.data_source is None and sources is None and function.reward is None:
        raise RewardOpsError(
            "The rule is unknown: the dataset has no column data_source.",
            reason=INVALID_INPUT,
            hint='Use reward_function(data_source="openai/gsm8k"), or a reward="…" that needs no rule.',
        )
    column = function.ground_truth
    if column is not None and column not in rows:
        raise RewardOpsError(
            f"The dataset has no column {column!r} for the ground truth.",
            reason=INVALID_INPUT,
        )
    if column is None:
        column = next((name for name in GROUND_TRUTH_COLUMNS if name in rows), None)
    truths = rows.pop(column) if column is not None else None
    prompt_ids = rows.pop("prompt_id", None)
    samples = []
    for i, (prompt, completion) in enumerate(zip(prompts, completions)):
        samples.append(
            {
                # TRL gives each process a slice of the step, which may split a group. A uid derived from the prompt is
                # the same in all processes.
                "uid": prompt_uid(prompt),
                "prompt_id": None if prompt_ids is None else prompt_ids[i],
                "data_source": function.data_source or (sources[i] if sources else "trl"),
                "prompt": prompt,
                "response": completion_sent(completion, media),
                "ground_truth": None if truths is None else truths[i],
                "extra_info": {key: _kept(values[i]) for key, values in rows.items()},
                "response_length": None if ids is None else len(ids[i]),
            }
        )
    return samples


def _kept(value: Any) -> Any:
    # Values that are not JSON, such as images, become the name of their type.
    try:
        return plain(value)
    except TypeError as error:
        return f"<{error}>"
