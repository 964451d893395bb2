"""A wrong address, version or certificate, or nobody there: one sentence, soon, and never a hang."""

import asyncio
import json
import logging
import socket
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rewardops import AsyncRewardOps, RewardOps, RewardOpsError

from tests.service import free_port
from tests.transports import TRANSPORTS

#: A service that never answers is given up after 4 s by default; what is told is the same sooner.
SOON = {"connect_s": 0.5}


class Web:
    """A web server that answers by turns, the last answer for ever. `look`: to the first look of a client."""

    def __init__(self, *answers, look=None):
        self.asked = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if look is not None and self.path.endswith("session.get"):
                    status, headers, content = look
                else:
                    web.asked.append((self.path, dict(self.headers), body))
                    status, headers, content = answers[min(len(web.asked), len(answers)) - 1]
                if not isinstance(content, bytes):
                    content = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                connection, address = super().get_request()
                web.connections.append(connection)
                return connection, address

            def handle_error(self, *_):
                pass

        self.connections = []
        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        # Those that are kept open would be answered still.
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def session(version="0.1.0", auth="open", signed_in=True):
    data = {"auth": auth, "signedIn": signed_in, "version": version, "address": ""}
    return 200, {}, {"result": {"data": data}}


def refusal(status, reason, **data):
    told = {"reason": reason, "hint": "Do better.", "requestId": "r-7", **data}
    return status, {}, {"error": {"message": "It is so.", "data": told}}


