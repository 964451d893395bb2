"""Drives OpenRLHF's own rollout executor against reward URLs, without its GPU dependencies.

Standard input: {"site": OpenRLHF's folder, "urls": [...], "rollouts": [{"prompt", "response", "label"}]}.
Standard output: what the trainer would receive for each rollout, {"reward", "scores", "extra_logs"}.
"""

import asyncio
import json
import os
import sys
import types


class CharacterIds(list):
    def tolist(self):
        return list(self)


class CharacterTokenizer:
    """A tokenizer whose tokens are characters, with only what the executor uses."""

    def __call__(self, text, **_kwargs):
        return {"input_ids": [CharacterIds(map(ord, text))]}

    def decode(self, ids, **_kwargs):
        return "".join(map(chr, ids))


class Engine:
    """Returns a prepared text, as an inference engine would."""

    def __init__(self, response):
        self.response = response

    async def generate(self, _prompt_token_ids, _params, **_kwargs):
        output = types.SimpleNamespace(
            token_ids=list(map(ord, self.response)), finish_reason="stop", logprobs=None
        )
        return types.SimpleNamespace(outputs=[output])


def load_executor(site):
    # The packages' __init__ files import torch, which the executor does not need.
    sys.path.insert(0, site)
    for name in ("openrlhf", "openrlhf.utils"):
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(site, *name.split("."))]
        sys.modules[name] = module
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    return SingleTurnAgentExecutor


async def main():
    request = json.load(sys.stdin)
    executor = load_executor(request["site"])(request["urls"])
    params = types.SimpleNamespace(max_tokens=10_000, logprobs=None)

    async def execute(rollout):
        output = await executor.execute(
            rollout["prompt"],
            rollout["label"],
            params,
            100_000,
            CharacterTokenizer(),
            Engine(rollout["response"]),
        )
        return {key: output[key] for key in ("reward", "scores", "extra_logs")}

    json.dump(await asyncio.gather(*map(execute, request["rollouts"])), sys.stdout)


asyncio.run(main())
