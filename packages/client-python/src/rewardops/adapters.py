"""What the trainers' adapters share: one client a process for each way it is set up, and what failures become."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from rewardops.background import close_with, shared_loop
from rewardops.client import AsyncRewardOps
from rewardops.errors import INVALID_INPUT, RewardOpsError
from rewardops.rewards import Reward, reward_spec
from rewardops.samples import plain

T = TypeVar("T")

#: What an adapter may be told of the client, beside url and key.
CLIENT_SETTINGS = ("timeout_s", "connect_s", "outage_s", "max_connections", "http", "media")


class Connection:
    """
    A service as an adapter reaches it. Calls run in the process's own event loop thread: a trainer's loop that is busy,
    or that is another at the next call, does not touch them. It pickles, and opens its connections where it is used.
    """

    def __init__(self, url: str | None, api_key: str | None, **settings: Any) -> None:
        self._given = (url, api_key, {k: v for k, v in settings.items() if v is not None})
        # A wrong address or setting is told where it is written, not at the first sample.
        self._client: AsyncRewardOps | None = self._made()

    def _made(self) -> AsyncRewardOps:
        url, api_key, settings = self._given
        client = AsyncRewardOps(url, api_key, **settings)
        close_with(self, client.close)
        return client

    @property
    def client(self) -> AsyncRewardOps:
        """The process's own client."""
        if self._client is None:
            self._client = self._made()
        return self._client

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there and waits."""
        return shared_loop().run(work)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, awaited from any event loop."""
        return await asyncio.wrap_future(shared_loop().start(work))

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_client": None}


_connections: dict[str, Connection] = {}


def connection(url: str | None, api_key: str | None, **settings: Any) -> Connection:
    """The process's connection with these settings; the same ones give the same."""
    key = repr((url, api_key, sorted(settings.items())))
    # Two threads that make one at the same moment have both made one that works; the first stays.
    return _connections.get(key) or _connections.setdefault(
        key, Connection(url, api_key, **settings)
    )


def failure_policy(reward: Reward, on_failure: Any) -> dict[str, Any] | None:
    """
    A reward spec where a failure raises ("raise", the default) or is a number. Raises RewardOpsError (`invalid_input`).
    """
    if on_failure == "raise":
        return reward_spec(reward)
    if isinstance(on_failure, bool) or not isinstance(on_failure, (int, float)):
        raise RewardOpsError(
            f'on_failure is {on_failure!r}; it is "raise" or a number.', reason=INVALID_INPUT
        )
    return reward_spec(reward, float(on_failure))


def run_name(run: str | None, default: str) -> str:
    """The run's name: given, or the environment's REWARDOPS_RUN, or the adapter's own."""
    return run or os.environ.get("REWARDOPS_RUN") or default


def settled(spec: Any) -> Any:
    """A reward as it was written in a trainer's configuration (an OmegaConf mapping too), as plain data."""
    return plain(spec) if isinstance(spec, Mapping) else spec
