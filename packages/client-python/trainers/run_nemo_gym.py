"""
Collects rollouts with NeMo-Gym's own RolloutCollectionHelper, HeadServer and SimpleAgent. Gym validates the
configuration of docs/dialects.md, whose resources server is examples/nemo_gym_resources_server.py. A model server in this
script answers with prepared texts.

    python run_nemo_gym.py http://127.0.0.1:3000 FOLDER
"""

import asyncio
import json
import os
import socket
import sys
import uuid
from importlib.metadata import version
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from nemo_gym.global_config import GlobalConfigDictParserConfig, get_global_config_dict
from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper
from nemo_gym.server_utils import HeadServer, ServerClient
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent

from rewardops import RewardOps

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from nemo_gym_resources_server import RewardOpsResourcesServer

RUN = "nemo-gym"
REPEATS = 2
#: The model's answers and the ground truths by task. The third has no ground truth, so no score.
ANSWERS = ["So it is\n#### 72", "#### 71", "#### 72"]
TRUTHS = ["72", "72", None]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def configuration(url):
    """The configuration from a user's YAML files; Gym adds hosts and ports."""
    return {
        "head_server": {"host": "127.0.0.1", "port": free_port()},
        "rewardops": {
            "resources_servers": {
                "rewardops": {
                    "entrypoint": "app.py",
                    "domain": "math",
                    "url": f"{url}/compat/nemo-gym/{RUN}",
                    "parameters": {"dataSource": "openai/gsm8k"},
                }
            }
        },
        "policy_model": {"responses_api_models": {"prepared": {"entrypoint": "app.py"}}},
        "simple_agent": {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "resources_server": {"type": "resources_servers", "name": "rewardops"},
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                }
            }
        },
    }


def model_server():
    app = FastAPI()

    @app.post("/v1/responses")
    async def respond(request: Request):
        [message] = (await request.json())["input"]
        text = ANSWERS[int(message["content"].removeprefix("Task "))]
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {
            "id": f"resp_{uuid.uuid4().hex}",
            "created_at": 0.0,
            "model": "prepared",
            "object": "response",
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {
                    "id": f"msg_{uuid.uuid4().hex}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            ],
        }

    return app


def server(cls, name, client):
    """Creates a server with the configuration of this name, as Gym's run_webserver does in a separate process."""
    os.environ["NEMO_GYM_CONFIG_PATH"] = name
    return cls(config=cls.load_config_from_global_config(), server_client=client).setup_webserver()


def port_of(config, name):
    [by_type] = config[name].values()
    [one] = by_type.values()
    return one["port"]


async def collect(tasks, output):
    config = get_global_config_dict()
    client = ServerClient(
        head_server_config=ServerClient.load_head_server_config(), global_config_dict=config
    )
    apps = {
        "policy_model": model_server(),
        "rewardops": server(RewardOpsResourcesServer, "rewardops", client),
        "simple_agent": server(SimpleAgent, "simple_agent", client),
    }
    servers = [
        uvicorn.Server(uvicorn.Config(app, port=port_of(config, name), log_level="warning"))
        for name, app in apps.items()
    ]
    running = [asyncio.create_task(one.serve()) for one in servers]
    while not all(one.started for one in servers):
        await asyncio.sleep(0.05)
    try:
        await RolloutCollectionHelper().run_from_config(
            RolloutCollectionConfig(
                agent_name="simple_agent",
                input_jsonl_fpath=str(tasks),
                output_jsonl_fpath=str(output),
                num_repeats=REPEATS,
                upload_rollouts_to_wandb=False,
            )
        )
    finally:
        for one in servers:
            one.should_exit = True
        await asyncio.gather(*running)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def main(url, folder):
    get_global_config_dict(
        GlobalConfigDictParserConfig(
            initial_global_config_dict=OmegaConf.create(configuration(url)),
            skip_load_from_cli=True,
            skip_load_from_dotenv=True,
        )
    )
    # The head server has its own thread, because Gym's client requests the configuration from it synchronously.
    head, thread, _ = HeadServer.run_webserver()
    tasks, output = Path(folder) / "tasks.jsonl", Path(folder) / "rollouts.jsonl"
    with tasks.open("w") as lines:
        for i, truth in enumerate(TRUTHS):
            row = {
                "responses_create_params": {"input": [{"role": "user", "content": f"Task {i}"}]},
                "expected_answer": truth,
            }
            lines.write(json.dumps(row) + "\n")
    asyncio.run(collect(tasks, output))
    head.should_exit = True
    thread.join()

    scored = {(r["_ng_task_index"], r["_ng_rollout_index"]): r["reward"] for r in rows(output)}
    assert scored == {(t, r): float(t == 0) for t in (0, 1) for r in range(REPEATS)}, scored
    failed = rows(output.with_name("rollouts_failures.jsonl"))
    assert [row["_ng_task_index"] for row in failed] == [2] * REPEATS, failed
    assert {row["_ng_failure_class"] for row in failed} == {"judge_failed"}, failed
    assert all("groundTruth is missing" in row["_ng_failure_judge_error"] for row in failed), failed
    [metrics] = json.loads(output.with_name("rollouts_aggregate_metrics.json").read_text())
    # If failed rollouts counted as 0, the mean would be a third.
    assert metrics["agent_metrics"]["mean/reward"] == 0.5, metrics
    with RewardOps(url) as client:
        [batch] = client.call("batches.list", {"run": RUN})["items"]
        assert batch["samples"] == len(TRUTHS) * REPEATS, batch
        assert batch["groups"] == len(TRUTHS) and batch["failed"] == REPEATS, batch
    print(
        f"PASSED NeMo-Gym {version('nemo-gym')} collects {len(TRUTHS)} tasks × {REPEATS} with the service's rewards from a "
        "configuration that Gym validates; failed samples are in its failures file and not in its mean"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
