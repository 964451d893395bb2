"""Writes metrics of runs to Weights & Biases, MLflow and TensorBoard. A point that is already there is not written again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from rewardops.errors import RewardOpsError
from rewardops.metrics import StepMetrics
from rewardops.scores import import_optional

#: The default name of the W&B project and of the MLflow experiment. Environment variables override it.
PROJECT = "rewardops"
#: Maximum number of metrics per MLflow call.
MLFLOW_METRICS = 1000


@dataclass(frozen=True)
class TrackedRun:
    """A run of the service, and one of its splits. `base_url`: URL of the pages. `created_at`: as in `runs.get`."""

    base_url: str
    name: str
    split: str
    created_at: str

    @property
    def label(self) -> str:
        return self.name if self.split == "train" else f"{self.name} ({self.split})"

    @property
    def id(self) -> str:
        """Identifies the tracker's run in repeated exports. A deleted run of the same name has another id."""
        identity = json.dumps([self.name, self.split, self.created_at])
        return f"rewardops-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    @property
    def url(self) -> str:
        query = "" if self.split == "train" else f"?split={self.split}"
        return f"{self.base_url}/runs/{quote(self.name, safe='')}{query}"

    def step_url(self, batch_id: str) -> str:
        return f"{self.base_url}/batches/{batch_id}"


class Tracker(Protocol):
    #: Location of the run's points: a folder or a URL.
    place: str

    def write(self, step: StepMetrics) -> bool:
        """Writes the metrics of a step that the run does not have yet; returns whether there were any."""

    def close(self) -> None:
        """Writes buffered points and closes the run."""


class WandbTracker:
    """
    A run of Weights & Biases, configured by the environment variables `WANDB_…`. W&B accepts steps in ascending order
    only, so a step is skipped if the run already has it or a later one.
    """

    def __init__(self, run: TrackedRun, logdir: str) -> None:
        wandb = import_optional("wandb", "wandb")
        self._tracked = run
        with _errors("W&B", wandb.Error):
            self._run = wandb.init(
                id=run.id,
                name=run.label,
                project=os.environ.get("WANDB_PROJECT") or PROJECT,
                resume="allow",
                config={"rewardops": {"run": run.name, "split": run.split, "url": run.url}},
                notes=run.url,
                settings=wandb.Settings(console="off"),
            )
        folder = Path(self._run.dir).parent
        self.place = str(folder) if self._run.offline else str(self._run.url)
        self._next = int(self._run.starting_step)
        self._mark: Path | None = None
        if self._run.offline:
            # W&B cannot resume offline runs, so each folder stores its run's last step beside the points. The folder's
            # name ends with the run's id, or with a number after it if another run began in the same second.
            self._mark = folder / "rewardops-last-step.json"
            for path in folder.parent.glob(f"*-{run.id}*/{self._mark.name}"):
                project, last = json.loads(path.read_text())
                if project == self._run.project:
                    self._next = max(self._next, last + 1)

    def write(self, step: StepMetrics) -> bool:
        if step.step < self._next:
            return False
        self._run.log(
            {**step.values, "rewardops/url": self._tracked.step_url(step.batch_id)}, step=step.step
        )
        self._next = step.step + 1
        if self._mark is not None:
            part = self._mark.with_suffix(".part")
            part.write_text(json.dumps([self._run.project, step.step]))
            part.replace(self._mark)
        return True

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """A run of MLflow, configured by the environment variables `MLFLOW_…` and identified by the tag `rewardops.id`."""

    def __init__(self, run: TrackedRun, logdir: str) -> None:
        mlflow = import_optional("mlflow", "mlflow")
        self._mlflow = mlflow
        with self._errors():
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
            experiment = mlflow.set_experiment(name).experiment_id
            self._client = mlflow.MlflowClient()
            known = self._client.search_runs(
                [experiment], f"tags.`rewardops.id` = '{run.id}'", max_results=1
            )
            made = known or [
                self._client.create_run(
                    experiment, run_name=run.label, tags={"rewardops.id": run.id}
                )
            ]
            self._id: str = made[0].info.run_id
            for key, value in {
                "rewardops.run": run.name,
                "rewardops.split": run.split,
                "rewardops.url": run.url,
                "rewardops.step_url": run.step_url("b<rewardops/batch>"),
                "mlflow.note.content": f"[Run page]({run.url})",
            }.items():
                self._client.set_tag(self._id, key, value)
        self.place = f"run {self._id} of experiment {name} at {mlflow.get_tracking_uri()}"
        self._there: dict[str, set[int]] = {}
        self._waiting: list[Any] = []

    def write(self, step: StepMetrics) -> bool:
        time_ms = round(_seconds(step) * 1000)
        new = [
            self._mlflow.entities.Metric(name, value, time_ms, step.step)
            for name, value in step.values.items()
            if step.step not in self._steps(name)
        ]
        for metric in new:
            self._there[metric.key].add(step.step)
        if len(self._waiting) + len(new) > MLFLOW_METRICS:
            self._flush()
        self._waiting += new
        return bool(new)

    def close(self) -> None:
        self._flush()
        with self._errors():
            self._client.set_terminated(self._id)

    def _steps(self, name: str) -> set[int]:
        if name not in self._there:
            with self._errors():
                points = self._client.get_metric_history(self._id, name)
            self._there[name] = {point.step for point in points}
        return self._there[name]

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MLFLOW_METRICS):
            with self._errors():
                self._client.log_batch(self._id, metrics=waiting[start : start + MLFLOW_METRICS])

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return _errors("MLflow", self._mlflow.exceptions.MlflowException)


