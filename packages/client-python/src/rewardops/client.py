"""The asyncio client."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rewardops.bodies import parts_of, scores_of, single, with_samples
from rewardops.calls import Calls, ServiceInfo
from rewardops.errors import INVALID_INPUT, TIMEOUT, RewardOpsError
from rewardops.metrics import metrics_of_step
from rewardops.options import SubmitOptions
from rewardops.pipeline import (
    GRACE_S,
    PAGE,
    PAGE_WITH_TOKENS,
    POLL_S,
    SLACK_S,
    UNSET,
    AsyncBatch,
    AsyncRewardPipeline,
)
from rewardops.repeatable import NOT_REPEATABLE, keyed, new_key
from rewardops.rewards import OnFailure, Reward, reward_spec
from rewardops.samples import Prepared, Prompt, plain, prepare, whole, whole_or_none
from rewardops.scores import ScoredSample, Scores, number
from rewardops.stored_samples import StoredSamples
from rewardops.turns import check_media

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Seconds of silence before a submit is retried. The service parses and stores large bodies one by one before it
#: answers.
SUBMIT_ANSWER_S = 300.0
#: Seconds of silence before a score is requested again with its idempotency key.
SCORE_ANSWER_S = 600.0


class AsyncRewardOps:
    """
    A client of a rewardops service, for asyncio.

        async with AsyncRewardOps("http://127.0.0.1:3000", run="my-run") as client:
            scores = await client.compute_rm_score(samples, step=1)

    `url`: default REWARDOPS_URL, else http://127.0.0.1:3000. `api_key`: default REWARDOPS_API_KEY. `run`, `reward`
    and `on_failure`: defaults of calls that give none. `timeout_s`: total time of a call with waits and retries;
    default 3600, None means unlimited. `connect_s`: retry time for a service that was never reached. `outage_s`: retry
    time for a service that was reached before. `http`: "aiohttp", "streams" (the standard library) or "auto". `media`:
    images and other non-text parts of messages are refused ("refuse"), replaced by the name of their type such as
    `<image>` ("placeholder"), or sent ("send"). `trace_headers`: a function that returns `traceparent` and
    `tracestate` of a call; by default those of the active OpenTelemetry span, if there is one. All methods raise
    RewardOpsError.
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
        self.calls = Calls(
            url,
            api_key,
            timeout_s=timeout_s,
            connect_s=connect_s,
            outage_s=outage_s,
            max_connections=max_connections,
            http=http,
            ssl_context=ssl_context,
            trace_headers=trace_headers,
        )
        self.run = run
        self.reward = reward
        self.on_failure = on_failure
        self.media = check_media(media)
        self._abandoning: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return self.calls.address.url

    async def check(self) -> ServiceInfo:
        """
        Checks that the service is reachable, has a compatible version and accepts the key. If nothing answers, it
        raises `unreachable` after `connect_s`. The first call runs this check too.
        """
        return await self.calls.check()

    async def submit(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> AsyncBatch:
        """
        Submits a step's rollouts; returns once they are stored in the service, before they are scored.

        `data`: a list of Sample or dict, or a verl DataProto (with its `tokenizer`). `group_size`: samples per
        prompt; if it is None, a group has all samples of its uid and completes when the batch is closed. `open`: more
        samples follow by `append`, then `close`. `deadline_ms`: time limit, counted from acceptance; samples without a
        score then fail with the reason `deadline`. `idempotency_key`: a submit with the same key and content returns
        the same batch, so a restarted trainer finds its batch again.
        """
        prepared = prepare(data, group_size=group_size, tokenizer=tokenizer, media=self.media)
        return await self.submit_prepared(prepared, group_size, **submit)

    async def submit_prepared(
        self,
        prepared: Prepared,
        group_size: int | None,
        *,
        run: str | None = None,
        step: int | None = None,
        split: str = "train",
        reward: Reward = None,
        on_failure: OnFailure = None,
        open: bool = False,
        priority: int = 0,
        deadline_ms: int | None = None,
        idempotency_key: str | None = None,
        timeout_s: Any = UNSET,
    ) -> AsyncBatch:
        deadline = self.deadline(timeout_s)
        if step is None:
            step = prepared.step if prepared.step is not None else 0
        envelope: dict[str, Any] = {
            "run": run or self.run,
            "step": whole(step, "step"),
            "split": split,
            "groupSize": whole_or_none(group_size, "group_size"),
            "priority": whole(priority, "priority"),
            "deadlineMs": whole_or_none(deadline_ms, "deadline_ms"),
            # Makes the submit safe to retry after a lost answer.
            "idempotencyKey": idempotency_key or new_key(),
        }
        spec = self._spec(reward, on_failure)
        if spec is not None:
            envelope["reward"] = spec
        parts = await parts_of(prepared.samples)
        envelope["open"] = open or len(parts) > 1
        # A caller that gave no idempotency key cannot resume an incomplete submit, so its batch is cancelled. Otherwise
        # the batch would stay open.
        abandons = envelope["open"] and idempotency_key is None
        submitting = asyncio.ensure_future(
            self.calls.call(
                "batches.submit",
                with_samples(envelope, parts[0][1]),
                deadline=deadline,
                answer_s=SUBMIT_ANSWER_S,
            )
        )
        try:
            # The answer has the id by which the batch can be cancelled.
            answer = await (asyncio.shield(submitting) if abandons else submitting)
            batch_id, accepted, groups = answer["batchId"], answer["accepted"], answer["groups"]
            if len(parts) > 1:
                # The answer counts the groups of the first part, or those of the whole batch if the batch was submitted
                # before.
                groups = max(groups, len({sample["uid"] for sample in prepared.samples}))
            for start, body in parts[1:]:
                appended = await self.calls.call(
                    "batches.append",
                    with_samples({"batchId": batch_id, "startIndex": start}, body),
                    deadline=deadline,
                    answer_s=SUBMIT_ANSWER_S,
                )
                accepted = appended["samples"]
            if len(parts) > 1 and not open:
                await self.calls.call("batches.close", {"batchId": batch_id}, deadline=deadline)
        except (RewardOpsError, asyncio.CancelledError):
            if abandons:
                await self._abandon(submitting)
            raise
        return AsyncBatch(
            self,
            batch_id,
            accepted=accepted,
            groups=groups,
            duplicate=answer["duplicate"],
            sent=prepared,
        )

    async def _abandon(self, submitting: asyncio.Future[Any]) -> None:
        """Cancels the batch of an incomplete submit. Waits for this at most GRACE_S; it goes on after that."""
        abandoning = asyncio.ensure_future(self._cancel_submitted(submitting))
        self._abandoning.add(abandoning)
        abandoning.add_done_callback(self._abandoning.discard)
        await asyncio.wait({abandoning}, timeout=GRACE_S)

    async def _cancel_submitted(self, submitting: asyncio.Future[Any]) -> None:
        try:
            # A busy service can take long to answer. The id of the batch to cancel is unknown until then.
            await self.cancel((await submitting)["batchId"])
        except RewardOpsError:
            # The caller gets the error that made the batch incomplete.
            pass

    def batch(self, batch_id: str) -> AsyncBatch:
        """An existing batch; the service is not called."""
        return AsyncBatch(self, batch_id)

    async def append(
        self,
        batch_id: str,
        data: Any,
        start_index: int,
        *,
        tokenizer: Any = None,
        timeout_s: Any = UNSET,
    ) -> int:
        """Adds samples to an open batch from index `start_index` on. Returns the batch's new number of samples."""
        sent = prepare(data, tokenizer=tokenizer, first_index=start_index, media=self.media)
        return await self.append_prepared(batch_id, sent, start_index, timeout_s=timeout_s)

    async def append_prepared(
        self, batch_id: str, sent: Prepared, start_index: int, *, timeout_s: Any = UNSET
    ) -> int:
        """Appends samples that `prepare` made, in parts. Returns the batch's new number of samples."""
        deadline = self.deadline(timeout_s)
        samples = start_index = whole(start_index, "start_index")
        for start, body in await parts_of(sent.samples):
            answer = await self.calls.call(
                "batches.append",
                with_samples({"batchId": batch_id, "startIndex": start_index + start}, body),
                deadline=deadline,
                answer_s=SUBMIT_ANSWER_S,
            )
            samples = answer["samples"]
        return samples

    async def close_batch(self, batch_id: str, *, timeout_s: Any = UNSET) -> None:
        """Closes an open batch: it accepts no more samples, and its groups complete without waiting for more."""
        await self._by_id("batches.close", batch_id, timeout_s)

    async def cancel(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """Cancels the samples that are not scored yet; returns the summary."""
        answer: dict[str, Any] = await self._by_id("batches.cancel", batch_id, timeout_s)
        return answer

    async def summary(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """The summary of a batch (docs/api.md)."""
        answer: dict[str, Any] = await self._by_id("batches.get", batch_id, timeout_s)
        return answer

    async def wait(self, batch_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """Waits until a batch ends; returns its summary. Raises RewardOpsError (`timeout`) after `timeout_s`."""
        deadline = self.deadline(timeout_s)
        while True:
            left = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
            wait_s = min(POLL_S, left)
            summary: dict[str, Any] = await self.calls.call(
                "batches.wait",
                {"batchId": batch_id, "waitMs": round(wait_s * 1000)},
                deadline=None if deadline is None else deadline + GRACE_S,
                answer_s=wait_s + SLACK_S,
            )
            if summary["status"] not in ("open", "running"):
                return summary
            if deadline is not None and time.monotonic() >= deadline:
                ended = summary["scored"] + summary["failed"]
                raise RewardOpsError(
                    f"{batch_id} has not ended within the timeout: "
                    f"{ended} of {summary['samples']} samples have.",
                    reason=TIMEOUT,
                    hint="It is still being scored; wait again, or cancel it.",
                )

    async def results(
        self,
        batch_id: str,
        *,
        token_scores: bool = False,
        timeout_s: Any = UNSET,
        width: int | None = None,
        lengths: list[int | None] | None = None,
    ) -> Scores:
        """The current results of a batch's samples, in submission order. `token_scores`: include scores per token."""
        deadline = self.deadline(timeout_s)
        rows = PAGE_WITH_TOKENS if token_scores else PAGE
        pages: list[dict[str, Any]] = []
        offset = 0
        while True:
            page = await self.calls.call(
                "batches.results",
                {
                    "batchId": batch_id,
                    "offset": offset,
                    "limit": rows,
                    "tokenScores": token_scores,
                },
                deadline=deadline,
            )
            pages.append(page)
            offset += len(page["index"])
            if len(page["index"]) < rows:
                return scores_of(batch_id, pages, width, lengths)

    async def compute_reward_pipeline(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        cursor: str | None = None,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> AsyncRewardPipeline:
        """
        Submits a step's rollouts and returns a pipeline that delivers their groups as they complete. `cursor`: the cursor of
        an earlier chunk, with the same `idempotency_key`, to continue after a restart. Other arguments as in `submit`.
        """
        batch = await self.submit(data, group_size, tokenizer=tokenizer, **submit)
        return batch.pipeline(cursor)

    async def compute_rm_score(
        self,
        data: Any,
        group_size: int | None = None,
        *,
        tokenizer: Any = None,
        **submit: Unpack[SubmitOptions],
    ) -> Scores:
        """
        Submits a batch, waits until it ends, and returns its scores in the order of `data`. Samples without a uid form
        groups of `group_size`, or groups of one. Other arguments as in `submit`.
        """
        prepared = prepare(
            data,
            group_size=group_size,
            tokenizer=tokenizer,
            own_groups=group_size is None,
            media=self.media,
        )
        return await self.rm_score_prepared(prepared, group_size, **submit)

    async def rm_score_prepared(
        self, prepared: Prepared, group_size: int | None, **submit: Unpack[SubmitOptions]
    ) -> Scores:
        """Like `compute_rm_score`, for samples that `prepare` has converted."""
        if submit.get("open"):
            raise RewardOpsError(
                "compute_rm_score waits until the batch ends, but an open batch does not end.",
                reason=INVALID_INPUT,
            )
        deadline = self.deadline(submit.get("timeout_s", UNSET))
        submit["timeout_s"] = _left(deadline)
        batch = await self.submit_prepared(prepared, group_size, **submit)
        await batch.wait(timeout_s=_left(deadline))
        spec = self._spec(submit.get("reward"), None) or {}
        components = [one.get("reward") or {} for one in spec.get("combine") or []]
        asked = any(one.get("tokenScores") for one in [spec, *components])
        return await batch.results(token_scores=asked, timeout_s=_left(deadline))

    async def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        *,
        prompt: Prompt | None = None,
        uid: str | None = None,
        response_length: int | None = None,
        run: str | None = None,
        step: int = 0,
        split: str = "train",
        reward: Reward = None,
        on_failure: OnFailure = None,
        batch_id: str | None = None,
        idempotency_key: str | None = None,
        timeout_s: Any = UNSET,
    ) -> ScoredSample:
        """
        Scores one sample with verl's arguments; calls may be concurrent. The sample joins the implicit batch of its run,
        step, split and reward. `uid` and `prompt` default to those of `extra_info`; a sample without a uid is a group of
        its own.
        """
        prepared = single(
            data_source,
            solution_str,
            ground_truth,
            extra_info,
            prompt,
            uid,
            response_length,
            self.media,
        )
        given: dict[str, Any] = {
            "run": run or self.run,
            "step": whole(step, "step"),
            "split": split,
            "sample": prepared.samples[0],
            "idempotencyKey": idempotency_key or new_key(),
        }
        if batch_id is not None:
            given["batchId"] = batch_id
        spec = self._spec(reward, on_failure)
        if spec is not None:
            given["reward"] = spec
        answer = await self.calls.call(
            "samples.score",
            given,
            deadline=self.deadline(timeout_s),
            answer_s=SCORE_ANSWER_S,
            waits=True,
        )
        return ScoredSample(
            score=number(answer["score"]),
            reason=answer["reason"],
            detail=answer.get("detail"),
            substituted=answer["substituted"],
            reward_extra_info=answer["rewardExtraInfo"],
            verdict=answer.get("verdict"),
            extracted=answer.get("extracted"),
            rewards=answer.get("rewards"),
            position=answer["position"],
            id=answer["id"],
            batch_id=answer["batchId"],
            raw=answer,
        )

    async def rescore(
        self,
        batch_id: str,
        reward: Reward,
        *,
        on_failure: OnFailure = None,
        idempotency_key: str | None = None,
        timeout_s: Any = UNSET,
    ) -> AsyncBatch:
        """Scores a batch's rollouts with another reward, as a new batch linked to the old one."""
        answer = await self.calls.call(
            "batches.rescore",
            {
                "batchId": batch_id,
                "reward": reward_spec(reward, on_failure) or {},
                "idempotencyKey": idempotency_key or new_key(),
            },
            deadline=self.deadline(timeout_s),
            answer_s=SUBMIT_ANSWER_S,
        )
        return AsyncBatch(
            self,
            answer["batchId"],
            accepted=answer.get("accepted", 0),
            groups=answer.get("groups", 0),
            duplicate=answer.get("duplicate", False),
        )

    async def update_run(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        run: str | None = None,
        tags: Sequence[str] | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        timeout_s: Any = UNSET,
    ) -> dict[str, Any]:
        """
        Stores the configuration of a run, such as its hyperparameters, or changes its tags; the run is created if it does not
        exist. `config` replaces the earlier one; None leaves it unchanged. `tags` replaces all tags, including those
        that users added; `add_tags` keeps them. Returns `run`, `config` and `tags`.
        """
        given: dict[str, Any] = {"run": self.run if run is None else run}
        if config is not None:
            given["config"] = plain(config)
        if tags is not None:
            given["tags"] = list(tags)
        if add_tags:
            given["addTags"] = list(add_tags)
        if remove_tags:
            given["removeTags"] = list(remove_tags)
        answer: dict[str, Any] = await self.calls.call(
            "runs.update", given, deadline=self.deadline(timeout_s)
        )
        return answer

    async def step_metrics(
        self,
        step: int,
        *,
        run: str | None = None,
        split: str = "train",
        timeout_s: Any = UNSET,
    ) -> dict[str, float]:
        """
        The figures of a step by the metric names of `rewardops export-metrics` (docs/python.md), for the trainer's own
        tracker. Waits until the step's batch has ended. Figures that the service does not have are left out.
        """
        deadline = self.deadline(timeout_s)
        return await metrics_of_step(self, run or self.run, split, whole(step, "step"), deadline)

    async def register_server(
        self, name: str, url: str, engine: str = "auto", *, timeout_s: Any = UNSET, **settings: Any
    ) -> dict[str, Any]:
        """
        Registers a reward-model server, or updates the one with that name. `settings`: `kind` `model` `weight`
        `max_in_flight` `rpm` `tpm` `api_key` `tags` `chat_template` `route` `label` `if_unreachable` `self_test_override`
        (docs/api.md). Returns the server as `servers()` does.
        """
        given = {"name": name, "url": url, "engine": engine}
        for key, value in settings.items():
            given[_camel(key)] = plain(value)
        answer: dict[str, Any] = await self.calls.call(
            "servers.register", given, deadline=self.deadline(timeout_s), answer_s=120.0
        )
        return answer

    async def servers(self, *, timeout_s: Any = UNSET) -> list[dict[str, Any]]:
        """The reward-model servers with their current state."""
        answer: list[dict[str, Any]] = await self.calls.call(
            "servers.list", {}, deadline=self.deadline(timeout_s)
        )
        return answer

    async def sample(self, sample_id: str, *, timeout_s: Any = UNSET) -> dict[str, Any]:
        """A sample such as `b12-3`, with its texts and all attempts."""
        answer: dict[str, Any] = await self.calls.call(
            "samples.get", {"id": sample_id}, deadline=self.deadline(timeout_s)
        )
        return answer

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
        """
        Stored samples as rows, tables, preference pairs and KTO rows. `run`: default the client's run, unless a
        `batch_id` is given. `step`: a step, or a range such as "0-99". `columns`: such as "score" and
        "rewardExtraInfo.acc"; default all but annotations. `kept`: include samples whose texts were removed by retention.
        `filters`: those of the Samples page (docs/samples.md), such as `data_source="openai/gsm8k"`, `score_min=0.5` or
        `extra=["acc:boolean:false"]`.
        """
        filter = {
            "run": self.run if run is None and batch_id is None else run,
            "batch": batch_id,
            "step": step if isinstance(step, str) else whole_or_none(step, "step"),
            "split": split,
            **{_camel(name): value for name, value in filters.items()},
        }
        return StoredSamples(self.calls, filter, columns, kept)

    async def call(
        self, procedure: str, given: Mapping[str, Any] | None = None, *, timeout_s: Any = UNSET
    ) -> Any:
        """
        Calls any other procedure of docs/api.md, such as `runs.list`. If the answer is lost, the call is retried, unless
        it could then run twice.
        """
        return await self.calls.call(
            procedure,
            keyed(procedure, plain(given or {})),
            deadline=self.deadline(timeout_s),
            waits=procedure == "samples.score",
            repeatable=procedure not in NOT_REPEATABLE,
        )

    async def close(self) -> None:
        """Closes the connections."""
        here = asyncio.get_running_loop()
        # Threads of other loops may change the set.
        abandoning = [task for task in list(self._abandoning) if task.get_loop() is here]
        if abandoning:
            await asyncio.wait(abandoning, timeout=GRACE_S)
        await self.calls.close()

    async def __aenter__(self) -> AsyncRewardOps:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def deadline(self, timeout_s: Any) -> float | None:
        """The time.monotonic() at which a call with this timeout ends; UNSET means the client's timeout."""
        return self.calls.deadline(timeout_s, timeout_s is not UNSET)

    def _spec(self, reward: Reward, on_failure: OnFailure) -> dict[str, Any] | None:
        return reward_spec(
            self.reward if reward is None else reward,
            self.on_failure if on_failure is None else on_failure,
        )

    async def _by_id(self, procedure: str, batch_id: str, timeout_s: Any) -> Any:
        return await self.calls.call(
            procedure, {"batchId": batch_id}, deadline=self.deadline(timeout_s)
        )


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
