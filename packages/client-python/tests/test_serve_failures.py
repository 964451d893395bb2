"""A call that hangs, dies or raises fails only its own sample, with a reason, and leaves no process
behind.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from tests.serving import Served, command, environment, sample


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


class Failures(unittest.TestCase):
    def ends(self, pid):
        """A killed process exists until its parent has collected its exit status."""
        until = time.monotonic() + 30
        while alive(pid):
            self.assertLess(time.monotonic(), until, f"process {pid} still exists")
            time.sleep(0.05)

    def test_sync(self):
        bad = {
            "loop": ("timeout", "took longer"),
            "regex": ("timeout", "took longer"),
            "exit": ("function_error", "exited with code 7"),
            "sys.exit": ("function_error", "SystemExit: 3"),
            "raise": ("function_error", "KeyError: 'answer'"),
        }
        with Served("misbehaves", "--timeout", "2.5", "--processes", "2") as served:
            results = served.score_apart(*map(sample, [*bad, "print", *["fine"] * 20]))
            for (text, (reason, message)), result in zip(bad.items(), results):
                with self.subTest(text):
                    self.assertEqual(result.get("reason"), reason, result)
                    self.assertIn(message, result["error"])
                    self.assertNotIn("score", result)
            self.assertEqual([r.get("score") for r in results[len(bad) :]], [1.0] * 21)
            gone = [e for e in served.events if e["event"] == "process_replaced"]
            self.assertEqual(len(gone), 3)
            for event in gone:
                self.ends(event["pid"])
            self.assertIn("'loop'", str(gone))

    def test_async(self):
        bad = {
            "loop": "timeout",
            "background": "timeout",
            "stubborn": "timeout",
            "exit": "function_error",
            "crash later": "function_error",
            "raise": "function_error",
        }
        with Served(
            "misbehaves_async", "--timeout", "2.5", "--processes", "3", "--max-in-flight", "60"
        ) as served:
            fine = [sample("fine")] * 30
            results = served.score_apart(*map(sample, bad), *fine)
            for (text, wanted), result in zip(bad.items(), results):
                with self.subTest(text):
                    self.assertEqual(result.get("reason"), wanted, result)
                    self.assertNotIn("score", result)
            self.assertEqual([r.get("score") for r in results[len(bad) :]], [1.0] * 30, results)

    def test_loop_blocked_by_an_unknown_call(self):
        with Served("misbehaves_async", "--timeout", "1.5") as served:
            bad, *fine = served.score_apart(*map(sample, ["callback", *["fine"] * 5]))
            self.assertEqual(bad["reason"], "timeout", bad)
            self.assertEqual([r.get("score") for r in fine], [1.0] * 5)

    def test_stops_while_the_function_is_being_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "slow.py"
            path.write_text("print('begun', flush=True)\nwhile True: pass\n")
            process = subprocess.Popen(
                command(path), env=environment(), stderr=subprocess.PIPE, text=True
            )
            # A function's output goes to stderr, after the startup events.
            self.assertIn("begun\n", iter(process.stderr.readline, ""))
            process.terminate()
            self.assertEqual(process.wait(60), 0)
            process.stderr.close()

    def test_a_gone_caller_leaves_nothing_behind(self):
        with Served("misbehaves_async", "--timeout", "60") as served:
            connection = http.client.HTTPConnection("127.0.0.1", served.port)
            connection.request("POST", "/", json.dumps({"samples": [sample("sleep")]}))
            ends = time.monotonic() + 60
            while self.about(served)["inFlight"] == 0 and time.monotonic() < ends:
                time.sleep(0.02)
            connection.close()
            while self.about(served)["inFlight"] and time.monotonic() < ends:
                time.sleep(0.05)
            self.assertEqual(self.about(served)["inFlight"], 0)
            self.assertEqual(served.score(sample("fine"))[0]["score"], 1.0)

    def about(self, served):
        connection = http.client.HTTPConnection("127.0.0.1", served.port)
        connection.request("GET", "/")
        value = json.loads(connection.getresponse().read())
        connection.close()
        return value

    def test_processes_end_with_the_server(self):
        with Served("tells_call") as served:
            pid = served.score(sample("x"))[0]["pid"]
            served.process.send_signal(signal.SIGKILL)
            served.process.wait()
            self.ends(pid)


if __name__ == "__main__":
    unittest.main()
