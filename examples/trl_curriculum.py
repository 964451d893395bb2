#!/usr/bin/env python3
"""
Trains a tiny model with TRL's GRPOTrainer on a curriculum: each step trains on the prompts whose pass rate is nearest
to one half, as drawn by `prompts.sample`. The model learns to repeat a letter, in half a minute on the CPU.

    pip install torch trl datasets packages/client-python
    REWARDOPS_FUNCTIONS_DIR=examples/functions npm start
    python3 examples/trl_curriculum.py http://127.0.0.1:3000
"""

import argparse
import random
import tempfile
import time

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Sampler
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from rewardops import RewardOps, RewardOpsError
from rewardops.trl import reward_function

LETTERS = "abcdefghijklmnop"
PROMPTS, GENERATIONS = 8, 16
#: Number of unseen prompts per step, while there are any. `prompts.sample` draws only prompts that were scored before.
UNSEEN = 4


class Curriculum(Sampler):
    """Indices of the dataset in TRL's order: the prompts of a step, each `GENERATIONS` times."""

    def __init__(self, client, run, size, steps):
        self.client, self.run, self.size, self.steps = client, run, size, steps
        self.unseen = random.Random(0).sample(range(size), size)

    def __len__(self):
        return self.steps * PROMPTS * GENERATIONS

    def __iter__(self):
        for _ in range(self.steps):
            for index in self.draw():
                yield from [index] * GENERATIONS

    def draw(self):
        fresh, self.unseen = self.unseen[:UNSEEN], self.unseen[UNSEEN:]
        try:
            answer = self.client.call(
                "prompts.sample", {"run": self.run, "strategy": "thompson", "n": PROMPTS}
            )
            known = [int(prompt["promptId"]) for prompt in answer["prompts"]]
        except RewardOpsError as error:
            # Before the first batch has ended, no prompt has a pass rate.
            if error.reason not in ("run_not_found", "no_pass_rates"):
                raise
            known = []
        # In the first steps too few prompts are known, so random prompts are added.
        others = random.sample(range(self.size), self.size)
        return list(dict.fromkeys(fresh + known + others))[:PROMPTS]


class CurriculumTrainer(GRPOTrainer):
    curriculum = None

    def _get_train_sampler(self, dataset=None):
        return self.curriculum


def tiny_model(folder):
    """A tokenizer of single letters, and a model with about 20,000 weights."""
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *LETTERS])}
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
            max_position_embeddings=64,
            eos_token_id=1,
            pad_token_id=0,
            bos_token_id=None,
        )
    )
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return wrapped


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:3000")
    parser.add_argument("--run", default=f"trl-curriculum-{int(time.time())}")
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    rows = [{"prompt": a, "answer": a, "prompt_id": str(i)} for i, a in enumerate(LETTERS)]
    with RewardOps(options.url, run=options.run) as client, tempfile.TemporaryDirectory() as folder:
        CurriculumTrainer.curriculum = Curriculum(client, options.run, len(rows), options.steps)
        trainer = CurriculumTrainer(
            model=folder,
            processing_class=tiny_model(folder),
            reward_funcs=reward_function(
                options.url,
                run=options.run,
                reward={"function": {"path": "starts_with.ts"}},
                data_source="letters",
            ),
            train_dataset=Dataset.from_list(rows),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=options.steps,
                per_device_train_batch_size=PROMPTS * GENERATIONS,
                num_generations=GENERATIONS,
                max_completion_length=2,
                learning_rate=1e-2,
                lr_scheduler_type="constant",
                beta=0.0,
                logging_steps=1,
                report_to=[],
                use_cpu=True,
                save_strategy="no",
                disable_tqdm=True,
                seed=7,
            ),
        )
        trainer.train()
        rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
        counts = client.call("prompts.counts", {"run": options.run})
        print(f"rewards {[round(reward, 2) for reward in rewards]}")
        print(f"prompts {counts['byClass']}")
        print(f"{options.url}/runs/{options.run}/prompts")


if __name__ == "__main__":
    main()
