"""Tables of stored samples, read by pyarrow, pandas, datasets and DuckDB. Each is skipped if it is not installed."""

import importlib
import json
import os
import tempfile
import unittest
from pathlib import Path

from tests.service import ServiceTest, free_port, requires_service, rollouts

TIMES = ("submittedAt", "dispatchedAt", "endedAt", "groupCompletedAt", "batchCompletedAt")
JSON = ("extraInfo", "rewardExtraInfo", "rewards")


def package(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


@requires_service
class StoredTablesTest(ServiceTest):
    RUN = "tables"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for step in range(4):
            samples = rollouts(200, group_size=8)
            for i, sample in enumerate(samples):
                if i % 5 == 0:
                    sample.update(score=i / 7 - step, reward_extra_info={"acc": i % 2, "note": "é"})
                if i % 7 == 0:
                    sample["prompt"] = [{"role": "user", "content": f"{i}?"}]
                if i % 11 == 0:
                    sample.update(ground_truth={"bad": [i]}, score=None)
                    sample.pop("reward_extra_info", None)
                if i % 3 == 0:
                    sample.update(data_source="lighteval/MATH", extra_info={"i": i, "f": 0.1})
            cls.client.submit(samples, step=step, split="val" if step == 3 else "train").wait()
        # No server answers, so these samples fail.
        url = f"http://127.0.0.1:{free_port()}"
        server = {"name": "away", "url": url, "engine": "vllm", "model": "away"}
        cls.client.call("servers.register", {**server, "ifUnreachable": "keep"})
        away = {"model": "away", "timeoutMs": 1_000}
        cls.client.submit(rollouts(40, group_size=8), step=4, reward=away).wait()
        cls.samples = cls.client.samples()
        cls.rows = list(cls.samples)

    def assert_equal_rows(self, table):
        self.assertEqual(len(table), 840)
        for row, line in zip(table, self.rows):
            row = {name: value for name, value in row.items() if value is not None}
            for name in JSON:
                if name in row:
                    row[name] = json.loads(row[name])
            for name in TIMES:
                if name in row:
                    moment = row[name]
                    self.assertEqual(moment.utcoffset().total_seconds(), 0)
                    row[name] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for name in ("prompt", "groundTruth"):
                if not isinstance(line.get(name, ""), str):
                    row[name] = json.loads(row[name])
            row.setdefault("rewardExtraInfo", {})
            line = {name: value for name, value in line.items() if value is not None}
            self.assertEqual(row, line)
            for name, value in row.items():
                if name in ("score", "rawScore", "queueMs", "scoreMs"):
                    self.assertIs(type(value), float, name)
                elif name not in TIMES:
                    self.assertIs(type(value), type(line[name]), name)

    def test_arrow(self):
        arrow = package("pyarrow")
        table = self.samples.to_arrow()
        self.assert_equal_rows(table.to_pylist())
        types = {field.name: field.type for field in table.schema}
        for name in TIMES:
            self.assertEqual(types[name], arrow.timestamp("us", tz="UTC"))
        self.assertEqual(types["step"], arrow.int32())
        self.assertEqual(types["score"], arrow.float64())
        self.assertEqual(types["substituted"], arrow.bool_())
        self.assertEqual(types["rewardExtraInfo"], arrow.string())

    def test_pandas(self):
        package("pandas")
        package("pyarrow")
        frame = self.samples.to_pandas()
        self.assertEqual(frame.shape, (840, 32))
        scored = frame[frame.status == "scored"]
        lines = [row["score"] for row in self.rows if row["status"] == "scored"]
        self.assertEqual(list(scored.score), lines)

    def test_pandas_and_arrow_tables_of_scores(self):
        package("pandas")
        package("pyarrow")
        scores = self.client.batch(self.rows[0]["batchId"]).results()
        frame, table = scores.to_pandas(), scores.to_arrow()
        self.assertEqual(frame.uid.tolist(), scores.uid)
        self.assertEqual(table.column("score").to_pylist(), scores.score)
        notes = scores.reward_extra_info["note"]
        self.assertEqual(table.column("reward_extra_info.note").to_pylist(), notes)

    def test_datasets(self):
        # Without this setting, the package would look for models on the network.
        os.environ["HF_HUB_OFFLINE"] = "1"
        datasets = package("datasets")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "samples.parquet")
            self.samples.save(path)
            data = datasets.load_dataset(
                "parquet", data_files=str(path), split="train", cache_dir=folder
            )
            self.assert_equal_rows(data.to_list())
            pairs = list(self.samples.preference_pairs(0.5, conversational=True))
            self.assertGreater(len(pairs), 20)
            data = datasets.Dataset.from_list(pairs)
            self.assertEqual(data.to_list(), pairs)

    def test_duckdb_answers_as_the_service_does(self):
        duckdb = package("duckdb")
        call = self.client.call
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "samples.parquet")
            self.samples.save(path)

            def query(sql):
                return duckdb.sql(sql.replace("SAMPLES", f"'{path}'")).fetchall()

            batches = call("batches.list", {"run": "tables"})["items"]
            views = [call("batches.view", {"batchId": batch["batchId"]}) for batch in batches]
            views.sort(key=lambda view: view["batchId"])
            self.assertEqual(len(views), 5)
            of_batch = "from SAMPLES group by all order by batchId"

            counts = "count(*) filter (status = 'scored'), count(*) filter (status = 'failed')"
            self.assertEqual(
                query(f"select batchId, count(*), {counts} {of_batch}"),
                [
                    tuple(view[name] for name in ("batchId", "samples", "scored", "failed"))
                    for view in views
                ],
            )
            figures = "avg(score), stddev_samp(score), min(score), max(score)"
            for view, (_, *row) in zip(views, query(f"select batchId, {figures} {of_batch}")):
                for name, value in zip(("mean", "std", "min", "max"), row):
                    self.assertAlmostEqual(view[name], value, 12)
            sources = query(
                "select batchId, dataSource, count(*), count(score), avg(score) from SAMPLES "
                "group by all order by 1, 2"
            )
            expected = [
                (view["batchId"], *(one[n] for n in ("dataSource", "samples", "scored", "mean")))
                for view in views
                for one in sorted(view["dataSources"], key=lambda one: one["dataSource"])
            ]
            self.assertEqual([row[:-1] for row in sources], [row[:-1] for row in expected])
            for row, want in zip(sources, expected):
                self.assertAlmostEqual(row[-1], want[-1], 12)
            failures = query(
                "select batchId, reason, count(*) from SAMPLES where status = 'failed' "
                "group by all order by 1, 2"
            )
            expected = [
                (view["batchId"], one["reason"], one["count"])
                for view in views
                for one in sorted(view["failures"], key=lambda one: one["reason"])
            ]
            self.assertGreater(len({reason for _, reason, _ in failures}), 1)
            self.assertEqual(failures, expected)
            varied = query(
                "select batchId, count(*) filter (low < high) from (select batchId, uid, "
                "min(score) as low, max(score) as high from SAMPLES group by all) "
                "group by all order by batchId"
            )
            self.assertEqual([n for _, n in varied], [v["groupSignals"]["varied"] for v in views])
            verdicts = query(
                "select verdict, count(*) from SAMPLES where verdict is not null group by all"
            )
            self.assertGreater(len(verdicts), 1)
            for verdict, n in verdicts:
                found = call("samples.count", {"run": "tables", "verdict": verdict})
                self.assertEqual((found["samples"], found["exact"]), (n, True))


if __name__ == "__main__":
    unittest.main()
