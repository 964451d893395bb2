"""A wrong URL or version, or a missing service, is reported quickly and in one line."""

import asyncio
import json
import logging
import signal
import socket
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from unittest import mock

from rewardops import AsyncRewardOps, RewardOps, RewardOpsError, trl, verifiers, verl
from rewardops.samples import camel_case

from tests.service import free_port
from tests.transports import TRANSPORTS

#: By default, a service that never answers is reported only after 4 s, with the same error.
SOON = {"connect_s": 0.5}


#: Instead of an answer: the server leaves the request open, or closes the connection after it has read the body.
SILENCE, BREAK = "silence", "break"
SCORED = {
    **{"score": 1, "reason": None, "substituted": False, "rewardExtraInfo": {}},
    **{"position": None, "id": "b1-0", "batchId": "b1"},
}
SAMPLE = {"uid": "u", "data_source": "d", "prompt": "p", "response": "r"}
#: The answers to a submit, and to a call without a result.
STORED, DONE = (
    (200, {}, {"result": {"data": data}})
    for data in ({"batchId": "b1", "accepted": 1, "groups": 1, "duplicate": False}, {})
)


class Web:
    """A web server that gives its answers, or the results of functions, in order and repeats the last one.
    `look`: the answer to every `session.get`, instead of the next one, or a function that returns it.
    """

    def __init__(self, *answers, look=None):
        self.requests = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if look is not None and self.path.endswith("session.get"):
                    answer = look
                else:
                    web.requests.append((self.path, dict(self.headers), body))
                    answer = answers[min(len(web.requests), len(answers)) - 1]
                if callable(answer):
                    answer = answer()
                if answer in (SILENCE, BREAK):
                    if answer == SILENCE:
                        web.ended.wait(30)
                    self.close_connection = True
                    return
                status, headers, content = answer
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
        self.ended = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        # Closes kept-alive connections, because requests on them would otherwise still be answered.
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def session(version="0.1.0", auth="open", signed_in=True):
    data = {"auth": auth, "signedIn": signed_in, "version": version, "address": ""}
    return 200, {}, {"result": {"data": data}}


def refusal(status, reason, **more):
    data = {"reason": reason, "hint": "Do better.", "requestId": "r-7", **more}
    return status, {}, {"error": {"message": "It is so.", "data": data}}


def stored_after(gate):
    """An answer to a submit that comes once `gate` is open."""

    def answer():
        gate.wait(30)
        return STORED

    return answer


def called_of(web):
    return [path.split("batches.")[1] for path, _, _ in web.requests]