class Errors(unittest.TestCase):
    def told(self, url, work=None, **settings):
        """What each way of speaking HTTP raises, the same from both clients."""
        said = []
        for http in TRANSPORTS:
            given = {"outage_s": 1.0, "http": http, **settings}
            with self.subTest(http=http), RewardOps(url, **given) as client:
                with self.assertRaises(RewardOpsError) as caught:
                    (work or (lambda c: c.compute_score("d", "r")))(client)
                error = caught.exception
                self.assertNotIn("\n", str(error))
                self.assertRegex(str(error), r"[.?]$")
                said.append((error.reason, str(error)))

                async def same(given=given):
                    async with AsyncRewardOps(url, **given) as other:
                        await other.check()

                if work is None:
                    with self.assertRaises(RewardOpsError) as again:
                        asyncio.run(same())
                    self.assertEqual(again.exception.reason, error.reason)
        self.assertEqual(len({reason for reason, _ in said}), 1, said)
        return said[0]

    def test_nobody_listens(self):
        url = f"http://127.0.0.1:{free_port()}"
        reason, text = self.told(url, **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn(f"{url} does not answer: the connection was refused", text)
        self.assertIn("Is the service running", text)

    def test_no_such_host(self):
        reason, text = self.told("http://rewardops.invalid:3000", **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn("rewardops.invalid", text)

    def test_somebody_listens_and_is_silent(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            reason, text = self.told(f"http://127.0.0.1:{listener.getsockname()[1]}", **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn("silent", text)

    def test_somebody_who_speaks_no_http(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()

            def answer():
                while True:
                    try:
                        connection, _ = listener.accept()
                    except OSError:
                        return
                    connection.recv(65536)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
                    connection.close()

            threading.Thread(target=answer, daemon=True).start()
            reason, text = self.told(f"http://127.0.0.1:{listener.getsockname()[1]}", **SOON)
            listener.shutdown(socket.SHUT_RDWR)
        self.assertEqual(reason, "unreachable")

    def test_https_where_http_is_spoken(self):
        with Web(session()) as web:
            reason, _ = self.told(web.url.replace("http:", "https:"), **SOON)
        self.assertEqual(reason, "unreachable")

    def test_another_service(self):
        for answer in (
            (404, {"content-type": "text/html"}, b"<html>Not Found</html>"),
            (200, {}, {"models": []}),
            (200, {}, b"OK"),
            (405, {}, b""),
            # Another one that speaks tRPC.
            (
                404,
                {},
                {
                    "error": {
                        "message": "No procedure",
                        "code": -32004,
                        "data": {"code": "NOT_FOUND"},
                    }
                },
            ),
        ):
            with Web(answer) as web:
                reason, text = self.told(web.url)
                self.assertEqual(reason, "not_rewardops", text)
                self.assertIn("Check the address", text)

    def test_a_redirect_is_not_followed(self):
        with Web((308, {"location": "https://elsewhere/"}, b"")) as web:
            reason, text = self.told(web.url)
            self.assertEqual(reason, "redirected")
            self.assertIn("https://elsewhere/", text)
            self.assertTrue(all("uthorization" not in str(h) for _, h, _ in web.asked))

    def test_a_service_of_another_generation(self):
        for version in ("0.2.0", "1.0.0"):
            with Web(session(version)) as web:
                reason, text = self.told(web.url)
                self.assertEqual(reason, "unsupported_version")
                self.assertIn(version, text)
        with Web(session("0.1.9")) as web, RewardOps(web.url) as client:
            self.assertEqual(client.check().version, "0.1.9")

    def test_a_key_is_missing_or_wrong(self):
        with Web(session(auth="key", signed_in=False)) as web:
            reason, text = self.told(web.url)
            self.assertEqual(reason, "unauthorized")
            self.assertIn("none was set", text)
            reason, text = self.told(web.url, api_key="wrong")
            self.assertIn("rejected the given one", text)
            self.assertNotIn("wrong", text)
        self.assertRaises(RewardOpsError, RewardOps, web.url, "a key\nwith a line")

    def test_a_refusal_has_all_that_was_said(self):
        with (
            Web(refusal(409, "idempotency_conflict"), look=session()) as web,
            RewardOps(web.url) as c,
        ):
            with self.assertRaises(RewardOpsError) as caught:
                c.summary("b1")
        error = caught.exception
        self.assertEqual(str(error), "It is so. Do better.")
        self.assertEqual(
            (error.reason, error.hint, error.request_id, error.status),
            ("idempotency_conflict", "Do better.", "r-7", 409),
        )

    def test_what_passes_is_asked_again_with_the_same_key(self):
        scored = {
            **{"score": 1, "reason": None, "substituted": False, "rewardExtraInfo": {}},
            **{"position": None, "id": "b1-0", "batchId": "b1"},
        }
        answers = (
            refusal(503, "busy", retryAfterMs=20),  # while it starts
            session(),
            refusal(503, "busy", retryAfterMs=20),
            (429, {"retry-after": "0"}, refusal(429, "queue_full")[2]),
            (502, {}, b"<html>Bad Gateway</html>"),
            refusal(500, "internal"),
            (200, {}, {"result": {"data": scored}}),
        )
        for http in TRANSPORTS:
            with self.subTest(http=http), Web(*answers) as web, RewardOps(web.url, http=http) as c:
                self.assertEqual(float(c.compute_score("d", "r")), 1.0)
                keys = [json.loads(b)["idempotencyKey"] for p, _, b in web.asked if "score" in p]
                self.assertEqual((len(keys), len(set(keys))), (5, 1))

    def test_our_own_fault_is_not_asked_for_ever(self):
        with Web(refusal(500, "internal"), look=session()) as web:
            reason, _ = self.told(web.url, lambda c: c.summary("b1"))
            self.assertEqual(reason, "internal")

    def test_a_call_ends_with_its_time(self):
        with Web(refusal(503, "busy", retryAfterMs=100), look=session()) as web:
            reason, text = self.told(web.url, lambda c: c.summary("b1", timeout_s=0.3))
            self.assertEqual(reason, "timeout")
            self.assertIn("batches.get", text)

    def test_a_service_that_goes_away_is_told_of_once_and_then_given_up(self):
        for http in TRANSPORTS:
            web = Web(session())
            with RewardOps(web.url, http=http, outage_s=1.5) as client:
                client.check()
                web.__exit__()
                with self.assertLogs("rewardops", logging.WARNING) as logged:

                    async def many():
                        work = (client._async.summary(f"b{n}") for n in range(20))
                        return await asyncio.gather(*work, return_exceptions=True)

                    said = client._wait(many())
                self.assertEqual({getattr(e, "reason", str(e)) for e in said}, {"unreachable"})
                self.assertEqual(len(logged.output), 1)
                self.assertIn("Retrying for up to 1.5 s", logged.output[0])

    def test_a_closed_client_says_so(self):
        with Web(session()) as web:
            client = RewardOps(web.url)
            client.check()
            client.close()
            with self.assertRaises(RewardOpsError) as caught:
                client.summary("b1")
        self.assertEqual(caught.exception.reason, "closed")


if __name__ == "__main__":
    unittest.main()
