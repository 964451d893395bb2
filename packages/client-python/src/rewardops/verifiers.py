"""
verifiers: rewards scored by the service.

Creates a reward function for a rubric (verifiers 0.1), or for a trace (0.3 and newer, `@vf.reward` or
`[env.taskset.task.rewards]`):

    rubric = vf.Rubric(funcs=[rubric_function(data_source="openai/gsm8k")])

    rewardops_reward = trace_reward(data_source="openai/gsm8k")

Completions are scored whole, with tool calls and results (`rewardops.turns`). A sample without a score raises: a
trace records the error and no reward; rubrics of 0.1 log it and use 0. With a number as `on_failure`, that number is
the reward. The rubric's state, or the trace's info, has the outcome under `rewardops`. The package imports without
verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from rewardops.adapters import Connection, failure_policy, run_name, settled
from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.rewards import Reward
from rewardops.samples import plain, prompt_uid, whole
from rewardops.scores import ScoredSample
from rewardops.turns import completion_sent

#: Fields of a task that may hold the ground truth; the first one present is used.
ANSWERS = ("answer", "ground_truth", "solution", "target")


class _Adapter:
    def __init__(
        self,
        url: str | None,
        api_key: str | None,
        run: str | None,
        step: int,
        reward: Reward,
        on_failure: Any,
        data_source: str | None,
        client: dict[str, Any],
    ) -> None:
        self.connection = Connection(url, api_key, **client)
        self.run = run_name(run, "verifiers")
        self.step = whole(step, "step")
        self.reward = failure_policy(settled(reward), on_failure)
        if data_source is None and self.reward is None:
            raise RewardOpsError(
                "The rule is unknown.",
                reason=INVALID_INPUT,
                hint='Pass data_source="openai/gsm8k", or a reward="…" that needs no rule.',
            )
        self.data_source = data_source or "verifiers"

    async def score(
        self, prompt: Any, completion: Any, answer: Any, extra_info: Mapping[str, Any]
    ) -> ScoredSample:
        given = prompt if prompt is not None else ""
        client = self.connection.client
        return await self.connection.run(
            client.compute_score(
                self.data_source,
                completion_sent(completion, client.media),
                answer,
                extra_info,
                prompt=given,
                uid=prompt_uid(given),
                run=self.run,
                step=self.step,
                reward=self.reward,
            )
        )


def rubric_function(
    url: str | None = None,
    api_key: str | None = None,
    *,
    data_source: str | None = None,
    run: str | None = None,
    step: int = 0,
    reward: Reward = None,
    on_failure: Any = "raise",
    name: str = "rewardops_reward",
    **client: Any,
) -> Callable[..., Any]:
    """
    Creates a rubric function for verifiers 0.1. `data_source`: selects the rule if no `reward` is given. `step`: the step
    of all samples, because verifiers does not pass the trainer's step. `on_failure`: "raise", or the reward of a failed
    sample. `client`: as in AsyncRewardOps. Raises RewardOpsError.
    """
    adapter = _Adapter(url, api_key, run, step, reward, on_failure, data_source, client)

    async def rewardops_reward(
        prompt: Any, completion: Any, answer: Any = "", state: Any = None, info: Any = None
    ) -> float:
        extra = dict(info) if isinstance(info, Mapping) else {}
        result = await adapter.score(prompt, completion, answer, extra)
        if isinstance(state, dict):
            state["rewardops"] = {
                "sample": result.id,
                "reason": result.reason,
                "detail": result.detail,
                **result.reward_extra_info,
            }
        return float(result)

    rewardops_reward.__name__ = name
    return rewardops_reward


def trace_reward(
    url: str | None = None,
    api_key: str | None = None,
    *,
    data_source: str | None = None,
    run: str | None = None,
    step: int = 0,
    reward: Reward = None,
    on_failure: Any = "raise",
    answer: str | None = None,
    name: str = "rewardops_reward",
    **client: Any,
) -> Callable[..., Any]:
    """
    Creates a trace reward for verifiers 0.3 or newer. `answer`: the task's field with the ground truth; default the
    first of ANSWERS. Other arguments as in `rubric_function`. The reward's extra info is stored in the trace's
    `info["rewardops"]`.
    """
    adapter = _Adapter(url, api_key, run, step, reward, on_failure, data_source, client)

    async def rewardops_reward(task: Any, trace: Any) -> float:
        fields = [answer] if answer is not None else list(ANSWERS)
        right = next((v for f in fields if (v := getattr(task, f, None)) is not None), None)
        result = await adapter.score(
            _prompt(task),
            produced(trace),
            right,
            {"task": getattr(task, "name", None) or getattr(task, "id", None)},
        )
        info = getattr(trace, "info", None)
        if isinstance(info, dict):
            info["rewardops"] = {
                "sample": result.id,
                "reason": result.reason,
                **result.reward_extra_info,
            }
        return float(result)

    rewardops_reward.__name__ = name
    return rewardops_reward


def _prompt(task: Any) -> Any:
    prompt = getattr(task, "prompt", None)
    system = getattr(task, "system_prompt", None)
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        if not system:
            return prompt
        prompt = [{"role": "user", "content": prompt}]
    messages = [_message(message) for message in prompt]
    return [{"role": "system", "content": system}, *messages] if system else messages


def produced(trace: Any) -> list[Any]:
    """
    The messages of a trace from the model's first message on, with tool calls, tool results and the environment's
    answers. Raises RewardOpsError (`invalid_input`) for a trace with several branches, which is not a single response.
    """
    branches = getattr(trace, "branches", None)
    if branches is None:
        return list(trace.assistant_messages)
    if len(branches) > 1:
        raise RewardOpsError(
            f"The trace has {len(branches)} branches, but a response has only one.",
            reason=INVALID_INPUT,
            hint="Score one branch with rewardops.verl.compute_score or AsyncRewardOps.compute_score.",
        )
    nodes = branches[0].nodes if branches else []
    first = next((i for i, node in enumerate(nodes) if node.sampled), len(nodes))
    return [node.message for node in nodes[first:]]


def _message(message: Any) -> dict[str, Any]:
    made: dict[str, Any] = plain(message)
    return {**made, "role": made.get("role", "assistant")}
