"""Stored samples as rows, tables and training data, against a service."""

import asyncio
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from rewardops import AsyncRewardOps, RewardOps, RewardOpsError
from tests.service import ServiceTest, requires_service

CHAT = [{"role": "user", "content": "6 * 7?"}]


def sample(uid, response, score, **fields):
    given = {"uid": uid, "data_source": "openai/gsm8k", "prompt": "6 * 7?", "response": response}
    return {**given, "ground_truth": "42", "score": score, **fields}


@requires_service
class StoredSamplesTest(ServiceTest):
    RUN = "stored"

    def submit(self, samples, step=0, **submit):
        batch = self.client.submit(samples, step=step, **submit)
        batch.wait()
        return batch

    def test_rows_have_the_values_of_the_samples(self):
        extra = {"acc": 1, "note": None, "big": 2**53 - 1}
        batch = self.submit(
            [
                sample(
                    "a", "\ufeff#### 42 é\u0000", 1.0, reward_extra_info=extra, response_length=9
                ),
                sample("a", "#### 41", 0.25, prompt=CHAT, extra_info={"i": [1, {"j": "x"}]}),
            ]
        )
        first, second = list(batch.samples())
        self.assertEqual(first["batchId"], batch.batch_id)
        self.assertEqual(first["response"], "\ufeff#### 42 é\u0000")
        self.assertEqual(first["rewardExtraInfo"], extra)
        self.assertEqual((first["responseLength"], first["score"], first["index"]), (9, 1.0, 0))
        self.assertEqual((second["prompt"], second["extraInfo"]), (CHAT, {"i": [1, {"j": "x"}]}))

    def test_filters_and_columns(self):
        batch = self.submit([sample("a", f"#### {i}", i / 4) for i in range(5)], step=3)
        of = {"columns": ["score"], "batch_id": batch.batch_id}
        scores = [row for row in self.client.samples(score_min=0.5, **of)]
        self.assertEqual(scores, [{"score": 0.5}, {"score": 0.75}, {"score": 1}])
        self.assertEqual(len(list(self.client.samples(run="stored", step="3"))), 5)
        with self.assertRaisesRegex(RewardOpsError, 'unknown field "colour"') as raised:
            list(self.client.samples(colour="red"))
        self.assertEqual(raised.exception.reason, "invalid_input")
        with self.assertRaisesRegex(RewardOpsError, "There is no batch b999999"):
            list(self.client.samples(batch_id="b999999"))

    def test_closing_an_asyncio_client_closes_its_connections_of_all_loops(self):
        batch = self.submit([sample("a", "#### 42", 1.0)])

        async def connections_after_close():
            client = AsyncRewardOps(self.service.url, run=self.RUN, http="streams")
            stored = client.samples(batch_id=batch.batch_id)
            rows = await asyncio.to_thread(list, stored)
            await client.servers()
            https = [of_loop.http for of_loop in client.calls._loops.values()]
            self.assertEqual((len(rows), len(https)), (1, 2))
            await client.close()
            return len(client.calls._loops), [http._idle for http in https]

        self.assertEqual(asyncio.run(connections_after_close()), (0, [[], []]))

    def test_files_are_complete_or_absent(self):
        batch = self.submit([sample("a", "#### 42", 1.0)])
        with tempfile.TemporaryDirectory() as folder:
            for name, start in (("x.parquet", b"PAR1"), ("x.jsonl", b'{"run"'), ("x.csv", b"run,")):
                path = Path(folder, name)
                batch.samples().save(path)
                self.assertTrue(path.read_bytes().startswith(start))
            with self.assertRaisesRegex(RewardOpsError, "'xlsx' is not a format"):
                batch.samples().save(Path(folder, "x.xlsx"))
            with self.assertRaises(RewardOpsError):
                self.client.samples(batch_id="b999999").save(Path(folder, "y.csv"))
            self.assertEqual(
                {path.suffix for path in Path(folder).iterdir()}, {".parquet", ".jsonl", ".csv"}
            )

    def test_preference_pairs(self):
        batch = self.submit(
            [
                sample("pair", "best", 1.0),
                sample("tie", "x", 0.5),
                sample("pair", "middle", 0.6),
                sample("pair", "worst", 0.0),
                sample("tie", "y", 0.5),
                sample("copies", "same", 1.0),
                sample("copies", "same", 0.0),
                sample("alone", "z", 1.0),
                sample("prompts", "one", 1.0, prompt="1 + 1?"),
                sample("prompts", "two", 0.0, prompt="2 + 2?"),
            ]
        )
        of = batch.samples
        best = {"prompt": "6 * 7?", "chosen": "best", "rejected": "worst"}
        pairs = list(of().preference_pairs())
        ids = {"chosen_sample": f"{batch.batch_id}-0", "rejected_sample": f"{batch.batch_id}-3"}
        self.assertEqual(pairs, [{**best, "score_chosen": 1.0, "score_rejected": 0.0, **ids}])
        texts = [(pair["chosen"], pair["rejected"]) for pair in of().preference_pairs(pairs="all")]
        self.assertEqual(texts, [("best", "middle"), ("best", "worst"), ("middle", "worst")])
        wide = of().preference_pairs(0.5, pairs="all")
        texts = [(pair["chosen"], pair["rejected"]) for pair in wide]
        self.assertEqual(texts, [("best", "worst"), ("middle", "worst")])
        self.assertEqual(list(of().preference_pairs(1.5)), [])
        for given in ({"margin": -1}, {"margin": float("nan")}, {"pairs": "some"}):
            with self.assertRaises(RewardOpsError):
                of().preference_pairs(**given)

    def test_failed_and_substituted_samples_are_in_no_training_data(self):
        bad = {"ground_truth": {"bad": 1}, "score": None}
        for on_failure in (None, -1.0):
            with self.subTest(on_failure=on_failure):
                batch = self.submit(
                    [sample("q", "#### 42", 1.0), {**sample("q", "#### 41", 0.0), **bad}],
                    on_failure=on_failure,
                )
                rows = list(batch.samples())
                self.assertEqual([row["status"] for row in rows], ["scored", "failed"])
                self.assertEqual(list(batch.samples().preference_pairs()), [])
                labels = [row["completion"] for row in batch.samples().kto_rows(0.5)]
                self.assertEqual(labels, ["#### 42"])

    def test_conversational_pairs(self):
        turns = [{"role": "assistant", "content": "#### 41"}]
        batch = self.submit(
            [sample("a", "#### 42", 1.0, prompt=CHAT), sample("a", turns, 0.0, prompt=CHAT)]
        )
        (pair,) = batch.samples().preference_pairs()
        self.assertEqual(pair["prompt"], CHAT)
        self.assertEqual(pair["chosen"], [{"role": "assistant", "content": "#### 42"}])
        self.assertEqual(pair["rejected"], turns)
        with self.assertRaisesRegex(RewardOpsError, "only a chat template"):
            list(batch.samples().preference_pairs(conversational=False))
        plain = self.submit([sample("b", "#### 42", 1.0), sample("b", "#### 41", 0.0)])
        (pair,) = plain.samples().preference_pairs(conversational=True)
        self.assertEqual(pair["prompt"], CHAT)
        self.assertEqual(pair["rejected"], [{"role": "assistant", "content": "#### 41"}])

    def test_a_data_set_has_one_form(self):
        mixed = [sample("a", "x", 1.0), sample("b", "y", 0.0, prompt=CHAT)]
        batch = self.submit(mixed)
        with self.assertRaisesRegex(RewardOpsError, "Pass conversational=True"):
            list(batch.samples().kto_rows(0.5))
        rows = list(batch.samples().kto_rows(0.5, conversational=True))
        self.assertEqual([row["label"] for row in rows], [True, False])
        self.assertEqual([row["prompt"] for row in rows], [CHAT, CHAT])
        self.assertEqual(set(rows[0]), {"prompt", "completion", "label", "score", "sample"})

    def test_an_export_continues_after_the_service_was_killed(self):
        batch = self.submit([sample("a", "x" * 20_000, i / 1_000) for i in range(1_000)])
        # The service starts again after more than `connect_s`.
        with RewardOps(self.service.url, run=self.RUN, connect_s=1.0) as client:
            of_batch = client.samples(batch_id=batch.batch_id, columns=["score", "response"])
            rows = iter(of_batch)
            seen = [next(rows)["score"] for _ in range(10)]
            self.service.kill()
            start = threading.Thread(target=self.service.start)
            start.start()
            try:
                seen += [row["score"] for row in rows]
            finally:
                start.join()
        self.assertEqual(seen, [i / 1_000 for i in range(1_000)])

    def test_without_the_optional_packages(self):
        names = ("pyarrow", "pandas", "pyarrow.parquet")
        with mock.patch.dict("sys.modules", {name: None for name in names}):
            for method, extra in (("to_arrow", "arrow"), ("to_pandas", "pandas")):
                with self.assertRaises(RewardOpsError) as raised:
                    getattr(self.client.samples(), method)()
                self.assertEqual(raised.exception.reason, "missing_package")
                self.assertIn(f"rewardops[{extra}]", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
