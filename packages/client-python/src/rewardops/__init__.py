"""Client of rewardops for trainers. It needs only the standard library and uses aiohttp, numpy and torch if installed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewardops._version import VERSION as __version__

if TYPE_CHECKING:
    from rewardops.calls import ServiceInfo
    from rewardops.client import AsyncRewardOps
    from rewardops.errors import RewardOpsError
    from rewardops.pipeline import AsyncBatch, AsyncRewardPipeline
    from rewardops.samples import Sample
    from rewardops.scores import Chunk, Group, ScoredSample, Scores
    from rewardops.stored_samples import StoredSamples
    from rewardops.sync import Batch, RewardOps, RewardPipeline

#: Module of each public name. Modules are imported on first use, because processes of `serve-reward` need none of them.
_MODULES = {
    "AsyncBatch": "pipeline",
    "AsyncRewardOps": "client",
    "AsyncRewardPipeline": "pipeline",
    "Batch": "sync",
    "Chunk": "scores",
    "Group": "scores",
    "RewardOps": "sync",
    "RewardOpsError": "errors",
    "RewardPipeline": "sync",
    "Sample": "samples",
    "ScoredSample": "scores",
    "Scores": "scores",
    "ServiceInfo": "calls",
    "StoredSamples": "stored_samples",
}

__all__ = [
    "AsyncBatch",
    "AsyncRewardOps",
    "AsyncRewardPipeline",
    "Batch",
    "Chunk",
    "Group",
    "RewardOps",
    "RewardOpsError",
    "RewardPipeline",
    "Sample",
    "ScoredSample",
    "Scores",
    "ServiceInfo",
    "StoredSamples",
    "__version__",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
