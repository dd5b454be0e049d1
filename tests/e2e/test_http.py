"""The server against whoever may knock: every row of the abuse table, over real sockets."""
import contextlib
import http.client
import json
import os
import random
import re
import socket
import time
import unittest

from harness import ROOT, TrainglassTest, wait_for

TOKEN = "0123456789abcdef0123456789abcdef"
NOBODY = 65534
HEAD_TIMEOUT_S = 5  # of a connection, where threads are free


class HttpTest(TrainglassTest):
    def raw(self, data, timeout=15, shutdown=False):
        """(status, head, body) of whatever is sent; status 0 when it only closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as peer:
            try:
                peer.sendall(data)
                if shutdown:
                    peer.shutdown(socket.SHUT_WR)
                answer = b""
                while True:
                    part = peer.recv(65536)
                    if not part:
                        break
                    answer += part
                    head, found, body = answer.partition(b"\r\n\r\n")
                    length = re.search(rb"(?i)content-length: (\d+)", head)
                    if found and length and len(body) >= int(length[1]):
                        break
            except (ConnectionResetError, BrokenPipeError):
                pass
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0
        return status, head.decode("latin-1"), body

    def ask(self, path="/api/status", host="localhost", method="GET", headers=(), body=b""):
        lines = [f"{method} {path} HTTP/1.1"]
        if host is not None:
            lines.append(f"Host: {host}")
        lines += headers
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def post(self, *headers, path="/api/level", body=b'{"level": "auto"}',
             content_type="application/json"):
        return self.ask(path, method="POST", body=body,
                        headers=[f"Content-Type: {content_type}", *headers])

    def assert_alive(self):
        self.assertEqual(self.ask("/healthz")[0], 200)


class AbuseTest(HttpTest):
    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def tearDown(self):
        self.assert_alive()
        self.assertIsNone(self.server.poll(), "the server lives on")

    def test_a_missing_doubled_or_malformed_host_is_a_bad_request(self):
        self.assertEqual(self.ask(host=None)[0], 400)
        self.assertEqual(self.ask(headers=["Host: localhost"])[0], 400)
        for host in ("a b", "a\"b", "[::1", "localhost:99999", "localhost:", "<script>"):
            self.assertEqual(self.ask(host=host)[0], 400, host)

    def test_names_that_are_not_ours_are_misdirected(self):
        for host in ("evil.example", "localhost.evil.com", "127.0.0.1.nip.io"):
            self.assertEqual(self.ask(host=host)[0], 421, host)

    def test_localhost_and_addresses_are_ours(self):
        for host in ("localhost:8080", "[::1]:8080", "10.0.0.5:8080"):
            self.assertEqual(self.ask(host=host)[0], 200, host)

    def test_a_post_of_another_page_is_forbidden(self):
        for origin in ("https://evil.example", "null", "http://localhost.evil.com",
                       "http://localhost:1"):
            status, head, _ = self.post(f"Origin: {origin}")
            self.assertEqual(status, 403, origin)
            self.assertNotIn("access-control", head.lower())

    def test_a_post_without_origin_or_of_our_page_is_obeyed(self):
        # Nothing runs: obeyed means that the handler answered.
        self.assertIn(self.post()[0], (200, 404, 409))
        self.assertIn(self.post("Origin: http://localhost")[0], (200, 404, 409))

    def test_a_post_that_is_not_json_is_refused(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded",
                     "multipart/form-data; boundary=x", "application/jsonp"):
            self.assertEqual(self.post(content_type=kind)[0], 415, kind)

    def test_a_preflight_gets_no_permission(self):
        status, head, _ = self.ask("/api/level", method="OPTIONS", headers=[
            "Origin: https://evil.example", "Access-Control-Request-Method: POST"])
        self.assertEqual(status, 405)
        self.assertNotIn("access-control", head.lower())

    def test_a_wrong_method_learns_the_right_ones(self):
        for method, path, allow in (("POST", "/api/ops", "GET, HEAD"),
                                    ("GET", "/api/level", "POST"),
                                    ("DELETE", "/api/status", "GET, HEAD"),
                                    ("PUT", "/api/traces", "GET, HEAD, POST")):
            status, head, _ = self.ask(path, method=method)
            self.assertEqual(status, 405, (method, path))
            self.assertIn(f"Allow: {allow}\r\n", head)

    def test_addresses_are_compared_byte_for_byte(self):
        for path in ("/apixyz", "/api/..%2f", "/%2e%2e/etc/passwd", "/%00", "/api/ops%00",
                     "//", "//api/ops", "/;", "/api/ops;x", "/../etc/passwd", "/api/ops/",
                     "/API/ops", "/api/%6fps", "/.", "/js/", "/js/..", "/api/traces/../x"):
            self.assertEqual(self.ask(path)[0], 404, path)

    def test_line_breaks_in_a_path_never_reach_a_head(self):
        status, head, _ = self.ask("/api/x%0d%0aX-Evil:%201")
        self.assertEqual(status, 404)
        self.assertNotIn("X-Evil", head)

    def test_lengths_that_cannot_be_are_refused_at_once(self):
        def post(*lengths):
            return self.raw(b"POST /api/level HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Type: application/json\r\n"
                            + b"".join(line + b"\r\n" for line in lengths) + b"\r\n")[0]
        began = time.monotonic()
        self.assertEqual(post(b"Content-Length: 100000"), 413)
        self.assertEqual(post(b"Content-Length: 100000000000000000000"), 413)
        self.assertIn(post(b"Content-Length: -1"), (400, 411))
        self.assertEqual(post(b"Content-Length: 2", b"Content-Length: 2"), 400)
        self.assertEqual(post(b"Content-Length: 2", b"Transfer-Encoding: chunked"), 400)
        self.assertEqual(post(b"Transfer-Encoding: chunked"), 400)
        self.assertLess(time.monotonic() - began, 4, "none of them waited for a body")

    def test_heads_without_end_are_bad_requests(self):
        for request in (b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000
                        + b"\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\n"
                        + b"".join(b"X%d: a\r\n" % i for i in range(100)) + b"\r\n"):
            self.assertIn(self.raw(request)[0], (0, 400, 413, 414, 431))

    def test_slow_heads_and_bodies_are_ended(self):
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            self.assertIn(slow.recv(4096)[:12], (b"", b"HTTP/1.1 400", b"HTTP/1.1 408"))
        self.assertLess(time.monotonic() - begun, 10)
        status, _, _ = self.raw(b"POST /api/level HTTP/1.1\r\nHost: localhost\r\n"
                                b"Content-Type: application/json\r\n"
                                b"Content-Length: 100\r\n\r\n{", timeout=20)
        self.assertEqual(status, 408)

    def test_half_open_connections_keep_nobody_out(self):
        for _ in range(150):
            half = socket.create_connection(("127.0.0.1", self.port), timeout=20)
            self.addCleanup(half.close)
            half.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        begun = time.monotonic()
        self.assert_alive()
        self.assertLess(time.monotonic() - begun, HEAD_TIMEOUT_S, "waited for none of them")

    def test_a_body_that_trickles_is_ended(self):
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as slow:
            slow.sendall(b"POST /api/level HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
            slow.settimeout(0.2)
            answer = b""
            while time.monotonic() - begun < 15 and not answer:
                slow.sendall(b" ")
                try:
                    answer = slow.recv(4096)
                except socket.timeout:
                    continue
        self.assertTrue(answer.startswith(b"HTTP/1.1 408"), answer[:60])
        self.assertLess(time.monotonic() - begun, 10)

    def test_bodies_that_are_no_object_are_bad_requests(self):
        for body in (b"[]", b"1", b"{", b'{"level": "auto"} x', b"\xff\xfe", b'{"a":' * 5000,
                     b'{"level": "auto"}\0', b'""', b"nul"):
            self.assertEqual(self.post(body=body)[0], 400, body[:20])
        for body in (b'{"level": "loud"}', b'{"budget_pct": -1}', b'{"budget_pct": 101}',
                     b'{"level": "auto", "rank": 1.5}', b'{"budget_pct": "1"}', b'{"volume": 3}', b"{}", b'{"record_steps": 0}'):
            status, _, answer = self.post(body=body)
            self.assertEqual(status, 400, body)
            self.assertIn("field", json.loads(answer))

    def test_parameters_out_of_range_are_named(self):
        for query, field in (("k=-1", "k"), ("k=1e9", "k"), ("k=abc", "k"), ("k=1001", "k"),
                             ("limit=5", "limit"), ("sort=x", "sort"), ("window=5", "window"),
                             ("device=tpu", "device"), ("rank=-1", "rank"), ("k=1&k=2", "k"),
                             ("window=5-1", "window"), ("session=" + "a" * 100, "session")):
            status, _, body = self.ask(f"/api/ops?{query}")
            self.assertEqual((status, json.loads(body)["field"]), (400, field), query)
        self.assertEqual(self.ask("/api/steps?points=10001")[0], 400)
        self.assertEqual(self.ask("/api/trace?last=10s&step=3")[0], 400)
        self.assertEqual(self.ask("/api/stream?topics=steps,x")[0], 400)

    def test_noise_and_a_tls_greeting_end_the_connection(self):
        noise = random.Random(7)
        for size in (1, 100, 10000):
            status, _, _ = self.raw(noise.randbytes(size) + b"\r\n\r\n", shutdown=True)
            self.assertIn(status, (0, 400, 405, 413, 505))
        hello = bytes.fromhex("16030100d6010000d20303") + noise.randbytes(200)
        self.assertIn(self.raw(hello, shutdown=True)[0], (0, 400))
        for line in (b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
                     b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            self.assertNotEqual(self.raw(line, shutdown=True)[0], 200, line)

    def test_every_answer_carries_the_same_guards(self):
        for path in ("/", "/api/status", "/nothing", "/healthz", "/metrics"):
            head = self.ask(path)[1]
            for guard in ("X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
                          "Content-Security-Policy: default-src 'none'",
                          "frame-ancestors 'none'", "Cache-Control: no-"):
                self.assertIn(guard, head, path)

    def test_the_page_is_packed_where_that_is_wanted_and_asked_for_once(self):
        status, head, plain = self.ask("/")
        self.assertEqual(status, 200)
        self.assertIn("text/html", head)
        _, packed_head, packed = self.ask("/", headers=["Accept-Encoding: gzip"])
        self.assertIn("Content-Encoding: gzip", packed_head)
        self.assertLess(len(packed), len(plain))
        etag = re.search(r'ETag: ("[^"]+")', head)[1]
        status, _, body = self.ask("/", headers=[f"If-None-Match: {etag}"])
        self.assertEqual((status, body), (304, b""))

    def test_a_head_request_has_no_body(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        for path in ("/", "/api/status", "/api/trace", "/api/stream", "/metrics"):
            client.request("HEAD", path)
            answer = client.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, b""), path)
            client.close()

    def test_many_requests_fit_on_one_connection(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        for _ in range(50):
            client.request("GET", "/api/steps")
            answer = client.getresponse()
            self.assertEqual(answer.status, 200)
            json.loads(answer.read())
        client.close()

    def test_another_user_of_the_machine_sees_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("only root can ask as somebody else")
        def ask_as_nobody(path):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                    peer = socket.socket()
                    peer.settimeout(10)
                    peer.connect(("127.0.0.1", self.port))
                    peer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                    os.write(writer, peer.recv(4096).split()[1])
                os._exit(0)
            os.close(writer)
            os.waitpid(child, 0)
            with os.fdopen(reader) as answer:
                return answer.read()
        self.assertEqual(ask_as_nobody("/api/status"), "403")
        self.assertEqual(ask_as_nobody("/healthz"), "200")


class StreamLimitTest(HttpTest):
    def test_one_viewer_too_many_is_told_to_come_back_and_the_rest_goes_on(self):
        self.serve("--stream-clients", "2")
        viewers = []
        for _ in range(2):
            viewer = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            self.addCleanup(viewer.close)
            viewer.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(viewer.recv(4096).startswith(b"HTTP/1.1 200"))
            viewers.append(viewer)
        status, head, _ = self.ask("/api/stream")
        self.assertEqual(status, 503)
        self.assertIn("Retry-After: ", head)
        self.assertEqual(self.ask("/api/status")[0], 200)
        viewers[0].close()
        wait_for(lambda: self.stream_opens(), "the seat of the viewer who left")

    def stream_opens(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as viewer:
            viewer.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return viewer.recv(4096).startswith(b"HTTP/1.1 200")


class TokenTest(HttpTest):
    def setUp(self):
        super().setUp()
        self.serve("--bind", "0.0.0.0", env={"TRAINGLASS_TOKEN": TOKEN})

    def test_the_token_opens_the_door_and_leaves_the_address(self):
        self.assertEqual(self.ask("/")[0], 401)
        self.assertEqual(self.ask(f"/?token={TOKEN[:-1]}x")[0], 401)
        status, head, _ = self.ask(f"/?token={TOKEN}&theme=dark")
        self.assertEqual(status, 302)
        self.assertIn("Location: /?theme=dark\r\n", head)
        cookie = re.search(r"Set-Cookie: (\S+); HttpOnly; SameSite=Strict", head)[1]
        self.assertEqual(self.ask("/", headers=[f"Cookie: {cookie}"])[0], 200)
        self.assertEqual(self.ask("/api/status", headers=[f"Cookie: {cookie}"])[0], 200)
        self.assertEqual(self.ask("/", headers=["Cookie: " + cookie.replace("0", "1")])[0], 401)

    def test_a_program_sends_the_token_in_a_header(self):
        for token, expected in ((TOKEN, 200), (TOKEN + "0", 401), ("", 401)):
            self.assertEqual(self.ask(headers=[f"Authorization: Bearer {token}"])[0], expected)

    def test_liveness_needs_no_token_and_says_nothing_more(self):
        status, _, body = self.ask("/healthz")
        self.assertEqual(status, 200)
        self.assertNotIn(TOKEN.encode(), body)


class ProxyTest(HttpTest):
    def test_a_base_path_and_the_names_of_a_proxy_are_understood(self):
        self.serve("--base-path", "/proxy/8080", "--allow-host", "hub.lab",
                   "--allow-frame", "https://hub.lab")
        for path in ("/proxy/8080/", "/", "/proxy/8080/api/status", "/api/status"):
            status, head, _ = self.ask(path, host="hub.lab")
            self.assertEqual(status, 200, path)
            self.assertIn("frame-ancestors https://hub.lab", head)
        self.assertEqual(self.ask("/proxy/80801/", host="hub.lab")[0], 404)
        self.assertEqual(self.ask("/", host="hub.lab.evil.com")[0], 421)


class DescriptionTest(HttpTest):
    """/openapi.json is what is served, no more and no less."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.description = json.loads(self.ask("/openapi.json")[2])

    def test_every_route_is_described_and_nothing_else(self):
        table = (ROOT / "server" / "routes.c").read_text()
        served = set()
        for methods, path in re.findall(r'\{HTTP_(\w+), "([^"]+)"', table):
            if path not in ("/", "/*"):
                served.add((methods.lower(), path.replace("*", "{id}")))
        described = {(method, path) for path, methods in self.description["paths"].items()
                     for method in methods}
        self.assertEqual(described, served)

    def test_every_described_parameter_is_taken_and_every_bound_is_true(self):
        for path, methods in self.description["paths"].items():
            for parameter in methods.get("get", {}).get("parameters", ()):
                schema, name = parameter["schema"], parameter["name"]
                if parameter["in"] != "query" or path == "/api/stream":
                    continue
                for bound, step in (("minimum", -1), ("maximum", 1)):
                    if bound in schema:
                        self.assertEqual(self.field(path, name, schema[bound] + step), name)
                        self.assertIsNone(self.field(path, name, schema[bound]))
                for value in schema.get("enum", ()):
                    self.assertIsNone(self.field(path, name, value), (path, name, value))
                if "enum" in schema:
                    self.assertEqual(self.field(path, name, "surely-not"), name)

    def field(self, path, name, value):
        """The parameter that a 400 is about; None for any other answer."""
        status, _, body = self.ask(f"{path}?{name}={value}")
        return json.loads(body)["field"] if status == 400 else None

    def test_every_described_member_is_answered(self):
        kinds = {"string": str, "number": (int, float), "boolean": bool, "array": list,
                 "object": dict, "null": type(None)}
        for path, methods in self.description["paths"].items():
            content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            if not schema.get("properties"):
                continue
            answer = json.loads(self.ask(path)[2])
            self.assertLessEqual(set(schema["required"]), set(answer), path)
            for key, rule in schema["properties"].items():
                if key not in answer:
                    continue
                allowed = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
                self.assertTrue(any(isinstance(answer[key], kinds[k]) for k in allowed),
                                (path, key, answer[key]))


if __name__ == "__main__":
    unittest.main()
