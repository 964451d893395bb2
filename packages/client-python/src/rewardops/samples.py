"""Converts a trainer's rollouts to the service's samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Optional, Union, get_type_hints
from uuid import UUID

from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.turns import check_media, content_text

#: Text, or chat messages.
Prompt = Union[str, Sequence[Mapping[str, Any]]]


@dataclass
class Sample:
    """
    One rollout. `response`: text, or the messages of a trajectory. `uid`: id of its prompt, shared by its group.
    `response_length`: in tokens; needed to place the reward. `score`: an existing score, which is stored instead of
    scoring the sample. `reward_extra_info`, `verdict`, `extracted` and `rewards` (of turns and spans) belong to `score`.
    `prompt_id`: the prompt's id in the trainer's dataset, used to track it over steps. If omitted, equal texts of one
    data source are one prompt.
    """

    data_source: str
    prompt: Prompt
    response: Prompt
    uid: Optional[str] = None
    ground_truth: Any = None
    extra_info: Optional[Mapping[str, Any]] = None
    response_length: Optional[int] = None
    score: Optional[float] = None
    reward_extra_info: Optional[Mapping[str, Any]] = None
    verdict: Optional[str] = None
    extracted: Optional[str] = None
    prompt_id: Optional[str] = None
    rewards: Optional[Mapping[str, Any]] = None


@dataclass(frozen=True)
class Prepared:
    """
    Samples in the service's format. `width`: width of the trainer's response tensor. `step`: the trainer's step. Both are
    None if the batch does not have them.
    """

    samples: list[dict[str, Any]]
    width: int | None = None
    step: int | None = None

    @property
    def lengths(self) -> list[int | None]:
        """The response lengths in tokens; None where unknown."""
        return [sample.get("responseLength") for sample in self.samples]


def camel_case(name: str) -> str:
    """`dataSource` for `data_source`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_NAMES = {one.name: camel_case(one.name) for one in fields(Sample)}
#: Maps each accepted name of a field (camelCase, snake_case or verl's) to the service's name.
FIELDS: dict[str, str] = {
    **_NAMES,
    **{name: name for name in _NAMES.values()},
    "raw_prompt": "prompt",
    "solution_str": "response",
}
_INTEGERS = {_NAMES[name] for name, kind in get_type_hints(Sample).items() if kind == Optional[int]}


def prepare(
    data: Any,
    *,
    group_size: int | None = None,
    tokenizer: Any = None,
    own_groups: bool = False,
    first_index: int = 0,
    media: str = "refuse",
) -> Prepared:
    """
    Converts a list of Sample or dict, or a verl DataProto (which needs the `tokenizer`). Without uids, each
    `group_size` consecutive samples form a group, or with `own_groups` each sample is a group. `media`: handling of
    images and other non-text parts of messages, one of MEDIA in `turns.py`. Raises RewardOpsError (`invalid_input`)
    naming the sample.
    """
    check_media(media)
    group_size = whole_or_none(group_size, "group_size")
    first_index = whole(first_index, "start_index")
    width = step = None
    if hasattr(data, "non_tensor_batch"):
        from rewardops.dataproto import samples_of, step_of, width_of

        items: Iterable[Any] = samples_of(data, tokenizer)
        width, step = width_of(data), step_of(data)
    elif isinstance(data, (Mapping, str, bytes)) or not isinstance(data, Iterable):
        raise RewardOpsError(
            f"The batch is a {type(data).__name__}; it must be a list of samples, or a verl DataProto.",
            reason=INVALID_INPUT,
        )
    else:
        items = data
    samples = []
    for index, item in enumerate(items, first_index):
        sample = _as_dict(item, index, media)
        if sample.get("uid") is None:
            if own_groups:
                sample["uid"] = f"sample-{index}"
            elif group_size:
                sample["uid"] = f"group-{index // group_size}"
            else:
                raise _wrong(index, "has no uid, and no group_size says where groups begin")
        samples.append(sample)
    return Prepared(samples, width, step)


def _as_dict(item: Any, index: int, media: str) -> dict[str, Any]:
    if isinstance(item, Sample):
        given: Iterable[tuple[str, Any]] = vars(item).items()
    elif isinstance(item, Mapping):
        given = item.items()
    else:
        raise _wrong(index, f"is a {type(item).__name__}; it must be a Sample or a dict")
    sample: dict[str, Any] = {}
    for name, value in given:
        if name == "reward_model" and isinstance(value, Mapping):
            # verl's datasets nest the ground truth in `reward_model`.
            name, value = "ground_truth", value.get("ground_truth")
        field = FIELDS.get(name)
        if field is None:
            raise _wrong(
                index, f"has {name!r}, which is not a field of a sample: put it into extra_info"
            )
        if value is None:
            continue
        if field in sample:
            raise _wrong(index, f"has {field} twice, under two names")
        sample[field] = _field(field, value, index, media)
    for field in ("dataSource", "prompt", "response"):
        if field not in sample:
            raise _wrong(index, f"has no {field}")
    return sample


