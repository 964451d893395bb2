"""
Renders chat messages as text: content, reasoning, tool calls and tool results. By default, a part without a text form
raises an error that names its type; see `MEDIA`.

A completion of one assistant message without reasoning and tool calls is its content, byte for byte. With several
messages, each message is a block, and blocks are joined by newlines:

    Let me compute that.
    <tool_call>
    {"name": "multiply", "arguments": {"a":6,"b":7}, "id": "call_1"}
    </tool_call>
    <tool_response name="multiply" tool_call_id="call_1">
    42
    </tool_response>
    The answer is 42.

Reasoning is wrapped in `<think>`. A message of another role, or an assistant message that follows another one, is
wrapped in `<turn>`, such as `<turn role="user">`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rewardops.errors import INVALID_INPUT, RewardOpsError

#: Handling of non-text content parts: refuse them, replace them with the name of their type such as `<image>`, or send
#: them (for rules, functions and custom scorers; reward models and judges get text only).
MEDIA = ("refuse", "placeholder", "send")

#: Fields of a message that its text includes.
_HELD = frozenset(("role", "content", "tool_calls", "function_call", "name", "tool_call_id"))
#: Names of the reasoning field in trainers and servers.
_REASONING = ("reasoning_content", "reasoning", "thinking")
#: Fields that the text omits, because they only repeat the content for a provider or identify the message.
_REPEATED = frozenset(("provider_state", "id", "type", "status", "index"))


def check_media(media: str) -> str:
    """Raises RewardOpsError (`invalid_input`) for an unknown value."""
    if media not in MEDIA:
        raise RewardOpsError(
            f'media is {media!r}; it must be "refuse", "placeholder" or "send".', reason=INVALID_INPUT
        )
    return media


def content_text(content: Any, media: str = "refuse") -> str | None:
    """
    A message's content as text, with text parts joined. Raises RewardOpsError (`invalid_input`) for an image or
    another non-text part if `media` is "refuse".
    """
    if content is None or isinstance(content, str):
        return content
    if hasattr(content, "tolist"):
        content = content.tolist()
    if isinstance(content, Mapping) and "type" not in content:
        # The content is the result of a tool.
        return json.dumps(content, ensure_ascii=False, default=str)
    parts = content if isinstance(content, (list, tuple)) else [content]
    return "".join(_part_text(part, media) for part in parts)


def _part_text(part: Any, media: str) -> str:
    if hasattr(part, "model_dump"):
        part = part.model_dump()
    if not isinstance(part, Mapping):
        return str(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("type", "part"))
    if media != "refuse":
        return f"<{kind}>"
    raise RewardOpsError(
        f"A message has a part of type {kind!r}, which cannot be sent to a reward as text.",
        reason=INVALID_INPUT,
        hint=f'media="placeholder" sends "<{kind}>" in its place; the reward does not see the part.',
    )


def completion_text(completion: Any, media: str = "refuse") -> str:
    """
    Renders a completion, or a whole conversation, as the text described at the top of this module. Raises
    RewardOpsError (`invalid_input`) naming the part that text cannot represent.
    """
    if completion is None or isinstance(completion, str):
        return completion or ""
    if hasattr(completion, "tolist"):
        completion = completion.tolist()
    messages = [_plain(message) for message in _listed(completion)]
    blocks: list[str] = []
    before = None
    for message in messages:
        role = str(message.get("role") or "assistant")
        text = _message_text(message, media)
        if role == "tool":
            named = "".join(
                f" {key}={json.dumps(str(message[key]), ensure_ascii=False)}"
                for key in ("name", "tool_call_id")
                if message.get(key)
            )
            text = f"<tool_response{named}>\n{text}\n</tool_response>"
        elif role != "assistant" or before == "assistant":
            text = f"<turn role={json.dumps(role)}>\n{text}\n</turn>"
        blocks.append(text)
        before = role
    return "\n".join(blocks)


def completion_sent(completion: Any, media: str = "refuse") -> Any:
    """
    Converts a completion to what the service accepts. A trajectory stays a list of messages, which the service scores
    as the text of `completion_text`. Anything else becomes that text. Raises the errors of `completion_text`.
    """
    text = completion_text(completion, media)
    if completion is None or isinstance(completion, str):
        return text
    if hasattr(completion, "tolist"):
        completion = completion.tolist()
    messages = [_plain(message) for message in _listed(completion)]
    first = messages[0] if messages else {}
    is_trajectory = len(messages) > 1 or first.get("tool_calls") or first.get("function_call")
    if media == "send":
        # As text, the message would lose its images.
        is_trajectory = is_trajectory or _has_media(first.get("content"))
    if not is_trajectory or any("role" not in message for message in messages):
        return text
    return [dict(message) for message in messages]


def _has_media(content: Any) -> bool:
    try:
        content_text(content)
    except RewardOpsError:
        return True
    return False


def _listed(completion: Any) -> list[Any]:
    return [completion] if isinstance(completion, Mapping) else list(completion)


def _plain(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        made: Mapping[str, Any] = dump()
        return made
    raise RewardOpsError(
        f"A completion has a {type(message).__name__} among its messages.", reason=INVALID_INPUT
    )


def _message_text(message: Mapping[str, Any], media: str) -> str:
    for key, value in message.items():
        # None and empty lists carry no content.
        if key in _HELD or key in _REASONING or key in _REPEATED or not value:
            continue
        raise RewardOpsError(
            f"A message has {key!r}, which cannot be sent to a reward as text.",
            reason=INVALID_INPUT,
            hint="Remove it from the completion, or put it into the content.",
        )
    blocks = [
        f"<think>\n{content_text(message[key], media)}\n</think>"
        for key in _REASONING
        if message.get(key)
    ][:1]
    content = content_text(message.get("content"), media)
    if content:
        blocks.append(content)
    calls = list(message.get("tool_calls") or [])
    if message.get("function_call"):
        calls.append(message["function_call"])
    blocks.extend(_call_text(call) for call in calls)
    return "\n".join(blocks)


def _call_text(call: Any) -> str:
    given = _plain(call)
    function = given.get("function")
    called: Mapping[str, Any] = given if function is None else _plain(function)
    fields = [f'"name": {_json(called.get("name"))}']
    if called.get("namespace"):
        fields.append(f'"namespace": {_json(called["namespace"])}')
    fields.append(f'"arguments": {_arguments(called.get("arguments"))}')
    if given.get("id"):
        fields.append(f'"id": {_json(given["id"])}')
    return "<tool_call>\n{" + ", ".join(fields) + "}\n</tool_call>"


def _arguments(arguments: Any) -> str:
    # Servers send arguments as JSON text, trainers as a dict.
    if isinstance(arguments, str):
        try:
            json.loads(arguments)
        except ValueError:
            return _json(arguments)
        return arguments
    return _json(arguments)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
