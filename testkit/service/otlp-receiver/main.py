"""
An OTLP receiver that decodes spans with OpenTelemetry's own Python package `opentelemetry-proto`. `POST /v1/traces`
accepts protobuf and JSON; `GET /spans` returns the decoded spans. It ends when its standard input closes.
"""

import base64
import gzip
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

spans = []
lock = threading.Lock()


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def attributes_of(message):
    return {one.key: value_of(one.value) for one in message.attributes}


def of_json(text):
    """Parses OTLP's JSON, whose ids are hexadecimal; protobuf's own JSON has them in Base64."""
    request = json.loads(text)
    for resource in request.get("resourceSpans", []):
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if span.get(name):
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(request, ExportTraceServiceRequest())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.body()
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.headers["content-type"]
        if kind == "application/json":
            request = of_json(body)
        else:
            request = ExportTraceServiceRequest.FromString(body)
        with lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        spans.append(
                            {
                                "type": kind,
                                "resource": attributes_of(resource.resource),
                                "scope": scope.scope.name,
                                "name": span.name,
                                "kind": span.kind,
                                "traceId": span.trace_id.hex(),
                                "spanId": span.span_id.hex(),
                                "parentId": span.parent_span_id.hex(),
                                "state": span.trace_state,
                                "startMs": span.start_time_unix_nano / 1e6,
                                "endMs": span.end_time_unix_nano / 1e6,
                                "isError": span.status.code == 2,
                                "attributes": attributes_of(span),
                                "events": [
                                    {"name": one.name, "attributes": attributes_of(one)}
                                    for one in span.events
                                ],
                            }
                        )
        if kind == "application/json":
            answer = json.dumps(MessageToDict(ExportTraceServiceResponse())).encode()
        else:
            answer = ExportTraceServiceResponse().SerializeToString()
        self.answer(answer, kind)

    def do_GET(self):
        with lock:
            self.answer(json.dumps(spans).encode(), "application/json")

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"port": server.server_address[1]}), flush=True)
sys.stdin.read()
