"""Several traces in one file: archives, joined documents, processes side by side; and the ranks
that only names tell."""
import gzip
import io
import json
import os
import subprocess
import tarfile
import zipfile

from harness import PROGRAM, TrainglassTest, get_json, main
from traces import event


def steps_of(pid, step_us, device=0, first=1, count=5, at=1_000_000):
    """So many steps of one process, each with an op that launches a kernel."""
    events = []
    for number in range(count):
        start, args = at + number * step_us, {"correlation": first + number}
        events += [
            event(f"ProfilerStep#{number}", start, step_us - 10, "user_annotation", pid, pid),
            event("aten::mm", start + 100, 1000, "cpu_op", pid, pid),
            event("cudaLaunchKernel", start + 200, 10, "cuda_runtime", pid, pid, **args),
            event("gemm", start + 300, step_us // 2, "kernel", device, device, **args,
                  device=device, stream=7)]
    return events


def trace_of(*events, **head):
    return json.dumps({**head, "traceEvents": sum(events, [])}).encode()


RANKS = {0: trace_of(steps_of(100, 10_000)), 1: trace_of(steps_of(101, 20_000))}
BOTH = {f"rank{rank}.json": data for rank, data in RANKS.items()}


def tar_of(files, mode="w", style=tarfile.GNU_FORMAT):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=style) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def zip_of(files, method=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


class SeveralTraces(TrainglassTest):
    def file(self, name, data):
        return str(self.write(data, name))

    def analyze(self, *words, **options):
        return self.answer("analyze", *words, **options)

    def refused(self, path):
        done = self.trainglass("analyze", path, code=3)
        return done.stderr

    def assert_ranks(self, answer):
        self.assertEqual([(file["rank"], file["steps"], file["step_ms"]["mean"])
                          for file in answer["files"]], [(0, 5, 9.99), (1, 5, 19.99)])
        self.assertEqual([row["rank"] for row in answer["ranks"]["ranks"]], [0, 1])

    def test_each_trace_of_an_archive_is_a_rank(self):
        files = {f"run/trace_rank{rank}.json": data for rank, data in RANKS.items()}
        packed = {f"{name}.gz": gzip.compress(data) for name, data in files.items()}
        deep = {f"{'deep/' * 60}rank{rank}.json": data for rank, data in RANKS.items()}
        others = {"run/notes.txt": b"x" * 700, "._rank7.json": b"\0", **files}
        for name, data in (("a.tar", tar_of(files)), ("b.tar.gz", tar_of(files, "w:gz")),
                           ("c.tgz", tar_of(packed, "w:gz")), ("d.zip", zip_of(files)),
                           ("e.zip", zip_of(packed, zipfile.ZIP_STORED)),
                           ("f.tar", tar_of(deep, style=tarfile.PAX_FORMAT)),
                           ("g.tar", tar_of(deep, style=tarfile.GNU_FORMAT)),
                           ("h.tar", tar_of(files, style=tarfile.USTAR_FORMAT)),
                           ("i.zip", zip_of(others)), ("j.tar.gz", tar_of(others, "w:gz"))):
            with self.subTest(name):
                self.assert_ranks(self.analyze(self.file(name, data)))

    def test_each_folder_of_an_archive_is_a_session_of_its_own(self):
        answer = self.analyze(self.file("two.tar.gz", tar_of(
            {f"iteration_{number}/rank{rank}_trace.json": data
             for number in (10, 20) for rank, data in RANKS.items()}, "w:gz")))
        self.assertEqual([file["rank"] for file in answer["files"]], [0, 1, 0, 1])
        self.assertEqual([len(folder["ranks"]["ranks"]) for folder in answer["folders"]], [2, 2])

    def test_a_rank_of_an_archive_can_be_chosen(self):
        path = self.file("d.zip", zip_of(BOTH))
        self.assertEqual(self.analyze(path, "--rank", "1")["files"][0]["step_ms"]["mean"], 19.99)
        done = self.trainglass("compare", path, path, "--rank", "1", "--json")
        self.assertEqual(json.loads(done.stdout)["base"]["steps"], 5)

    def test_an_archive_of_one_trace_is_that_trace(self):
        for name, data in (("one.zip", zip_of({"trace.json": RANKS[0]})),
                           ("one.tar", tar_of({"trace.json": RANKS[0]}))):
            answer = self.analyze(self.file(name, data))
            self.assertEqual((answer["steps"], answer["file"]),
                             (5, os.path.join(self.folder, name, "trace.json")))

    def test_what_is_no_trace_in_an_archive_is_named(self):
        self.assertIn("without a trace (.json, .json.gz): it holds 2 other files, such as "
                      "model/data.pkl",
                      self.refused(self.file("model.pt", zip_of({"model/data.pkl": b"\x80\2",
                                                                  "model/version": b"3"}))))
        damaged = zip_of({"rank0.json": RANKS[0]})
        self.assertIn("zip archive that cannot be read: it is damaged",
                      self.refused(self.file("cut.zip", damaged[:len(damaged) // 2])))

    def test_an_archive_in_an_archive_is_named_and_left_out(self):
        answer = self.analyze(self.file("outer.zip", zip_of(
            {"inner.tar.gz": tar_of(BOTH, "w:gz"), "rank2.json": RANKS[0]})))
        self.assertEqual((answer["rank"], answer["steps"]), (2, 5))
        self.assertIn("holds an archive, inner.tar.gz: what is in it is left out",
                      answer["error"])

    def test_the_good_members_of_an_archive_are_shown_beside_a_bad_one(self):
        answer = self.analyze(self.file("mixed.tar", tar_of(
            {"rank0.json": RANKS[0], "rank1.json": b"no trace", "rank2.json": RANKS[1]})), code=3)
        self.assertEqual([file["rank"] for file in answer["files"]], [0, 2])

    def test_a_cut_archive_gives_what_came_before_the_cut(self):
        whole = tar_of(BOTH)
        answer = self.analyze(self.file("cut.tar", whole[:512 + 2000]))
        self.assertEqual(answer["rank"], 0)
        self.assertTrue(answer["cut"])
        self.assertIn("damaged", answer["error"])

    def test_a_bomb_in_an_archive_ends_early(self):
        inner = gzip.compress(b'{"traceEvents":[' + b" " * (64 << 20), 9)
        for data in (zip_of({"rank0.json.gz": inner * 20}),
                     tar_of({"rank0.json.gz": inner * 20}, "w:gz")):
            error = self.refused(self.file("bomb", data))
            self.assertRegex(error, "times its size")

    def test_members_that_share_their_bytes_are_read_once(self):
        bytes_of_one = zip_of({f"rank{rank}.json": RANKS[0] for rank in range(3)})
        first = bytes_of_one.index(b"PK\3\4")
        packed = bytearray(bytes_of_one)
        at = packed.index(b"PK\1\2")
        while at >= 0:  # all entries of the list point at the first member
            packed[at + 42:at + 46] = first.to_bytes(4, "little")
            at = packed.find(b"PK\1\2", at + 4)
        answer = self.analyze(self.file("overlap.zip", bytes(packed)), code=3)
        self.assertEqual([file["rank"] for file in answer["files"]], [0])

    def test_members_that_are_a_bomb_only_together_are_not_all_read(self):
        inner = gzip.compress(b'{"traceEvents":[' + b" " * (600 << 20), 9)
        files = {"rank0.json": RANKS[0], **{f"rank{rank}.json.gz": inner for rank in range(1, 6)}}
        done = self.trainglass("analyze", self.file("many.zip", zip_of(files)), code=3)
        self.assertIn("rank3.json.gz: was not read, nor was what comes after it", done.stderr)
        self.assertNotIn("rank4", done.stderr)

    def test_a_member_that_cannot_be_unpacked_says_why(self):
        packed = bytearray(zip_of({"rank0.json": RANKS[0], "rank1.json": RANKS[1]}))
        listed = packed.index(b"PK\1\2")
        packed[listed + 8] |= 1
        done = self.trainglass("analyze", self.file("secret.zip", bytes(packed)))
        self.assertIn("rank0.json: is encrypted, or packed by another method", done.stderr)
        second = packed.index(b"PK\3\4", 4)
        packed[listed + 8] &= 0xfe
        packed[second:second + 2] = b"QK"
        done = self.trainglass("analyze", self.file("damaged.zip", bytes(packed)))
        self.assertIn("rank1.json: is damaged in the archive", done.stderr)

    def test_the_order_in_a_packed_tar_is_not_that_of_the_ranks_shown(self):
        names = [f"rank{rank}.json" for rank in (1, 0)]
        answer = self.analyze(self.file("back.tar.gz", tar_of(
            {name: RANKS[rank] for name, rank in zip(names, (1, 0))}, "w:gz")))
        self.assert_ranks(answer)

    def test_sparse_files_of_a_tar_are_left_out_and_counted(self):
        plain = tar_of({"rank0.json": RANKS[0]})
        header = bytearray(tar_of({"rank1.json": b"12345678"})[:1024])
        header[156:157] = b"S"
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header[:512])
        answer = self.analyze(self.file("sparse.tar", bytes(header) + plain))
        self.assertEqual(answer["steps"], 5)
        self.assertIn("1 sparse files of the archive are left out", answer["error"])

    def test_from_a_pipe_an_archive_is_refused_by_name(self):
        for data, kind in ((tar_of({"rank0.json": RANKS[0]}), "tar"),
                           (tar_of({"rank0.json": RANKS[0]}, "w:gz"), "tar"),
                           (zip_of({"rank0.json": RANKS[0]}), "zip")):
            done = subprocess.run([PROGRAM, "analyze", "-"], input=data, capture_output=True,
                                  env=self.environment(), check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"is a {kind} archive", done.stderr.decode())

    def test_a_second_document_is_reported_and_not_merged(self):
        for joined in (RANKS[0] + RANKS[1], RANKS[0] + b"\n" + RANKS[1],
                       json.dumps(steps_of(1, 10_000)).encode() * 2):
            answer = self.analyze(self.file("joined.json", joined))
            self.assertEqual((answer["steps"], answer["step_ms"]["mean"]), (5, 9.99))
            self.assertIn("a second document begins at byte", answer["error"])
            self.assertFalse(answer["cut"])
        both = gzip.compress(RANKS[0]) + gzip.compress(RANKS[1])
        self.assertIn("second document",
                      self.analyze(self.file("joined.json.gz", both))["error"])

    def test_a_document_without_events_before_the_trace_is_passed_over(self):
        answer = self.analyze(self.file("joined.json", b'{"run": "a"}\n' + RANKS[0]))
        self.assertEqual((answer["steps"], answer["error"]), (5, None))

    def test_processes_with_steps_of_their_own_are_ranks(self):
        alone = [self.analyze(self.file(f"alone{rank}.json", data))
                 for rank, data in RANKS.items()]
        for name, events in (
                ("devices", steps_of(100, 10_000) + steps_of(101, 20_000, device=1)),
                ("one device's number",
                 steps_of(100, 10_000) + steps_of(101, 20_000, at=1_003_000)),
                ("by name", steps_of("rank 1", 20_000, device=1) + steps_of("rank 0", 10_000))):
            with self.subTest(name):
                answer = self.analyze(self.file("merged.json", trace_of(events)))
                self.assert_ranks(answer)
                for file, truth in zip(answer["files"], alone):
                    self.assertEqual(file["gpu"][0]["busy_ms"], truth["gpu"][0]["busy_ms"])
                    self.assertIn("several processes", file["rank_from"])

    def test_one_process_that_trains_beside_helpers_stays_one(self):
        helper = [event("aten::copy_", 1_000_050, 10, "cpu_op", 7, 7)]
        answer = self.analyze(self.file("t.json", trace_of(steps_of(100, 10_000), helper)))
        self.assertEqual((answer["steps"], answer["rank"]), (5, None))

    def test_ranks_by_name_where_no_file_says_its_rank(self):
        for number, (one, other) in enumerate((
                ("trace_rank0.json", "trace_rank1.json"), ("rank-0.json", "rank-1.json"),
                ("worker0.1623143089861.pt.trace.json", "worker1.1623143089862.pt.trace.json"),
                ("rank0_trace.json", "rank1_trace.json"), ("a.Rank 0.json", "a.Rank 1.json"),
                ("libkineto_activities_811.json", "libkineto_activities_1002.json"))):
            folder = f"folder{number}"
            self.file(f"{folder}/{one}", RANKS[0])
            self.file(f"{folder}/{other}", RANKS[1])
            with self.subTest(one):
                answer = self.analyze(os.path.join(self.folder, folder))
                self.assert_ranks(answer)
                self.assertIn("the file's name", answer["files"][0]["rank_from"])

    def test_what_a_file_says_goes_before_its_name(self):
        answer = self.analyze(self.file("rank3.json", trace_of(
            steps_of(1, 10_000), distributedInfo={"rank": 5, "world_size": 8})))
        self.assertEqual((answer["rank"], answer["rank_from"]), (5, None))
        for name in ("frank1.json", "num_workers_4.json", "worker_1623143089861.json"):
            self.assertIsNone(self.analyze(self.file(name, RANKS[0]))["rank"], name)

    def test_stacks_are_of_a_file_with_one_trace(self):
        path = self.file("d.zip", zip_of(BOTH))
        done = self.trainglass("analyze", path, "--stacks", os.path.join(self.folder, "out"),
                               code=3)
        self.assertIn("holds 2 traces", done.stderr)

    def test_good_files_are_served_and_the_bad_one_is_named(self):
        good = self.file("good.json", RANKS[0])
        bad = self.file("bad.json", b"this is no trace")
        archive = self.file("ranks.zip", zip_of(BOTH))
        self.serve(good, bad, archive)
        rows = get_json(self.port, "/api/traces")["traces"]
        self.assertEqual(sorted((row["name"], row.get("error") is None) for row in rows),
                         [("bad.json", False), ("good.json", True), ("rank0.json", True),
                          ("rank1.json", True)])
        self.assertEqual(len(get_json(self.port, "/api/status")["sessions"]), 2)

    def test_each_refused_archive_is_served_with_an_id_of_its_own(self):
        files = [self.file(name, zip_of({"data.pkl": b"\x80\2"})) for name in ("a.pt", "b.pt")]
        self.serve(self.file("good.json", RANKS[0]), *files)
        ids = {row["id"] for row in get_json(self.port, "/api/traces")["traces"]}
        self.assertEqual(len(ids - {""}), 3)

    def test_a_copy_of_unknown_size_has_no_size_in_a_trace(self):
        calls = [{"ph": phase, "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 100,
                  "tid": 100, "ts": when, **more}
                 for phase, when, more in (("B", 1_000_500, {"args": {"correlation": 99}}),
                                           ("E", 1_000_510, {}))]
        copy = event("Memcpy HtoD (Pageable -> Device)", 1_007_000, 50, "gpu_memcpy", 0, 7,
                     correlation=99, device=0, stream=7)
        self.serve(self.file("copy.json", trace_of(steps_of(100, 10_000), calls, [copy])))
        shown = get_json(self.port, "/api/trace?window=run")["traceEvents"]
        copies = [one["args"] for one in shown if one.get("cat") == "gpu_memcpy"]
        self.assertEqual([args.get("bytes") for args in copies], [None])

    def test_with_no_good_file_nothing_is_served(self):
        done = self.trainglass("serve", self.file("bad.json", b"this is no trace"), code=3)
        self.assertIn("bad.json: ", done.stderr)


if __name__ == "__main__":
    main()