class Errors(unittest.TestCase):
    def error_of(self, url, work=None, **settings):
        """
        Expects the same reason from both clients and all HTTP implementations; returns it with the first error's
        text.
        """
        errors = []
        for http in TRANSPORTS:
            given = {"outage_s": 1.0, "http": http, **settings}
            with self.subTest(http=http), RewardOps(url, **given) as client:
                with self.assertRaises(RewardOpsError) as caught:
                    (work or (lambda c: c.compute_score("d", "r")))(client)
                error = caught.exception
                self.assertNotIn("\n", str(error))
                self.assertRegex(str(error), r"[.?]$")
                errors.append((error.reason, str(error)))

                async def same(given=given):
                    async with AsyncRewardOps(url, **given) as other:
                        await other.check()

                if work is None:
                    with self.assertRaises(RewardOpsError) as again:
                        asyncio.run(same())
                    self.assertEqual(again.exception.reason, error.reason)
        self.assertEqual(len({reason for reason, _ in errors}), 1, errors)
        return errors[0]

    def test_a_closed_port(self):
        url = f"http://127.0.0.1:{free_port()}"
        reason, text = self.error_of(url, **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn(f"{url} does not answer: the connection was refused", text)
        self.assertIn("Is the service running", text)

    def test_an_unknown_host(self):
        reason, text = self.error_of("http://rewardops.invalid:3000", **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn("rewardops.invalid", text)

    def test_a_silent_server(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            reason, text = self.error_of(f"http://127.0.0.1:{listener.getsockname()[1]}", **SOON)
        self.assertEqual(reason, "unreachable")
        self.assertIn("silent", text)

    def test_a_submit_without_an_answer_is_reported_while_it_waits(self):
        for http in TRANSPORTS:
            with (
                self.subTest(http=http),
                mock.patch("rewardops.client.SUBMIT_ANSWER_S", 0.6),
                mock.patch("rewardops.calls.QUIET_S", 0.2),
                Web(SILENCE, look=session()) as web,
                RewardOps(web.url, http=http, outage_s=0.2) as client,
                self.assertLogs("rewardops", logging.WARNING) as logged,
            ):
                with self.assertRaises(RewardOpsError) as caught:
                    client.submit([SAMPLE])
                keys = {json.loads(body)["idempotencyKey"] for _, _, body in web.requests}
            self.assertEqual(caught.exception.reason, "unreachable")
            self.assertIn(
                "it accepted the connection, but was silent for 0.6 s", str(caught.exception)
            )
            self.assertIn("batches.submit", logged.output[0])
            self.assertIn("it answers other calls", logged.output[0])
            self.assertEqual((len(web.requests), len(keys)), (2, 1))

    def test_a_call_without_an_answer_is_reported_repeatedly(self):
        class Reports(logging.Handler):
            def __init__(self):
                super().__init__()
                self.count = threading.Semaphore(0)

            def emit(self, record):
                self.count.release()

            def third(self):
                for _ in range(3):
                    self.count.acquire(timeout=30)
                return DONE

        for http in TRANSPORTS:
            reports = Reports()
            with (
                self.subTest(http=http),
                mock.patch("rewardops.calls.QUIET_S", 0.05),
                Web(reports.third, look=session()) as web,
                RewardOps(web.url, http=http) as client,
                self.assertLogs("rewardops", logging.WARNING) as logged,
            ):
                # assertLogs restores the logger's handlers on exit, which removes this one.
                logging.getLogger("rewardops").addHandler(reports)
                client.summary("b1")
                self.assertGreaterEqual(len(logged.output), 3)

    def test_an_answered_call_starts_no_task_to_watch_it(self):
        started = []

        def start(loop, work, **more):
            started.append(work.__qualname__)
            return asyncio.Task(work, loop=loop, **more)

        async def call(http, url):
            asyncio.get_running_loop().set_task_factory(start)
            async with AsyncRewardOps(url, http=http) as client:
                await client.check()
                started.clear()
                await client.summary("b1")
                return [name for name in started if name.startswith(("Calls.", "_Watch."))]

        for http in TRANSPORTS:
            with self.subTest(http=http), Web(DONE, look=session()) as web:
                self.assertEqual(asyncio.run(call(http, web.url)), [])

    def test_a_score_without_an_answer_is_reported_if_the_service_hangs(self):
        hangs = threading.Event()

        def look():
            if hangs.is_set():
                return SILENCE
            hangs.set()
            return session()

        for http in TRANSPORTS:
            hangs.clear()
            with (
                self.subTest(http=http),
                mock.patch("rewardops.calls.QUIET_S", 0.2),
                Web(SILENCE, look=look) as web,
                RewardOps(web.url, http=http, connect_s=0.3) as client,
                self.assertLogs("rewardops", logging.WARNING) as logged,
            ):
                with self.assertRaises(RewardOpsError) as caught:
                    client.compute_score("d", "r", timeout_s=1.5)
            self.assertEqual(caught.exception.reason, "timeout")
            self.assertIn("does not answer other calls either", logged.output[0])

    def test_a_server_without_http(self):
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
            reason, text = self.error_of(f"http://127.0.0.1:{listener.getsockname()[1]}", **SOON)
            listener.shutdown(socket.SHUT_RDWR)
        self.assertEqual(reason, "unreachable")

    def test_https_to_an_http_server(self):
        with Web(session()) as web:
            reason, _ = self.error_of(web.url.replace("http:", "https:"), **SOON)
        self.assertEqual(reason, "unreachable")

    def test_another_service(self):
        for answer in (
            (404, {"content-type": "text/html"}, b"<html>Not Found</html>"),
            (200, {}, {"models": []}),
            (200, {}, b"OK"),
            (405, {}, b""),
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
                reason, text = self.error_of(web.url)
                self.assertEqual(reason, "not_rewardops", text)
                self.assertIn("Check the URL", text)

    def test_a_redirect_is_not_followed(self):
        with Web((308, {"location": "https://elsewhere/"}, b"")) as web:
            reason, text = self.error_of(web.url)
            self.assertEqual(reason, "redirected")
            self.assertIn("https://elsewhere/", text)
            self.assertTrue(all("uthorization" not in str(h) for _, h, _ in web.requests))

    def test_an_incompatible_version(self):
        for version in ("0.2.0", "1.0.0"):
            with Web(session(version)) as web:
                reason, text = self.error_of(web.url)
                self.assertEqual(reason, "unsupported_version")
                self.assertIn(version, text)
        with Web(session("0.1.9")) as web, RewardOps(web.url) as client:
            self.assertEqual(client.check().version, "0.1.9")

    def test_a_key_is_missing_or_wrong(self):
        with Web(session(auth="key", signed_in=False)) as web:
            reason, text = self.error_of(web.url)
            self.assertEqual(reason, "unauthorized")
            self.assertIn("none was set", text)
            reason, text = self.error_of(web.url, api_key="wrong")
            self.assertIn("rejected the given one", text)
            self.assertNotIn("wrong", text)
        self.assertRaises(RewardOpsError, RewardOps, web.url, "a key\nwith a line")

    def test_a_refusal_has_all_fields(self):
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

    def test_a_proxy_that_refuses_a_large_body_is_named(self):
        with Web((413, {}, b"<html>Request Entity Too Large</html>"), look=session()) as web:
            reason, text = self.error_of(web.url, lambda c: c.summary("b1"))
        self.assertEqual(reason, "body_too_large")
        self.assertIn("client_max_body_size", text)
        calls = [path for path, _, _ in web.requests if "batches.get" in path]
        self.assertEqual(len(calls), len(TRANSPORTS))

    def test_temporary_failures_are_retried_with_the_same_key(self):
        answers = (
            refusal(503, "busy", retryAfterMs=20),  # while the service starts
            session(),
            refusal(503, "busy", retryAfterMs=20),
            (429, {"retry-after": "0"}, refusal(429, "queue_full")[2]),
            (502, {}, b"<html>Bad Gateway</html>"),
            refusal(500, "internal"),
            (200, {}, {"result": {"data": SCORED}}),
        )
        for http in TRANSPORTS:
            with self.subTest(http=http), Web(*answers) as web, RewardOps(web.url, http=http) as c:
                self.assertEqual(float(c.compute_score("d", "r")), 1.0)
                keys = [json.loads(b)["idempotencyKey"] for p, _, b in web.requests if "score" in p]
                self.assertEqual((len(keys), len(set(keys))), (5, 1))

    def test_a_call_by_name_runs_once_although_its_answer_was_lost(self):
        given = {"run": "r", "step": 1, "samples": []}
        for http in TRANSPORTS:
            for procedure in ("batches.submit", "batches.rescore", "samples.score"):
                with (
                    self.subTest(http=http, procedure=procedure),
                    Web(BREAK, (200, {}, {"result": {"data": {}}}), look=session()) as web,
                    RewardOps(web.url, http=http) as client,
                ):
                    client.call(procedure, given)
                    keys = [json.loads(body)["idempotencyKey"] for _, _, body in web.requests]
                    self.assertEqual((len(keys), len(set(keys))), (2, 1))

    def test_a_call_that_must_not_run_twice_is_sent_again_only_if_it_did_not_run(self):
        done = 200, {}, {"result": {"data": {}}}
        for http in TRANSPORTS:
            for lost in (BREAK, (502, {}, b"<html>Bad Gateway</html>"), refusal(500, "internal")):
                with (
                    self.subTest(http=http, lost=lost),
                    Web(lost, done, look=session()) as web,
                    RewardOps(web.url, http=http) as client,
                ):
                    with self.assertRaises(RewardOpsError):
                        client.call("demo.load")
                    self.assertEqual(len(web.requests), 1)
            for refused in ("busy", "shutting_down"):
                with (
                    self.subTest(http=http, refused=refused),
                    Web(refusal(503, refused, retryAfterMs=10), done, look=session()) as web,
                    RewardOps(web.url, http=http) as client,
                ):
                    self.assertEqual(client.call("demo.load"), {})
            web = Web(session())
            with (
                self.subTest(http=http, refused="connection"),
                RewardOps(web.url, http=http, outage_s=1.0) as client,
                self.assertLogs("rewardops", logging.WARNING),
            ):
                client.check()
                web.__exit__()
                with self.assertRaises(RewardOpsError):
                    client.call("demo.load")

    def test_a_batch_is_cancelled_if_a_later_part_of_it_is_refused(self):
        answers = (STORED, refusal(422, "run_limit"), DONE)
        # With a key, the batch is not cancelled, because a repeated submit can continue it after the first part.
        for key, called in ((None, ["submit", "append", "cancel"]), ("k", ["submit", "append"])):
            with (
                self.subTest(key=key),
                mock.patch("rewardops.bodies.PART_BYTES", 10),
                Web(*answers, look=session()) as web,
                RewardOps(web.url) as client,
            ):
                with self.assertRaises(RewardOpsError) as caught:
                    client.submit([SAMPLE, SAMPLE], idempotency_key=key)
                self.assertEqual(caught.exception.reason, "run_limit")
                self.assertEqual(called_of(web), called)

    def test_a_batch_is_cancelled_if_its_submit_is_cancelled(self):
        gate = threading.Event()

        async def cancelled(web, **submit):
            async with AsyncRewardOps(web.url, http=http) as client:
                submitting = asyncio.ensure_future(client.submit([SAMPLE, SAMPLE], **submit))
                while len(web.requests) < waits_at:
                    await asyncio.sleep(0.01)
                submitting.cancel()
                gate.set()
                with self.assertRaises(asyncio.CancelledError):
                    await submitting

        for http in TRANSPORTS:
            # The submit is cancelled while the first part, or the second one, has no answer.
            for waits_at, answers in ((1, (stored_after(gate), DONE)), (2, (STORED, SILENCE, DONE))):
                for key in (None, "k"):
                    gate.clear()
                    with (
                        self.subTest(http=http, waits_at=waits_at, key=key),
                        mock.patch("rewardops.bodies.PART_BYTES", 10),
                        mock.patch("rewardops.client.GRACE_S", 60),
                        Web(*answers, look=session()) as web,
                    ):
                        asyncio.run(cancelled(web, idempotency_key=key))
                        called = ["submit", "append"][:waits_at] + ["cancel"] * (key is None)
                        self.assertEqual(called_of(web), called)

    def test_a_cancelled_submit_cancels_its_batch_even_if_its_answer_comes_late(self):
        gate = threading.Event()

        async def cancelled(web):
            async with AsyncRewardOps(web.url, http=http) as client:
                submitting = asyncio.ensure_future(client.submit([SAMPLE, SAMPLE]))
                while not web.requests:
                    await asyncio.sleep(0.01)
                submitting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await submitting
                gate.set()
                while len(web.requests) < 2:
                    await asyncio.sleep(0.01)

        for http in TRANSPORTS:
            gate.clear()
            with (
                self.subTest(http=http),
                mock.patch("rewardops.bodies.PART_BYTES", 10),
                mock.patch("rewardops.client.GRACE_S", 0.05),
                Web(stored_after(gate), DONE, look=session()) as web,
            ):
                asyncio.run(asyncio.wait_for(cancelled(web), 30))
                self.assertEqual(called_of(web), ["submit", "cancel"])

    def test_ctrl_c_cancels_the_batch_of_a_submit(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        main = threading.main_thread().ident
        for http in TRANSPORTS:

            def silent():
                signal.pthread_kill(main, signal.SIGINT)
                return SILENCE

            with (
                self.subTest(http=http),
                mock.patch("rewardops.bodies.PART_BYTES", 10),
                mock.patch("rewardops.client.GRACE_S", 60),
                mock.patch("rewardops.background.END_S", 60),
                Web(STORED, silent, DONE, look=session()) as web,
            ):
                with self.assertRaises(KeyboardInterrupt), RewardOps(web.url, http=http) as client:
                    client.submit([SAMPLE, SAMPLE])
                self.assertEqual(called_of(web), ["submit", "append", "cancel"])

    def test_an_argument_that_is_no_whole_number_is_refused(self):
        class NumpyInteger:
            """As numpy's integers, which may not be installed, it is no int."""

            def tolist(self):
                return 3

        def trl_step(step):
            reward = trl.reward_function(web.url, data_source="d")
            state = SimpleNamespace(global_step=step)
            return asyncio.run(reward(["p"], ["c"], trainer_state=state))

        with Web(STORED, look=session()) as web, RewardOps(web.url) as client:
            sent = {
                "step": lambda n: client.submit([SAMPLE], step=n),
                "group_size": lambda n: client.submit([SAMPLE], n),
                "priority": lambda n: client.submit([SAMPLE], priority=n),
                "deadline_ms": lambda n: client.submit([SAMPLE], deadline_ms=n),
            }
            calls = {
                **sent,
                "step of a score": lambda n: client.compute_score("d", "r", step=n),
                "step of metrics": lambda n: client.step_metrics(n),
                "step of samples": lambda n: client.samples(step=n),
                "start_index": lambda n: client.append("b1", [SAMPLE], n),
                "group_size of an append": lambda n: client.submit([], open=True).append(
                    [SAMPLE], group_size=n
                ),
                "chunk_size": lambda n: client.batch("b1").pipeline().get(n),
                "step of verl": lambda n: verl.compute_score_sync("d", "r", step=n, url=web.url),
                "step of verifiers": lambda n: verifiers.rubric_function(
                    web.url, data_source="d", step=n
                ),
                "step of TRL": trl_step,
            }
            for name, call in calls.items():
                for wrong in (3.7, float("nan"), float("inf"), True):
                    with self.subTest(name, wrong=wrong):
                        with self.assertRaises(RewardOpsError) as caught:
                            call(wrong)
                        self.assertEqual(caught.exception.reason, "invalid_input")
                        self.assertIn(f"{name.split()[0]} is {wrong}", str(caught.exception))
            self.assertEqual({*called_of(web)}, {"submit"})
            for name, call in sent.items():
                for whole in (3, 3.0, NumpyInteger()):
                    with self.subTest(name, whole=whole):
                        call(whole)
                        body = json.loads(web.requests[-1][2])
                        found = body[camel_case(name)]
                        self.assertEqual((found, type(found)), (3, int))

    def test_a_full_queue_is_no_outage(self):
        for reason in ("queue_full", "run_queue_full"):
            full = [refusal(429, reason, retryAfterMs=100)] * 5
            with (
                self.subTest(reason=reason),
                Web(session(), *full, refusal(404, "batch_not_found")) as web,
                RewardOps(web.url, outage_s=0.2) as client,
                self.assertRaises(RewardOpsError) as caught,
            ):
                client.summary("b1")
            self.assertEqual(caught.exception.reason, "batch_not_found")

    def test_a_long_wait_for_a_score_is_no_outage_while_the_service_is_reachable(self):
        done = 200, {}, {"result": {"data": SCORED}}
        gateway_timeout = 504, {}, b"<html>Gateway Time-out</html>"
        for http in TRANSPORTS:
            for waits in ([SILENCE] * 3, [gateway_timeout] * 5):
                with (
                    self.subTest(http=http, waits=waits[0]),
                    mock.patch("rewardops.client.SCORE_ANSWER_S", 0.2),
                    mock.patch("rewardops.calls.LONG_S", 0.0),
                    Web(*waits, done, look=session()) as web,
                    RewardOps(web.url, http=http, outage_s=0.1) as client,
                ):
                    self.assertEqual(float(client.compute_score("d", "r")), 1.0)
                    self.assertEqual(len(web.requests), len(waits) + 1)

    def test_a_wait_for_a_score_ends_at_its_timeout(self):
        with (
            mock.patch("rewardops.client.SCORE_ANSWER_S", 0.1),
            mock.patch("rewardops.calls.LONG_S", 0.0),
            Web(SILENCE, look=session()) as web,
        ):
            reason, _ = self.error_of(
                web.url, lambda c: c.compute_score("d", "r", timeout_s=0.5), outage_s=0.1
            )
        self.assertEqual(reason, "timeout")

    def test_calls_that_fail_at_once_are_given_up_although_the_service_is_reachable(self):
        with Web((502, {}, b"<html>Bad Gateway</html>"), look=session()) as web:
            reason, _ = self.error_of(
                web.url, lambda c: c.compute_score("d", "r", timeout_s=30), outage_s=0.2
            )
        self.assertEqual(reason, "unreachable")

    def test_an_internal_error_is_not_retried_for_ever(self):
        with Web(refusal(500, "internal"), look=session()) as web:
            reason, _ = self.error_of(web.url, lambda c: c.summary("b1"))
            self.assertEqual(reason, "internal")

    def test_a_call_ends_at_its_timeout(self):
        with Web(refusal(503, "busy", retryAfterMs=100), look=session()) as web:
            reason, text = self.error_of(web.url, lambda c: c.summary("b1", timeout_s=0.3))
            self.assertEqual(reason, "timeout")
            self.assertIn("batches.get", text)

    def test_an_outage_is_logged_once_and_then_given_up(self):
        for http in TRANSPORTS:
            web = Web(session())
            with RewardOps(web.url, http=http, outage_s=1.5) as client:
                client.check()
                web.__exit__()
                with self.assertLogs("rewardops", logging.WARNING) as logged:

                    async def many():
                        work = (client._async.summary(f"b{n}") for n in range(20))
                        return await asyncio.gather(*work, return_exceptions=True)

                    errors = client._wait(many())
                self.assertEqual({getattr(e, "reason", str(e)) for e in errors}, {"unreachable"})
                self.assertEqual(len(logged.output), 1)
                self.assertIn("Retrying for up to 1.5 s", logged.output[0])

    def test_the_answer_of_an_overload_ends_an_outage(self):
        away, busy = (
            refusal(503, reason, retryAfterMs=10) for reason in ("database_unavailable", "busy")
        )
        done = 200, {}, {"result": {"data": {}}}
        for http in TRANSPORTS:
            with (
                self.subTest(http=http),
                Web(away, away, busy, away, done, look=session()) as web,
                RewardOps(web.url, http=http) as client,
                self.assertLogs("rewardops", logging.WARNING) as logged,
            ):
                client._wait(client._async.calls.call("batches.get", {"batchId": "b1"}))
            self.assertEqual([("Retrying" in line) for line in logged.output], [True, False] * 2)

    def test_a_closed_client_raises(self):
        with Web(session()) as web:
            client = RewardOps(web.url)
            client.check()
            client.close()
            with self.assertRaises(RewardOpsError) as caught:
                client.summary("b1")
        self.assertEqual(caught.exception.reason, "closed")


if __name__ == "__main__":
    unittest.main()
