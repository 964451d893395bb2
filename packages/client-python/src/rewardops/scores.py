"""Rewards as they come back: in columns, and placed in the token rows that a trainer adds them to."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewardops.errors import INVALID_INPUT, NOT_SCORED, RewardOpsError


@dataclass(frozen=True)
class ScoredSample:
    """
    One sample's reward. `score` is None where it was not scored and `on_failure` put nothing there; `reason` says why in
    a word, `detail` in more. `reward_extra_info`: what the reward said beside. `raw` is the service's answer as it came.
    """

    score: float | None
    reason: str | None
    detail: str | None
    substituted: bool
    reward_extra_info: dict[str, Any]
    position: int | None
    id: str
    batch_id: str
    raw: dict[str, Any] = field(repr=False)

    def __float__(self) -> float:
        """The score. Raises RewardOpsError (`not_scored`) where there is none: a failure is no 0."""
        if self.score is None:
            raise RewardOpsError(
                f"Sample {self.id} was not scored: {self.reason}"
                + (f" ({self.detail})." if self.detail else "."),
                reason=NOT_SCORED,
                hint="reward.onFailure says what a failure is to be instead (docs/python.md).",
            )
        return self.score


@dataclass(frozen=True)
class Scores:
    """
    Rewards of some samples of a batch, a column a field, ordered by `index` (the place in the batch that was submitted).

    `score` is None where a sample was not scored; `reason` then says why, and `substituted` is true where `on_failure`
    put a number there. `advantage`: GRPO's, over the group's scored members. `reward_extra_info`: the union of the keys,
    None where a sample lacks one. `position`: where the reward goes in the response's token row.
    """

    batch_id: str
    index: list[int]
    uid: list[str]
    status: list[str]
    reason: list[str | None]
    score: list[float | None]
    raw_score: list[float | None]
    substituted: list[bool]
    advantage: list[float | None]
    position: list[int | None]
    reward_extra_info: dict[str, list[Any]]
    #: Columns of the trainer's response tensor; None where it is not known.
    width: int | None = field(default=None, repr=False)
    #: Of the responses, by row, in tokens; None where they are not known.
    lengths: list[int | None] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def reward_extra_keys(self) -> list[str]:
        """In the order in which the samples have them."""
        return list(self.reward_extra_info)

    @property
    def scored(self) -> list[bool]:
        """By row: whether the reward itself gave the score. What was put in a failure's place is none."""
        return [status == "scored" for status in self.status]

    @property
    def failed(self) -> list[tuple[int, str]]:
        """(index, reason) of those that were not scored."""
        return [
            (index, reason or "unknown")
            for index, status, reason in zip(self.index, self.status, self.reason)
            if status == "failed"
        ]

    def require(self) -> list[float]:
        """The scores, all of them. Raises RewardOpsError (`not_scored`) where one is missing, with the reasons."""
        return [score for score in self._filled(None) if score is not None]

    def rm_scores(
        self,
        response_length: int | None = None,
        *,
        missing: float | None = None,
        as_: str = "auto",
    ) -> Any:
        """
        Dense `[n, response_length]`, zero but for each sample's reward on its last valid token (`position`). A row
        without tokens stays zero.

        `response_length`: default that of the batch, where it was a DataProto, else up to the last reward.
        `missing`: stands for a score that is missing; without it one that is missing raises (`not_scored`). So does a
        reward whose place is not known, because the sample had no `response_length` (`invalid_input`).
        `as_`: "torch" (float32), "numpy" (float32), "list", or "auto": torch where the program has imported it, else
        numpy where it is installed, else lists.
        """
        values = self._filled(missing)
        self._check_places()
        width = response_length or self.width
        if width is None:
            width = max((p for p in self.position if p is not None), default=-1) + 1
        beyond = next(
            (i for i, p in enumerate(self.position) if p is not None and p >= width), None
        )
        if beyond is not None:
            raise RewardOpsError(
                f"Sample {self.index[beyond]} has its reward at token {self.position[beyond]}, "
                f"beyond the {width} of a row.",
                reason=INVALID_INPUT,
            )
        places = [(row, p, values[row]) for row, p in enumerate(self.position) if p is not None]
        return _dense(len(self), width, places, as_)

    def column(self, values: Sequence[float | None], as_: str = "auto") -> Any:
        """A column of numbers as an array (None is NaN): `scores.column(scores.advantage)`."""
        kind = _kind(as_)
        if kind == "list":
            return list(values)
        filled = [float("nan") if value is None else float(value) for value in values]
        if kind == "torch":
            torch: Any = importlib.import_module("torch")
            return torch.tensor(filled, dtype=torch.float32)
        numpy: Any = importlib.import_module("numpy")
        return numpy.asarray(filled, dtype=numpy.float32)

    def _filled(self, missing: float | None) -> list[float | None]:
        without = [row for row, score in enumerate(self.score) if score is None]
        if without and missing is None:
            reasons = Counter(self.reason[row] or self.status[row] for row in without)
            told = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
            raise RewardOpsError(
                f"{len(without)} of {len(self)} samples of {self.batch_id} have no score ({told}), "
                f"the first is {self.batch_id}-{self.index[without[0]]}.",
                reason=NOT_SCORED,
                hint="Leave them out by .scored, choose reward.onFailure, or say what stands for them by missing=.",
            )
        return [missing if score is None else score for score in self.score]

    def _check_places(self) -> None:
        for row, place in enumerate(self.position):
            if place is not None:
                continue
            # Without a place: an empty response, which has none, or one whose length nobody told.
            if self.lengths is None or self.lengths[row] is None:
                raise RewardOpsError(
                    f"Where the reward of sample {self.index[row]} goes is not known.",
                    reason=INVALID_INPUT,
                    hint="Give each sample its response_length in tokens.",
                )


