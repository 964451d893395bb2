"""Starts `serve-reward` as a user does and calls it over HTTP."""

import http.client
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
REWARDS = HERE / "rewards.py"
SOURCE = HERE.parent / "src"


def command(*arguments):
    return [sys.executable, "-m", "rewardops", "serve-reward", *map(str, arguments)]


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("REWARDOPS_")}
    return {**kept, "PYTHONPATH": str(SOURCE), **more}


def run_to_end(*arguments, timeout=30):
    """Runs a command to its end; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, timeout=timeout
    )
    return done.returncode, done.stdout, done.stderr


def sample(solution, truth="72", **extra):
    return {
        "dataSource": "openai/gsm8k",
        "solutionStr": solution,
        "groundTruth": truth,
        "extraInfo": extra,
        "prompt": "How many?",
    }


class Served:
    def __init__(self, name, *options, env=None):
        if "--processes" not in options:
            options = (*options, "--processes", "1")
        self.process = subprocess.Popen(
            command(f"{REWARDS}:{name}" if name else REWARDS, "--json", *options),
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.events = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.ready = self.event("ready")
        except BaseException:
            self.process.kill()
            raise
        self.port = self.ready["port"]

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self.events.append({"event": "end of output"})
            self._changed.notify_all()

    def event(self, name, timeout=60):
        def first():
            return next((e for e in self.events if e["event"] in (name, "end of output")), None)

        with self._changed:
            if not self._changed.wait_for(first, timeout):
                raise AssertionError(f"no {name} in {self.events}")
            if first()["event"] != name:
                raise AssertionError(f"ended without {name}: {self.events}")
            return first()

    def post(self, body, path="/", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, headers or {})
        answer = connection.getresponse()
        value = json.loads(answer.read())
        connection.close()
        return answer.status, value

    def score(self, *samples, key=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        status, value = self.post({"samples": list(samples)}, headers=headers)
        assert status == 200, value
        return value["results"]

    def score_apart(self, *samples):
        """Sends each sample in its own call, all concurrently, as the service does."""
        with ThreadPoolExecutor(len(samples)) as threads:
            return [r[0] for r in threads.map(self.score, samples)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.stdout.close()
