"""
Scores a task as verifiers (0.3 or newer) does, with a reward that the task's configuration names.

    python run_verifiers.py http://127.0.0.1:3000
"""

import asyncio
import os
import sys

from verifiers.v1.agent import AgentConfig
from verifiers.v1.configs.task import RewardFunctionConfig, TaskConfig
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import Task, TaskData
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, UserMessage

from rewardops import RewardOps
from rewardops.verifiers import trace_reward

RUN = "verifiers-task"
#: The rewards are module attributes, as in a user's module, because `fn` refers to them by name.
settings = {"url": os.environ.get("REWARDOPS_URL") or sys.argv[1], "run": RUN}
by_rule = trace_reward(**settings, data_source="openai/gsm8k")
refused = trace_reward(**settings, reward="sometimes")


class Question(TaskData):
    answer: str


def trace_of(task, reply):
    nodes = [
        MessageNode(message=UserMessage(content=task.data.prompt)),
        MessageNode(message=AssistantMessage(content=reply), sampled=True, parent=0),
    ]
    return Trace(
        task=TraceTask(type="Question", data=task.data),
        agent=AgentInfo(config=AgentConfig()),
        nodes=nodes,
    )


async def scored(fn, reply):
    config = TaskConfig(rewards={"rewardops": RewardFunctionConfig(fn=f"{__file__}:{fn}")})
    task = Task(Question(prompt="6 * 12?", answer="72"), config)
    trace = trace_of(task, reply)
    try:
        await task.score(trace)
    except Exception as error:
        return trace, error
    return trace, None


async def main(url):
    for reply, score in (("#### 72", 1.0), ("#### 71", 0.0)):
        trace, error = await scored("by_rule", reply)
        assert error is None and trace.reward == score, (trace.rewards, error)
        assert trace.info["rewardops"]["sample"].startswith("b"), trace.info
    # The scorer refuses this text, because the sum of its character codes is divisible by 3.
    trace, error = await scored("refused", "c")
    assert error is not None and "was not scored: function_error" in str(error), error
    assert trace.rewards == {"rewardops": None}, trace.rewards
    with RewardOps(url) as client:
        batches = client.call("batches.list", {"run": RUN})["items"]
        assert sum(b["samples"] for b in batches) >= 3, batches
    print(
        "PASSED a task's reward from its configuration; a sample without a score is an error and no reward"
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
