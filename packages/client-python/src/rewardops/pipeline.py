"""A batch in the service, and its groups in completion order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

from rewardops.errors import CLOSED, INVALID_INPUT, RewardOpsError
from rewardops.samples import Prepared, prepare, whole
from rewardops.scores import Chunk, Group, Scores, columns_of

if TYPE_CHECKING:
    from rewardops.client import AsyncRewardOps
    from rewardops.stored_samples import StoredSamples

#: Duration of a long poll, in seconds. A new poll detects a service that disappeared silently.
POLL_S = 20.0
#: Extra time for the answer after the end of a poll, in seconds.
SLACK_S = 30.0
#: Extra time for the answer that the service sends at a caller's deadline, in seconds.
GRACE_S = 5.0
PAGE = 10_000
#: Samples per answer with token scores, the service's maximum.
PAGE_WITH_TOKENS = 500

#: `timeout_s=UNSET` means the client's timeout.
UNSET: Any = type("Unset", (), {"__repr__": lambda self: "UNSET"})()
_Self = TypeVar("_Self", bound="AsyncRewardPipeline")


class AsyncBatch:
    """
    A batch in the service. `accepted`: number of submitted samples. `duplicate`: whether an earlier submit with the
    same idempotency key and content created the batch.
    """

    def __init__(
        self,
        client: AsyncRewardOps,
        batch_id: str,
        *,
        accepted: int = 0,
        groups: int = 0,
        duplicate: bool = False,
        sent: Prepared | None = None,
    ) -> None:
        self._client = client
        self.batch_id = batch_id
        self.accepted = accepted
        self.groups = groups
        self.duplicate = duplicate
        #: Width of the trainer's response tensor, and the response lengths, for samples sent by this object.
        self.width = sent.width if sent else None
        self.lengths: list[int | None] | None = list(sent.lengths) if sent else None
        self._sent = len(sent.samples) if sent else 0
        self._appending = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.batch_id}>"

    async def append(
        self,
        data: Any,
        *,
        tokenizer: Any = None,
        group_size: int | None = None,
        timeout_s: Any = UNSET,
    ) -> int:
        """
        Appends samples to a batch submitted as `open`, in order; returns its new number of samples. Raises RewardOpsError.
        """
        if self.lengths is None:
            raise RewardOpsError(
                f"The number of samples of {self.batch_id} is unknown here; use client.append with a start_index.",
                reason=INVALID_INPUT,
            )
        async with self._appending:
            # Groups without a uid get numbered uids, which continue after the samples that are already in the batch.
            sent = prepare(
                data,
                group_size=group_size,
                tokenizer=tokenizer,
                first_index=self._sent,
                media=self._client.media,
            )
            samples = await self._client.append_prepared(
                self.batch_id, sent, self._sent, timeout_s=timeout_s
            )
            self._sent += len(sent.samples)
            self.lengths.extend(sent.lengths)
            self.width = self.width or sent.width
            return samples

    async def close(self, *, timeout_s: Any = UNSET) -> None:
        """Closes an open batch: its groups complete without waiting for more samples."""
        await self._client.close_batch(self.batch_id, timeout_s=timeout_s)

    async def cancel(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """Cancels the samples that are not scored yet; returns the summary."""
        return await self._client.cancel(self.batch_id, timeout_s=timeout_s)

    async def summary(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """The batch's summary (docs/api.md)."""
        return await self._client.summary(self.batch_id, timeout_s=timeout_s)

    async def wait(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """Waits until the batch ends; returns its summary. Raises RewardOpsError (`timeout`)."""
        return await self._client.wait(self.batch_id, timeout_s=timeout_s)

    async def results(self, *, token_scores: bool = False, timeout_s: Any = UNSET) -> Scores:
        """The batch's current results, in submission order. `token_scores`: include scores per token."""
        return await self._client.results(
            self.batch_id,
            token_scores=token_scores,
            timeout_s=timeout_s,
            width=self.width,
            lengths=self.lengths,
        )

    def samples(self, **filters: Any) -> StoredSamples:
        """The batch's samples with their texts. `filters`: the arguments of `samples` of the client."""
        return self._client.samples(batch_id=self.batch_id, **filters)

    def pipeline(self, cursor: str | None = None) -> AsyncRewardPipeline:
        """Delivers the groups in completion order, after `cursor` (from an earlier chunk) or from the first."""
        return AsyncRewardPipeline(self, cursor)


class AsyncRewardPipeline:
    """
    Delivers a batch's groups in completion order. Each group is delivered once; another pipeline can start at an earlier
    `cursor`, because reading consumes nothing in the service.

        async with await client.compute_reward_pipeline(data, group_size=8, step=1) as pipeline:
            async for indices, rm_scores, extra in pipeline.chunks(1280):
                ...
    """

    def __init__(self, batch: AsyncBatch, cursor: str | None = None) -> None:
        self.batch = batch
        #: Position after the last chunk; a trainer that stores it continues there after a restart.
        self.cursor: str | None = cursor
        #: Samples not yet delivered; None before the first `get`.
        self.remaining: int | None = None
        self.done = False
        self._closed = asyncio.Event()
        self._getting = asyncio.Lock()

    @property
    def batch_id(self) -> str:
        return self.batch.batch_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.batch_id} after {self.cursor}>"

    async def get(self, chunk_size: int = 1, *, timeout_s: Any = UNSET) -> Chunk:
        """
        Waits until complete groups have at least `chunk_size` samples in total, or the batch has ended, and returns them.
        The last chunk may be smaller; after it, chunks are empty with `done`. After `timeout_s`, it returns the groups
        complete so far, marked `timed_out`. Raises RewardOpsError.
        """
        chunk_size = whole(chunk_size, "chunk_size")
        if chunk_size < 1:
            raise RewardOpsError(
                f"chunk_size is {chunk_size}; it must be 1 or more.", reason=INVALID_INPUT
            )
        async with self._getting:
            return await self._get(chunk_size, timeout_s)

    async def chunks(self, chunk_size: int) -> AsyncIterator[Chunk]:
        """Iterates over all chunks; the last one has the remaining groups."""
        while not self.done:
            chunk = await self.get(chunk_size)
            if len(chunk):
                yield chunk

    async def __aiter__(self) -> AsyncIterator[Group]:
        """Iterates over all groups in completion order."""
        while not self.done:
            for group in (await self.get(1)).groups:
                yield group

    async def cancel(self) -> dict[str, Any]:
        """Cancels the samples that are not scored yet; their groups are still delivered."""
        return await self.batch.cancel()

    async def close(self) -> None:
        """Ends a `get` that waits in another task. The batch is still scored; `cancel` stops it."""
        self._closed.set()

    async def __aenter__(self: _Self) -> _Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _get(self, want: int, timeout_s: Any) -> Chunk:
        deadline = self.batch._client.deadline(timeout_s)
        groups: list[dict[str, Any]] = []
        in_hand = 0
        late = False
        cursor, remaining, done = self.cursor, self.remaining, False
        requested = want
        while True:
            left = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
            page = await self._next(cursor, requested, 0.0 if late else min(POLL_S, left), deadline)
            cursor, remaining, done = page["cursor"], page["remaining"], page["done"]
            groups += page["groups"]
            in_hand += page["delivered"]
            if done or in_hand >= want or (late and page["timedOut"] and requested == 1):
                break
            # After the deadline, fewer samples are enough. Halving the request avoids a call per group.
            late = late or (deadline is not None and time.monotonic() >= deadline)
            if late:
                requested = max(1, requested // 2)
        # Updated last, so that a cancelled `get` has consumed nothing.
        self.cursor, self.remaining, self.done = cursor, remaining, done
        return self._chunk(groups, late and in_hand < want and not done)

    async def _next(
        self, cursor: str | None, want: int, wait_s: float, deadline: float | None
    ) -> dict[str, Any]:
        if self._closed.is_set():
            raise RewardOpsError(f"The pipeline of {self.batch_id} is closed.", reason=CLOSED)
        asking = asyncio.ensure_future(
            self.batch._client.calls.call(
                "batches.next",
                {
                    "batchId": self.batch_id,
                    "after": cursor,
                    "samples": want,
                    "waitMs": round(wait_s * 1000),
                },
                # The service answers at the end of the poll, so its answer gets extra time.
                deadline=None if deadline is None else deadline + GRACE_S,
                answer_s=wait_s + SLACK_S,
            )
        )
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({asking, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise RewardOpsError(f"The pipeline of {self.batch_id} is closed.", reason=CLOSED)
            page: dict[str, Any] = asking.result()
            return page
        finally:
            for task in (asking, closing):
                task.cancel()

    def _chunk(self, groups: list[dict[str, Any]], timed_out: bool) -> Chunk:
        columns = columns_of([sample for group in groups for sample in group["samples"]])
        lengths = self.batch.lengths
        known = None
        if lengths is not None:
            known = [lengths[i] if i < len(lengths) else None for i in columns["index"]]
        return Chunk(
            batch_id=self.batch_id,
            **columns,
            width=self.batch.width,
            lengths=known,
            groups=[
                Group(
                    uid=group["uid"],
                    seq=group["seq"],
                    completed_at=group["completedAt"],
                    mean=group["mean"],
                    std=group["std"],
                    signal=group["signal"],
                    samples=group["samples"],
                )
                for group in groups
            ],
            cursor=self.cursor or "",
            remaining=self.remaining or 0,
            done=self.done,
            timed_out=timed_out,
        )
