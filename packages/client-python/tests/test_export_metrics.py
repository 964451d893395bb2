"""
`export-metrics`, read back from the stores of the trackers. The tests of a tracker are skipped if it is not installed.
"""

import contextlib
import importlib.util
import io
import json
import os
import struct
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from rewardops import RewardOpsError
from rewardops.cli import main
from rewardops.metrics import _ranges, metrics_of
from rewardops.trackers import TrackedRun, _folder
from tests.service import ServiceTest, requires_service, rollouts

STEPS = (1, 2, 3, 5, 8)
COMPOSITE = {
    "combine": [
        {"name": "correct", "reward": {"function": {"name": "gsm8k"}}, "weight": 0.75},
        {"name": "long %", "reward": {"function": {"name": "gsm8k"}}, "weight": 0.25},
    ]
}


def package(name):
    if importlib.util.find_spec(name) is None:
        raise unittest.SkipTest(f"{name} is not installed")


def export(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["export-metrics", *arguments])
        except SystemExit as exit:
            code = exit.code
    return code, out.getvalue(), err.getvalue()


def wandb_records(data):
    """
    Yields the records of a .wandb file: a header of 7 bytes, then LevelDB's log format. A block of 32 KiB has
    fragments, each with a checksum, its length, and its place in a record (1: whole, 2: first, 3: middle, 4: last).
    """
    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, place = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if place in (1, 4):
            yield record
            record = b""


