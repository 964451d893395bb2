"""Conversion of trainers' data to the service's format, and placement of rewards."""

import dataclasses
import datetime
import json
import pickle
import unittest
from types import SimpleNamespace

from rewardops import RewardOpsError, Sample
from rewardops.adapters import failure_policy
from rewardops.address import parse_address
from rewardops.dataproto import step_of
from rewardops.rewards import reward_spec
from rewardops.samples import plain, prepare, prompt_uid
from rewardops.scores import Scores

try:
    import numpy
except ImportError:
    numpy = None
    print("numpy is not installed; its tests are skipped")
try:
    import torch
except ImportError:
    torch = None

GIVEN = {"data_source": "openai/gsm8k", "prompt": "6 * 7?", "response": "#### 42"}


def scores(**changed):
    columns = {
        **{one.name: [None] * 3 for one in dataclasses.fields(Scores)},
        "batch_id": "b1",
        "index": [0, 1, 2],
        "uid": ["a", "a", "b"],
        "status": ["scored"] * 3,
        "reason": [None] * 3,
        "score": [1.0, 0.25, -2.0],
        "raw_score": [1.0, 0.25, -2.0],
        "substituted": [False] * 3,
        "advantage": [None] * 3,
        "position": [2, 0, 4],
        "reward_extra_info": {},
        "verdict": ["equal", None, "no answer"],
        "extracted": ["42", None, None],
        "rewards": [None, None, None],
        "width": 5,
        "lengths": [3, 1, 5],
    }
    return Scores(**{**columns, **changed})


