"""A scorer of engine `http` with delays: a response text holds its score and the delay in ms."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class SlowScorer:
    """Texts look like `score=0.5 ms=120`; a text with `fail` gets an error. A gated scorer answers
    only the number of samples released by `let`.
    """

    def __init__(self, gated=False):
        self.answered = 0
        self._gate = threading.Semaphore(0 if gated else 1_000_000)
        scorer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                results = []
                for sample in body["samples"]:
                    scorer._gate.acquire()
                    scorer.answered += 1
                    text = sample["solutionStr"]
                    wait = re.search(r"ms=(\d+)", text)
                    time.sleep(int(wait.group(1)) / 1000 if wait else 0)
                    if "fail" in text:
                        results.append({"error": "refused by the test"})
                    else:
                        score = re.search(r"score=(-?[\d.]+)", text)
                        results.append({"score": float(score.group(1)) if score else 0.0})
                answer = json.dumps({"results": results}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 1024
            daemon_threads = True

            def handle_error(self, *_):
                # The caller was killed.
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def let(self, samples):
        """Releases more samples, including those of callers that have gone."""
        for _ in range(samples):
            self._gate.release()

    def close(self):
        self.let(100_000)
        self.server.shutdown()
        self.server.server_close()
