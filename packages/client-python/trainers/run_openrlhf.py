"""
Gets rewards with the rollout executor of OpenRLHF (0.10 or newer) and batches them with OpenRLHF's experiences. A
prepared text replaces vLLM's output.

    python run_openrlhf.py http://127.0.0.1:3000
"""

import asyncio
import sys
import types
from importlib.metadata import version

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.utils.agent import SingleTurnAgentExecutor

from rewardops import RewardOps

RUN = "openrlhf"
PROMPTS, SAMPLES = 4, 4
#: Number of requests that OpenRLHF sends for a sample if the reward URL answers with an error.
TRIES = 5


class Ids(list):
    def tolist(self):
        return list(self)


class Characters:
    """A tokenizer with one token per character."""

    def __call__(self, text, **_):
        return {"input_ids": [Ids(map(ord, text))]}

    def decode(self, ids, **_):
        return "".join(map(chr, ids))


class Engine:
    def __init__(self, text):
        self.text = text

    async def generate(self, _prompt, _params, **_):
        output = types.SimpleNamespace(
            token_ids=[ord(c) for c in self.text], finish_reason="stop", logprobs=None
        )
        return types.SimpleNamespace(outputs=[output])


async def roll_out(url, rollouts):
    executor = SingleTurnAgentExecutor(url)
    params = types.SimpleNamespace(max_tokens=1000, logprobs=None)
    return await asyncio.gather(
        *(
            executor.execute(prompt, label, params, 2000, Characters(), Engine(response))
            for prompt, response, label in rollouts
        )
    )


def experience(output):
    """The reward fields of an output, as made by SamplesGenerator, which needs vLLM and is not imported."""
    tokens = torch.tensor([output["observation_tokens"]])
    info = {key: torch.tensor([value]) for key, value in output["extra_logs"].items()}
    reward, score = output["reward"], output["scores"]
    return Experience(
        sequences=tokens,
        attention_mask=torch.ones_like(tokens),
        rewards=None if reward is None else torch.tensor([reward]),
        scores=None if score is None else torch.tensor([score]),
        prompts=[output["prompt"]],
        info=info,
    )


def joined(outputs):
    return Experience.concat_experiences([experience(output) for output in outputs], 0)


def main(url):
    address = f"{url}/compat/openrlhf"
    responses = [
        (f"q{i // SAMPLES}?", f"Try {i}.\n#### {72 if i % 3 == 0 else i}", "72")
        for i in range(PROMPTS * SAMPLES)
    ]
    wanted = [[float(i % 3 == 0)] for i in range(PROMPTS * SAMPLES)]
    outputs = asyncio.run(roll_out(f"{address}/{RUN}?dataSource=openai/gsm8k&extra=acc", responses))
    batch = joined(outputs)
    assert batch.prompts == [prompt for prompt, _, _ in responses], batch.prompts
    assert batch.rewards.tolist() == batch.scores.tolist() == wanted, batch.rewards
    assert batch.info["acc"].tolist() == wanted, batch.info
    assert batch.info["rm_failed"].tolist() == [[0.0]] * len(wanted), batch.info

    # Without a ground truth a sample fails.
    failing = [("q?", "#### 72", "72"), ("q?", "#### 72", None)]
    at = f"{address}/{RUN}-number?dataSource=openai/gsm8k&onFailure=-1"
    substituted = joined(asyncio.run(roll_out(at, failing)))
    assert substituted.rewards.tolist() == [[1.0], [-1.0]], substituted.rewards
    assert substituted.info["rm_failed"].tolist() == [[0], [1]], substituted.info

    at = f"{address}/{RUN}-error?dataSource=openai/gsm8k"
    scored, failed = asyncio.run(roll_out(at, failing))
    assert scored["reward"] == [1.0] and failed["reward"] is None, (scored, failed)
    # OpenRLHF cannot join a failed sample with the others of its step, so the step ends with an error.
    try:
        joined([scored, failed])
    except AttributeError as error:
        assert "'NoneType' object has no attribute" in str(error), error
    else:
        raise AssertionError("a sample without a reward became part of a batch")

    with RewardOps(url) as client:
        for run, samples, groups, failures in (
            (RUN, len(wanted), PROMPTS, 0),
            (f"{RUN}-number", 2, 1, 1),
            # OpenRLHF retries the failed sample.
            (f"{RUN}-error", 1 + TRIES, 1, TRIES),
        ):
            [batch] = client.call("batches.list", {"run": run})["items"]
            counts = batch["samples"], batch["groups"], batch["failed"]
            assert counts == (samples, groups, failures), batch
    print(
        f"PASSED OpenRLHF {version('openrlhf')}: the rollout executor and its experiences have the rule's rewards and extra logs in their "
        "order; a failed sample has the address's number, or no reward after 5 requests, which ends the step"
    )


if __name__ == "__main__":
    main(sys.argv[1])
