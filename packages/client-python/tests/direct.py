"""Calls a function of rewards.py directly, without the package: reads one JSON sample per line,
writes one score per line.
"""

import asyncio
import inspect
import json
import sys

import rewards


def main():
    target = getattr(rewards, sys.argv[1])
    by_position = inspect.isclass(target)
    call = target().compute_score if by_position else target
    for line in sys.stdin:
        sample = json.loads(line)
        extra_info = {"num_turns": None, "rollout_reward_scores": {}, **sample["extraInfo"]}
        values = (sample["dataSource"], sample["response"], sample["groundTruth"], extra_info)
        if by_position:
            result = call(*values)
        else:
            names = ("data_source", "solution_str", "ground_truth", "extra_info")
            result = call(**dict(zip(names, values)))
        if inspect.isawaitable(result):
            result = asyncio.run(result)
        if isinstance(result, tuple):
            result = result[0]
        print(result["score"] if isinstance(result, dict) else result)


main()
