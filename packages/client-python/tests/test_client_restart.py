"""The service is killed and restarted while a trainer works: no reward is wrong, missing or
delivered twice.
"""

import asyncio
import logging
import unittest

from rewardops import AsyncRewardOps

from tests.service import Service, requires_service, rollouts
from tests.slow_scorer import SlowScorer
from tests.transports import TRANSPORTS

SINGLES = 200
BATCHES = 3
SAMPLES = 160
GROUP = 4


@requires_service
class Restart(unittest.TestCase):
    def setUp(self):
        # Other tests cover the client's warnings about outages.
        logging.getLogger("rewardops").setLevel(logging.ERROR)
        self.scorer = SlowScorer(gated=True)
        self.service = Service()

    def tearDown(self):
        logging.getLogger("rewardops").setLevel(logging.NOTSET)
        self.service.destroy()
        self.scorer.close()

    def test_killed_and_stopped_in_mid_work(self):
        asyncio.run(self.through_restarts())

    async def through_restarts(self):
        self.scorer.let(10)
        clients = [
            AsyncRewardOps(
                self.service.url, run=f"restart-{http}", http=http, connect_s=30, outage_s=120
            )
            for http in TRANSPORTS
        ]
        await clients[0].register_server(
            "slow", self.scorer.url, "http", model="slow", max_in_flight=64
        )
        work = [asyncio.ensure_future(self.trainer(client)) for client in clients]
        # Registration scores a few samples. All further calls wait for `let`, so each restart
        # interrupts work.
        for end in (self.service.kill, self.service.stop):
            await self.let(300, work)
            await asyncio.get_running_loop().run_in_executor(None, self.restart, end)
        self.scorer.let(100_000)
        await asyncio.gather(*work)
        for client in clients:
            await client.close()

    def restart(self, end):
        end()
        self.service.start()

    async def let(self, samples, work):
        until = self.scorer.answered + samples
        self.scorer.let(samples)
        while self.scorer.answered < until:
            for task in work:
                # `result` raises the error of a failed task early. No task can have succeeded yet.
                self.assertFalse(task.done() and task.result())
            await asyncio.sleep(0.02)

    async def trainer(self, client):
        singles = asyncio.gather(*(self.single(client, i) for i in range(SINGLES)))
        await asyncio.gather(*(self.batch(client, step) for step in range(1, BATCHES + 1)))
        self.assertEqual(await singles, [i / 1000 for i in range(SINGLES)])

    async def single(self, client, i):
        text = f"score={i / 1000} ms={i % 7 * 20}"
        return float(await client.compute_score("d", text, reward="slow"))

    async def batch(self, client, step):
        data = rollouts(SAMPLES, GROUP, f"s{step}")
        for i, sample in enumerate(data):
            sample["response"] = f"score={step + i / 1000} ms={i % 11 * 20}"
        pipeline = await client.compute_reward_pipeline(data, GROUP, step=step, reward="slow")
        given, seqs = {}, []
        async for chunk in pipeline.chunks(16):
            for index, score in zip(chunk.index, chunk.score):
                self.assertNotIn(index, given)
                given[index] = score
            seqs += [group.seq for group in chunk.groups]
        self.assertEqual(given, {i: step + i / 1000 for i in range(SAMPLES)})
        self.assertEqual(seqs, list(range(1, SAMPLES // GROUP + 1)))
        scores = await pipeline.batch.results()
        self.assertEqual(scores.require(), [step + i / 1000 for i in range(SAMPLES)])
        self.assertEqual((await pipeline.batch.summary())["scored"], SAMPLES)


if __name__ == "__main__":
    unittest.main()
