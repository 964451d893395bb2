"""Calls the service the way verl, TRL and verifiers call a reward; the trainers need not be
installed.
"""

import asyncio
import functools
import inspect
import pickle
import sys
import unittest
from types import SimpleNamespace

from rewardops import RewardOps, RewardOpsError
from rewardops import trl, verifiers, verl

from tests.service import Service, free_port, requires_service
from tests.slow_scorer import SlowScorer


@requires_service
class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        cls.scorer = SlowScorer()
        # A busy machine may need longer than the default of 4 s.
        cls.to = {"url": cls.service.url, "connect_s": 30.0}
        cls.client = RewardOps(**cls.to)
        cls.client.register_server("slow", cls.scorer.url, "http", model="slow")

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.scorer.close()
        cls.service.destroy()

    def raises(self, reason, work):
        with self.assertRaises(RewardOpsError) as caught:
            work()
        self.assertEqual(caught.exception.reason, reason, caught.exception)

    def test_verl_calls_it_like_any_function(self):
        bound = functools.partial(verl.compute_score, **self.to, run="verl-run", step=3)
        self.assertTrue(inspect.iscoroutinefunction(bound))
        for number, score in (("72", 1.0), ("71", 0.0)):
            given = {
                "data_source": "openai/gsm8k",
                "solution_str": f"#### {number}",
                "ground_truth": "72",
                "extra_info": {"index": 4, "num_turns": 1},
            }
            result = asyncio.run(bound(**given))
            self.assertEqual(result, {"score": score, "acc": score, "rewardops_failed": 0.0})
            self.assertEqual(verl.compute_score_sync(**given, **self.to, run="verl-run"), result)
            # verl reads the first sample's keys from each sample, so a key that a sample lacks must return None.
            self.assertIsNone(result["a_key_of_another_sample"])
        # verl adds the fields of its agent loop to the extra info. `max_global_steps` is -1 or None before the first
        # step. A dataset may use the name for something else.
        for known in (8, -1, None, "100k"):
            given["extra_info"] = {"max_global_steps": known}
            verl.compute_score_sync(**given, **self.to, run="verl-run")
            verl.compute_score_sync(**given, **self.to, run="verl-run", step=3)
        batches = self.client.call("batches.list", {"run": "verl-run"})["items"]
        samples = {b["step"]: b["samples"] for b in batches}
        self.assertEqual(samples, {0: 5, 3: 6, 8: 1})

    def test_verl_has_no_silent_zero(self):
        given = {"data_source": "d", "solution_str": "fail", "reward": {"model": "slow"}, **self.to}
        self.raises("not_scored", lambda: verl.compute_score_sync(**given))
        result = verl.compute_score_sync(**given, on_failure=-1)
        self.assertEqual(result, {"score": -1.0, "acc": -1.0, "rewardops_failed": 1.0})
        self.raises("invalid_input", lambda: verl.compute_score_sync(**given, on_failure="zero"))
        self.raises("invalid_input", lambda: verl.compute_score_sync(**given, urll="?"))

    def test_verls_manager_needs_verl(self):
        try:
            import verl as installed  # noqa: F401
        except ImportError:
            with self.assertRaises(ImportError) as caught:
                verl.RewardOpsRewardManager  # noqa: B018
            self.assertIn("needs verl 0.7 or newer", str(caught.exception))
        else:
            self.skipTest("verl is installed; npm run test:trainers runs its manager")

    def test_trl_gets_a_number_or_none(self):
        logged, metrics = {}, {}
        reward = trl.reward_function(
            **self.to, run="trl-run", reward={"model": "slow"}, data_source="d", name="judge"
        )
        # TRL needs Python 3.10. Some releases test whether the function is a coroutine function, others its __call__.
        if sys.version_info >= (3, 10):
            self.assertTrue(inspect.iscoroutinefunction(reward))
        self.assertTrue(inspect.iscoroutinefunction(reward.__call__))
        self.assertEqual(reward.__name__, "judge")
        # TRL's asynchronous trainer sends the function to another process.
        again = pickle.loads(pickle.dumps(reward))
        for function in (reward, again):
            result = asyncio.run(
                function(
                    prompts=[[{"role": "user", "content": "p"}]] * 2 + ["q"],
                    completions=[
                        [{"role": "assistant", "content": "score=0.5"}],
                        [
                            {"role": "assistant", "content": "fail"},
                            {"role": "tool", "content": "score=1"},
                        ],
                        "score=0.25",
                    ],
                    completion_ids=[[1, 2], [3], [4, 5, 6]],
                    answer=["1", "2", "3"],
                    prompt_id=[17, 17, None],
                    image=[object(), None, None],
                    trainer_state=SimpleNamespace(global_step=7),
                    log_extra=lambda column, values: logged.update({column: values}),
                    log_metric=lambda name, value: metrics.update({name: value}),
                )
            )
            self.assertEqual(result, [0.5, None, 0.25])
            self.assertEqual(metrics, {"judge/failed": 1.0})
            batch_id = logged["judge_sample"][0].split("-")[0]
            summary = self.client.summary(batch_id)
            self.assertEqual(
                (summary["run"], summary["step"], summary["groups"]), ("trl-run", 7, 2)
            )
            first = self.client.sample(f"{batch_id}-0")
            self.assertEqual((first["groundTruth"], first["position"]), ("1", 1))
            self.assertEqual(first["promptId"], "17")
            self.assertEqual(first["extraInfo"], {"image": "<builtins.object>"})

    def test_trl_scores_a_completion_whole_or_refuses_it(self):
        call = {"type": "function", "function": {"name": "multiply", "arguments": {"a": 6}}}
        turns = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "name": "multiply", "content": "score=0.75"},
            {"role": "assistant", "content": "Done."},
        ]
        logged = {}
        setup = {**self.to, "reward": {"model": "slow"}, "data_source": "d"}
        reward = trl.reward_function(**setup)
        result = asyncio.run(
            reward(
                prompts=["p"],
                completions=[turns],
                log_extra=lambda column, values: logged.update({column: values}),
            )
        )
        self.assertEqual(result, [0.75])
        sample = self.client.sample(logged["rewardops_sample"][0])
        for part in ('"name": "multiply"', '"arguments": {"a":6}', "score=0.75", "Done."):
            self.assertIn(part, sample["response"])
        image = [{"role": "user", "content": [{"type": "image", "image": object()}]}]

        def refuse(**settings):
            reward = trl.reward_function(**setup, **settings)
            return asyncio.run(reward(prompts=[image], completions=["score=1"]))

        self.raises("invalid_input", refuse)
        held = [{"role": "user", "content": [{"type": "image"}]}]
        lenient = trl.reward_function(**setup, media="placeholder")
        self.assertEqual(asyncio.run(lenient(prompts=[held], completions=["score=1"])), [1.0])

    def test_trl_names_a_missing_column(self):
        def call(**settings):
            reward = trl.reward_function(**self.to, **settings)
            return asyncio.run(reward(prompts=["p"], completions=["c"]))

        self.raises("invalid_input", call)
        self.raises("invalid_input", lambda: call(data_source="d", ground_truth="none_such"))
        self.raises("unknown_data_source", lambda: call(data_source="no-such-rule"))

    def test_trl_gets_an_error_without_a_service(self):
        reward = trl.reward_function(
            f"http://127.0.0.1:{free_port()}", data_source="d", connect_s=0.3
        )
        self.raises("unreachable", lambda: asyncio.run(reward(prompts=["p"], completions=["c"])))

    def test_verifiers_rubric(self):
        right = verifiers.rubric_function(**self.to, data_source="openai/gsm8k", run="vf")
        state = {}
        result = asyncio.run(
            right(
                prompt=[{"role": "user", "content": "?"}],
                completion=[{"role": "assistant", "content": "#### 72"}],
                answer="72",
                state=state,
                info={"k": 1},
            )
        )
        self.assertEqual((result, state["rewardops"]["acc"]), (1.0, 1))
        # Rubrics pass the arguments that a function names, so the function must name only those that it needs.
        self.assertEqual(
            list(inspect.signature(right).parameters),
            ["prompt", "completion", "answer", "state", "info"],
        )
        failing = {"data_source": "d", "reward": "slow", **self.to}
        broken = verifiers.rubric_function(**failing)
        self.raises("not_scored", lambda: asyncio.run(broken("p", "fail", state=state)))
        self.assertEqual(state["rewardops"]["reason"], "function_error")
        stood_in = verifiers.rubric_function(**failing, on_failure=-1)
        self.assertEqual(asyncio.run(stood_in("p", "fail", state=state)), -1.0)

    def test_verifiers_trace(self):
        reward = verifiers.trace_reward(**self.to, data_source="openai/gsm8k", name="math")
        self.assertEqual(reward.__name__, "math")
        task = SimpleNamespace(prompt="6 * 12?", system_prompt="Be short.", answer="72", name="t-1")
        trace = SimpleNamespace(
            assistant_messages=[{"role": "assistant", "content": "#### 72"}], info={}
        )
        self.assertEqual(asyncio.run(reward(task=task, trace=trace)), 1.0)
        sample = self.client.sample(trace.info["rewardops"]["sample"])
        self.assertEqual([m["content"] for m in sample["prompt"]], ["Be short.", "6 * 12?"])
        nodes = [
            SimpleNamespace(sampled=False, message={"role": "user", "content": "6 * 12?"}),
            SimpleNamespace(
                sampled=True,
                message={
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "name": "f", "arguments": "{}"}],
                },
            ),
            SimpleNamespace(
                sampled=False, message={"role": "tool", "tool_call_id": "c", "content": "72"}
            ),
            SimpleNamespace(sampled=True, message={"role": "assistant", "content": "#### 72"}),
        ]
        whole = SimpleNamespace(branches=[SimpleNamespace(nodes=nodes)], info={})
        self.assertEqual(asyncio.run(reward(task=task, trace=whole)), 1.0)
        response = self.client.sample(whole.info["rewardops"]["sample"])["response"]
        self.assertTrue(response.startswith("<tool_call>"), response)
        self.assertTrue(response.endswith("72\n</tool_response>\n#### 72"), response)


if __name__ == "__main__":
    unittest.main()
