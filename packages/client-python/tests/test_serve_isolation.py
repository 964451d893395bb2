"""A function gets no secrets, and leaves no process and no file behind."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from rewardops.serving import isolation

from tests.serving import Served, sample

SECRET = "a-secret-of-the-server"


def runs(pid):
    """In a container, process 1 may not collect zombies, so they do not count."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@unittest.skipUnless(sys.platform == "linux", "Linux only")
class Isolation(unittest.TestCase):
    def test_keeps_the_function_in(self):
        with Served("attacks", "--timeout", "5", env={"REWARDOPS_SERVE_KEY": SECRET}) as served:
            found = served.score(sample(str(served.process.pid)), key=SECRET)[0]
            self.assertEqual(found["score"], 1.0, found)
            self.assertNotIn("REWARDOPS_SERVE_KEY", found["names"])
            self.assertEqual(found["no_new_privileges"], "1")
            # A function that runs as root can read everything.
            if os.getuid() != 0 or not any(e["event"] == "no_own_user" for e in served.events):
                self.assertEqual(found["environ"], "PermissionError")
                self.assertEqual(found["memory"], "PermissionError")
            self.assertTrue(os.path.isdir(found["folder"]))
            self.assertTrue(runs(found["detached"]))
            failed = served.score(sample("end"), key=SECRET)[0]
            self.assertEqual(failed["reason"], "function_error")
            ends = time.monotonic() + 30
            while runs(found["detached"]) or os.path.isdir(found["folder"]):
                self.assertLess(time.monotonic(), ends, "something was left behind")
                time.sleep(0.05)

    def test_checks_what_a_function_writes_to_its_connection(self):
        invalid = ("?", '["done", 1]', '["done", 1, {"score": 1e999}]')
        with tempfile.TemporaryDirectory() as folder, Served("writes_to_the_server") as served:
            path = os.path.join(folder, "made-by-the-server")
            for text in ("pickle", *invalid):
                with self.subTest(text):
                    failed = served.score(sample(text, path=path))[0]
                    self.assertEqual(failed.get("reason"), "function_error", failed)
            self.assertFalse(os.path.exists(path))
            self.assertEqual(served.score(sample("fine"))[0]["score"], 1.0)

    @unittest.skipUnless(hasattr(os, "getuid") and os.getuid() == 0, "root only")
    def test_processes_have_distinct_users(self):
        first = isolation.FIRST_UID
        with mock.patch.object(isolation, "LAST_UID", first + 1):
            one, other = isolation.Enclosure(True), isolation.Enclosure(True)
            self.assertEqual({one.uid, other.uid}, {first, first + 1})
            with self.assertRaises(OSError):
                isolation.Enclosure(True)
            # A second `leave` does not kill the processes of the user's next owner. A user with a running process is
            # not claimed again, even if its claim is gone.
            stays = subprocess.Popen(["sleep", "60"], user=other.uid)
            try:
                one.leave()
                again = isolation.Enclosure(True)
                self.assertEqual(again.uid, one.uid)
                left = subprocess.Popen(["sleep", "60"], user=again.uid)
                one.leave()
                self.assertTrue(runs(left.pid))
                other._claim.close()
                with self.assertRaises(OSError):
                    isolation.Enclosure(True)
                again.leave()
                left.wait()
                self.assertTrue(runs(stays.pid))
            finally:
                stays.kill()
                stays.wait()
                other.leave()


if __name__ == "__main__":
    unittest.main()
