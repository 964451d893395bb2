"""The figures of a run's steps as metrics for trackers such as Weights & Biases, MLflow and TensorBoard."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rewardops.errors import INVALID_INPUT, TIMEOUT, RewardOpsError

if TYPE_CHECKING:
    from rewardops.client import AsyncRewardOps

MAX_STEP = 2_147_483_647
#: Maximum number of steps per call of `rewards.components`, because a call covers at most this many batches.
COMPONENT_STEPS = 200
#: Maximum number of steps for which `runs.get` returns single steps instead of bins.
SINGLE_STEPS = 1000
#: Seconds to wait for the figures of ended batches. The service computes the figures within seconds. Missing figures
#: are left out.
ROLL_UP_S = 30.0
POLL_S = 0.25


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of a step. `values`: finite numbers by name; empty if the step's batch has not ended."""

    step: int
    batch_id: str
    #: Submission time of the batch, ISO 8601.
    submitted_at: str
    values: dict[str, float]


def metrics_of(
    step: Mapping[str, Any],
    pass_rate: float | None,
    components: Sequence[Mapping[str, Any]],
    split: str,
) -> dict[str, float]:
    """
    The metrics of a step of `runs.get` (docs/python.md#metrics). Figures that the service does not have are left out.
    `components`: `name`, `mean` and `std` of each component.
    """
    if step["n"] is None:
        return {}
    signals = step["groupSignals"] or {}
    groups, ended = sum(signals.values()), step["scored"] + step["failed"]
    wait_ms = step["waitMs"]
    found: dict[str, Any] = {
        "reward/mean": step["mean"],
        "reward/std": step["std"],
        "reward/min": step["min"],
        "reward/max": step["max"],
        "reward/pass_rate": pass_rate,
        "groups/no_signal_share": (groups - signals["varied"]) / groups if groups else None,
        "samples/scored": step["scored"],
        "samples/failed": step["failed"],
        "samples/failed_share": step["failed"] / ended if ended else None,
        "timing_s/reward": None if wait_ms is None else wait_ms / 1000,
        "rewardops/batch": int(step["batchId"][1:]),
    }
    for component in components:
        name = _part(component["name"])
        # Two names that differ only in characters that trackers do not accept become equal, so one gets a suffix.
        while f"rewards/{name}/mean" in found:
            name += "_"
        found[f"rewards/{name}/mean"] = component["mean"]
        found[f"rewards/{name}/std"] = component["std"]
    prefix = "val/" if split == "val" else ""
    return {
        prefix + name: float(value)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }


def _part(name: str) -> str:
    """A component's name in the characters that all trackers accept."""
    name = re.sub(r"[^\w.-]", "_", name)
    return name.replace(".", "_") if not name.strip(".") else name


async def metrics_of_step(
    client: AsyncRewardOps, run: str, split: str, step: int, deadline: float | None
) -> dict[str, float]:
    """The metrics of one step, once its batch has ended. `deadline` is a time of time.monotonic()."""
    while True:
        answer = await _get(client, run, split, step, step)
        if not answer["steps"]:
            raise RewardOpsError(
                f"The run {run!r} has no step {step} of the split {split!r}.",
                reason=INVALID_INPUT,
                hint="Submit the step's batch first.",
            )
        if answer["steps"][0]["n"] is not None:
            [found] = await _metrics(client, answer)
            return found.values
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise RewardOpsError(
                f"The figures of step {step} of the run {run!r} are not complete within the timeout.",
                reason=TIMEOUT,
                hint="The service may be busy; call again.",
            )
        await client.wait(answer["steps"][0]["batchId"], timeout_s=left)
        await asyncio.sleep(POLL_S)


async def metrics_of_run(
    client: AsyncRewardOps, run: str, split: str, first: int = 0, last: int = MAX_STEP
) -> AsyncIterator[list[StepMetrics]]:
    """The metrics of a range of steps in ascending order, at most SINGLE_STEPS at a time."""
    answer = await _get(client, run, split, first, last)
    if any(step["bin"] is not None for step in answer["steps"]):
        for start, end in _ranges(answer["steps"]):
            async for steps in metrics_of_run(client, run, split, start, end):
                yield steps
    elif answer["steps"]:
        yield await _metrics(client, answer)