def _field(field: str, value: Any, index: int, media: str) -> Any:
    if field == "score":
        score = _number(value, index, field)
        if not math.isfinite(score):
            raise _wrong(index, f"has the score {score}: leave it out to have it scored")
        return score
    if field in _INTEGERS:
        return whole_number(value, index, field)
    if field in ("prompt", "response"):
        return _said(field, value, index, media)
    try:
        made = plain(value)
    except TypeError as error:
        raise _wrong(index, f"has a {field} that is not JSON: {error}") from None
    if field in ("uid", "promptId", "dataSource") and not isinstance(made, str):
        # Some datasets use numbers as prompt ids.
        if field in ("uid", "promptId") and isinstance(made, int):
            return str(made)
        raise _wrong(index, f"has a {field} that is a {type(value).__name__}, not text")
    return made


def whole_number(value: Any, index: int, field: str) -> int:
    """A number without a fraction, of any type. Raises RewardOpsError (`invalid_input`) naming the sample."""
    number = _number(value, index, field)
    if not math.isfinite(number):
        raise _wrong(index, f"has the {field} {number}: leave it out if it is unknown")
    if not number.is_integer():
        raise _wrong(index, f"has the {field} {number}, which is not a whole number")
    return int(number)


def whole(value: Any, name: str) -> int:
    """An integer of any type, such as numpy's or 3.0. Raises RewardOpsError (`invalid_input`) naming the argument."""
    number = plain(value) if hasattr(value, "tolist") else value
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise RewardOpsError(
            f"{name} is {value!r}; it must be a whole number.", reason=INVALID_INPUT
        )
    return int(number)


def whole_or_none(value: Any, name: str) -> int | None:
    """Like `whole`, for an argument that may be missing."""
    return None if value is None else whole(value, name)


def _number(value: Any, index: int, field: str) -> float:
    made = plain(value) if hasattr(value, "tolist") else value
    while isinstance(made, list) and len(made) == 1:
        made = made[0]
    if isinstance(made, (int, float)):
        try:
            return float(made)
        except OverflowError:
            raise _wrong(index, f"has a {field} that is too large") from None
    if made is None and hasattr(value, "tolist"):
        return math.nan
    raise _wrong(index, f"has a {field} that is a {type(value).__name__}, not a number")


def _said(field: str, value: Any, index: int, media: str) -> Any:
    if isinstance(value, (str, bytes)):
        return plain(value)
    if isinstance(value, Mapping) and "role" in value:
        value = [value]
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, str):
        return listed
    if not isinstance(listed, (list, tuple)):
        raise _wrong(index, f"has a {field} that is neither text nor chat messages")
    messages = []
    for message in listed:
        if hasattr(message, "model_dump"):
            message = message.model_dump()
        if not isinstance(message, Mapping) or "role" not in message:
            raise _wrong(index, f"has a {field} that is neither text nor chat messages")
        try:
            # Content is converted first, because with "placeholder" it may contain values that are not JSON.
            given = message.get("content")
            content = content_text(given, media)
            if media == "send" and isinstance(given, (list, tuple)):
                content = given
            rest = {key: inner for key, inner in message.items() if key != "content"}
            messages.append({**plain(rest), "content": plain(content)})
        except RewardOpsError as error:
            raise RewardOpsError(
                f"Sample {index}, {field}: {error.message}", reason=error.reason, hint=error.hint
            ) from None
        except TypeError as error:
            raise _wrong(index, f"has a {field} that is not JSON: {error}") from None
    return messages


def prompt_uid(prompt: Any) -> str:
    """A group's uid, hashed from its prompt including images. Raises RewardOpsError (`invalid_input`)."""
    try:
        identity = json.dumps(_identity(prompt), sort_keys=True)
    except TypeError as error:
        raise RewardOpsError(
            f"A prompt has a {error}, which cannot identify its group.", reason=INVALID_INPUT
        ) from None
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _identity(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _identity(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_identity(inner) for inner in value]
    try:
        return plain(value)
    except TypeError:
        pixels = getattr(value, "tobytes", None)
        if not callable(pixels):
            raise
        return hashlib.sha256(pixels()).hexdigest()


def plain(value: Any) -> Any:
    """
    Converts a value to JSON types: numpy's and torch's values to numbers and lists, bytes to text (invalid UTF-8 as lone
    surrogates, so nothing is lost), NaN and infinities to null, dates and paths to text. Raises TypeError for other types.
    """
    if value is None or isinstance(value, (bool, str)):
        return value if type(value) in (bool, str, type(None)) else _of_subclass(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in value]
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return plain(tolist())
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return plain(dump(mode="json"))
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, (date, time, Decimal, UUID, PurePath)):
        return str(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__}")


def _of_subclass(value: Any) -> Any:
    # A str subclass, such as a numpy string or a string enum, becomes a plain str.
    return str.__str__(value) if isinstance(value, str) else value


def _key(key: Any) -> str:
    made = plain(key)
    return made if isinstance(made, str) else str(made)


def _wrong(index: int, what: str) -> RewardOpsError:
    return RewardOpsError(f"Sample {index} {what}.", reason=INVALID_INPUT)