@requires_service
class ExportMetricsTest(ServiceTest):
    RUN = "tracked/run"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for step in STEPS:
            samples = rollouts(16, group_size=4, label=f"s{step}")
            for sample in samples[: 4 * (step % 3)]:
                sample["response"] = "#### 72"
            cls.client.submit(samples, step=step, reward=COMPOSITE).wait()
            if step == 3:
                # The figures of a step are those of its last batch.
                cls.client.submit(rollouts(4), step=step).wait()
        failed = rollouts(8)
        for sample in failed[:2]:
            sample["ground_truth"] = {"bad": 1}
        cls.client.submit(failed, step=10).wait()
        cls.client.submit(rollouts(8), step=1, split="val").wait()
        # The service caches answers, so the roll-ups must end before the first query of a test.
        for step in (*STEPS, 10):
            cls.client.step_metrics(step)
        cls.client.step_metrics(1, split="val")
        cls.client.submit(rollouts(4), step=12, open=True)
        cls.base = ("--url", cls.service.url, "--run", cls.RUN)

    def figures(self, split="train"):
        call = self.client.call
        answer = call("runs.get", {"name": self.RUN, "split": split})
        passes = call("prompts.steps", {"run": self.RUN, "split": split, "from": 0})["steps"]
        parts = call("rewards.components", {"run": self.RUN})["components"]
        points = {}
        for step in answer["steps"]:
            if step["n"] is None:
                continue
            [rates] = [one["passAt"] for one in passes if one["batchId"] == step["batchId"]]
            groups = step["groupSignals"]
            point = {
                **{f"reward/{name}": step[name] for name in ("mean", "std", "min", "max")},
                "reward/pass_rate": rates[0]["value"] if rates else None,
                "groups/no_signal_share": 1 - groups["varied"] / sum(groups.values()),
                "samples/scored": step["scored"],
                "samples/failed": step["failed"],
                "samples/failed_share": step["failed"] / step["samples"],
                "timing_s/reward": step["waitMs"] / 1000,
                "rewardops/batch": int(step["batchId"][1:]),
            }
            for part in parts if split == "train" else []:
                for at in part["points"]:
                    if part["name"] and at["batchId"] == step["batchId"]:
                        name = {"long %": "long__"}.get(part["name"], part["name"])
                        point[f"rewards/{name}/mean"] = at["mean"]
                        point[f"rewards/{name}/std"] = at["std"]
            prefix = "val/" if split == "val" else ""
            points[step["step"]] = {
                prefix + name: value for name, value in point.items() if value is not None
            }
        return points

    def assert_equal_points(self, found, expected, exact=True):
        self.assertEqual(sorted(found), sorted(expected))
        for step, point in expected.items():
            self.assertEqual(sorted(found[step]), sorted(point), step)
            for name, value in point.items():
                if not exact:
                    value = struct.unpack("f", struct.pack("f", value))[0]
                self.assertAlmostEqual(found[step][name], value, 12, (step, name))

    def test_the_figures_have_what_the_tests_need(self):
        points = self.figures()
        self.assertEqual(sorted(points), [*STEPS, 10])
        self.assertGreater(len({point["reward/mean"] for point in points.values()}), 2)
        self.assertEqual(points[10]["samples/failed"], 2)
        self.assertIn("rewards/correct/mean", points[1])
        self.assertEqual(points[3]["samples/scored"], 4)
        self.assertNotIn("rewards/correct/mean", points[3])

    def test_tensorboard(self):
        package("tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with tempfile.TemporaryDirectory() as folder:

            def read(name):
                found = EventAccumulator(os.path.join(folder, name), {"scalars": 0, "tensors": 0})
                found.Reload()
                points = {}
                for tag in found.Tags()["scalars"]:
                    for point in found.Scalars(tag):
                        self.assertNotIn(tag, points.setdefault(point.step, {}))
                        points[point.step][tag] = point.value
                return points, found

            to = (*self.base, "--to", "tensorboard", "--logdir", folder)
            code, out, err = export(*to, "--steps", "3..5")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("2 steps exported, 0 already there", out)
            code, out, _ = export(*to)
            self.assertIn("4 steps exported, 2 already there, 1 without figures yet", out)
            self.assertEqual(export(*to)[0], 0)
            self.assertEqual(export(*to, "--split", "val")[0], 0)
            train, val = sorted(os.listdir(folder), key=lambda name: "val" in name)
            points, found = read(train)
            self.assert_equal_points(points, self.figures(), exact=False)
            self.assert_equal_points(read(val)[0], self.figures("val"), exact=False)
            [link] = found.Tensors("rewardops/run")[0].tensor_proto.string_val
            self.assertIn(f"{self.service.url}/runs/tracked%2Frun", link.decode())
            links = [
                one.tensor_proto.string_val[0].decode() for one in found.Tensors("rewardops/step")
            ]
            self.assertEqual(len(links), len(self.figures()))
            self.assertIn(f"{self.service.url}/batches/b", links[0])

    def test_mlflow(self):
        package("mlflow")
        import mlflow

        with tempfile.TemporaryDirectory() as folder:
            # MLflow creates the folder mlruns in the working directory.
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            store = f"sqlite:///{folder}/mlflow.db"
            environment = {"MLFLOW_TRACKING_URI": store, "MLFLOW_EXPERIMENT_NAME": "exported"}
            with mock.patch.dict(os.environ, environment):
                to = (*self.base, "--to", "mlflow")
                code, out, err = export(*to, "--steps", "..3")
                self.assertEqual(code, 0, err)
                self.assertIn("3 steps exported", out)
                self.assertIn("3 steps exported, 3 already there", export(*to)[1])
                self.assertIn("0 steps exported, 6 already there", export(*to)[1])
                self.assertEqual(export(*to, "--split", "val")[0], 0)
            client = mlflow.MlflowClient(store)
            experiment = client.get_experiment_by_name("exported").experiment_id
            val, train = sorted(
                client.search_runs([experiment]), key=lambda run: run.data.tags["rewardops.split"]
            )[::-1]
            for run, split in ((train, "train"), (val, "val")):
                points = {}
                for name in run.data.metrics:
                    for point in client.get_metric_history(run.info.run_id, name):
                        self.assertNotIn(name, points.setdefault(point.step, {}))
                        points[point.step][name] = point.value
                self.assert_equal_points(points, self.figures(split))
            self.assertEqual(train.info.status, "FINISHED")
            self.assertEqual(
                train.data.tags["rewardops.url"], f"{self.service.url}/runs/tracked%2Frun"
            )

    def test_wandb(self):
        package("wandb")
        import wandb
        from wandb.proto import wandb_internal_pb2

        # unittest exits with a bool, which W&B's own teardown at exit does not accept.
        self.addCleanup(wandb.teardown)

        with tempfile.TemporaryDirectory() as folder:
            environment = {
                "WANDB_MODE": "offline",
                "WANDB_DIR": folder,
                "WANDB_SILENT": "true",
                "WANDB_PROJECT": "exported",
            }

            def read(split):
                points, ids = {}, set()
                for path in Path(folder).glob("wandb/offline-run-*/*.wandb"):
                    records = [
                        wandb_internal_pb2.Record.FromString(data)
                        for data in wandb_records(path.read_bytes())
                    ]
                    [run] = [one.run for one in records if one.WhichOneof("record_type") == "run"]
                    if run.display_name != (self.RUN if split == "train" else f"{self.RUN} (val)"):
                        continue
                    ids.add(run.run_id)
                    for record in records:
                        if record.WhichOneof("record_type") != "history":
                            continue
                        items = {
                            item.key or "/".join(item.nested_key): json.loads(item.value_json)
                            for item in record.history.item
                        }
                        step = items.pop("_step", record.history.step.num)
                        self.assertNotIn(step, points)
                        link = items.pop("rewardops/url")
                        self.assertTrue(link.startswith(f"{self.service.url}/batches/b"), link)
                        points[step] = {
                            name: value for name, value in items.items() if name[0] != "_"
                        }
                return points, ids

            with mock.patch.dict(os.environ, environment):
                to = (*self.base, "--to", "wandb")
                code, out, err = export(*to, "--steps", "0..3")
                self.assertEqual(code, 0, err)
                self.assertIn("3 steps exported", out)
                self.assertIn("3 steps exported, 3 already there", export(*to)[1])
                self.assertIn("0 steps exported, 6 already there", export(*to)[1])
                self.assertEqual(export(*to, "--split", "val")[0], 0)
            points, ids = read("train")
            self.assertEqual(len(ids), 1)
            self.assert_equal_points(points, self.figures())
            self.assert_equal_points(read("val")[0], self.figures("val"))

    def test_step_metrics_are_those_of_the_export(self):
        for step, point in self.figures().items():
            self.assert_equal_points({step: self.client.step_metrics(step)}, {step: point})
        self.assert_equal_points({1: self.client.step_metrics(1, split="val")}, self.figures("val"))

    def test_step_metrics_wait_for_the_end_of_the_batch(self):
        batch = self.client.submit(rollouts(8), run="live", step=4, open=True)
        with self.assertRaises(RewardOpsError) as caught:
            self.client.step_metrics(4, run="live", timeout_s=0.3)
        self.assertEqual(caught.exception.reason, "timeout")
        batch.close()
        self.assertEqual(self.client.step_metrics(4, run="live")["samples/scored"], 8)
        with self.assertRaisesRegex(RewardOpsError, "has no step 5"):
            self.client.step_metrics(5, run="live")

    def test_many_steps_come_one_by_one(self):
        package("tensorboard")
        # If a run has more than 1,000 steps, the service sends them in bins.
        one = [{**sample, "score": 1.0} for sample in rollouts(1)]

        def submit(step):
            self.client.submit(one, run="long", step=step)

        with ThreadPoolExecutor(32) as threads:
            list(threads.map(submit, range(0, 2040, 2)))
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = export(
                *("--url", self.service.url, "--run", "long"),
                *("--to", "tensorboard", "--logdir", folder),
            )
            self.assertEqual(code, 0, err)
            self.assertIn("1020 steps exported, 0 already there (", out)

    def test_errors(self):
        # With no tracker installed, the missing package would be reported before the service is called.
        package("tensorboard")
        code, _, err = export("--url", self.service.url, "--run", "nowhere", "--to", "tensorboard")
        self.assertEqual(code, 1)
        self.assertIn("nowhere", err)
        self.assertFalse(os.path.exists("runs"))


class OptionsTest(unittest.TestCase):
    def test_a_missing_package_is_named_with_its_extra(self):
        for name in ("wandb", "mlflow", "tensorboard"):
            with mock.patch.dict("sys.modules", {name: None}):
                code, _, err = export("--to", name, "--run", "x")
            self.assertEqual(code, 1)
            self.assertIn(f"pip install 'rewardops[{name}]'", err)

    def test_wrong_ranges_are_refused(self):
        for text in ("5..3", "a", "..", "3-5", "", "1..9999999999"):
            code, _, err = export("--to", "wandb", "--run", "x", "--steps", text)
            self.assertEqual(code, 2, text)
            self.assertIn("--steps", err)

    def test_absent_figures_are_left_out(self):
        step = {
            **{"step": 1, "batchId": "b7", "n": 0, "scored": 0, "failed": 0, "waitMs": None},
            **{"mean": None, "std": None, "min": None, "max": None, "groupSignals": None},
        }
        self.assertEqual(
            metrics_of(step, None, [], "train"),
            {"samples/scored": 0.0, "samples/failed": 0.0, "rewardops/batch": 7.0},
        )
        self.assertEqual(metrics_of({**step, "n": None}, None, [], "train"), {})
        parts = [
            {"name": "a/b", "mean": 1.0, "std": None},
            {"name": "a b", "mean": float("nan"), "std": 2.0},
            {"name": "..", "mean": 0.5, "std": None},
        ]
        found = metrics_of(step, 0.25, parts, "val")
        self.assertEqual(found["val/reward/pass_rate"], 0.25)
        self.assertEqual(
            sorted(name for name in found if "rewards/" in name),
            ["val/rewards/__/mean", "val/rewards/a_b/mean", "val/rewards/a_b_/std"],
        )

    def test_bins_become_ranges_of_at_most_1000_steps(self):
        bins = [{"step": at * 4, "bin": {"last": at * 4 + 3, "steps": 4}} for at in range(300)]
        self.assertEqual(_ranges(bins), [(0, 999), (1000, 1199)])

    def test_folders_are_names_of_their_own(self):
        def folder(name, split="train"):
            return _folder(TrackedRun("http://x", name, split, "2026-01-01T00:00:00Z"))

        self.assertEqual(folder("my-run.1"), "my-run.1")
        self.assertEqual(folder("my-run.1", "val"), "my-run.1 (val)")
        names = [folder(name) for name in ("a/b", "a_b", "..", "../a", "a" * 256, "é/" * 99)]
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertNotIn("/", name)
            self.assertNotEqual(name[0], ".")


if __name__ == "__main__":
    unittest.main()
