"""A service for tests, in its own process with its own data."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from rewardops import RewardOps

ROOT = Path(__file__).resolve().parents[3]
NODE = ROOT / "node_modules" / ".bin" / "node"
#: Seconds. The start creates and migrates a database, which takes 3 to 6 s, or many times that on a busy machine.
START_S = 90


def requires_service(case):
    missing = not NODE.exists()
    return unittest.skipIf(missing, f"{NODE} is missing: run npm ci in the repository")(case)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Service:
    def __init__(self, **settings):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = tempfile.mkdtemp(prefix="rewardops-python-")
        self.settings = settings
        self.process = None
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise

    def start(self):
        names = ("PATH", "HOME", "TMPDIR", "NODE_COMPILE_CACHE")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        self.output = []
        self.process = subprocess.Popen(
            [str(NODE), "server/start.ts"],
            cwd=ROOT,
            env={
                **kept,
                "NODE_ENV": "production",
                "LOG_LEVEL": "warn",
                "REWARDOPS_PAGES": "0",
                "PORT": str(self.port),
                "REWARDOPS_DATA_DIR": self.data,
                **self.settings,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        ends = time.monotonic() + START_S
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise AssertionError("the service did not start:\n" + "".join(self.output[-20:]))
            time.sleep(0.1)

    def _read(self, process):
        for line in process.stdout:
            self.output.append(line)
        process.stdout.close()

    def healthy(self):
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def pids(self):
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=10) as answer:
            return json.load(answer)["pids"]

    def kill(self):
        """The server's workers and Postgres end or restart by themselves."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)

    def destroy(self):
        self.stop()
        self._end_postgres()
        shutil.rmtree(self.data, ignore_errors=True)

    def _end_postgres(self):
        # If the server was killed, Postgres may still be shutting down.
        for file in Path(self.data).rglob("postmaster.pid"):
            try:
                pid = int(re.match(r"\d+", file.read_text()).group())
                os.kill(pid, signal.SIGINT)
            except (OSError, AttributeError):
                continue
            for _ in range(100):
                if not file.exists():
                    break
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.destroy()


def rollouts(count, group_size=4, label="q"):
    """Samples in groups, every other one correct. Response lengths differ within a group."""
    return [
        {
            "uid": f"{label}-{i // group_size}",
            "data_source": "openai/gsm8k",
            "prompt": "Natalia sold 48 clips in April and half as many in May. How many in all?",
            "response": f"Rollout {label} {i}.\n#### {72 if i % 2 == 0 else 71}",
            "ground_truth": "72",
            "response_length": 3 + i % 5,
        }
        for i in range(count)
    ]


class ServiceTest(unittest.TestCase):
    RUN = "test"

    @classmethod
    def setUpClass(cls):
        cls.service = Service(REWARDOPS_WORKERS="1")
        cls.addClassCleanup(cls.service.destroy)
        cls.client = RewardOps(cls.service.url, run=cls.RUN)
        cls.addClassCleanup(cls.client.close)