class Preparing(unittest.TestCase):
    def refused(self, data, *expected, **options):
        with self.assertRaises(RewardOpsError) as caught:
            prepare(data, **options)
        self.assertEqual(caught.exception.reason, "invalid_input")
        for text in expected:
            self.assertIn(text, str(caught.exception))

    def test_the_step_of_a_dataproto_is_a_whole_number(self):
        def step(**meta_info):
            return step_of(SimpleNamespace(meta_info=meta_info))

        self.assertEqual([step(global_steps=3.0), step(global_step=4), step()], [3, 4, None])
        with self.assertRaises(RewardOpsError) as caught:
            step(global_steps=3.7)
        self.assertEqual(caught.exception.reason, "invalid_input")
        self.assertIn("global_steps is 3.7", str(caught.exception))

    def test_fields_by_any_of_their_names(self):
        wanted = {
            "uid": "q-1",
            "dataSource": "d",
            "prompt": "p",
            "response": "r",
            "groundTruth": "42",
            "extraInfo": {"k": 1},
            "responseLength": 3,
        }
        verl = {
            "uid": "q-1",
            "data_source": "d",
            "raw_prompt": "p",
            "solution_str": "r",
            "reward_model": {"style": "rule", "ground_truth": "42"},
            "extra_info": {"k": 1},
            "response_length": 3,
            "score": None,
        }
        named = Sample("d", "p", "r", "q-1", "42", {"k": 1}, 3)
        self.assertEqual(prepare([wanted, verl, named]).samples, [wanted] * 3)

    def test_groups_without_uids(self):
        uids = [s["uid"] for s in prepare([GIVEN] * 5, group_size=2).samples]
        self.assertEqual(uids, ["group-0", "group-0", "group-1", "group-1", "group-2"])
        uids = [s["uid"] for s in prepare([GIVEN] * 2, own_groups=True).samples]
        self.assertEqual(len(set(uids)), 2)
        self.refused([GIVEN], "Sample 0", "uid")

    def test_errors_name_the_sample(self):
        one = {**GIVEN, "uid": "u"}
        self.refused([one, {**one, "reponse": "?"}], "Sample 1", "'reponse'")
        self.refused([one, {"uid": "u", "prompt": "p"}], "Sample 1", "dataSource")
        self.refused([{**one, "response": 7}], "Sample 0", "response")
        self.refused([{**one, "score": float("nan")}], "Sample 0", "nan")
        # Missing values of a pandas column are NaN.
        for value in (float("nan"), float("inf"), 10**400):
            self.refused([one, {**one, "response_length": value}], "Sample 1", "responseLength")
        self.refused([one, {**one, "response_length": 12.7}], "Sample 1", "responseLength 12.7")
        (whole,) = prepare([{**one, "response_length": 12.0}]).samples
        self.assertEqual(whole["responseLength"], 12)
        self.refused([{**one, "score": 10**400}], "Sample 0", "score")
        self.refused([{**one, "prompt": [{"text": "?"}]}], "Sample 0", "prompt")
        self.refused([{**one, "extra_info": {"k": object()}}], "Sample 0", "builtins.object")
        self.refused([{**one, "solution_str": "#### 1"}], "Sample 0", "twice")
        self.refused("a text", "str")
        self.refused([7], "Sample 0", "int")

    def test_values_become_json_without_a_loss(self):
        odd = {
            "when": datetime.date(2026, 8, 1),
            "nan": float("nan"),
            "bytes": b"a\xffb",
            3: (1, {2}),
            "deep": {"inf": [float("-inf")]},
        }
        made = plain(odd)
        wanted = {"nan": None, "bytes": "a\udcffb", "3": [1, [2]], "deep": {"inf": [None]}}
        self.assertEqual(made, {"when": "2026-08-01", **wanted})
        self.assertEqual(made["bytes"].encode("utf-8", "surrogateescape"), b"a\xffb")
        json.dumps(made, allow_nan=False)

    def test_messages_of_text_parts_become_text(self):
        parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]
        call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
        prompt = [
            {"role": "system", "content": None},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
        made = prepare([{**GIVEN, "uid": "u", "prompt": prompt}]).samples[0]["prompt"]
        self.assertEqual([m["content"] for m in made], [None, "What is this?", None])
        self.assertEqual(made[2]["tool_calls"], [call])

    def test_a_trajectory_is_sent_as_its_messages(self):
        call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        messages = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "42"}]},
        ]
        (made,) = prepare([{**GIVEN, "response": messages, "prompt_id": 7}], own_groups=True).samples
        self.assertEqual(made["response"], [messages[0], {**messages[1], "content": "42"}])
        self.assertEqual(made["promptId"], "7")
        self.refused(
            [{**GIVEN, "response": [{"content": "no role"}]}],
            "a response that is neither text nor chat messages",
        )

    def test_images_are_refused_or_replaced(self):
        for image in ({"type": "image"}, {"type": "image_url", "image_url": {"url": "x"}}):
            prompt = [{"role": "user", "content": [image, {"type": "text", "text": "?"}]}]
            rows = [{**GIVEN, "uid": "u", "prompt": prompt}]
            self.refused(rows, "Sample 0", image["type"], "placeholder")
            made = prepare(rows, media="placeholder").samples[0]["prompt"]
            self.assertEqual(made[0]["content"], f"<{image['type']}>?")
        # TRL passes images as objects, which are not JSON.
        held = [{"role": "user", "content": [{"type": "image", "image": object()}]}]
        rows = [{**GIVEN, "uid": "u", "prompt": held}]
        self.refused(rows, "image")
        made = prepare(rows, media="placeholder").samples[0]["prompt"]
        self.assertEqual(made[0]["content"], "<image>")
        with self.assertRaises(RewardOpsError):
            prepare(rows, media="drop")

    def test_images_are_sent_if_asked_for(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        content = [{"type": "text", "text": "What?"}, image]
        rows = [{**GIVEN, "prompt": [{"role": "user", "content": content}]}]
        (made,) = prepare(rows, own_groups=True, media="send").samples
        self.assertEqual(made["prompt"], [{"role": "user", "content": content}])
        pixels = [{"type": "image", "image": object()}]
        self.refused(
            [{**GIVEN, "prompt": [{"role": "user", "content": pixels}]}], "Sample 0", media="send"
        )

    def test_images_are_part_of_a_groups_id(self):
        class Image:
            def __init__(self, pixels):
                self.pixels = pixels

            def tobytes(self):
                return self.pixels

        def prompt_with(image):
            return [{"role": "user", "content": [{"type": "image", "image": image}]}]

        self.assertEqual(prompt_uid(prompt_with(Image(b"1"))), prompt_uid(prompt_with(Image(b"1"))))
        self.assertNotEqual(prompt_uid(prompt_with(Image(b"1"))), prompt_uid(prompt_with(Image(b"2"))))
        with self.assertRaises(RewardOpsError):
            prompt_uid(prompt_with(object()))

    def test_reward_extra_info_goes_with_a_score(self):
        row = {**GIVEN, "uid": "u", "score": 1, "reward_extra_info": {"acc": True}}
        self.assertEqual(prepare([row]).samples[0]["rewardExtraInfo"], {"acc": True})

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_values(self):
        row = {
            **GIVEN,
            "uid": numpy.str_("u"),
            "prompt": numpy.array([{"role": "user", "content": "?"}], dtype=object),
            "ground_truth": numpy.int64(42),
            "extra_info": {"a": numpy.arange(3), "b": numpy.bool_(True), "c": numpy.float32("nan")},
            "response_length": numpy.int32(4),
            "score": numpy.float64(0.5),
        }
        made = json.loads(json.dumps(prepare([row]).samples[0], allow_nan=False))
        self.assertEqual(made["prompt"], [{"role": "user", "content": "?"}])
        self.assertEqual((made["groundTruth"], made["responseLength"], made["score"]), (42, 4, 0.5))
        self.assertEqual(made["extraInfo"], {"a": [0, 1, 2], "b": True, "c": None})

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_a_data_proto_as_verls_managers_read_it(self):
        class Tokenizer:
            def decode(self, ids, skip_special_tokens):
                assert skip_special_tokens
                return " ".join(str(int(i)) for i in ids)

        class Mask(numpy.ndarray):
            def bool(self):
                return self.astype(bool)

        class Proto:
            batch = {
                "prompts": numpy.array([[0, 7], [5, 6]]),
                "responses": numpy.array([[1, 2, 0], [0, 0, 0]]),
                "attention_mask": numpy.array([[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).view(Mask),
            }
            non_tensor_batch = {
                "uid": numpy.array(["a", "b"], dtype=object),
                "data_source": numpy.array(["d", "d"], dtype=object),
                "reward_model": numpy.array([{"ground_truth": "42"}] * 2, dtype=object),
                "extra_info": numpy.array([{"index": 1}, {"image": object()}], dtype=object),
                "__num_turns__": numpy.array([2, 1]),
                "tool_extra_fields": numpy.array([{"tool_rewards": [0.5]}, None], dtype=object),
            }
            meta_info = {"global_steps": 12}

        made = prepare(Proto(), tokenizer=Tokenizer())
        self.assertEqual((made.step, made.width, made.lengths), (12, 3, [2, 0]))
        self.assertEqual([s["response"] for s in made.samples], ["1 2", ""])
        self.assertEqual([s["prompt"] for s in made.samples], ["7", "5 6"])
        self.assertEqual([s["groundTruth"] for s in made.samples], ["42", "42"])
        first, second = (s["extraInfo"] for s in made.samples)
        self.assertEqual(
            first,
            {"index": 1, "tool_rewards": [0.5], "num_turns": 2, "rollout_reward_scores": {}},
        )
        self.assertEqual(second["image"], "<builtins.object>")
        self.refused(Proto(), "tokenizer")
        for length in (1.5, float("nan")):
            cut = Proto()
            cut.non_tensor_batch = {**Proto.non_tensor_batch, "response_len": [1, length]}
            self.refused(cut, "Sample 1", "response_len", tokenizer=Tokenizer())
        scored = Proto()
        scored.batch = {**Proto.batch, "rm_scores": numpy.array([[0, 0.5, 0], [0, 0, 0]])}
        scored.non_tensor_batch = {**Proto.non_tensor_batch, "acc": numpy.array([True, False])}
        scored.meta_info = {"reward_extra_keys": ["acc"]}
        rows = prepare(scored, tokenizer=Tokenizer()).samples
        self.assertEqual([row["score"] for row in rows], [0.5, 0.0])
        self.assertEqual([row["rewardExtraInfo"] for row in rows], [{"acc": True}, {"acc": False}])


class Placing(unittest.TestCase):
    PLACED = [[0, 0, 1.0, 0, 0], [0.25, 0, 0, 0, 0], [0, 0, 0, 0, -2.0]]

    def test_on_the_last_valid_token(self):
        self.assertEqual(scores().rm_scores(as_="list"), self.PLACED)
        self.assertEqual(len(scores(width=None).rm_scores(as_="list")[0]), 5)
        self.assertEqual(len(scores().rm_scores(8, as_="list")[0]), 8)

    def test_an_empty_response_has_no_position(self):
        made = scores(position=[2, None, 4], lengths=[3, 0, 5]).rm_scores(as_="list")
        self.assertEqual(made[1], [0, 0, 0, 0, 0])

    def test_an_unknown_position_is_refused(self):
        for lengths in ([3, None, 5], None):
            with self.assertRaises(RewardOpsError) as caught:
                scores(position=[2, None, 4], lengths=lengths).rm_scores(as_="list")
            self.assertIn("response_length", str(caught.exception))
        with self.assertRaises(RewardOpsError):
            scores().rm_scores(4)

    def test_rewards_of_turns_on_their_own_tokens(self):
        turns = {"turns": [{"message": 0, "score": 0.5}, {"message": 2, "score": 2.0}], "spans": []}
        given = scores(rewards=[turns, None, None])
        ends = [[0, None, 3], None, None]
        self.assertEqual(
            given.turn_scores(ends, as_="list"),
            [[0.5, 0, 0, 2.0, 0], [0.25, 0, 0, 0, 0], [0, 0, 0, 0, -2.0]],
        )
        for known in (None, ends):
            self.assertEqual(
                given.turn_scores(known, collapse="last", as_="list"), given.rm_scores(as_="list")
            )
        # Rewards of two messages that end at the same token are added. Without a width, the row is
        # wide enough for its last reward.
        narrow = scores(rewards=[turns, None, None], width=None)
        self.assertEqual(
            narrow.turn_scores([[5, None, 5], None, None], as_="list")[0], [0, 0, 0, 0, 0, 2.5]
        )
        for missing in (
            None,
            [[0, None, None], None, None],
            [[0], None, None],
            [[0, None, -1], None, None],
        ):
            with self.assertRaises(RewardOpsError) as caught:
                given.turn_scores(missing, as_="list")
            self.assertEqual(caught.exception.reason, "turn_token_ends_missing")
        span = {"turns": [], "spans": [{"message": 0, "start": 0, "end": 1, "score": 1.0}]}
        with self.assertRaises(RewardOpsError) as caught:
            scores(rewards=[span, None, None]).turn_scores(as_="list")
        self.assertEqual(caught.exception.reason, "span_rewards_not_placed")
        with self.assertRaises(RewardOpsError) as caught:
            scores(rewards=[{**turns, "spans": span["spans"]}, None, None]).turn_scores(ends)
        self.assertEqual(caught.exception.reason, "span_rewards_not_placed")
        without = scores(rewards=[turns, None, None], score=[1.0, None, -2.0])
        with self.assertRaises(RewardOpsError) as caught:
            without.turn_scores(ends, as_="list")
        self.assertEqual(caught.exception.reason, "not_scored")
        with self.assertRaises(RewardOpsError):
            given.turn_scores([[0, None, 5], None, None], as_="list")

    def test_token_scores_on_the_tokens_of_the_policy(self):
        # The reward model's tokens are "ab", "c", " d" and part of a character; the policy's "a", "bc d" and "🎉".
        def tokens(**other):
            columns = {"starts": [0, 2, 3, 5], "ends": [2, 3, 5, 5], "scores": [1.0, 2.0, 4.0, 8.0]}
            return {"component": None, "message": 0, "omitted": 0, "problem": None, **columns, **other}

        def given(*tokens, **other):
            rewards = {"turns": [], "spans": [], "tokens": list(tokens)}
            return scores(rewards=[rewards, rewards, rewards], width=4, **other)

        offsets = [[(0, 0, 1), (0, 1, 5), None, (0, 5, 6)]] * 3
        placed = [0, 7.0, 0, 8.0]
        self.assertEqual(given(tokens()).token_scores(offsets, as_="list"), [placed] * 3)
        second = tokens(message=2, starts=[0], ends=[1], scores=[16.0])
        turns = [[(0, 0, 1), (0, 1, 5), (2, 0, 3), (0, 5, 6)]] * 3
        self.assertEqual(
            given(tokens(), second).token_scores(turns, as_="list"), [[0, 7.0, 16.0, 8.0]] * 3
        )
        named = given(tokens(component="prm"), tokens(component="style", scores=[0, 0, 0, 1.0]))
        self.assertEqual(
            named.token_scores(offsets, component="style", as_="list"), [[0, 0, 0, 1.0]] * 3
        )
        unplaced = tokens(starts=None, ends=None, problem="no texts")
        for wrong in (given(), given(unplaced), named):
            with self.assertRaises(RewardOpsError) as caught:
                wrong.token_scores(offsets)
            self.assertEqual(caught.exception.reason, "token_scores_missing")
        failed = given(tokens(), score=[1.0, None, 1.0], position=[0, 0, 0])
        with self.assertRaises(RewardOpsError):
            failed.token_scores(offsets)
        made = failed.token_scores(offsets, missing=-1.0, as_="list")
        self.assertEqual(made, [placed, [-1.0, 0, 0, 0], placed])
        # A substituted score belongs to no token, so it is placed at the sample's position.
        rewards = {"turns": [], "spans": [], "tokens": [tokens()]}
        substituted = scores(
            rewards=[rewards, None, rewards],
            width=4,
            status=["scored", "failed", "scored"],
            score=[1.0, -3.0, 1.0],
            substituted=[False, True, False],
            position=[0, 2, 0],
        )
        made = substituted.token_scores(offsets, as_="list")
        self.assertEqual(made, [placed, [0, 0, -3.0, 0], placed])

    def test_a_failure_is_not_zero(self):
        failed = scores(
            status=["scored", "failed", "failed"],
            reason=[None, "timeout", "transport"],
            score=[1.0, None, None],
        )
        self.assertEqual(failed.failed, [(1, "timeout"), (2, "transport")])
        self.assertEqual(failed.scored, [True, False, False])
        for read in (failed.rm_scores, failed.require):
            with self.assertRaises(RewardOpsError) as caught:
                read()
            self.assertEqual(caught.exception.reason, "not_scored")
            self.assertIn("2 of 3", str(caught.exception))
            self.assertIn("timeout 1, transport 1", str(caught.exception))
        self.assertEqual(failed.rm_scores(missing=-1.0, as_="list")[1][0], -1.0)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_as_numpy(self):
        made = scores().rm_scores(as_="numpy")
        self.assertEqual((made.dtype, made.shape), (numpy.float32, (3, 5)))
        self.assertEqual(made.tolist(), self.PLACED)
        advantages = scores(advantage=[1.5, None, 0.0])
        column = advantages.column(advantages.advantage, "numpy")
        self.assertTrue(numpy.isnan(column[1]) and column[0] == 1.5)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_as_torch(self):
        made = scores().rm_scores()
        self.assertEqual((made.dtype, made.tolist()), (torch.float32, self.PLACED))


class Small(unittest.TestCase):
    def test_addresses(self):
        for given, url, header in (
            ("127.0.0.1:3000", "http://127.0.0.1:3000", "127.0.0.1:3000"),
            ("https://host/path/", "https://host/path", "host"),
            ("http://[::1]:80/api/trpc", "http://[::1]:80", "[::1]"),
        ):
            address = parse_address(given)
            self.assertEqual((address.url, address.host_header), (url, header))
        for wrong in (
            *("", "ftp://host", "http://", "http://host:port", "http://user:secret@host"),
            "http://[::1:3000",
        ):
            with self.assertRaises(RewardOpsError) as caught:
                parse_address(wrong)
            self.assertEqual(caught.exception.reason, "invalid_input")

    def test_rewards(self):
        self.assertIsNone(reward_spec(None))
        self.assertEqual(reward_spec("my-rm"), {"model": "my-rm"})
        self.assertEqual(
            reward_spec({"manager": "dapo"}, -1),
            {"manager": "dapo", "onFailure": {"policy": "constant", "value": -1.0}},
        )
        self.assertEqual(reward_spec(None, "drop_group"), {"onFailure": {"policy": "drop_group"}})

    def test_failure_policies_of_adapters(self):
        self.assertEqual(failure_policy("rm", "raise"), {"model": "rm"})
        self.assertIsNone(failure_policy(None, "raise"))
        constant = {"policy": "constant", "value": -1.0}
        self.assertEqual(failure_policy("rm", -1), {"model": "rm", "onFailure": constant})
        self.assertEqual(failure_policy(None, -1), {"onFailure": constant})
        for wrong in (True, "zero", None):
            with self.assertRaises(RewardOpsError):
                failure_policy("rm", wrong)

    def test_errors_and_scores_cross_processes(self):
        error = RewardOpsError("It is.", reason="busy", hint="Wait.", request_id="r-1", status=503)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), vars(again)), ("It is. Wait.", vars(error)))
        self.assertEqual(
            dataclasses.asdict(pickle.loads(pickle.dumps(scores()))), dataclasses.asdict(scores())
        )


if __name__ == "__main__":
    unittest.main()
