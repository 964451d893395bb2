"""Shared code of the trainer adapters: one client per process and configuration, and the handling of failures."""

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

#: Client settings that an adapter accepts in addition to url and key.
CLIENT_SETTINGS = ("timeout_s", "connect_s", "outage_s", "max_connections", "http", "media")


class Connection:
    """
    A connection to a service for adapters.

    Calls run in the process's own event loop thread, independent of the trainer's loops. A connection can be pickled,
    because it opens its sockets in the process that uses it.
    """

    def __init__(self, url: str | None, api_key: str | None, **settings: Any) -> None:
        self._given = (url, api_key, {k: v for k, v in settings.items() if v is not None})
        # A wrong URL or setting raises here, not at the first sample.
        self._client: AsyncRewardOps | None = self._made()

    def _made(self) -> AsyncRewardOps:
        url, api_key, settings = self._given
        client = AsyncRewardOps(url, api_key, **settings)
        close_with(self, client.close)
        return client

    @property
    def client(self) -> AsyncRewardOps:
        if self._client is None:
            self._client = self._made()
        return self._client

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the client's event loop and blocks until it ends."""
        return shared_loop().run(work)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the client's event loop; can be awaited from any other loop."""
        return await asyncio.wrap_future(shared_loop().start(work))

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_client": None}


_connections: dict[str, Connection] = {}


def connection(url: str | None, api_key: str | None, **settings: Any) -> Connection:
    """The process's connection for these settings; equal settings share one connection."""
    key = repr((url, api_key, sorted(settings.items())))
    # If two threads create a connection concurrently, the first is kept; both connections work.
    return _connections.get(key) or _connections.setdefault(
        key, Connection(url, api_key, **settings)
    )


def failure_policy(reward: Reward, on_failure: Any) -> dict[str, Any] | None:
    """
    Returns the service's `reward`: without failure policy for "raise", or with one that replaces missing scores by a
    number. Raises RewardOpsError (`invalid_input`).
    """
    if on_failure == "raise":
        return reward_spec(reward)
    if isinstance(on_failure, bool) or not isinstance(on_failure, (int, float)):
        raise RewardOpsError(
            f'on_failure is {on_failure!r}; it must be "raise" or a number.', reason=INVALID_INPUT
        )
    return reward_spec(reward, float(on_failure))


def run_name(run: str | None, default: str) -> str:
    """The environment's REWARDOPS_RUN precedes the adapter's default."""
    return run or os.environ.get("REWARDOPS_RUN") or default


def settled(spec: Any) -> Any:
    """Converts a reward from a trainer's configuration, such as an OmegaConf mapping, to plain data."""
    return plain(spec) if isinstance(spec, Mapping) else spec
