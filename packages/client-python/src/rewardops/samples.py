"""Rollouts in whatever shape a trainer has them, as the service takes them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Optional, Union
from uuid import UUID

from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.turns import check_media, content_text

#: Text, or chat messages.
Prompt = Union[str, Sequence[Mapping[str, Any]]]


@dataclass
class Sample:
    """
    One rollout. `uid`: of its prompt, the same for all of a group. `response_length`: in tokens; the reward's place
    needs it. `score`: where it has one already: it is stored as it is, and not scored again. `reward_extra_info`: what the
    scorer of `score` gave beside it.
    """

    data_source: str
    prompt: Prompt
    response: str
    uid: Optional[str] = None
    ground_truth: Any = None
    extra_info: Optional[Mapping[str, Any]] = None
    response_length: Optional[int] = None
    score: Optional[float] = None
    reward_extra_info: Optional[Mapping[str, Any]] = None


@dataclass(frozen=True)
class Prepared:
    """
    Samples as the service takes them. `width`: of the trainer's response tensor, `step`: of the trainer's own, where
    its batch says so.
    """

    samples: list[dict[str, Any]]
    width: int | None = None
    step: int | None = None

    @property
    def lengths(self) -> list[int | None]:
        """Of the responses in tokens, where they are known."""
        return [sample.get("responseLength") for sample in self.samples]


#: How fields may be called: by the service's names, by Python's, by verl's.
FIELDS: dict[str, str] = {
    **{name: name for name in ("uid", "prompt", "response", "score")},
    "dataSource": "dataSource",
    "data_source": "dataSource",
    "raw_prompt": "prompt",
    "solution_str": "response",
    "groundTruth": "groundTruth",
    "ground_truth": "groundTruth",
    "extraInfo": "extraInfo",
    "extra_info": "extraInfo",
    "responseLength": "responseLength",
    "response_length": "responseLength",
    "rewardExtraInfo": "rewardExtraInfo",
    "reward_extra_info": "rewardExtraInfo",
}


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
    Makes samples of a list of Sample or dict, or of a verl DataProto (which needs the `tokenizer`). Where no uid is
    given, each `group_size` that follow each other are a group, or with `own_groups` each is its own. `media`: what becomes
    of images and other parts of a prompt that are no text, "refuse" or "placeholder". Raises RewardOpsError
    (`invalid_input`) naming the sample.
    """
    check_media(media)
    width = step = None
    if hasattr(data, "non_tensor_batch"):
        from rewardops.dataproto import samples_of, step_of, width_of

        items: Iterable[Any] = samples_of(data, tokenizer)
        width, step = width_of(data), step_of(data)
    elif isinstance(data, (Mapping, str, bytes)) or not isinstance(data, Iterable):
        raise RewardOpsError(
            f"The batch is a {type(data).__name__}; it is a list of samples, or a verl DataProto.",
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
        raise _wrong(index, f"is a {type(item).__name__}; it is a Sample or a dict")
    sample: dict[str, Any] = {}
    for name, value in given:
        if name == "reward_model" and isinstance(value, Mapping):
            # As verl's data sets have it.
            name, value = "ground_truth", value.get("ground_truth")
        field = FIELDS.get(name)
        if field is None:
            raise _wrong(
                index, f"has {name!r}, which is no field of a sample: put it into extra_info"
            )
        if value is None:
            continue
        if field in sample:
            raise _wrong(index, f"has {field} twice, by two names")
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
    if field == "responseLength":
        return int(_number(value, index, field))
    if field == "prompt":
        return _prompt(value, index, media)
    try:
        made = plain(value)
    except TypeError as error:
        raise _wrong(index, f"has a {field} that is no JSON: {error}") from None
    if field in ("uid", "dataSource", "response") and not isinstance(made, str):
        # Data sets number their prompts.
        if field == "uid" and isinstance(made, int):
            return str(made)
        raise _wrong(index, f"has a {field} that is a {type(value).__name__}, not text")
    return made


def _number(value: Any, index: int, field: str) -> float:
    made = plain(value) if hasattr(value, "tolist") else value
    while isinstance(made, list) and len(made) == 1:
        made = made[0]
    if isinstance(made, (int, float)):
        return float(made)
    if made is None and hasattr(value, "tolist"):
        return math.nan
    raise _wrong(index, f"has a {field} that is a {type(value).__name__}, not a number")


def _prompt(value: Any, index: int, media: str) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping) and "role" in value:
        value = [value]
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, str):
        return listed
    if not isinstance(listed, (list, tuple)):
        raise _wrong(index, "has a prompt that is neither text nor chat messages")
    messages = []
    for message in listed:
        if hasattr(message, "model_dump"):
            message = message.model_dump()
        if not isinstance(message, Mapping) or "role" not in message:
            raise _wrong(index, "has a prompt that is neither text nor chat messages")
        try:
            # The content first: with "placeholder" it may hold what is no JSON.
            content = content_text(message.get("content"), media)
            rest = {key: inner for key, inner in message.items() if key != "content"}
            messages.append({**plain(rest), "content": plain(content)})
        except RewardOpsError as error:
            raise RewardOpsError(
                f"Sample {index}, prompt: {error.message}", reason=error.reason, hint=error.hint
            ) from None
        except TypeError as error:
            raise _wrong(index, f"has a prompt that is no JSON: {error}") from None
    return messages


def prompt_uid(prompt: Any) -> str:
    """A group's uid made of its prompt, images included. Raises RewardOpsError (`invalid_input`)."""
    try:
        identity = json.dumps(_identity(prompt), sort_keys=True)
    except TypeError as error:
        raise RewardOpsError(
            f"A prompt has a {error}, by which its group cannot be told.", reason=INVALID_INPUT
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
    A value as JSON has it: numpy's and torch's as numbers and lists, bytes as text (what is no UTF-8 as lone
    surrogates, so that nothing is lost), NaN and infinities as null, dates and paths as text. Raises TypeError for what is none of these.
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
    # numpy's text, and enums of text.
    return str.__str__(value) if isinstance(value, str) else value


def _key(key: Any) -> str:
    made = plain(key)
    return made if isinstance(made, str) else str(made)


def _wrong(index: int, what: str) -> RewardOpsError:
    return RewardOpsError(f"Sample {index} {what}.", reason=INVALID_INPUT)
