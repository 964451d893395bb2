"""Builds request bodies of limited size from samples, and joins pages of results."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from rewardops.samples import Prepared, Prompt, prepare
from rewardops.scores import Scores, columns_of_pages

#: Maximum size of the samples in one request, bytes. A larger batch is sent as an open batch with appends. The service
#: accepts 256 MiB.
PART_BYTES = 32 << 20


def single(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None,
    prompt: Prompt | None,
    uid: str | None,
    response_length: int | None,
    media: str = "refuse",
) -> Prepared:
    info = dict(extra_info) if extra_info is not None else {}
    if prompt is None:
        prompt = _first(info, "prompt", "question")
    if uid is None:
        uid = _first(info, "uid", "group_uid")
    return prepare(
        [
            {
                "uid": f"single-{uuid.uuid4().hex[:12]}" if uid is None else uid,
                "dataSource": data_source,
                "prompt": "" if prompt is None else prompt,
                "response": solution_str,
                "groundTruth": ground_truth,
                "extraInfo": info,
                "responseLength": response_length,
            }
        ],
        media=media,
    )


def _first(info: Mapping[str, Any], *names: str) -> Any:
    return next((info[name] for name in names if info.get(name) is not None), None)


async def parts_of(samples: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """Splits samples into at least one JSON part within the maximum size, each with the index of its first sample."""
    if len(samples) <= 64:
        return list(_split(samples))
    # Serializing 100 MB takes a second, so it runs in a thread.
    return await asyncio.get_running_loop().run_in_executor(None, lambda: list(_split(samples)))


def _split(samples: list[dict[str, Any]]) -> Iterator[tuple[int, bytes]]:
    start, size = 0, 0
    part: list[bytes] = []
    for index, sample in enumerate(samples):
        body = json.dumps(sample, allow_nan=False, separators=(",", ":")).encode()
        if part and size + len(body) > PART_BYTES:
            yield start, b",".join(part)
            start, size, part = index, 0, []
        part.append(body)
        size += len(body) + 1
    yield start, b",".join(part)


def with_samples(envelope: dict[str, Any], samples: bytes) -> bytes:
    head = json.dumps(envelope, allow_nan=False, separators=(",", ":"))
    return head[:-1].encode() + b',"samples":[' + samples + b"]}"


def scores_of(
    batch_id: str,
    pages: list[dict[str, Any]],
    width: int | None,
    lengths: list[int | None] | None,
) -> Scores:
    columns = columns_of_pages(pages)
    rows = len(columns["index"])
    return Scores(
        batch_id=batch_id,
        **columns,
        width=width,
        lengths=lengths if lengths is not None and len(lengths) == rows else None,
    )
