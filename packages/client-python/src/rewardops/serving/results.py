"""What a reward function gave, as an entry of `results`: a finite score or an error, never a score for a failure."""

from __future__ import annotations

import math
from typing import Any

#: Longest message of an error, in characters.
MAX_MESSAGE_CHARS = 2_000
#: JSON numbers of the service are doubles: integers beyond are sent as text, not rounded.
LARGEST_INT = 2**53 - 1


def error_entry(reason: str, message: str) -> dict[str, Any]:
    """`reason` is a word of the service: `function_error`, `timeout` or `non_finite`."""
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[: MAX_MESSAGE_CHARS - 1] + "…"
    return {"error": message, "reason": reason}


def result_entry(result: Any) -> dict[str, Any]:
    """
    The entry of a result as verl's managers read it: a number has itself as `acc`, a dict its `score` and the rest
    beside it, a tuple its first element; `(score, prompt, explanation)` keeps the other two.
    """
    extra: dict[str, Any] = {}
    if isinstance(result, (tuple, list)):
        if len(result) == 0:
            return error_entry("function_error", "the function gave an empty tuple, no score")
        if len(result) == 3 and isinstance(result[1], str) and isinstance(result[2], str):
            extra = {"prompt": result[1], "explanation": result[2]}
        result = result[0]
    if isinstance(result, dict):
        if "score" not in result and "reward_score" in result:
            # What a verl reward manager gives.
            info = result.get("reward_extra_info")
            result = {**(info if isinstance(info, dict) else {}), "score": result["reward_score"]}
        if "score" not in result:
            keys = ", ".join(map(repr, result)) or "nothing"
            return error_entry(
                "function_error", f"the function gave a dict without 'score': {keys}"
            )
        score = number(result["score"])
        extra = {**{str(key): value for key, value in result.items() if key != "score"}, **extra}
    else:
        score = number(result)
        if score is not None:
            extra = {"acc": score, **extra}
    if score is None:
        told = result["score"] if isinstance(result, dict) else result
        return error_entry(
            "function_error", f"the function gave {type(told).__name__} {brief(told)}, not a score"
        )
    if not math.isfinite(score):
        return error_entry("non_finite", f"the function gave {score}")
    # `error` in an entry says that there is no score; a function's own value of that name keeps its score.
    entry = {("error_" if key == "error" else key): plain(value) for key, value in extra.items()}
    entry["score"] = score
    return entry


def number(value: Any) -> float | None:
    """A score as a float; None where it is not a number. Also bools, numpy's and torch's scalars of one element."""
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
    """A value as JSON has it: NaN and infinities as null, arrays as lists, and what JSON has no word for as text."""
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
    """`repr` that cannot fail, at most 200 characters."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else text[:199] + "…"
