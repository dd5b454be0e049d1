"""Trace files over HTTP: sent, listed, fetched back, and refused without a trace of them."""
import gzip
import io
import json
import os
import signal
import socket
import threading
import unittest
import zipfile

from harness import TrainglassTest, get, get_json, request, upload, wait_for


def make_trace(steps=4):
    """A file as PyTorch writes it: so many steps of 10 ms with two ops in each."""
    def event(category, name, start_us, us):
        return {"ph": "X", "cat": category, "name": name, "pid": 41, "tid": 41,
                "ts": start_us, "dur": us, "args": {}}
    events = []
    for step in range(steps):
        begin = 1000000 + 10000 * step
        events += [event("user_annotation", f"ProfilerStep#{step}", begin, 9900),
                   event("cpu_op", "aten::linear", begin + 100, 5000),
                   event("cpu_op", "aten::addmm", begin + 200, 4000)]
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


TRACE = make_trace()

# A step that waits for data, computes, copies, and waits for its device.
STEP_WITH_WORK = [
    {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": 7, "ts": start, "dur": length,
     "args": arguments}
    for category, name, pid, start, length, arguments in (
        ("user_annotation", "ProfilerStep#1", 41, 0, 1000, {}),
        ("user_annotation", "enumerate(DataLoader)#_It.__next__", 41, 10, 100, {}),
        ("cpu_op", "aten::mm", 41, 200, 100, {}),
        ("cuda_runtime", "cudaLaunchKernel", 41, 210, 10, {"correlation": 1}),
        ("cuda_runtime", "cudaMemcpyAsync", 41, 230, 10, {"correlation": 2}),
        ("cuda_runtime", "cudaStreamSynchronize", 41, 400, 90, {"correlation": 3}),
        ("kernel", "ampere_sgemm", 0, 300, 50, {"correlation": 1, "device": 0, "stream": 7}),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 0, 360, 50,
         {"correlation": 2, "device": 0, "stream": 7, "bytes": 8}))]
TOKEN = "0123456789abcdef0123456789abcdef"
MIB = 2 ** 20


