"""
Reads verl's DataProto without importing verl: `batch` has tensors, `non_tensor_batch` has columns, one row per rollout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.samples import plain, whole_number, whole_or_none


def width_of(data: Any) -> int | None:
    """Width of the response tensor in tokens, which is also the width of the reward tensor."""
    responses = _tensor(data, "responses")
    return None if responses is None else int(responses.shape[-1])


def step_of(data: Any) -> int | None:
    about = getattr(data, "meta_info", None) or {}
    name = "global_steps" if "global_steps" in about else "global_step"
    return whole_or_none(about.get(name), name)


def samples_of(data: Any, tokenizer: Any) -> Iterator[dict[str, Any]]:
    """
    Yields one sample per row, as verl's naive manager reads it: the response's valid tokens are decoded without special
    tokens, and `extra_info` gets `num_turns`, `rollout_reward_scores` and the tools' fields. A row with `rm_scores` is
    already scored. Raises RewardOpsError (`invalid_input`).
    """
    columns = data.non_tensor_batch
    responses = _tensor(data, "responses")
    if responses is None:
        raise RewardOpsError("The DataProto has no responses.", reason=INVALID_INPUT)
    if tokenizer is None:
        raise RewardOpsError(
            "A DataProto has tokens; pass the tokenizer that decodes them as tokenizer=.",
            reason=INVALID_INPUT,
        )
    mask = _tensor(data, "attention_mask")
    prompts = _tensor(data, "prompts")
    scores = _tensor(data, "rm_scores")
    width = int(responses.shape[-1])
    for row in range(int(responses.shape[0])):
        # verl sets `response_len` if several outputs of a trajectory are padded together; the mask would then include
        # another output.
        own_length = _cell(columns, "response_len", row)
        if own_length is not None:
            length = whole_number(own_length, row, "response_len")
        else:
            length = width if mask is None else int(mask[row][-width:].sum())
        sample: dict[str, Any] = {
            "dataSource": _cell(columns, "data_source", row),
            "response": tokenizer.decode(responses[row][:length], skip_special_tokens=True),
            "responseLength": length,
            "groundTruth": ground_truth_of(columns, row),
            "extraInfo": extra_info_of(columns, row),
        }
        uid = _cell(columns, "uid", row)
        if uid is not None:
            sample["uid"] = str(uid)
        raw = _cell(columns, "raw_prompt", row)
        if raw is not None:
            sample["prompt"] = raw if isinstance(raw, str) else list(raw)
        elif prompts is not None:
            valid = prompts[row] if mask is None else prompts[row][mask[row][:-width].bool()]
            sample["prompt"] = tokenizer.decode(valid, skip_special_tokens=True)
        else:
            sample["prompt"] = ""
        if scores is not None:
            sample["score"] = float(scores[row].sum())
            extra = reward_extra_of(data, row)
            if extra:
                sample["rewardExtraInfo"] = extra
        yield sample


def ground_truth_of(columns: Any, row: int) -> Any:
    """The ground truth from `reward_model`, as in verl's datasets, or from the column `ground_truth`."""
    about = _cell(columns, "reward_model", row)
    if hasattr(about, "get") and about.get("ground_truth") is not None:
        return about.get("ground_truth")
    return _cell(columns, "ground_truth", row)


def reward_extra_of(data: Any, row: int) -> dict[str, Any]:
    """The reward extra info of an already scored row: the columns named by `reward_extra_keys`."""
    about = getattr(data, "meta_info", None) or {}
    columns = data.non_tensor_batch
    keys = about.get("reward_extra_keys") or []
    return {str(key): _named(_cell(columns, key, row)) for key in keys if key in columns}


def extra_info_of(columns: Any, row: int) -> dict[str, Any]:
    """Copies a row's extra info, which rollouts of a prompt share, and adds the fields of verl's reward managers."""
    given = _cell(columns, "extra_info", row)
    info: dict[str, Any] = dict(given) if given is not None else {}
    tools = _cell(columns, "tool_extra_fields", row)
    if tools is not None:
        info.update(dict(tools))
    info["num_turns"] = _cell(columns, "__num_turns__", row)
    rollout_scores = _cell(columns, "reward_scores", row)
    info["rollout_reward_scores"] = {} if rollout_scores is None else rollout_scores
    return {str(key): _named(value) for key, value in info.items()}


def _named(value: Any) -> Any:
    # Trainers keep images and handles in extra info. A type name replaces such an unsupported value, so that the value
    # does not fail the step.
    try:
        return plain(value)
    except TypeError as error:
        return f"<{error}>"


def _tensor(data: Any, name: str) -> Any:
    batch = getattr(data, "batch", None)
    if batch is None:
        return None
    return batch[name] if name in batch.keys() else None


def _cell(columns: Any, name: str, row: int) -> Any:
    return columns[name][row] if name in columns else None