class TensorboardTracker:
    """An event file in a folder of the run below `logdir`. Values are 32-bit floats, as in all event files."""

    def __init__(self, run: TrackedRun, logdir: str) -> None:
        events = import_optional(
            "tensorboard.backend.event_processing.event_accumulator", "tensorboard"
        )
        writer = import_optional("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._event = import_optional("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = import_optional(
            "tensorboard.compat.proto.summary_pb2", "tensorboard"
        ).Summary
        self._text = import_optional("tensorboard.plugins.text.summary_v2", "tensorboard").text_pb
        self._run = run
        self.place = os.path.join(logdir, _folder(run))
        self._there: set[tuple[str, int]] = set()
        is_new = not os.path.isdir(self.place)
        if not is_new:
            found = events.EventAccumulator(self.place, {"scalars": 0})
            found.Reload()
            for tag in found.Tags()["scalars"]:
                self._there.update((tag, point.step) for point in found.Scalars(tag))
        self._writer = writer.EventFileWriter(self.place)
        if is_new:
            summary = self._text("rewardops/run", f"[{run.url}]({run.url})")
            self._writer.add_event(self._event(step=0, summary=summary))

    def write(self, step: StepMetrics) -> bool:
        new = {
            name: value
            for name, value in step.values.items()
            if (name, step.step) not in self._there
        }
        if not new:
            return False
        summary = self._summary(
            value=[self._summary.Value(tag=name, simple_value=value) for name, value in new.items()]
        )
        url = self._run.step_url(step.batch_id)
        summary.value.extend(self._text("rewardops/step", f"[{url}]({url})").value)
        self._writer.add_event(
            self._event(wall_time=_seconds(step), step=step.step, summary=summary)
        )
        self._there.update((name, step.step) for name in new)
        return True

    def close(self) -> None:
        self._writer.close()


#: The trackers by the names of their packages, which are also the names of the extras.
TRACKERS: dict[str, type[WandbTracker] | type[MlflowTracker] | type[TensorboardTracker]] = {
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
    "tensorboard": TensorboardTracker,
}


def _seconds(step: StepMetrics) -> float:
    # Python 3.9 cannot parse the suffix Z.
    return datetime.fromisoformat(step.submitted_at.replace("Z", "+00:00")).timestamp()


def _folder(run: TrackedRun) -> str:
    """Returns a folder name: the run's label, with a part of the run's id if the label is not a valid file name."""
    name = re.sub(r"[^\w.() -]", "_", run.label)[:64]
    return (
        name
        if name == run.label and name.strip(". ") == name
        else f"{name.strip('. ')}-{run.id[-8:]}"
    )


@contextlib.contextmanager
def _errors(name: str, kind: type[Exception]) -> Iterator[None]:
    """Raises the errors of a tracker as RewardOpsError."""
    try:
        yield
    except kind as error:
        raise RewardOpsError(f"{name} refused: {error}") from error
