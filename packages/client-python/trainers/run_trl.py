"""
Runs a GRPOTrainer with a tool and three weighted rewards from the service, and recomputes TRL's rewards and advantages
from the scores that the service has stored. The model is tiny, has random weights and runs on the CPU.

    python run_trl.py http://127.0.0.1:3000 FOLDER
"""

import sys
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import trl
from datasets import Dataset
from tiny import tiny_model, tiny_tokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from rewardops import RewardOps
from rewardops.trl import reward_function

STEPS = 3
PROMPTS = 2
GENERATIONS = 4
#: A new name each time. The run's batches are compared with the trainer's log, so the run must have no older batches.
RUN = f"trl-grpo-{uuid.uuid4().hex[:6]}"
#: Each text is one token, so that a model with random weights calls the tool and gives the answer often enough.
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>'
TEXTS = [CALL, "#### 7", "so", "abc", "?"]
WEIGHTS = {"by_rule": 1.0, "sometimes": 0.5, "penalty": -0.25}


def add(a: int, b: int) -> str:
    """
    Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return str(a + b)


def rewards(url, run):
    """One reward by a rule, one that fails for some samples, and a function that subtracts for each token beyond 2."""
    penalty = {"path": "length_penalty.ts", "kwargs": {"budget": 2, "per_token": 0.01}}
    return [
        reward_function(url, run=f"{run}-by_rule", data_source="openai/gsm8k", name="by_rule"),
        reward_function(url, run=f"{run}-sometimes", reward="sometimes", name="sometimes"),
        reward_function(url, run=f"{run}-penalty", reward={"function": penalty}, name="penalty"),
    ]


def train(url, folder, run, aggregation):
    folder = Path(folder) / aggregation
    tokenizer = tiny_tokenizer("<|im_end|>", ["<|im_start|>", *TEXTS], qwen3_chat_template)
    said = {tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(TEXTS)}
    rows = [
        {"prompt": [{"role": "user", "content": f"What is {n} + {7 - n}?"}], "answer": "7"}
        for n in range(8)
    ]
    trainer = GRPOTrainer(
        model=tiny_model(tokenizer, folder / "tiny-model", positions=2048),
        processing_class=tokenizer,
        reward_funcs=rewards(url, run),
        tools=[add],
        train_dataset=Dataset.from_list(rows),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=STEPS,
            per_device_train_batch_size=PROMPTS * GENERATIONS,
            num_generations=GENERATIONS,
            max_completion_length=512,
            max_tool_calling_iterations=1,
            generation_kwargs={"suppress_tokens": sorted(set(range(len(tokenizer))) - said)},
            reward_weights=list(WEIGHTS.values()),
            multi_objective_aggregation=aggregation,
            log_completions=True,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            seed=7,
        ),
    )
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(logs) == STEPS, logs
    tables = [
        pd.read_parquet(folder / "completions" / f"completions_{step + 1:05d}.parquet")
        for step in range(STEPS)
    ]
    return list(zip(logs, tables))


def stored(client, run, step):
    columns = {}
    for name in WEIGHTS:
        items = client.call("batches.list", {"run": f"{run}-{name}"})["items"]
        [batch] = [b for b in items if b["step"] == step]
        assert (batch["samples"], batch["groups"]) == (PROMPTS * GENERATIONS, PROMPTS), batch
        found = client.call("batches.results", {"batchId": batch["batchId"]})
        assert found["index"] == list(range(PROMPTS * GENERATIONS)), found
        assert found["status"].count("failed") == batch["failed"], (found, batch)
        columns[name] = np.array(found["score"], dtype=float)
        columns[f"{name}_sample"] = [f"{batch['batchId']}-{i}" for i in found["index"]]
    return columns


def groups(values):
    return values.reshape(PROMPTS, GENERATIONS, -1)


def normalized(values, axis):
    mean = np.nanmean(values, axis=axis, keepdims=True)
    return (values - mean) / (np.nanstd(values, axis=axis, keepdims=True, ddof=1) + 1e-4)


def advantages(scores, aggregation):
    """
    TRL's advantages as in docs/trainers.md. By default a missing score counts as 0; otherwise each reward is normalized
    over its existing scores.
    """
    weights = np.array(list(WEIGHTS.values()))
    if aggregation == "sum_then_normalize":
        return normalized(groups(np.nansum(scores * weights, axis=1)), 1).ravel()
    parts = normalized(groups(scores), 1).reshape(scores.shape)
    return normalized(np.nansum(parts * weights, axis=1), 0)


def check(client, run, step, log, table, aggregation):
    """Compares a step with the stored scores. Returns the numbers of failed samples and of completions with a tool."""
    columns = stored(client, run, step)
    scores = np.stack([columns[name] for name in WEIGHTS], axis=1)
    near = {"rtol": 1e-3, "atol": 1e-4}
    for i, name in enumerate(WEIGHTS):
        np.testing.assert_allclose(table[name].to_numpy(dtype=float), scores[:, i], **near)
        assert table[f"{name}_sample"].tolist() == columns[f"{name}_sample"], table
        assert log[f"{name}/failed"] == np.isnan(scores[:, i]).sum(), log
        np.testing.assert_allclose(log[f"rewards/{name}/mean"], np.nanmean(scores[:, i]), **near)
    weighted = np.nansum(scores * list(WEIGHTS.values()), axis=1)
    np.testing.assert_allclose(log["reward"], weighted.mean(), **near)
    np.testing.assert_allclose(table["advantage"], advantages(scores, aggregation), **near)
    with_tool = 0
    for sample, completion in zip(columns["by_rule_sample"], table["completion"]):
        text = client.call("samples.get", {"id": sample})["response"]
        calls = [turn for turn in completion if turn["role"] == "tool"]
        assert text.count('<tool_response name="add"') == len(calls), (text, completion)
        assert all(turn["content"] == "7" for turn in calls), completion
        with_tool += len(calls) > 0
    return int(np.isnan(scores).sum()), with_tool


def main(url, folder):
    failed = with_tool = 0
    with RewardOps(url, run=RUN) as client:
        client.check()
        for aggregation in ("normalize_then_sum", "sum_then_normalize"):
            run = f"{RUN}-{aggregation}"
            for step, (log, table) in enumerate(train(url, folder, run, aggregation)):
                of_step = check(client, run, step, log, table, aggregation)
                failed, with_tool = failed + of_step[0], with_tool + of_step[1]
    assert failed > 0 and with_tool > 0, (failed, with_tool)
    print(
        f"PASSED trl {trl.__version__}: {STEPS} steps of GRPOTrainer per multi_objective_aggregation; rewards, weighted means and advantages of "
        f"{2 * STEPS * PROMPTS * GENERATIONS} completions follow from the stored scores of three rewards with weights "
        f"{list(WEIGHTS.values())}; {failed} failed samples are None; the scored texts of {with_tool} completions have tool calls and results"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
