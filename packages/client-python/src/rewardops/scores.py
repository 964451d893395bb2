"""Rewards in columns, and their placement in the trainer's token rows."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rewardops.errors import INVALID_INPUT, MISSING_PACKAGE, NOT_SCORED, RewardOpsError
from rewardops.samples import camel_case

#: Fields that services of all versions send.
_REQUIRED = {"index", "uid", "status", "reason", "score", "raw_score", "substituted", "position"}
_NUMBERS = {"score", "raw_score", "advantage"}


@dataclass(frozen=True)
class ScoredSample:
    """
    One sample's reward. `score`: None if the sample failed and `on_failure` gave no substitute. `reason` and
    `detail`: why the sample failed. `reward_extra_info`: further values returned by the reward. `verdict`: the
    reason for the score, such as "equal" or "no answer". `extracted`: the answer found in the response. `raw`: the
    answer of the service.
    """

    score: float | None
    reason: str | None
    detail: str | None
    substituted: bool
    reward_extra_info: dict[str, Any]
    verdict: str | None
    extracted: str | None
    rewards: dict[str, Any] | None
    position: int | None
    id: str
    batch_id: str
    raw: dict[str, Any] = field(repr=False)

    def __float__(self) -> float:
        """The score. Raises RewardOpsError (`not_scored`) if there is none, because a failure is not 0."""
        if self.score is None:
            raise RewardOpsError(
                f"Sample {self.id} was not scored: {self.reason}"
                + (f" ({self.detail})." if self.detail else "."),
                reason=NOT_SCORED,
                hint="Set reward.onFailure to substitute failures (docs/python.md).",
            )
        return self.score


@dataclass(frozen=True)
class Scores:
    """
    Rewards of samples of a batch, one column per field, ordered by `index` (the position in the submitted batch).

    `score`: None if the sample has none. `reason`: why the sample failed. `substituted`: whether a failure policy set
    the score. `advantage`: GRPO's, over the group's scored samples. `reward_extra_info`: the union of all keys, None
    where a sample lacks one. `position`: index of the response token that gets the reward.
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
    verdict: list[str | None]
    extracted: list[str | None]
    #: Turn, span and token rewards, `{"turns": […], "spans": […], "tokens": […]}`; None where the reward gave none.
    rewards: list[dict[str, Any] | None]
    #: Width of the trainer's response tensor; None if unknown.
    width: int | None = field(default=None, repr=False)
    #: Response length of each sample in tokens; None where unknown.
    lengths: list[int | None] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def reward_extra_keys(self) -> list[str]:
        """Keys in the order of their first occurrence."""
        return list(self.reward_extra_info)

    @property
    def scored(self) -> list[bool]:
        """Whether the reward itself scored each sample; False for substituted scores."""
        return [status == "scored" for status in self.status]

    @property
    def failed(self) -> list[tuple[int, str]]:
        """(index, reason) of each sample that was not scored."""
        return [
            (index, reason or "unknown")
            for index, status, reason in zip(self.index, self.status, self.reason)
            if status == "failed"
        ]

    def require(self) -> list[float]:
        """All scores. Raises RewardOpsError (`not_scored`) with the reasons if one is missing."""
        return [score for score in self._filled(None) if score is not None]

    def rm_scores(
        self,
        response_length: int | None = None,
        *,
        missing: float | None = None,
        as_: str = "auto",
    ) -> Any:
        """
        A dense `[n, response_length]` tensor that is zero except for each sample's reward on its last valid token
        (`position`). A row without tokens stays zero.

        `response_length`: default the width of the DataProto, else just wide enough for the last reward. `missing`:
        replaces missing scores; without it, a missing score raises (`not_scored`). A reward with an unknown position,
        because the sample had no `response_length`, raises (`invalid_input`). `as_`: "torch" (float32), "numpy" (float32),
        "list", or "auto": torch if the program has imported it, else numpy if installed, else lists.
        """
        values = self._filled(missing)
        self._check_places()
        places = [(row, p, values[row]) for row, p in enumerate(self.position) if p is not None]
        return self._tensor(places, response_length, as_)

    def turn_scores(
        self,
        turn_token_ends: Sequence[Sequence[int | None] | None] | None = None,
        response_length: int | None = None,
        *,
        collapse: str | None = None,
        missing: float | None = None,
        as_: str = "auto",
    ) -> Any:
        """
        Like `rm_scores`, but places each turn's reward on that turn's last token. A row without turn rewards is placed as
        by `rm_scores`. `turn_token_ends` has for each row the index of each message's last response token (None for a
        message without tokens), or None for a row without turn rewards.

        Raises `turn_token_ends_missing` for turn rewards without token ends, and `span_rewards_not_placed` for span
        rewards, which this tensor cannot carry; `collapse="last"` places the sample's score on its last token instead. The
        service does not have the policy's tokenizer, so it cannot compute `turn_token_ends`.
        """
        if collapse not in (None, "last"):
            raise ValueError(f'collapse is {collapse!r}; it must be None or "last"')
        values = self._filled(missing)
        self._check_places()
        places: list[tuple[int, int, float | None]] = []
        for row, rewards in enumerate(self.rewards):
            turns = list((rewards or {}).get("turns") or [])
            spans = (rewards or {}).get("spans")
            ends = turn_token_ends[row] if turn_token_ends is not None else None
            if collapse is None and spans:
                raise RewardOpsError(
                    f"Sample {self.index[row]} has span rewards, which lie within turns.",
                    reason="span_rewards_not_placed",
                    hint='Read them from .rewards, or pass collapse="last".',
                )
            if collapse is None and turns and ends is None:
                raise RewardOpsError(
                    f"Sample {self.index[row]} has turn-level rewards, but turn_token_ends has no entry for it.",
                    reason="turn_token_ends_missing",
                    hint='Pass turn_token_ends, or collapse="last" for the sample\'s score on its last token.',
                )
            if collapse == "last" or not turns or ends is None:
                place = self.position[row]
                if place is not None:
                    places.append((row, place, values[row]))
                continue
            sums: dict[int, float] = {}
            for turn in turns:
                message = int(turn["message"])
                end = ends[message] if message < len(ends) else None
                if end is None or end < 0:
                    raise RewardOpsError(
                        f"Sample {self.index[row]} has a reward for message {message}, but turn_token_ends has no last token for it.",
                        reason="turn_token_ends_missing",
                        hint="turn_token_ends needs an index for each message with a reward.",
                    )
                sums[int(end)] = sums.get(int(end), 0.0) + float(turn["score"])
            places.extend((row, end, score) for end, score in sums.items())
        return self._tensor(places, response_length, as_)

    def token_scores(
        self,
        token_offsets: Sequence[Sequence[tuple[int, int, int] | None] | None],
        response_length: int | None = None,
        *,
        component: str | None = None,
        missing: float | None = None,
        as_: str = "auto",
    ) -> Any:
        """
        Like `rm_scores`, but maps the token scores of a process reward model (`tokenScores` of the reward) to the policy's
        tokens. The two models tokenize differently, so each score is added to the policy token that contains the last
        character of the reward model's token.

        `token_offsets` has one `(message, start, end)` per row and response token, in code points, or None for a token
        outside the messages' texts. `message` is 0 for a response that is plain text, and start and end are as in the
        `offset_mapping` of a Hugging Face tokenizer. `component`: the component of a composite reward. Raises
        RewardOpsError (`token_scores_missing`) if a scored row has no token scores, or has no offsets for them.
        """
        values = self._filled(missing)
        places: list[tuple[int, int, float | None]] = []
        for row, rewards in enumerate(self.rewards):
            # A substituted score belongs to no token, so it is placed like the value for a missing score.
            if self.score[row] is None or self.substituted[row]:
                place = self.position[row]
                if place is not None:
                    places.append((row, place, values[row]))
                continue
            given = (rewards or {}).get("tokens") or []
            tokens = [one for one in given if one["component"] == component]
            offsets = token_offsets[row]
            problem = next((one["problem"] for one in tokens if one["problem"] is not None), None)
            if not tokens or problem is not None or offsets is None:
                raise RewardOpsError(
                    f"Sample {self.index[row]} has no token scores with offsets"
                    + (f": {problem}." if problem else "."),
                    reason="token_scores_missing",
                    hint="Set tokenScores in the reward, and read the results with token_scores=True. Pass `component` for a "
                    "composite reward, and the offsets of every row in `token_offsets`.",
                )
            sums: dict[int, float] = {}
            for one in tokens:
                own = [
                    (place, offset[2])
                    for place, offset in enumerate(offsets)
                    if offset is not None and offset[0] == one["message"] and offset[2] > offset[1]
                ]
                at = 0
                for start, end, score in zip(one["starts"], one["ends"], one["scores"]):
                    last = max(start, end - 1)
                    while at + 1 < len(own) and own[at][1] <= last:
                        at += 1
                    if own:
                        place = own[at][0]
                        sums[place] = sums.get(place, 0.0) + float(score)
            places.extend((row, place, score) for place, score in sums.items())
        return self._tensor(places, response_length, as_)

    def _tensor(
        self, places: list[tuple[int, int, float | None]], response_length: int | None, as_: str
    ) -> Any:
        width = response_length or self.width
        if width is None:
            width = max((place for _, place, _ in places), default=-1) + 1
        for row, place, _ in places:
            if place >= width:
                raise RewardOpsError(
                    f"Sample {self.index[row]} has a reward at token {place}, beyond the row width of {width}.",
                    reason=INVALID_INPUT,
                )
        return _dense(len(self), width, places, as_)

    def column(self, values: Sequence[float | None], as_: str = "auto") -> Any:
        """A column of numbers as an array, with None as NaN: `scores.column(scores.advantage)`."""
        kind = _kind(as_)
        if kind == "list":
            return list(values)
        filled = [float("nan") if value is None else float(value) for value in values]
        if kind == "torch":
            torch: Any = importlib.import_module("torch")
            return torch.tensor(filled, dtype=torch.float32)
        numpy: Any = importlib.import_module("numpy")
        return numpy.asarray(filled, dtype=numpy.float32)

    def to_arrow(self) -> Any:
        """
        The columns as a `pyarrow.Table`, each key of the reward extra info as `reward_extra_info.KEY`. `rewards`, and keys
        whose values have different types, are JSON text. Raises `missing_package` without pyarrow.
        """
        arrow = import_optional("pyarrow", "arrow")
        arrays: dict[str, Any] = {}
        for name, values in self._columns().items():
            try:
                if name == "rewards" or name.startswith("reward_extra_info."):
                    _refuse_nested(values)
                arrays[name] = arrow.array(values, from_pandas=False)
            except (arrow.ArrowInvalid, arrow.ArrowTypeError, TypeError):
                texts = [None if value is None else json.dumps(value) for value in values]
                arrays[name] = arrow.array(texts, arrow.string())
        return arrow.table(arrays)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with the column names of `to_arrow` and unconverted values. Raises `missing_package`."""
        return import_optional("pandas", "pandas").DataFrame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: getattr(self, name) for name in _PLAIN_COLUMNS}
        for key, values in self.reward_extra_info.items():
            columns[f"reward_extra_info.{key}"] = values
        return columns

    def _filled(self, missing: float | None) -> list[float | None]:
        without = [row for row, score in enumerate(self.score) if score is None]
        if without and missing is None:
            reasons = Counter(self.reason[row] or self.status[row] for row in without)
            counts = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
            raise RewardOpsError(
                f"{len(without)} of {len(self)} samples of {self.batch_id} have no score ({counts}), "
                f"the first is {self.batch_id}-{self.index[without[0]]}.",
                reason=NOT_SCORED,
                hint="Filter by .scored, set reward.onFailure, or pass a substitute as missing=.",
            )
        return [missing if score is None else score for score in self.score]

    def _check_places(self) -> None:
        for row, place in enumerate(self.position):
            if place is not None:
                continue
            # No position: the response is empty, or its length is unknown.
            if self.lengths is None or self.lengths[row] is None:
                raise RewardOpsError(
                    f"The position of sample {self.index[row]}'s reward is unknown.",
                    reason=INVALID_INPUT,
                    hint="Give each sample its response_length in tokens.",
                )


_PLAIN_COLUMNS = [
    one.name
    for one in fields(Scores)
    if one.name not in ("batch_id", "reward_extra_info", "width", "lengths")
]


@dataclass(frozen=True)
class Group:
    """
    A completed group. `seq`: its completion number within the batch, from 1. `mean` and `std` (n − 1) cover the scored
    samples. `signal`: whether the scores carry a training signal, or why not (docs/api.md). `samples`: as in the service's
    answer.
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
    The result of a pipeline's `get`: whole groups in completion order as `groups`, and their samples' columns by index.

    `remaining`: samples not yet delivered. `cursor`: position after this chunk, from which another pipeline can continue.
    `done`: this is the last chunk. `timed_out`: `timeout_s` passed before `chunk_size` was reached. A chunk unpacks as
    in verl: `indices, rm_scores, reward_extra_info = chunk`.
    """

    groups: list[Group] = field(default_factory=list)
    cursor: str = ""
    remaining: int = 0
    done: bool = False
    timed_out: bool = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.index, self.rm_scores(), self.reward_extra_info))


def _refuse_nested(values: Sequence[Any]) -> None:
    # Arrow would convert dicts to structs with the keys of all dicts, and set missing keys to null.
    if any(isinstance(value, (dict, list)) for value in values):
        raise TypeError("nested values")


def import_optional(module: str, extra: str) -> Any:
    """Imports an optional package. Raises RewardOpsError (`missing_package`) naming the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RewardOpsError(
            f"{module.split('.')[0]} is needed and cannot be imported: {error}.",
            reason=MISSING_PACKAGE,
            hint=f"Install it with pip install 'rewardops[{extra}]'.",
        ) from error


