"""
Runs three steps of GRPOTrainer on the CPU, on a tiny model with random weights, with rewards from the service.

    python run_trl.py http://127.0.0.1:3000 FOLDER
"""

import sys
import uuid
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from rewardops import RewardOps
from rewardops.trl import reward_function

STEPS = 3
PROMPTS = 2
GENERATIONS = 4
#: A new name each time, because the run's batches in the service are compared with the trainer's log.
RUN = f"trl-grpo-{uuid.uuid4().hex[:6]}"


def tiny_model(folder):
    """A tokenizer of single characters, and a model with some 30,000 weights."""
    characters = [chr(c) for c in range(32, 127)]
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    torch.manual_seed(7)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            eos_token_id=1,
            pad_token_id=0,
            bos_token_id=None,
        )
    )
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return str(folder), wrapped


def main(url, folder):
    with RewardOps(url, run=RUN) as client:
        client.check()
        model, tokenizer = tiny_model(Path(folder) / "tiny-model")
        rows = [
            {"prompt": f"What is {n} + {n}? ", "answer": str(2 * n), "number": n} for n in range(8)
        ]
        # One function scores by a rule. The other one fails for some samples, which must be left out.
        by_rule = reward_function(url, run=RUN, data_source="openai/gsm8k", name="by_rule")
        sometimes = reward_function(
            url, run=f"{RUN}-sometimes", reward="sometimes", data_source="d", name="sometimes"
        )
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[by_rule, sometimes],
            train_dataset=Dataset.from_list(rows),
            args=GRPOConfig(
                output_dir=str(Path(folder) / "out"),
                max_steps=STEPS,
                per_device_train_batch_size=PROMPTS * GENERATIONS,
                num_generations=GENERATIONS,
                max_completion_length=16,
                multi_objective_aggregation="normalize_then_sum",
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
        for entry in logs:
            assert entry["rewards/by_rule/mean"] == 0.0, entry
            assert entry["by_rule/failed"] == 0.0, entry
        assert any(entry["sometimes/failed"] > 0 for entry in logs), logs
        batches = client.call("batches.list", {"run": RUN})["items"]
        assert sorted(b["step"] for b in batches) == list(range(STEPS)), batches
        for batch in batches:
            assert (batch["samples"], batch["failed"]) == (PROMPTS * GENERATIONS, 0), batch
            assert batch["groups"] == PROMPTS, batch
        # Neither the trainer's means nor the service's include samples without a score.
        by_step = {
            b["step"]: b for b in client.call("batches.list", {"run": f"{RUN}-sometimes"})["items"]
        }
        for step, entry in enumerate(logs):
            batch = by_step[step]
            assert entry["sometimes/failed"] == batch["failed"], (entry, batch)
            assert abs(entry["rewards/sometimes/mean"] - batch["mean"]) < 1e-4, (entry, batch)
        means = [round(entry["rewards/sometimes/mean"], 4) for entry in logs]
        failed = [int(entry["sometimes/failed"]) for entry in logs]
        print(
            f"PASSED {STEPS} steps of GRPOTrainer, {len(batches)} batches in the service; the second reward's means {means}, "
            f"samples without a score {failed} of {PROMPTS * GENERATIONS} per step"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
