"""Calls carry the trainer's trace context."""

import importlib.util
import unittest

from rewardops import RewardOps

from tests.test_client_errors import Web, session

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ACCEPTED = (
    200,
    {},
    {"result": {"data": {"batchId": "b1", "accepted": 1, "groups": 1, "duplicate": False}}},
)
SAMPLE = {"uid": "q", "data_source": "d", "prompt": "p", "response": "1", "ground_truth": "1"}


class TraceContext(unittest.TestCase):
    def sent(self, **options):
        with Web(ACCEPTED, look=session()) as web:
            with RewardOps(web.url, **options) as client:
                client.submit([SAMPLE], step=1)
            _, headers, _ = web.requests[0]
            return {name.lower(): value for name, value in headers.items()}

    def test_nothing_is_sent_outside_a_trace(self):
        self.assertNotIn("traceparent", self.sent())

    def test_the_callers_headers_are_sent(self):
        headers = self.sent(trace_headers=lambda: {"traceparent": TRACEPARENT})
        self.assertEqual(headers["traceparent"], TRACEPARENT)

    @unittest.skipUnless(importlib.util.find_spec("opentelemetry"), "opentelemetry is not installed")
    def test_the_active_span_of_opentelemetry_is_sent(self):
        from opentelemetry import trace

        _, trace_id, span_id, _ = TRACEPARENT.split("-")
        span = trace.NonRecordingSpan(
            trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(1))
        )
        with trace.use_span(span):
            self.assertEqual(self.sent()["traceparent"], TRACEPARENT)
        self.assertNotIn("traceparent", self.sent())
