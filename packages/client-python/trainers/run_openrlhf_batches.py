"""
Gets rewards as OpenRLHF 0.8 does, with its own RemoteRewardModel in a Ray process: one request per batch.

    python run_openrlhf_batches.py http://127.0.0.1:3000
"""

import sys
import types
from importlib.metadata import version

import ray
from openrlhf.utils.remote_rm_utils import RemoteRewardModel

from rewardops import RewardOps

RUN = "openrlhf-batches"
PROMPTS, SAMPLES = 4, 4


def main(url):
    address = f"{url}/compat/openrlhf"
    count = PROMPTS * SAMPLES
    prompts = [f"q{i // SAMPLES}?" for i in range(count)]
    queries = [f"{prompts[i]}Try {i}.\n#### {72 if i % 3 == 0 else i}" for i in range(count)]
    wanted = [float(i % 3 == 0) for i in range(count)]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    def rewards(at, queries, prompts, labels):
        model = RemoteRewardModel.remote(types.SimpleNamespace(), at)
        return ray.get(model.get_rewards.remote(queries, prompts, labels))

    at = f"{address}/{RUN}?dataSource=openai/gsm8k&extra=acc"
    [info] = rewards(at, queries, prompts, ["72"] * count)
    logs = {"rm_failed": [0] * count, "acc": wanted}
    assert info == {"rewards": wanted, "scores": wanted, "extra_logs": logs}, info

    # The actor sends half of the batch to each URL.
    halves = rewards([at, at], queries, prompts, ["72"] * count)
    assert [len(half["rewards"]) for half in halves] == [count // 2] * 2, halves
    assert [reward for half in halves for reward in half["rewards"]] == wanted, halves

    # Without a ground truth a sample fails.
    failing = (["q?#### 72"] * 2, ["q?"] * 2, ["72", None])
    [info] = rewards(f"{address}/{RUN}-number?dataSource=openai/gsm8k&onFailure=-1", *failing)
    assert info["rewards"] == [1.0, -1.0] and info["extra_logs"] == {"rm_failed": [0, 1]}, info
    try:
        rewards(f"{address}/{RUN}-error?dataSource=openai/gsm8k", *failing)
    except ray.exceptions.RayTaskError as error:
        assert "Request error for 5 times" in str(error), error
    else:
        raise AssertionError("a batch with a failed sample got rewards")
    ray.shutdown()

    with RewardOps(url) as client:

        def counts(run):
            [batch] = client.call("batches.list", {"run": run})["items"]
            return batch["samples"], batch["groups"], batch["failed"]

        assert counts(RUN) == (2 * count, PROMPTS, 0), counts(RUN)
        assert counts(f"{RUN}-number") == (2, 1, 1), counts(f"{RUN}-number")
        # OpenRLHF repeats the whole request, but only the failed sample is scored again.
        assert counts(f"{RUN}-error") == (6, 1, 5), counts(f"{RUN}-error")
    print(
        f"PASSED OpenRLHF {version('openrlhf')}: RemoteRewardModel gets the rule's rewards and extra logs of whole batches in their order, "
        "also from two addresses; a failed sample has the address's number, or ends the step after 5 requests"
    )


if __name__ == "__main__":
    main(sys.argv[1])
