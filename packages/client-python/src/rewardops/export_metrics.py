"""`rewardops export-metrics`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
from typing import TYPE_CHECKING

from rewardops.errors import RewardOpsError

if TYPE_CHECKING:
    from rewardops.trackers import Tracker

DONE = 0
FAILED = 1

DESCRIPTION = """\
Exports the figures of a run's steps, as the run's page shows them, to Weights & Biases, MLflow or TensorBoard. The
export can be repeated: it continues the tracker's run, and skips points that the run already has.
"""

EPILOG = """\
examples:
  rewardops export-metrics --to wandb --run my-run
  MLFLOW_TRACKING_URI=sqlite:///mlflow.db rewardops export-metrics --to mlflow --run my-run --steps 100..199
  rewardops export-metrics --to tensorboard --run my-run --split val --logdir runs

environment: REWARDOPS_URL (as --url), REWARDOPS_API_KEY (the key), and the variables of the tracker, such as WANDB_PROJECT,
WANDB_MODE, MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.

exit codes: 0 exported, 1 the service or the tracker refused or a package is missing, 2 wrong options.
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `export-metrics` to the command line."""
    parser = commands.add_parser(
        "export-metrics",
        help="export the figures of a run to wandb, mlflow or tensorboard",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--to", required=True, choices=("wandb", "mlflow", "tensorboard"), help="the tracker")
    # `dest` is not `run`, because `arguments.run` is the command's function.
    add("--run", required=True, dest="run_name", metavar="NAME", help="the run to export")
    add("--split", choices=("train", "val"), default="train", help="default %(default)s")
    add(
        "--steps",
        type=_range,
        default=(None, None),
        metavar="A..B",
        help="the steps, both ends included, such as 0..99, 7, 100.. or ..99 (default: all)",
    )
    add("--url", help="the service (default http://127.0.0.1:3000)")
    add(
        "--logdir",
        default="runs",
        help="folder of TensorBoard's event files (default %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        print(asyncio.run(_export(arguments)))
        return DONE
    except RewardOpsError as error:
        print(f"rewardops: {error}", file=sys.stderr)
        return FAILED


async def _export(arguments: argparse.Namespace) -> str:
    from rewardops.client import AsyncRewardOps
    from rewardops.metrics import MAX_STEP, metrics_of_run
    from rewardops.scores import import_optional
    from rewardops.trackers import TRACKERS, TrackedRun

    # A missing package is reported before the service is called.
    import_optional(arguments.to, arguments.to)
    first, last = arguments.steps
    written = there = running = 0
    tracker: Tracker | None = None
    async with AsyncRewardOps(arguments.url, run=arguments.run_name) as client:
        name, split = arguments.run_name, arguments.split
        about = await client.call("runs.get", {"name": name, "split": split, "from": MAX_STEP})
        tracked = TrackedRun(client.url, name, split, about["createdAt"])
        with contextlib.ExitStack() as stack:
            async for steps in metrics_of_run(
                client, name, split, first or 0, MAX_STEP if last is None else last
            ):
                for step in steps:
                    if not step.values:
                        running += 1
                        continue
                    if tracker is None:
                        tracker = TRACKERS[arguments.to](tracked, arguments.logdir)
                        stack.callback(tracker.close)
                    if tracker.write(step):
                        written += 1
                    else:
                        there += 1
    text = f"{tracked.label}: {written} steps exported, {there} already there"
    if running:
        text += f", {running} without figures yet"
    return text if tracker is None else f"{text} ({tracker.place})"


def _range(text: str) -> tuple[int | None, int | None]:
    found = re.fullmatch(r"(\d{1,10})?(\.\.)?(\d{1,10})?", text)
    if not text or found is None or (found[2] is None and found[3] is not None) or text == "..":
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0..99, 7, 100.. or ..99")
    first, last = (None if part is None else int(part) for part in (found[1], found[3]))
    if found[2] is None:
        last = first
    if any(one is not None and one > 2_147_483_647 for one in (first, last)) or (
        first is not None and last is not None and first > last
    ):
        raise argparse.ArgumentTypeError(f"{text!r} must ascend, up to 2147483647")
    return first, last
