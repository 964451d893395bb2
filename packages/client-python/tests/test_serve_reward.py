"""`rewardops serve-reward` over HTTP: all forms of functions, all kinds of results, and refusals.
"""

import unittest

from rewardops.serving.function import FunctionError, load_function
from tests import rewards
from tests.serving import REWARDS, Served, run_to_end, sample

RIGHT = sample("so it is #### 72")
WRONG = sample("so it is #### 71")


class Shapes(unittest.TestCase):
    def test_scores_equal_those_of_a_direct_call(self):
        with Served("compute_score") as served:
            self.assertFalse(served.ready["async"])
            results = served.score(RIGHT, WRONG, sample("none"))
        self.assertEqual([r["score"] for r in results], [1.0, 0.0, 0.0])
        # verl's naive manager stores a plain number like this.
        self.assertEqual(results[0], {"score": 1.0, "acc": 1.0})

    def test_the_name_is_optional(self):
        with Served(None) as served:
            self.assertEqual(served.score(RIGHT)[0]["score"], 1.0)
            self.assertEqual(served.ready["model"], "rewards")

    def test_async_function_and_object_share_a_process(self):
        for name in ("compute_score_async", "AsyncCallable"):
            with self.subTest(name), Served(name) as served:
                self.assertTrue(served.ready["async"])
                results = served.score(*[RIGHT] * 40, WRONG)
                self.assertEqual([r["score"] for r in results], [1.0] * 40 + [0.0])

    def test_class_is_instantiated_once_and_called_by_position(self):
        with Served("Scorer", "--init-kwargs", '{"scale": 3}') as served:
            self.assertEqual(
                served.score(RIGHT)[0],
                {
                    "score": 3.0,
                    "acc": 3.0,
                    "prompt": "Is it 72?",
                    "explanation": "by the number after ####",
                },
            )

    def test_awaitable_of_a_plain_function_is_awaited(self):
        with Served("returns_awaitable") as served:
            self.assertEqual(served.score(RIGHT)[0], {"score": 1.0, "acc": True, "pred": "72"})

    def test_partial_and_kwargs(self):
        with Served("partial_score") as served:
            self.assertEqual(served.score(WRONG)[0]["score"], 0.1)
        with Served("compute_score", "--kwargs", '{"score": 5, "format_score": 0.2}') as served:
            self.assertEqual([r["score"] for r in served.score(RIGHT, WRONG)], [5.0, 0.2])

    def test_only_named_arguments_are_passed(self):
        with Served("tells_call") as served:
            result = served.score(sample("x", index=5))[0]
        self.assertEqual(
            result["extra_info"], {"index": 5, "num_turns": None, "rollout_reward_scores": {}}
        )
        self.assertEqual(result["prompt_"], "How many?")


class Results(unittest.TestCase):
    def test_scores_and_invalid_results(self):
        cases = {
            "True": 1.0,
            "3": 3.0,
            "(0.5, 'p', 'why')": 0.5,
            "{'score': 0.25, 'acc': nan}": 0.25,
            "({'score': 2}, 'p', 'why')": 2.0,
            "{'reward_score': 4, 'reward_extra_info': {'a': 1}}": 4.0,
            "{'score': 1, 'big': 2**60, 'set': {1}, 'error': 'own'}": 1.0,
            "nan": "non_finite",
            "-inf": "non_finite",
            "{'score': nan}": "non_finite",
            "10**400": "non_finite",
            "None": "function_error",
            "'1.0'": "function_error",
            "{'acc': 1}": "function_error",
            "()": "function_error",
            "1/0": "function_error",
        }
        with Served("returns_literal") as served:
            results = dict(zip(cases, served.score(*map(sample, cases))))
        for text, wanted in cases.items():
            result = results[text]
            with self.subTest(text):
                if isinstance(wanted, str):
                    self.assertEqual(result["reason"], wanted)
                    self.assertTrue(result["error"])
                    self.assertNotIn("score", result)
                else:
                    self.assertEqual(result["score"], wanted)
                    self.assertNotIn("error", result)
        self.assertEqual(results["{'score': 0.25, 'acc': nan}"]["acc"], None)
        big = results["{'score': 1, 'big': 2**60, 'set': {1}, 'error': 'own'}"]
        self.assertEqual((big["big"], big["set"], big["error_"]), (str(2**60), [1], "own"))
        self.assertIn("ZeroDivisionError", results["1/0"]["error"])

    def test_a_result_that_is_too_large_is_named(self):
        too_large = sample("{'score': 1, 'trace': 'x' * (64 << 20)}")
        with Served("returns_literal") as served:
            failed, fine = served.score(too_large, sample("1"))
            self.assertEqual(failed["reason"], "function_error")
            self.assertIn("bytes as JSON; 67108864 is the maximum", failed["error"])
            self.assertIn("less extra info, above all in 'trace'", failed["error"])
            self.assertEqual(fine["score"], 1.0)
            # The process goes on.
            self.assertNotIn("process_replaced", [e["event"] for e in served.events])

    def test_odd_texts(self):
        texts = ["", "\u0000", "\ud800", "é😀", "#### 72" + " " * 1_000_000]
        with Served("compute_score") as served:
            scores = [r["score"] for r in served.score(*map(sample, texts))]
        self.assertEqual(scores, [rewards.compute_score("", t, "72") for t in texts])


