"""
Runs verl's RewardLoopManager with two RewardLoopWorkers on Ray, with rewards from the service, and compares it with the
same manager under verl's own rule.

    python run_verl_loop.py http://127.0.0.1:3000 FOLDER
"""

import sys
import uuid
from importlib.metadata import version

import ray
import torch
from hydra import compose, initialize_config_module
from run_verl import rollouts
from serving import sometimes
from tiny import tiny_tokenizer
from verl.experimental.reward_loop import RewardLoopManager

from rewardops import RewardOps

RUN = f"verl-loop-{uuid.uuid4().hex[:6]}"
WORKERS = 2
#: Responses that are shorter than the response tensor, that fill the tensor, and that are empty.
RESPONSES = ["#### 72", "#### 71", "so #### 72", "", "#### 72.####", "no result", "#### 0072"]


class Loop:
    """verl's manager with its workers, from verl's own configuration and the overrides of docs/trainers.md."""

    def __init__(self, folder, *overrides):
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose(
                "ppo_trainer",
                overrides=[
                    f"reward.num_workers={WORKERS}",
                    f"actor_rollout_ref.model.path={folder}",
                    *overrides,
                ],
            )
        self.manager = RewardLoopManager(config)

    def __enter__(self):
        return self.manager

    def __exit__(self, *_):
        # The workers are killed, because the next manager's workers have the same names.
        for worker in self.manager.reward_loop_workers:
            ray.kill(worker)


def ours(url, run, *more):
    return (
        "reward.reward_manager.source=importlib",
        "reward.reward_manager.name=RewardOpsRewardManager",
        "reward.reward_manager.module.path=pkg://rewardops.verl",
        f"+reward.rewardops.url={url}",
        f"+reward.rewardops.run={run}",
        *more,
    )


def scored(manager, data):
    """verl's answer: the tensor of rewards, and the columns named by `reward_extra_keys`."""
    answer = manager.compute_rm_score(data)
    assert answer.batch["rm_scores"].dtype == torch.float32, answer.batch
    assert answer.batch["rm_scores"].shape == data.batch["responses"].shape, answer.batch
    columns = {key: answer.non_tensor_batch[key] for key in answer.meta_info["reward_extra_keys"]}
    return answer.batch["rm_scores"], columns


def main(url, folder):
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    data = rollouts(tokenizer, RESPONSES)
    lengths = [len(response) for response in RESPONSES]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    with Loop(folder) as manager:
        verls, _ = scored(manager, data)
    with Loop(folder, *ours(url, RUN)) as manager:
        placed, columns = scored(manager, data)
        # The agent loop sends single rows to the same workers, while it generates the other rows.
        streamed = ray.get(
            [
                manager.reward_loop_worker_handles[i % WORKERS].compute_score.remote(data[i : i + 1])
                for i in range(len(data))
            ]
        )
    assert torch.equal(placed, verls), (placed, verls)
    rewards = placed.sum(dim=1)
    assert rewards[:4].tolist() == [1, 0, 1, 0], rewards
    for row, length in enumerate(lengths):
        assert placed[row].count_nonzero() == (placed[row, length - 1] != 0), (row, placed)
    assert columns["acc"].tolist() == rewards.tolist(), columns
    assert not columns["rewardops_failed"].any(), columns
    assert [t["reward_score"] for t in streamed] == rewards.tolist(), streamed

    # The function refuses a third of the texts. The other texts have the score that the same function computes here.
    def wanted(text):
        try:
            return sometimes(None, text, None, None)
        except ValueError:
            return None

    expected = [wanted(text) for text in RESPONSES]
    assert None in expected and any(expected), expected
    model = "+reward.rewardops.reward.model=sometimes"
    with Loop(folder, *ours(url, f"{RUN}-replaced", model, "+reward.rewardops.on_failure=-1.0")) as manager:
        placed, columns = scored(manager, data)
    replaced = [-1.0 if score is None else score for score in expected]
    torch.testing.assert_close(placed.sum(dim=1), torch.tensor(replaced))
    assert columns["rewardops_failed"].tolist() == [float(s is None) for s in expected], columns
    with Loop(folder, *ours(url, f"{RUN}-raised", model)) as manager:
        try:
            manager.compute_rm_score(data)
        except ray.exceptions.RayTaskError as error:
            raised = error.cause
        else:
            raise AssertionError("a step with a sample without a score did not end")
    assert raised.reason == "not_scored" and "function_error" in str(raised), repr(raised)
    ray.shutdown()

    with RewardOps(url) as client:
        [batch] = client.call("batches.list", {"run": RUN})["items"]
        # Each row is scored twice, in the batch and streamed. verl repeats the first row of the batch, because seven
        # rows cannot be divided between two workers.
        assert batch["step"] == 5 and batch["samples"] == 2 * len(data) + 1, batch
        assert batch["failed"] == 0, batch
        [batch] = client.call("batches.list", {"run": f"{RUN}-replaced"})["items"]
        assert batch["failed"] == expected.count(None) + (expected[0] is None), batch
    print(
        f"PASSED verl {version('verl')}, Ray {ray.__version__}: RewardLoopManager with {WORKERS} workers gives the rm_scores of verl's own "
        f"rule at the same positions, for {len(data)} rows of lengths {lengths}, in batches and row by row; "
        f"{expected.count(None)} failed samples: on_failure is the reward, or the step ends with the reason"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