def _ranges(bins: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Joins consecutive bins to ranges of at most SINGLE_STEPS steps. A larger bin is a range by itself."""
    ranges: list[tuple[int, int]] = []
    count = 0
    for one in bins:
        # An answer with bins may also have single steps.
        last, steps = (one["bin"]["last"], one["bin"]["steps"]) if one["bin"] else (one["step"], 1)
        if ranges and count + steps <= SINGLE_STEPS:
            ranges[-1] = (ranges[-1][0], last)
            count += steps
        else:
            ranges.append((one["step"], last))
            count = steps
    return ranges


async def _get(client: AsyncRewardOps, run: str, split: str, first: int, last: int) -> Any:
    """The answer of `runs.get`, once it has the figures of all ended batches."""

    def is_complete(answer: Any) -> bool:
        # A step without groups or with an unfinished batch has no group signals.
        missing = any(
            step["n"] is not None and step["groupSignals"] is None and step["groups"] > 0
            for step in answer["steps"]
        )
        return not (missing or answer["pending"])

    given = {"name": run, "split": split, "from": first, "until": last}
    return await _until(is_complete, client, "runs.get", given)


async def _until(
    is_complete: Callable[[Any], bool],
    client: AsyncRewardOps,
    procedure: str,
    given: Mapping[str, Any],
) -> Any:
    """Gives up after ROLL_UP_S and returns the last answer."""
    ends = time.monotonic() + ROLL_UP_S
    while True:
        answer = await client.call(procedure, given)
        if is_complete(answer) or time.monotonic() >= ends:
            return answer
        await asyncio.sleep(POLL_S)


async def _metrics(client: AsyncRewardOps, answer: Mapping[str, Any]) -> list[StepMetrics]:
    run, split, steps = answer["name"], answer["split"], answer["steps"]
    pass_rates = await _pass_rates(client, run, split, steps)
    components: dict[str, list[dict[str, Any]]] = {}
    # The service has components of training batches only.
    if split == "train":
        for start in range(0, len(steps), COMPONENT_STEPS):
            some = steps[start : start + COMPONENT_STEPS]
            await _add_components(client, run, some[0]["step"], some[-1]["step"], components)
    return [
        StepMetrics(
            step["step"],
            step["batchId"],
            step["submittedAt"],
            metrics_of(
                step,
                pass_rates.get(step["batchId"]),
                components.get(step["batchId"], []),
                split,
            ),
        )
        for step in steps
    ]


async def _pass_rates(
    client: AsyncRewardOps, run: str, split: str, steps: Sequence[Mapping[str, Any]]
) -> dict[str, float | None]:
    """pass@1 by batch; None if only reward models score."""
    wanted = {step["batchId"] for step in steps if step["groupSignals"] is not None}
    given = {"run": run, "split": split, "from": steps[0]["step"], "until": steps[-1]["step"]}
    # The service may answer from its cache at first.
    answer = await _until(
        lambda found: wanted <= {step["batchId"] for step in found["steps"]},
        client,
        "prompts.steps",
        given,
    )
    return {
        step["batchId"]: next(
            (float(at["value"]) for at in step["passAt"] or [] if at["k"] == 1), None
        )
        for step in answer["steps"]
    }


async def _add_components(
    client: AsyncRewardOps, run: str, first: int, last: int, found: dict[str, list[dict[str, Any]]]
) -> None:
    ends = time.monotonic() + ROLL_UP_S
    pending = math.inf
    while True:
        answer = await client.call("rewards.components", {"run": run, "from": first, "until": last})
        if answer["pending"] < pending:
            # Each call sums up further batches. While the number of pending batches falls, the time limit starts again.
            pending, ends = answer["pending"], time.monotonic() + ROLL_UP_S
        if pending == 0 or time.monotonic() >= ends:
            break
        await asyncio.sleep(POLL_S)
    if answer["hasMore"] and first < last:
        middle = (first + last) // 2
        await _add_components(client, run, first, middle, found)
        await _add_components(client, run, middle + 1, last, found)
        return
    for component in answer["components"]:
        # The component with the empty name is the reward itself.
        for point in component["points"] if component["name"] else []:
            found.setdefault(point["batchId"], []).append({**point, "name": component["name"]})