def long_to_read(size=32 * MIB):
    """A gzip that is a hundred times as much text: seconds of reading, of 32 MB."""
    line = b'{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":1,"dur":1},\n'
    piece = b"".join(line % (os.urandom(8).hex().encode() if number % 16 == 0 else b"a")
                     for number in range(16384))
    piece = gzip.compress(piece, 9)
    return (gzip.compress(b'{"traceEvents":[\n') + piece * (size // len(piece)) +
            gzip.compress(b'{"ph":"M"}]}'))


class Traces(TrainglassTest):
    def upload(self, *data, **headers):
        return upload(self.port, *data, **headers)

    def remove(self, identity, **headers):
        """(status, document) of a file that is to go."""
        status, _, body = request(self.port, f"/api/traces/{identity}", "DELETE", None, 30,
                                  **headers)
        return status, json.loads(body)

    def threads(self, server):
        return len(os.listdir(f"/proc/{server.pid}/task"))

    def begin(self, size, part=b""):
        """A connection that has sent the head of a file of `size` bytes, and `part` of it."""
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.addCleanup(peer.close)
        peer.sendall(b"POST /api/traces?name=cut.json HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Type: application/octet-stream\r\n"
                     b"Content-Length: %d\r\n\r\n" % size + part)
        return peer

    def listed(self):
        return get_json(self.port, "/api/traces")["traces"]

    def sessions(self):
        return [one["id"] for one in get_json(self.port, "/api/status")["sessions"]]

    def held(self, server):
        """Descriptors of the server in its state folder that have no name."""
        found = []
        for entry in os.scandir(f"/proc/{server.pid}/fd"):
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue
            if target.startswith(str(self.state)) and target.endswith("(deleted)"):
                found.append(target)
        return found

    def left(self):
        return [path for path in self.state.rglob("*") if "upload" in path.name]


class Upload(Traces):
    def setUp(self):
        super().setUp()
        self.server = self.serve("--upload-max", "1MiB")

    def test_an_uploaded_file_is_a_session_and_comes_back_byte_for_byte(self):
        self.assertEqual(self.listed(), [])
        for name, data in (("run.json", TRACE), ("run.json.gz", gzip.compress(TRACE))):
            status, told = self.upload(data, name)
            self.assertEqual(status, 201, told)
            self.assertEqual((told["name"], told["bytes"]), (name, len(data)))
            self.assertEqual((told["events"], told["skipped"]), (12, 0))
            row = self.listed()[0]
            self.assertEqual({key: row[key] for key in told}, told)
            self.assertTrue(row["uploaded"])
            answer = get_json(self.port, f"/api/steps?session={told['session']}")
            self.assertEqual((row["steps"], len(answer["steps"])), (4, 4))
            self.assertEqual(get(self.port, f"/api/traces/{told['id']}"), (200, data))
        names = {one["name"] for one in get_json(self.port, "/api/status")["sessions"]}
        self.assertEqual(names, {"run.json", "run.json.gz"})

    def test_a_flame_graph_has_what_its_description_names_and_nothing_else(self):
        kinds = {"string": str, "number": (int, float), "boolean": bool, "array": list,
                 "object": dict, "null": type(None)}

        def is_one(value, rule):
            types = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
            self.assertTrue(any(isinstance(value, kinds[one]) for one in types), (value, rule))
            self.assertIn(value, rule.get("enum", (value,)))

        description = get_json(self.port, "/openapi.json")["components"]["schemas"]["Flame"]
        rules = description["properties"]
        columns = rules["columns"]["items"]["enum"]
        seen = set()
        _, told = self.upload(json.dumps({"traceEvents": STEP_WITH_WORK}).encode())
        for metric in ("cpu", "device"):
            answer = get_json(self.port,
                              f"/api/trace?session={told['session']}&window=run&flame={metric}")
            self.assertEqual(set(description["required"]) - set(answer), set())
            self.assertEqual(set(answer) - set(rules), set())
            for key, value in answer.items():
                is_one(value, rules[key])
            self.assertEqual(answer["columns"], columns)
            for row in answer["nodes"]:
                self.assertEqual(len(row), len(columns))
                for value, rule in zip(row, rules["nodes"]["items"]["prefixItems"]):
                    is_one(value, rule)
                seen.add((row[columns.index("kind")], row[columns.index("category")]))
        self.assertEqual(seen, {("thread", None), ("range", None), ("range", "data"),
                                ("op", None), ("call", None), ("call", "sync"),
                                ("work", "compute"), ("work", "copy")})

    def test_two_files_of_one_name_are_two_sessions(self):
        first, second = self.upload(TRACE)[1], self.upload(TRACE)[1]
        self.assertNotEqual(first["session"], second["session"])
        self.assertEqual([row["id"] for row in self.listed()], [second["id"], first["id"]])

    def test_a_path_in_the_name_is_left_out(self):
        for name, kept in (("../../etc/passwd", "passwd"), ("C:%5Ctmp%5Ca%20b.json", "a_b.json"),
                           ("..", "trace.json"), ("a%22%0d%0aX-Evil:%201", "a___X-Evil__1"),
                           ("", "trace.json"), (".hidden", "hidden"), ("x" * 300, "x" * 63)):
            status, told = self.upload(TRACE, name)
            self.assertEqual((status, told.get("name")), (201, kept), name)
        self.assertEqual(self.left(), [])

    def test_what_is_no_trace_is_refused_with_the_readers_sentence_and_leaves_nothing(self):
        for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(5000), b"no trace at all", b"[]",
                     b"PK\x03\x04" + bytes(100), gzip.compress(b"hello")):
            status, told = self.upload(data)
            self.assertEqual(status, 422, (data[:10], told))
            self.assertGreater(len(told["error"]), 5)
            self.assertNotRegex(told["error"], "^is ")  # of what?
        self.assertEqual((self.listed(), self.sessions(), self.left()), ([], [], []))
        self.assertEqual(self.held(self.server), [])

    def test_a_type_that_a_form_can_send_is_refused(self):
        for kind in ("text/plain", "multipart/form-data; boundary=x"):
            self.assertEqual(self.upload(TRACE, kind=kind)[0], 415)

    def test_another_page_may_send_nothing(self):
        self.assertEqual(self.upload(TRACE, Origin="https://evil.example")[0], 403)
        self.assertEqual(self.sessions(), [])

    def test_a_file_over_the_quota_is_refused_by_its_head(self):
        self.assertIn(b" 413 ", self.begin(MIB + 1).recv(4096)[:20])
        self.assertEqual(self.sessions(), [])

    def test_a_cut_connection_leaves_nothing_behind(self):
        for part in (b"", TRACE[:len(TRACE) // 2], TRACE):
            peer = self.begin(len(TRACE) + 1, part)
            wait_for(lambda: self.held(self.server), "the file to be open")
            peer.close()
            wait_for(lambda: not self.held(self.server), "the file to be closed")
        self.assertEqual((self.listed(), self.sessions(), self.left()), ([], [], []))

    def being_read(self, data):
        """The connection of a file that the server, a new one with room for it, has begun to
        read."""
        self.end(self.server)
        self.server = self.serve("--upload-max", "64MiB")
        self.idle_threads = self.threads(self.server)
        peer = self.begin(len(data), data)
        wait_for(lambda: self.threads(self.server) > self.idle_threads, "the reader")
        return peer

    def assert_read_no_further(self, peer):
        peer.close()
        wait_for(lambda: not self.held(self.server)
                 and self.threads(self.server) == self.idle_threads, "its end")
        self.assertEqual((self.listed(), self.sessions()), ([], []))

    def test_an_upload_whose_client_is_gone_is_read_no_further(self):
        peer = self.being_read(long_to_read())
        self.assert_read_no_further(peer)

    def test_a_client_that_has_sent_all_and_closed_its_end_gets_its_answer(self):
        data = long_to_read(MIB // 2)
        peer = self.begin(len(data), data)
        peer.shutdown(socket.SHUT_WR)
        answer = peer.makefile("rb").read()
        self.assertEqual(answer.count(b" 201 Created\r\n"), 1, answer[:200])
        self.assertEqual(len(self.listed()), 1)

    def test_a_client_that_closed_its_end_and_dies_later_is_read_for_no_further(self):
        peer = self.being_read(long_to_read(60 * MIB))  # it is asked again after 2 s
        peer.shutdown(socket.SHUT_WR)
        self.assertIn(b" 100 ", peer.recv(4096))  # nothing unread is left to reset it
        self.assert_read_no_further(peer)

    def test_a_client_that_falls_silent_or_trickles_is_ended(self):
        silent, trickle = self.begin(100), self.begin(MIB)
        trickle.settimeout(0.2)
        answer = b""
        for _ in range(150):
            try:
                trickle.sendall(b" ")
                answer = trickle.recv(4096)
                break
            except socket.timeout:
                continue
        self.assertIn(b" 408 ", answer[:20])
        self.assertIn(b" 408 ", silent.recv(4096)[:20])
        self.assertEqual(self.sessions(), [])

    def test_an_upload_that_waits_blocks_nobody_and_a_third_is_told_to_come_again(self):
        waiting = [self.begin(100), self.begin(100)]
        wait_for(lambda: len(self.held(self.server)) == 2, "both to have begun")
        self.assertEqual(self.upload(TRACE)[0], 503)
        self.assertEqual(get(self.port, "/api/status", timeout=2)[0], 200)
        for peer in waiting:
            peer.close()
        wait_for(lambda: self.upload(TRACE)[0] == 201, "a place to be free")

    def test_the_oldest_goes_when_the_quota_is_used_up(self):
        padded = TRACE + b" " * (400 * 1024)
        ids = [self.upload(padded)[1]["id"] for _ in range(3)]
        self.assertEqual([row["id"] for row in self.listed()], [ids[2], ids[1]])
        self.assertNotIn(ids[0], self.sessions())
        self.assertEqual(get(self.port, f"/api/traces/{ids[0]}")[0], 404)
        self.assertEqual(len(self.held(self.server)), 2)

    def test_traces_of_one_rank_in_an_archive_are_shown_apart_and_go_together(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/rank0.json", make_trace(4))
            archive.writestr("b/rank0.json", make_trace(6))
        told = [self.upload(packed.getvalue(), "twins.zip")[1] for _ in range(2)]
        steps = [one["steps"] for one in get_json(self.port, "/api/status")["sessions"]]
        self.assertEqual(sorted(steps), [4, 4, 6, 6])
        for left in (2, 0):
            self.assertEqual(self.remove(told.pop()["id"])[0], 200)
            self.assertEqual(len(self.sessions()), left)

    def test_files_sent_at_the_same_time_are_all_read(self):
        told = []
        threads = [threading.Thread(target=lambda: told.append(self.upload(TRACE)))
                   for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _ in told], [201, 201])
        self.assertEqual(len(self.sessions()), 2)

    def test_a_length_is_needed(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.addCleanup(peer.close)
        peer.sendall(b"POST /api/traces HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Type: application/octet-stream\r\n\r\n")
        self.assertIn(b" 411 ", peer.recv(4096)[:20])

    def test_a_client_that_waits_to_be_told_is_told(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as peer:
            peer.sendall(b"POST /api/traces HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Type: application/gzip\r\nExpect: 100-continue\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(TRACE))
            self.assertTrue(peer.recv(4096).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            peer.sendall(TRACE)
            self.assertIn(b" 201 ", peer.recv(4096)[:20])


class Removal(Traces):
    def setUp(self):
        super().setUp()
        self.server = self.serve("--upload-max", "64MiB")

    def test_a_removed_file_is_gone_with_its_session_and_others_stay(self):
        first, second = self.upload(TRACE, "a.json")[1], self.upload(TRACE, "b.json")[1]
        steps = f"/api/steps?session={first['session']}"
        self.assertEqual(len(get_json(self.port, steps)["steps"]), 4)  # a cache may keep it
        self.assertEqual(self.remove(first["id"]), (200, {
            "id": first["id"], "name": "a.json", "freed_bytes": len(TRACE)}))
        self.assertEqual([row["id"] for row in self.listed()], [second["id"]])
        self.assertEqual(self.sessions(), [second["session"]])
        self.assertEqual(get(self.port, steps)[0], 404)
        self.assertEqual(get(self.port, f"/api/traces/{first['id']}")[0], 404)
        self.assertEqual(self.remove(first["id"])[0], 404)
        self.assertEqual(len(self.held(self.server)), 1)
        self.assertEqual(get(self.port, f"/api/traces/{second['id']}"), (200, TRACE))

    def test_the_room_of_a_removed_file_is_free_for_the_next(self):
        padded = TRACE + b" " * (25 * MIB)
        ids = [self.upload(padded)[1]["id"] for _ in range(2)]
        self.assertEqual(self.remove(ids[1])[0], 200)
        third = self.upload(padded)[1]["id"]
        self.assertEqual([row["id"] for row in self.listed()], [third, ids[0]])

    def test_a_file_that_is_being_downloaded_stays_until_that_is_over(self):
        data = TRACE + b" " * (32 * MIB - len(TRACE))
        told = self.upload(data)[1]
        # More than a socket takes: the download stands until it is read.
        peer = socket.socket()
        self.addCleanup(peer.close)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", self.port))
        peer.sendall(b"GET /api/traces/%s HTTP/1.1\r\nHost: localhost\r\n"
                     b"Connection: close\r\n\r\n" % told["id"].encode())
        got = [peer.recv(4096)]
        status, refused = self.remove(told["id"])
        self.assertEqual(status, 409)
        self.assertIn("is being downloaded", refused["error"])
        self.assertEqual([row["id"] for row in self.listed()], [told["id"]])
        while got[-1]:
            got.append(peer.recv(65536))
        self.assertIn(TRACE[:3000], b"".join(got))
        self.assertGreaterEqual(sum(map(len, got)), len(data))
        wait_for(lambda: self.remove(told["id"])[0] == 200, "the download to be over")
        self.assertEqual(self.held(self.server), [])

    def test_another_page_may_remove_nothing(self):
        told = self.upload(TRACE)[1]
        self.assertEqual(self.remove(told["id"], Origin="https://evil.example")[0], 403)
        self.assertEqual([row["id"] for row in self.listed()], [told["id"]])
        self.assertEqual(self.remove(told["id"], Origin="http://localhost")[0], 403)
        own = f"http://127.0.0.1:{self.port}"
        self.assertEqual(self.remove(told["id"], Origin=own)[0], 200)

    def test_what_is_no_file_is_not_found(self):
        for identity in ("t-000000000000", "x"):
            self.assertEqual(self.remove(identity)[0], 404)


class Large(Traces):
    def test_a_body_is_never_held_in_memory_whole(self):
        server = self.serve()
        self.upload(TRACE)
        before = self.peak(server)
        status, told = self.upload(TRACE[:-1] + b" " * (256 * MIB) + TRACE[-1:])
        self.assertEqual(status, 201, told)
        self.assertEqual(told["bytes"], len(TRACE) + 256 * MIB)
        self.assertLess(self.peak(server) - before, 64 * MIB)

    def peak(self, server):
        with open(f"/proc/{server.pid}/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


class Served(Traces):
    def test_a_server_can_be_stopped_while_it_reads_its_files(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start("serve", pipe)
            with open(pipe, "wb") as writer:  # it reads
                writer.write(b'{"traceEvents": [')
                writer.flush()
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=30), 0)

    def test_a_file_of_the_command_line_is_listed_and_fetched(self):
        path = self.write(TRACE, "served.json")
        self.serve(path)
        (row,) = self.listed()
        self.assertEqual((row["name"], row["bytes"], row["uploaded"]),
                         ("served.json", len(TRACE), False))
        self.assertEqual(get(self.port, f"/api/traces/{row['id']}"), (200, TRACE))
        path.unlink()
        self.assertEqual(get(self.port, f"/api/traces/{row['id']}")[0], 404)

    def test_two_files_of_one_rank_in_a_folder_are_two_sessions(self):
        for name in ("cycle-0.json", "cycle-1.json"):
            document = {**json.loads(TRACE), "distributedInfo": {
                "backend": "gloo", "rank": 0, "world_size": 1}}
            self.write(json.dumps(document), f"ranks/{name}")
        self.serve(self.folder / "ranks")
        rows = self.listed()
        self.assertEqual({row["name"] for row in rows}, {"cycle-0.json", "cycle-1.json"})
        self.assertEqual({row["session"] for row in rows}, set(self.sessions()))
        self.assertEqual(len(self.sessions()), 2)

    def test_a_file_of_the_command_line_cannot_be_removed_and_says_why(self):
        path = self.write(TRACE, "served.json")
        self.serve(path)
        (row,) = self.listed()
        status, refused = self.remove(row["id"])
        self.assertEqual(status, 409)
        self.assertIn("served.json was given on the command line", refused["error"])
        self.assertEqual(path.read_bytes(), TRACE)
        self.assertEqual(self.listed(), [row])


class Strangers(Traces):
    def test_without_the_token_nothing_is_taken_or_given(self):
        self.serve("--bind", "0.0.0.0", "--token", TOKEN)
        self.assertEqual(self.upload(TRACE)[0], 401)
        status, told = self.upload(TRACE, Authorization=f"Bearer {TOKEN}")
        self.assertEqual(status, 201)
        self.assertEqual(get(self.port, f"/api/traces/{told['id']}")[0], 401)
        self.assertEqual(self.remove(told["id"])[0], 401)
        self.assertEqual(self.remove(told["id"], Authorization=f"Bearer {TOKEN}")[0], 200)

    @unittest.skipIf(os.geteuid() != 0, "only root may act as another user")
    def test_another_user_may_send_nothing(self):
        self.serve()
        told = self.upload(TRACE)[1]
        child = os.fork()
        if child == 0:
            try:
                os.setuid(65534)
                refused = self.upload(TRACE)[0] == 403 and self.remove(told["id"])[0] == 403
                os._exit(0 if refused else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main()