def number(value: Any) -> float | None:
    """JSON does not distinguish 1 from 1.0."""
    return None if value is None else float(value)


def _plain_columns(values_of: Callable[[str, bool], list[Any]]) -> dict[str, list[Any]]:
    """Columns by their Python names. `values_of` gets the service's name of a column, and whether it is required."""
    columns = {name: values_of(camel_case(name), name in _REQUIRED) for name in _PLAIN_COLUMNS}
    return {
        name: [number(value) for value in values] if name in _NUMBERS else values
        for name, values in columns.items()
    }


def columns_of_pages(pages: list[dict[str, Any]]) -> dict[str, Any]:
    def values_of(name: str, is_required: bool) -> list[Any]:
        values: list[Any] = []
        for page in pages:
            values += page[name] if is_required else page.get(name, [None] * len(page["index"]))
        return values

    keys = dict.fromkeys(key for page in pages for key in page["rewardExtraKeys"])
    return {
        **_plain_columns(values_of),
        "reward_extra_info": {
            key: [
                value
                for page in pages
                for value in page["rewardExtraInfo"].get(key, [None] * len(page["index"]))
            ]
            for key in keys
        },
    }


def columns_of(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of samples from `batches.next`, ordered by index."""
    rows = sorted(samples, key=lambda sample: int(sample["index"]))
    keys: dict[str, None] = {}
    for row in rows:
        keys.update(dict.fromkeys(row["rewardExtraInfo"]))

    def values_of(name: str, is_required: bool) -> list[Any]:
        return [row[name] if is_required else row.get(name) for row in rows]

    return {
        **_plain_columns(values_of),
        "reward_extra_info": {
            key: [row["rewardExtraInfo"].get(key) for row in rows] for key in keys
        },
    }


def _kind(as_: str) -> str:
    if as_ in ("torch", "numpy", "list"):
        return as_
    if as_ != "auto":
        raise ValueError(f'as_ is {as_!r}; it must be "auto", "torch", "numpy" or "list"')
    # Importing torch takes seconds, so it is used only if it is already imported.
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