class Protocol(unittest.TestCase):
    def test_invalid_bodies(self):
        with Served("compute_score") as served:
            self.assertEqual(served.post({"samples": []}), (200, {"results": []}))
            for body, message in (
                (b"{", "not JSON"),
                (b"[]", '{"samples"'),
                ({"samples": [1]}, "samples[0] is not"),
                ({"samples": [{"solutionStr": 1}]}, "samples[0].solutionStr"),
                ({"samples": [{**RIGHT, "extraInfo": []}]}, "samples[0].extraInfo"),
            ):
                status, value = served.post(body)
                self.assertEqual(status, 400)
                self.assertIn(message, value["error"])
            self.assertEqual(served.post({"samples": []}, path="/other")[0], 404)
            self.assertEqual(served.post({"samples": []}, headers={"Origin": "http://a"})[0], 403)
            self.assertEqual(served.post({"samples": []}, headers={"Host": "evil.example"})[0], 403)

    def test_key(self):
        key = {"REWARDOPS_SERVE_KEY": "s3"}
        with Served("compute_score", env=key) as served:
            for headers, wanted in (
                ({}, 401),
                ({"Authorization": "Bearer no"}, 401),
                ({"Authorization": "Bearer s3"}, 200),
            ):
                self.assertEqual(served.post({"samples": []}, headers=headers)[0], wanted)

    def test_ends_with_exit_code_0(self):
        with Served("compute_score") as served:
            served.score(RIGHT)
            served.process.terminate()
            self.assertEqual(served.process.wait(60), 0)
            self.assertEqual(served.event("stopped")["samples"], 1)


class Refusals(unittest.TestCase):
    def refused(self, code, message, *arguments):
        ended, out, err = run_to_end(*arguments)
        self.assertEqual(ended, code, err)
        self.assertIn(message, err)

    def test_an_unusable_function_is_refused_in_one_sentence(self):
        for name, message in {
            "nothing": "has no 'nothing'; it has AsyncCallable",
            "needs_more": "needs judge_url: pass it with --kwargs",
            "batch": "takes whole batches",
            "two": "takes neither solution_str nor four values",
            "not_callable": "is int, which cannot be called",
            "Manager": "is a verl reward manager",
        }.items():
            with self.subTest(name), self.assertRaises(FunctionError) as raised:
                load_function(f"{REWARDS}:{name}", {})
            self.assertIn(message, str(raised.exception))
        self.refused(3, "takes no typo", REWARDS, "--kwargs", '{"typo": 1}')
        self.refused(3, "there is no file", "/nowhere/reward.py")

    def test_options(self):
        self.refused(2, "is not loopback", REWARDS, "--host", "0.0.0.0")
        self.refused(2, "is not a service URL", REWARDS, "--register", "ftp://x")
        self.refused(2, "must be an object", REWARDS, "--kwargs", "[]")
        self.refused(4, "cannot listen", REWARDS, "--host", "192.0.2.1", "--api-key", "k")

    def test_service_that_does_not_answer(self):
        closed_port = ("--register", "http://127.0.0.1:9", "--register-wait", "0.1")
        self.refused(5, "does not answer", REWARDS, "--processes", "1", *closed_port)

    def test_help_lists_all_options(self):
        code, out, _ = run_to_end("--help")
        self.assertEqual(code, 0)
        for word in ("exit codes", "--register", "--kwargs", "REWARDOPS_API_KEY"):
            self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