@dataclass(frozen=True)
class Group:
    """
    A completed group, whole. `seq`: the how-manieth of its batch to complete, from 1. `mean` and `std` (n − 1) leave out
    what was not scored; `signal`: what the scores teach, or why nothing (docs/api.md). `samples`: as the service gives them.
    """

    uid: str
    seq: int
    completed_at: str
    mean: float | None
    std: float | None
    signal: str
    samples: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Chunk(Scores):
    """
    What a pipeline's `get` gives: whole groups, `groups` in the order in which they completed, the columns by index.

    `remaining`: samples of the batch that are still to come. `cursor`: where this ends; a pipeline that is begun there
    goes on with what follows. `done`: nothing follows. `timed_out`: it is less than was asked for, since the time was
    over. Unpacks as upstream's: `indices, rm_scores, reward_extra_info = chunk`.
    """

    groups: list[Group] = field(default_factory=list)
    cursor: str = ""
    remaining: int = 0
    done: bool = False
    timed_out: bool = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.index, self.rm_scores(), self.reward_extra_info))


def number(value: Any) -> float | None:
    """JSON does not tell 1 from 1.0; a score is a float, or None."""
    return None if value is None else float(value)


def columns_of(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of results as `batches.next` and `samples.score` give them, by index."""
    rows = sorted(samples, key=lambda sample: int(sample["index"]))
    keys: dict[str, None] = {}
    for row in rows:
        keys.update(dict.fromkeys(row["rewardExtraInfo"]))
    return {
        "index": [row["index"] for row in rows],
        "uid": [row["uid"] for row in rows],
        "status": [row["status"] for row in rows],
        "reason": [row["reason"] for row in rows],
        "score": [number(row["score"]) for row in rows],
        "raw_score": [number(row["rawScore"]) for row in rows],
        "substituted": [row["substituted"] for row in rows],
        "advantage": [number(row.get("advantage")) for row in rows],
        "position": [row["position"] for row in rows],
        "reward_extra_info": {
            key: [row["rewardExtraInfo"].get(key) for row in rows] for key in keys
        },
    }


def _kind(as_: str) -> str:
    if as_ in ("torch", "numpy", "list"):
        return as_
    if as_ != "auto":
        raise ValueError(f'as_ is {as_!r}; it is "auto", "torch", "numpy" or "list"')
    # Importing torch takes seconds: only where somebody has it already.
    if "torch" in sys.modules:
        return "torch"
    try:
        importlib.import_module("numpy")
    except ImportError:
        return "list"
    return "numpy"


def _dense(rows: int, width: int, places: list[tuple[int, int, float | None]], as_: str) -> Any:
    kind = _kind(as_)
    if kind == "list":
        made = [[0.0] * width for _ in range(rows)]
        for row, place, value in places:
            made[row][place] = float(value)  # type: ignore[arg-type]
        return made
    at = [row for row, _, _ in places], [place for _, place, _ in places]
    values = [value for _, _, value in places]
    if kind == "torch":
        torch: Any = importlib.import_module("torch")
        tensor = torch.zeros((rows, width), dtype=torch.float32)
        if places:
            tensor[torch.tensor(at[0]), torch.tensor(at[1])] = torch.tensor(
                values, dtype=torch.float32
            )
        return tensor
    numpy: Any = importlib.import_module("numpy")
    array = numpy.zeros((rows, width), dtype=numpy.float32)
    if places:
        array[at[0], at[1]] = values
    return array
