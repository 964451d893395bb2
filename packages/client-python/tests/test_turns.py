"""Completions as text: whole, or refused with the name of the unsupported part."""

import unittest

from rewardops import RewardOpsError
from rewardops.turns import completion_sent, completion_text
from rewardops.verifiers import produced

from types import SimpleNamespace


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


class Turns(unittest.TestCase):
    def refused(self, completion, *words):
        with self.assertRaises(RewardOpsError) as caught:
            completion_text(completion)
        self.assertEqual(caught.exception.reason, "invalid_input")
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_one_message_is_its_content(self):
        odd = " \n#### 72\n<tool_call> \ud800"
        for completion in (odd, [{"role": "assistant", "content": odd}], {"content": odd}):
            self.assertEqual(completion_text(completion), odd)
        self.assertEqual(completion_text([]), "")
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        self.assertEqual(completion_text([{"role": "assistant", "content": parts}]), "ab")

    def test_one_message_with_an_image_is_sent_whole(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        completion = [{"role": "assistant", "content": [{"type": "text", "text": "see "}, image]}]
        self.assertEqual(completion_sent(completion, "send"), completion)
        self.assertEqual(completion_sent(completion, "placeholder"), "see <image_url>")
        self.assertEqual(completion_sent([{"role": "assistant", "content": "see"}], "send"), "see")

    def test_every_turn_call_and_result_is_carried(self):
        completion = [
            {
                "role": "assistant",
                "content": "Let me compute that.",
                "tool_calls": [
                    call("multiply", {"a": 6, "b": 7}, id="call_1"),
                    call("add", '{"a": 1, "b": 2}'),
                ],
            },
            {"role": "tool", "name": "multiply", "tool_call_id": "call_1", "content": "42"},
            {"role": "tool", "content": {"sum": 3}},
            {"role": "assistant", "content": "42 and 3."},
            {"role": "user", "content": "Sure?"},
            {"role": "assistant", "reasoning_content": "Hm.", "content": "Yes."},
            {"role": "assistant", "content": "Done."},
        ]
        self.assertEqual(
            completion_text(completion),
            """Let me compute that.
<tool_call>
{"name": "multiply", "arguments": {"a":6,"b":7}, "id": "call_1"}
</tool_call>
<tool_call>
{"name": "add", "arguments": {"a": 1, "b": 2}}
</tool_call>
<tool_response name="multiply" tool_call_id="call_1">
42
</tool_response>
<tool_response>
{"sum": 3}
</tool_response>
42 and 3.
<turn role="user">
Sure?
</turn>
<think>
Hm.
</think>
Yes.
<turn role="assistant">
Done.
</turn>""",
        )

    def test_a_call_alone_is_not_empty(self):
        completion = [{"role": "assistant", "content": None, "tool_calls": [call("f", "not json")]}]
        text = '<tool_call>\n{"name": "f", "arguments": "not json"}\n</tool_call>'
        self.assertEqual(completion_text(completion), text)

    def test_parts_without_a_text_form_are_refused_by_name(self):
        image = [
            {"type": "text", "text": "See: "},
            {"type": "image_url", "image_url": {"url": "x"}},
        ]
        self.refused([{"role": "tool", "content": image}], "image_url", "placeholder")
        self.assertEqual(
            completion_text([{"role": "assistant", "content": image}], "placeholder"),
            "See: <image_url>",
        )
        self.refused([{"role": "assistant", "content": "a", "audio": {"id": "x"}}], "audio")
        self.assertEqual(
            completion_text([{"role": "assistant", "content": "a", "audio": None}]), "a"
        )

    def test_a_trace_from_the_first_turn_of_the_model(self):
        def node(sampled, **message):
            return SimpleNamespace(sampled=sampled, message=message)

        nodes = [
            node(False, role="user", content="?"),
            node(True, role="assistant", content=None, tool_calls=[call("f", {})]),
            node(False, role="tool", content="1"),
            node(True, role="assistant", content="one"),
        ]
        branch = SimpleNamespace(nodes=nodes)
        made = produced(SimpleNamespace(branches=[branch]))
        self.assertEqual([m["role"] for m in made], ["assistant", "tool", "assistant"])
        with self.assertRaises(RewardOpsError) as caught:
            produced(SimpleNamespace(branches=[branch, branch]))
        self.assertIn("2 branches", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
