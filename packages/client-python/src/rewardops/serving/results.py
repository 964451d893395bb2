"""Converts a reward function's result to an entry of `results`: a finite score or an error, never a score for a failure."""

from __future__ import annotations

import math
from typing import Any

#: For an error message.
MAX_MESSAGE_CHARS = 2_000
#: Larger integers are sent as text, because the service reads JSON numbers as doubles, which would round them.
LARGEST_INT = 2**53 - 1


def error_entry(reason: str, message: str) -> dict[str, Any]:
    """An error entry. `reason`: `function_error`, `timeout` or `non_finite`."""
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[: MAX_MESSAGE_CHARS - 1] + "…"
    return {"error": message, "reason": reason}


def result_entry(result: Any) -> dict[str, Any]:
    """
    Converts a result as verl's managers do. A number also becomes `acc`. In a dict, `score` is the score; the other
    keys are extra info. In a tuple, the first element is the result. A tuple `(score, prompt, explanation)` adds
    `prompt` and `explanation` to the extra info.
    """
    extra: dict[str, Any] = {}
    if isinstance(result, (tuple, list)):
        if len(result) == 0:
            return error_entry("function_error", "the function returned an empty tuple, not a score")
        if len(result) == 3 and isinstance(result[1], str) and isinstance(result[2], str):
            extra = {"prompt": result[1], "explanation": result[2]}
        result = result[0]
    if isinstance(result, dict):
        if "score" not in result and "reward_score" in result:
            # From a verl reward manager.
            info = result.get("reward_extra_info")
            result = {**(info if isinstance(info, dict) else {}), "score": result["reward_score"]}
        if "score" not in result:
            keys = ", ".join(map(repr, result)) or "nothing"
            return error_entry(
                "function_error", f"the function returned a dict without 'score': {keys}"
            )
        score = number(result["score"])
        extra = {**{str(key): value for key, value in result.items() if key != "score"}, **extra}
    else:
        score = number(result)
        if score is not None:
            extra = {"acc": score, **extra}
    if score is None:
        value = result["score"] if isinstance(result, dict) else result
        return error_entry(
            "function_error", f"the function returned {type(value).__name__} {brief(value)}, not a score"
        )
    if not math.isfinite(score):
        return error_entry("non_finite", f"the function returned {score}")
    # `error` in an entry means that there is no score, so a function's own value of that name is renamed.
    entry = {("error_" if key == "error" else key): plain(value) for key, value in extra.items()}
    entry["score"] = score
    return entry


def number(value: Any) -> float | None:
    """A score as a float; None if it is not a number. Accepts bools, and numpy and torch values with one element."""
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if value is None or isinstance(value, (str, bytes, dict, list, tuple, set)):
        return None
    if hasattr(value, "item"):
        try:
            value = value.item()
        except Exception:
            return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def plain(value: Any, depth: int = 0) -> Any:
    """Converts a value to JSON types: NaN and infinities to null, arrays to lists, other types to text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -LARGEST_INT <= value <= LARGEST_INT else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > 20:
        return brief(value)
    if isinstance(value, dict):
        return {str(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner, depth + 1) for inner in value]
    for way in ("tolist", "item"):
        if hasattr(value, way):
            try:
                return plain(getattr(value, way)(), depth + 1)
            except Exception:
                break
    return brief(value)


def brief(value: Any) -> str:
    """A `repr` that cannot fail, with at most 200 characters."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else text[:199] + "…"
