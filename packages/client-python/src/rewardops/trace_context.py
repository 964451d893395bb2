"""The trainer's trace context, which calls pass on to the service as W3C headers."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def active_trace_headers() -> Mapping[str, str]:
    """`traceparent` and `tracestate` of the active OpenTelemetry span; empty if the process does not use OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers
