"""
Kills the service twice and the trainer once while a GRPOTrainer trains; each then continues. The caller restarts the
service, on the same port and data folder.

    python run_trl_restart.py http://127.0.0.1:3000 FOLDER
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from pathlib import Path

import trl
from datasets import Dataset
from tiny import tiny_model, tiny_tokenizer
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rewardops import RewardOps
from rewardops.trl import reward_function

STEPS = 8
SAVED_EVERY = 2
SAMPLES = 8
#: The service is killed before the rewards of step 1 are requested, and while the rewards of step 3 are computed. The
#: trainer is killed at step 5.
BEFORE, DURING, TRAINER = 1, 3, 5


class Kills(TrainerCallback):
    def __init__(self, url, run):
        self.client = RewardOps(url)
        self.url, self.run = url, run

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == BEFORE:
            os.kill(self.service(), signal.SIGKILL)
        elif state.global_step == DURING:
            self.once_scoring(DURING, self.service())
        elif state.global_step == TRAINER:
            self.once_scoring(TRAINER, os.getpid())

    def service(self):
        with urllib.request.urlopen(f"{self.url}/healthz") as answer:
            return json.load(answer)["pids"]["server"]

    def once_scoring(self, step, pid):
        def watch():
            while not any(
                b["step"] == step and b["status"] == "running"
                for b in self.client.call("batches.list", {"run": self.run})["items"]
            ):
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()


def train(url, folder, run, resume):
    tokenizer = tiny_tokenizer()
    rows = [{"prompt": f"What is {n} + {n}? ", "answer": str(2 * n)} for n in range(32)]
    trainer = GRPOTrainer(
        model=tiny_model(tokenizer, Path(folder) / "tiny-model"),
        processing_class=tokenizer,
        reward_funcs=reward_function(url, run=run, reward="sometimes"),
        train_dataset=Dataset.from_list(rows),
        callbacks=[] if resume else [Kills(url, run)],
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=STEPS,
            per_device_train_batch_size=SAMPLES,
            num_generations=SAMPLES // 2,
            max_completion_length=16,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="steps",
            save_steps=SAVED_EVERY,
            disable_tqdm=True,
            seed=7,
        ),
    )
    trainer.train(resume_from_checkpoint=resume)
    logs = [entry for entry in trainer.state.log_history if "reward" in entry]
    (Path(folder) / "logs.json").write_text(json.dumps(logs))


def child(url, folder, run, resume):
    command = [sys.executable, __file__, url, folder, run, "resume" if resume else "new"]
    return subprocess.run(command, check=False).returncode


def main(url, folder):
    run = f"trl-restart-{uuid.uuid4().hex[:6]}"
    assert child(url, folder, run, resume=False) == -signal.SIGKILL
    checkpoints = sorted(path.name for path in Path(folder).glob("checkpoint-*"))
    assert checkpoints[-1] == f"checkpoint-{TRAINER - 1}", checkpoints
    with RewardOps(url) as client:

        def batches():
            """The run's batches by step, oldest first, when all of them have ended."""
            items = client.call("batches.list", {"run": run})["items"]
            by_step = {}
            for item in items:
                ended = client.call("batches.wait", {"batchId": item["batchId"], "waitMs": 60_000})
                assert ended["status"] == "completed", ended
                assert ended["samples"] == ended["scored"] + ended["failed"] == SAMPLES, ended
                by_step.setdefault(item["step"], []).append(ended)
            return {
                step: sorted(found, key=lambda b: int(b["batchId"][1:]))
                for step, found in sorted(by_step.items())
            }

        # Killing the service loses no step and submits no step twice. The batch of the killed trainer ends too.
        before = batches()
        assert {step: len(found) for step, found in before.items()} == dict.fromkeys(
            range(TRAINER + 1), 1
        ), before
        assert child(url, folder, run, resume=True) == 0
        after = batches()
        resumed = TRAINER - 1
        wanted = {step: 2 if resumed <= step <= TRAINER else 1 for step in range(STEPS)}
        assert {step: len(found) for step, found in after.items()} == wanted, after
        for step, [first, *_] in before.items():
            assert after[step][0] == first, (first, after[step])
        # The trainer's log and the run's figures have each step once, with the scores of its last batch.
        logs = json.loads((Path(folder) / "logs.json").read_text())
        assert [entry["step"] for entry in logs] == list(range(1, STEPS + 1)), logs
        for step, entry in enumerate(logs):
            last = after[step][-1]
            assert abs(entry["rewards/rewardops/mean"] - last["mean"]) < 1e-4, (entry, last)
            assert entry["rewardops/failed"] == last["failed"], (entry, last)
        last_step = client.step_metrics(TRAINER, run=run)
        assert abs(last_step["reward/mean"] - after[TRAINER][-1]["mean"]) < 1e-6, last_step
    print(
        f"PASSED trl {trl.__version__}: {STEPS} steps; the service was killed at steps {BEFORE} and {DURING} and the trainer at step {TRAINER}, "
        f"which continued from checkpoint-{resumed}: one batch per step, two only for the repeated steps {resumed} and {TRAINER}; "
        "every batch ended, and the figures are those of the last batch of each step"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(*sys.argv[1:])
    else:
        train(*sys.argv[1:4], resume=sys.argv[4] == "resume")
