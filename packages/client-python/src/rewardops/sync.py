"""The synchronous client."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rewardops.background import close_with, shared_loop
from rewardops.calls import ServiceInfo
from rewardops.client import AsyncRewardOps
from rewardops.options import ScoreOptions, SubmitOptions
from rewardops.pipeline import UNSET, AsyncBatch, AsyncRewardPipeline
from rewardops.rewards import OnFailure, Reward
from rewardops.samples import prepare
from rewardops.scores import Chunk, Group, ScoredSample, Scores
from rewardops.stored_samples import StoredSamples

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class RewardOps:
    """
    A client of a rewardops service. It can be shared by threads, and used in forked processes.

        with RewardOps("http://127.0.0.1:3000", run="my-run") as client:
            pipeline = client.compute_reward_pipeline(samples, group_size=8, step=1)
            for indices, rm_scores, extra in pipeline.chunks(1280):
                ...

    The arguments and methods are those of AsyncRewardOps, but methods block. All methods raise RewardOpsError.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        run: str = "python",
        reward: Reward = None,
        on_failure: OnFailure = None,
        timeout_s: float | None = 3600.0,
        connect_s: float = 4.0,
        outage_s: float = 300.0,
        max_connections: int | None = None,
        http: str = "auto",
        ssl_context: ssl.SSLContext | None = None,
        media: str = "refuse",
        trace_headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._async = AsyncRewardOps(
            url,
            api_key,
            run=run,
            reward=reward,
            on_failure=on_failure,
            timeout_s=timeout_s,
            connect_s=connect_s,
            outage_s=outage_s,
            max_connections=max_connections,
            http=http,
            ssl_context=ssl_context,
            media=media,
            trace_headers=trace_headers,
        )
        self._close = close_with(self, self._async.close)

    @property
    def url(self) -> str:
        return self._async.url

    @property
    def run(self) -> str:
        return self._async.run

    def check(self) -> ServiceInfo:
        """See AsyncRewardOps."""
        return self._wait(self._async.check())

    def submit(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> Batch:
        """See AsyncRewardOps."""
        # Runs in the caller's thread, to which the tokenizer belongs.
        prepared = prepare(
            data, group_size=group_size, tokenizer=tokenizer, media=self._async.media
        )
        return Batch(self, self._wait(self._async.submit_prepared(prepared, group_size, **submit)))

    def batch(self, batch_id: str) -> Batch:
        """See AsyncRewardOps."""

        async def made() -> AsyncBatch:
            return self._async.batch(batch_id)

        return Batch(self, self._wait(made()))

    def append(
        self,
        batch_id: str,
        data: Any,
        start_index: int,
        *,
        tokenizer: Any = None,
        timeout_s: Any = UNSET,
    ) -> int:
        """See AsyncRewardOps."""
        sent = prepare(data, tokenizer=tokenizer, first_index=start_index, media=self._async.media)
        return self._wait(
            self._async.append_prepared(batch_id, sent, start_index, timeout_s=timeout_s)
        )

    def close_batch(self, batch_id: str, *, timeout_s: Any = UNSET) -> None:
        """See AsyncRewardOps."""
        self._wait(self._async.close_batch(batch_id, timeout_s=timeout_s))

    def cancel(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(self._async.cancel(batch_id, timeout_s=timeout_s))

    def summary(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(self._async.summary(batch_id, timeout_s=timeout_s))

    def wait(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(self._async.wait(batch_id, timeout_s=timeout_s))

    def results(
        self, batch_id: str, *, token_scores: bool = False, timeout_s: Any = UNSET
    ) -> Scores:
        """See AsyncRewardOps."""
        return self._wait(
            self._async.results(batch_id, token_scores=token_scores, timeout_s=timeout_s)
        )

    def compute_reward_pipeline(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        cursor: str | None = None,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> RewardPipeline:
        """See AsyncRewardOps."""
        return self.submit(data, group_size, tokenizer=tokenizer, **submit).pipeline(cursor)

    def compute_rm_score(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> Scores:
        """See AsyncRewardOps."""
        prepared = prepare(
            data,
            group_size=group_size,
            tokenizer=tokenizer,
            own_groups=group_size is None,
            media=self._async.media,
        )
        return self._wait(self._async.rm_score_prepared(prepared, group_size, **submit))

    def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        **more: Unpack[ScoreOptions],
    ) -> ScoredSample:
        """See AsyncRewardOps."""
        return self._wait(
            self._async.compute_score(data_source, solution_str, ground_truth, extra_info, **more)
        )

    def rescore(
        self,
        batch_id: str,
        reward: Reward,
        *,
        on_failure: OnFailure = None,
        idempotency_key: str | None = None,
        timeout_s: Any = UNSET,
    ) -> Batch:
        """See AsyncRewardOps."""
        return Batch(
            self,
            self._wait(
                self._async.rescore(
                    batch_id,
                    reward,
                    on_failure=on_failure,
                    idempotency_key=idempotency_key,
                    timeout_s=timeout_s,
                )
            ),
        )

    def update_run(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        run: str | None = None,
        tags: Sequence[str] | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        timeout_s: Any = UNSET,
    ) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(
            self._async.update_run(
                config,
                run=run,
                tags=tags,
                add_tags=add_tags,
                remove_tags=remove_tags,
                timeout_s=timeout_s,
            )
        )

    def step_metrics(
        self,
        step: int,
        *,
        run: str | None = None,
        split: str = "train",
        timeout_s: Any = UNSET,
    ) -> dict[str, float]:
        """See AsyncRewardOps."""
        return self._wait(self._async.step_metrics(step, run=run, split=split, timeout_s=timeout_s))

    def register_server(
        self, name: str, url: str, engine: str = "auto", **settings: Any
    ) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(self._async.register_server(name, url, engine, **settings))

    def servers(self) -> list[dict[str, Any]]:
        """See AsyncRewardOps."""
        return self._wait(self._async.servers())

    def sample(self, sample_id: str) -> dict[str, Any]:
        """See AsyncRewardOps."""
        return self._wait(self._async.sample(sample_id))

    def samples(
        self,
        *,
        run: str | None = None,
        batch_id: str | None = None,
        step: int | str | None = None,
        split: str | None = None,
        columns: Sequence[str] | None = None,
        kept: bool = False,
        **filters: Any,
    ) -> StoredSamples:
        """See AsyncRewardOps."""
        return self._async.samples(
            run=run,
            batch_id=batch_id,
            step=step,
            split=split,
            columns=columns,
            kept=kept,
            **filters,
        )

    def call(
        self, procedure: str, given: Mapping[str, Any] | None = None, *, timeout_s: Any = UNSET
    ) -> Any:
        """See AsyncRewardOps."""
        return self._wait(self._async.call(procedure, given, timeout_s=timeout_s))

    def close(self) -> None:
        """Closes the connections."""
        self._close()

    def __enter__(self) -> RewardOps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return shared_loop().run(work)


class Batch:
    """A batch in the service: the blocking form of AsyncBatch."""

    def __init__(self, client: RewardOps, batch: AsyncBatch) -> None:
        self._client = client
        self._batch = batch

    @property
    def batch_id(self) -> str:
        return self._batch.batch_id

    @property
    def accepted(self) -> int:
        return self._batch.accepted

    @property
    def groups(self) -> int:
        return self._batch.groups

    @property
    def duplicate(self) -> bool:
        return self._batch.duplicate

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.batch_id}>"

    def append(
        self,
        data: Any,
        *,
        tokenizer: Any = None,
        group_size: int | None = None,
        timeout_s: Any = UNSET,
    ) -> int:
        """See AsyncBatch."""
        return self._client._wait(
            self._batch.append(
                data, tokenizer=tokenizer, group_size=group_size, timeout_s=timeout_s
            )
        )

    def close(self, *, timeout_s: Any = UNSET) -> None:
        """See AsyncBatch."""
        self._client._wait(self._batch.close(timeout_s=timeout_s))

    def cancel(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncBatch."""
        return self._client._wait(self._batch.cancel(timeout_s=timeout_s))

    def summary(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncBatch."""
        return self._client._wait(self._batch.summary(timeout_s=timeout_s))

    def wait(self, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """See AsyncBatch."""
        return self._client._wait(self._batch.wait(timeout_s=timeout_s))

    def results(self, *, token_scores: bool = False, timeout_s: Any = UNSET) -> Scores:
        """See AsyncBatch."""
        return self._client._wait(
            self._batch.results(token_scores=token_scores, timeout_s=timeout_s)
        )

    def samples(self, **filters: Any) -> StoredSamples:
        """See AsyncBatch."""
        return self._batch.samples(**filters)

    def pipeline(self, cursor: str | None = None) -> RewardPipeline:
        """See AsyncBatch."""

        async def made() -> AsyncRewardPipeline:
            return self._batch.pipeline(cursor)

        return RewardPipeline(self._client, self, self._client._wait(made()))


class RewardPipeline:
    """A batch's groups in completion order: the blocking form of AsyncRewardPipeline."""

    def __init__(self, client: RewardOps, batch: Batch, pipeline: AsyncRewardPipeline) -> None:
        self._client = client
        self.batch = batch
        self._pipeline = pipeline

    @property
    def batch_id(self) -> str:
        return self._pipeline.batch_id

    @property
    def cursor(self) -> str | None:
        return self._pipeline.cursor

    @property
    def remaining(self) -> int | None:
        return self._pipeline.remaining

    @property
    def done(self) -> bool:
        return self._pipeline.done

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.batch_id} after {self.cursor}>"

    def get(self, chunk_size: int = 1, *, timeout_s: Any = UNSET) -> Chunk:
        """See AsyncRewardPipeline."""
        return self._client._wait(self._pipeline.get(chunk_size, timeout_s=timeout_s))

    def chunks(self, chunk_size: int) -> Iterator[Chunk]:
        """See AsyncRewardPipeline."""
        while not self.done:
            chunk = self.get(chunk_size)
            if len(chunk):
                yield chunk

    def __iter__(self) -> Iterator[Group]:
        while not self.done:
            yield from self.get(1).groups

    def cancel(self) -> dict[str, Any]:
        """See AsyncRewardPipeline."""
        return self._client._wait(self._pipeline.cancel())

    def close(self) -> None:
        """See AsyncRewardPipeline."""
        self._client._wait(self._pipeline.close())

    def __enter__(self) -> RewardPipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
