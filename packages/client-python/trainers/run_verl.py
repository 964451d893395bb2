"""
Loads and calls the reward manager and the reward function as the installed verl does, against the service.

    python run_verl.py http://127.0.0.1:3000
"""

import asyncio
import sys

import numpy as np
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.trainer.ppo.reward import load_reward_manager

from rewardops import RewardOps

RUN = "verl-manager"
PROMPT, RESPONSE = 6, 12


class Characters:
    """A tokenizer with one token per character; 0 is padding."""

    def encode(self, text):
        return [ord(c) for c in text]

    def decode(self, ids, skip_special_tokens=False):
        return "".join(chr(int(i)) for i in ids if int(i) or not skip_special_tokens)


def rollouts(tokenizer, responses):
    """Prompts padded on the left and responses on the right, as an agent loop passes them."""
    rows = {"prompts": [], "responses": [], "attention_mask": []}
    for i, response in enumerate(responses):
        prompt, answer = tokenizer.encode(f"q{i // 2}?"), tokenizer.encode(response)
        before, after = PROMPT - len(prompt), RESPONSE - len(answer)
        rows["prompts"].append([0] * before + prompt)
        rows["responses"].append(answer + [0] * after)
        rows["attention_mask"].append([0] * before + [1] * (len(prompt) + len(answer)) + [0] * after)
    n = len(responses)
    columns = {
        "uid": [f"q{i // 2}" for i in range(n)],
        "data_source": ["openai/gsm8k"] * n,
        "reward_model": [{"style": "rule", "ground_truth": "72"}] * n,
        "extra_info": [{"index": i} for i in range(n)],
        "raw_prompt": [[{"role": "user", "content": f"q{i // 2}?"}] for i in range(n)],
    }
    made = {}
    for name, values in columns.items():
        made[name] = np.empty(n, dtype=object)
        made[name][:] = values
    tensors = {name: torch.tensor(values) for name, values in rows.items()}
    return DataProto(
        batch=TensorDict(tensors, batch_size=n),
        non_tensor_batch=made,
        meta_info={"global_steps": 5},
    )


def configuration(**reward):
    base = {
        "custom_reward_function": {"path": None, "name": "compute_score"},
        "reward_manager": {"source": "register", "name": "naive", "module": {"path": None}},
        "sandbox_fusion": None,
    }
    return OmegaConf.create({"reward": {**base, **reward}})


async def score(manager, data):
    results = await asyncio.gather(*(manager.run_single(data[i : i + 1]) for i in range(len(data))))
    keys = list(results[0]["reward_extra_info"])
    # As in verl's loop manager, the keys of the first sample decide which values are read from every sample.
    extra = {key: np.array([t["reward_extra_info"][key] for t in results]) for key in keys}
    return [t["reward_score"] for t in results], extra


def main(url):
    tokenizer = Characters()
    data = rollouts(tokenizer, ["#### 72", "#### 71", "so #### 72", ""])
    wanted = [1.0, 0.0, 1.0, 0.0]

    async def with_the_manager():
        manager = load_reward_manager(
            configuration(
                reward_manager={
                    "source": "importlib",
                    "name": "RewardOpsRewardManager",
                    "module": {"path": "pkg://rewardops.verl"},
                },
                rewardops={"url": url, "run": RUN},
            ),
            tokenizer,
            reward_router_address=None,
            reward_model_tokenizer=None,
        )
        assert isinstance(manager, RewardManagerBase), type(manager).__mro__
        scores, extra = await score(manager, data)
        assert scores == wanted, scores
        assert extra["acc"].tolist() == wanted, extra
        return type(manager).assemble_rm_scores(data, scores)

    async def with_the_function():
        manager = load_reward_manager(
            configuration(
                custom_reward_function={
                    "path": "pkg://rewardops.verl",
                    "name": "compute_score",
                    "reward_kwargs": {"url": url, "run": f"{RUN}-function"},
                }
            ),
            tokenizer,
        )
        scores, extra = await score(manager, data)
        assert scores == wanted and extra["rewardops_failed"].tolist() == [0.0] * 4, (scores, extra)

    placed = asyncio.run(with_the_manager())
    asyncio.run(with_the_function())
    with RewardOps(url, run=RUN) as client:
        scores = client.compute_rm_score(data, 2, step=6, tokenizer=tokenizer)
        ours = scores.rm_scores()
        assert torch.equal(ours[:3], placed[:3]), (ours, placed)
        # An empty response has no last token; verl's own manager would put its reward at the end of
        # the padding.
        assert ours[3].tolist() == [0.0] * RESPONSE
        [batch] = [b for b in client.call("batches.list", {"run": RUN})["items"] if b["step"] == 5]
        assert batch["samples"] == 4 and batch["groups"] == 2, batch
    print(
        f"PASSED RewardOpsRewardManager is a {RewardManagerBase.__module__}.RewardManagerBase: loaded by verl from its configuration, "
        "as manager and as custom_reward_function; scores and their positions equal verl's own"
    )


if __name__ == "__main__":
    main(sys.argv[1])
