"""The client against the service: groups arrive once and whole, scores are in place, and no failure
becomes 0.
"""

import asyncio
import functools
import os
import threading
import unittest

import rewardops.bodies
from rewardops import AsyncRewardOps, RewardOps, RewardOpsError
from rewardops.samples import prepare

from tests.service import Service, requires_service, rollouts
from tests.slow_scorer import SlowScorer
from tests.transports import TRANSPORTS

KEY = "pT4wZ81mQx7RkV0s9LcB"


def scored(count, ms=0, label="q", group_size=4):
    return [
        {**sample, "response": f"score={i / 100} ms={ms}"}
        for i, sample in enumerate(rollouts(count, group_size, label))
    ]


def with_each_transport(test):
    @functools.wraps(test)
    def run(self):
        for http in TRANSPORTS:
            with self.subTest(http=http), self.client(http) as client:
                test(self, client)

    return run


@requires_service
class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(REWARDOPS_API_KEYS=KEY)
        cls.scorer = SlowScorer()
        with cls.client() as client:
            server = client.register_server(
                "slow", cls.scorer.url, "http", model="slow", max_in_flight=512
            )
            assert server["state"] == "ready", server

    @classmethod
    def tearDownClass(cls):
        cls.scorer.close()
        cls.service.destroy()

    @classmethod
    def client(cls, http="auto", **settings):
        # A busy machine may need longer than the default of 4 s.
        return RewardOps(cls.service.url, KEY, run="tests", http=http, connect_s=30.0, **settings)

    def refused(self, reason, work):
        with self.assertRaises(RewardOpsError) as caught:
            work()
        self.assertEqual(caught.exception.reason, reason, caught.exception)
        return caught.exception

    @with_each_transport
    def test_a_run_gets_a_configuration_and_tags(self, client):
        config = {"model": "qwen3-8b", "optimizer": {"lr": 1e-6}}
        client.update_run(config, run="configured", tags=["grpo"])
        answer = client.update_run(run="configured", add_tags=["ablation"])
        self.assertEqual(
            answer, {"run": "configured", "config": config, "tags": ["grpo", "ablation"]}
        )
        self.assertEqual(client.update_run(remove_tags=["grpo"])["run"], "tests")

    def test_a_wrong_key(self):
        for key, expected in ((None, "none was set"), ("another", "rejected")):
            with RewardOps(self.service.url, key, connect_s=30.0) as client:
                error = self.refused("unauthorized", lambda c=client: c.servers())
                self.assertIn(expected, str(error))

    @with_each_transport
    def test_whole_groups_once_and_in_their_places(self, client):
        data = rollouts(90, 6)
        pipeline = client.compute_reward_pipeline(data, 6, step=1)
        seen, seqs, placed = [], [], {}
        for chunk in pipeline.chunks(24):
            self.assertEqual(len(chunk) % 6, 0)
            self.assertEqual(chunk.index, sorted(chunk.index))
            self.assertEqual(chunk.remaining, 90 - len(seen) - len(chunk))
            seqs += [group.seq for group in chunk.groups]
            seen += chunk.index
            indices, rm_scores, extra = chunk
            self.assertEqual(extra["acc"], chunk.score)
            placed.update(zip(indices, (list(map(float, row)) for row in rm_scores)))
        self.assertEqual(sorted(seen), list(range(90)))
        self.assertEqual(seqs, list(range(1, 16)))
        for i, row in placed.items():
            wanted = [0.0] * len(row)
            wanted[data[i]["response_length"] - 1] = 1.0 - i % 2
            self.assertEqual(row, wanted)
        self.assertTrue(pipeline.done and len(pipeline.get(5)) == 0)

    def test_iterating_gives_groups(self):
        with self.client() as client:
            pipeline = client.compute_reward_pipeline(rollouts(12, 4), 4, step=1)
            groups = list(pipeline)
            self.assertEqual({g.uid for g in groups}, {"q-0", "q-1", "q-2"})
            self.assertEqual([len(g) for g in groups], [4, 4, 4])
            self.assertEqual({g.signal for g in groups}, {"varied"})

    @with_each_transport
    def test_scores_in_the_order_of_the_batch(self, client):
        scores = client.compute_rm_score(scored(50, ms=20), 4, step=2, reward="slow")
        self.assertEqual(scores.score, [i / 100 for i in range(50)])
        self.assertEqual(scores.uid, [f"q-{i // 4}" for i in range(50)])
        self.assertEqual(scores.failed, [])
        self.assertEqual(len(scores.rm_scores(as_="list")[0]), 7)

    @with_each_transport
    def test_a_failure_is_reported_and_not_zero(self, client):
        data = scored(8)
        data[3]["response"] = "fail"
        scores = client.compute_rm_score(data, 4, step=3, reward="slow")
        self.assertEqual(scores.failed, [(3, "function_error")])
        self.assertIsNone(scores.score[3])
        self.assertIsNone(scores.advantage[3])
        self.refused("not_scored", scores.rm_scores)
        stood_in = client.compute_rm_score(data, 4, step=3, reward="slow", on_failure=-5.0)
        self.assertEqual((stood_in.score[3], stood_in.substituted[3]), (-5.0, True))
        self.assertEqual(stood_in.scored, [i != 3 for i in range(8)])
        single = client.compute_score("d", "fail", reward="slow")
        self.assertEqual((single.score, single.reason), (None, "function_error"))
        self.assertIn("refused by the test", single.detail)
        self.refused("not_scored", lambda: float(single))

    @with_each_transport
    def test_a_timeout_returns_the_complete_groups(self, client):
        data = scored(40)
        for sample in data[36:]:
            sample["response"] = "score=1 ms=20000"
        pipeline = client.compute_reward_pipeline(data, 4, step=4, reward="slow")
        got = [pipeline.get(40, timeout_s=2.0)]
        # On a busy machine the quick samples may take longer than the timeout.
        while sum(map(len, got)) < 36:
            got.append(pipeline.get(40, timeout_s=2.0))
        self.assertTrue(all(chunk.timed_out and not chunk.done for chunk in got))
        self.assertEqual(sorted(i for c in got for i in c.index), list(range(36)))
        self.assertEqual(got[-1].remaining, 4)
        summary = pipeline.cancel()
        self.assertEqual(summary["status"], "cancelled")
        rest = pipeline.get(40)
        self.assertEqual((rest.index, rest.done), ([36, 37, 38, 39], True))
        self.assertEqual(rest.reason, ["cancelled"] * 4)

    def test_a_restarted_trainer_continues(self):
        data = rollouts(64, 4, "again")
        for http in TRANSPORTS:
            key = f"again-{http}"
            with self.client(http) as client:
                first = client.compute_reward_pipeline(data, 4, step=5, idempotency_key=key)
                before = first.get(20)
                cursor = first.cursor
            with self.client(http) as client:
                again = client.compute_reward_pipeline(
                    data, 4, step=5, idempotency_key=key, cursor=cursor
                )
                self.assertTrue(again.batch.duplicate)
                self.assertEqual(again.batch_id, first.batch_id)
                after = [i for chunk in again.chunks(20) for i in chunk.index]
                self.assertEqual(sorted(before.index + after), list(range(64)))
                self.refused(
                    "idempotency_conflict",
                    lambda: client.submit(data[:4], 4, step=5, idempotency_key=key),
                )

    @with_each_transport
    def test_streamed_rollouts(self, client):
        data = rollouts(24, 4, "stream")
        batch = client.submit([], 4, step=6, open=True)
        pipeline = batch.pipeline()
        self.assertEqual(batch.append(data[:10]), 10)
        self.assertEqual(sorted({g.uid for g in pipeline.get(8).groups}), ["stream-0", "stream-1"])
        self.assertEqual(batch.append(data[10:]), 24)
        # Repeats the call, as after a lost answer.
        self.assertEqual(client.append(batch.batch_id, data[10:], 10), 24)
        self.refused("append_gap", lambda: client.append(batch.batch_id, data[:1], 99))
        batch.close()
        rest = [i for chunk in pipeline.chunks(100) for i in chunk.index]
        self.assertEqual(sorted(rest), list(range(8, 24)))
        self.assertEqual(batch.results().score, [1.0 - i % 2 for i in range(24)])

    def test_concurrent_appends_have_separate_groups(self):
        data = [{**one, "uid": None} for one in rollouts(8, 4, "concurrent")]

        async def appended():
            async with AsyncRewardOps(self.service.url, KEY, run="tests", connect_s=30.0) as client:
                batch = await client.submit([], 4, step=9, open=True)
                await asyncio.gather(
                    batch.append(data[:4], group_size=4), batch.append(data[4:], group_size=4)
                )
                await batch.close()
                return (await batch.pipeline().get(8)).groups

        groups = {g.uid: [s["index"] for s in g.samples] for g in asyncio.run(appended())}
        self.assertEqual(groups, {"group-0": [0, 1, 2, 3], "group-1": [4, 5, 6, 7]})

    def test_a_batch_larger_than_a_body_goes_in_parts(self):
        data = rollouts(100, 4, "parts")
        whole = rewardops.bodies.PART_BYTES
        rewardops.bodies.PART_BYTES = 3_000
        try:
            for http in TRANSPORTS:
                with self.client(http) as client:
                    for duplicate in (False, True):
                        batch = client.submit(data, 4, step=7, idempotency_key=f"parts-{http}")
                        self.assertEqual((batch.accepted, batch.duplicate), (100, duplicate))
                        self.assertEqual(batch.groups, 25)
                    self.assertEqual(batch.wait()["status"], "completed")
                    self.assertEqual(batch.results().score, [1.0 - i % 2 for i in range(100)])
        finally:
            rewardops.bodies.PART_BYTES = whole

    def test_text_comes_back_unchanged(self):
        odd = "NUL \x00 surrogate \udcff é \U0001f600\r\n#### 72"
        with self.client() as client:
            for response, wanted in ((odd, odd), (b"\xff #### 72", "\udcff #### 72")):
                one = client.compute_score("openai/gsm8k", response, "72", step=8)
                self.assertEqual(client.sample(one.id)["response"], wanted)

    def test_two_thousand_scores_at_once(self):
        for http in TRANSPORTS:
            with self.subTest(http=http):

                async def all_at_once(http=http):
                    async with AsyncRewardOps(
                        self.service.url, KEY, run=f"many-{http}", http=http, connect_s=30.0
                    ) as client:
                        return await asyncio.gather(
                            *(
                                client.compute_score(
                                    "openai/gsm8k", f"{i}\n#### {72 if i % 3 else 0}", "72"
                                )
                                for i in range(2_000)
                            )
                        )

                results = asyncio.run(all_at_once())
                self.assertEqual(
                    [r.score for r in results], [1.0 if i % 3 else 0.0 for i in range(2_000)]
                )
                self.assertEqual(len({r.id for r in results}), 2_000)

    def test_waiting_rewards_leave_connections_to_other_calls(self):
        for http in TRANSPORTS:
            with self.subTest(http=http):

                async def summary_while_all_wait(http=http):
                    async with AsyncRewardOps(
                        self.service.url, KEY, http=http, connect_s=30.0, max_connections=8
                    ) as client:
                        batch = await client.submit(rollouts(4), 4, step=14)
                        scores = [
                            asyncio.ensure_future(
                                client.compute_score("d", f"score={i} ms=1500", reward="slow")
                            )
                            for i in range(12)
                        ]
                        await asyncio.sleep(0)
                        await batch.summary()
                        early = sum(score.done() for score in scores)
                        return early, [float(score) for score in await asyncio.gather(*scores)]

                early, scores = asyncio.run(summary_while_all_wait())
                self.assertLess(early, 12)
                self.assertEqual(scores, [float(i) for i in range(12)])

    @with_each_transport
    def test_threads_share_a_client(self, client):
        results = {}

        def work(i):
            results[i] = client.compute_score("d", f"score={i} ms=10", reward="slow").score

        threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(results, {i: float(i) for i in range(64)})

    def test_one_client_in_several_event_loops(self):
        for http in TRANSPORTS:
            client = AsyncRewardOps(self.service.url, KEY, run="tests", http=http, connect_s=30.0)

            async def one(client=client):
                try:
                    return (await client.compute_score("openai/gsm8k", "#### 72", "72")).score
                finally:
                    # Connections belong to an event loop; the next loop opens its own.
                    await client.calls._loops.pop(asyncio.get_running_loop()).http.close()

            self.assertEqual([asyncio.run(one()), asyncio.run(one())], [1.0, 1.0])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    @with_each_transport
    def test_a_forked_process_has_connections_of_its_own(self, client):
        self.assertEqual(client.compute_score("openai/gsm8k", "#### 72", "72").score, 1.0)
        child = os.fork()
        if child == 0:
            code = 9
            try:
                code = int(client.compute_score("openai/gsm8k", "#### 72", "72").score) + 6
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertEqual(client.compute_score("openai/gsm8k", "#### 71", "72").score, 0.0)

    def test_an_existing_score_is_kept(self):
        data = [{**s, "score": 0.125} for s in rollouts(4)]
        with self.client() as client:
            self.assertEqual(client.compute_rm_score(data, 4, step=9).score, [0.125] * 4)

    def test_another_reward_for_the_same_rollouts(self):
        with self.client() as client:
            batch = client.submit(scored(8), 4, step=10)
            batch.wait()
            try:
                again = client.rescore(batch.batch_id, "slow")
            except RewardOpsError as error:
                if error.reason != "not_found":
                    raise
                self.skipTest("this service has no batches.rescore")
            again.wait()
            self.assertEqual(again.results().score, [i / 100 for i in range(8)])
            self.assertEqual(batch.results().score, [0.0] * 8)

    def test_a_refusal_has_the_services_message(self):
        with self.client() as client:
            error = self.refused(
                "unknown_model", lambda: client.submit(rollouts(4), 4, reward="none-such")
            )
            self.assertTrue(error.hint and error.request_id and error.status == 400)
            self.refused("batch_not_found", lambda: client.batch("b999999").wait())
            self.refused("cursor_mismatch", lambda: self.stale(client))
            self.refused("unknown_data_source", lambda: client.compute_score("no-rule", "r"))
            self.assertRaises(TypeError, client.submit, rollouts(4), 4, stepp=1)

    def stale(self, client):
        batch = client.submit(rollouts(4), 4, step=11)
        return batch.pipeline("b1.999").get(1)

    def test_closing_a_pipeline_ends_a_get(self):
        with self.client() as client:
            pipeline = client.compute_reward_pipeline(
                scored(4, ms=15_000), 4, step=12, reward="slow"
            )
            reasons = []

            def wait():
                try:
                    pipeline.get(4)
                except RewardOpsError as error:
                    reasons.append(error.reason)

            waiting = threading.Thread(target=wait)
            waiting.start()
            pipeline.close()
            waiting.join(30)
            self.assertEqual(reasons, ["closed"])
            client.cancel(pipeline.batch_id)

    def test_the_service_accepts_prepared_samples(self):
        full = {
            **rollouts(1)[0],
            "prompt": [{"role": "user", "content": "?"}],
            "extra_info": {"a": 1},
            "score": 0.5,
        }
        with self.client() as client:
            sent = prepare([full]).samples[0]
            self.assertEqual(client.compute_rm_score([sent], 1, step=13).score, [0.5])


if __name__ == "__main__":
    unittest.main()
