"""GPU work through the real probe and the real server, from a fake GPU: tests/fake."""
import collections
import json
import os
import re
import subprocess
import sys
import time

from harness import (BUILD, TrainglassTest, free_port, get, get_json, main, try_json,
                     wait_for)

import segment as wire
import trace_rules

JOB = str(BUILD / "fake" / "fake_job")
LIBRARY = str(BUILD / "lib" / "libtrainglass.so")
PHASE, KERNEL, MEMCPY, MEMSET, SYNC, LAUNCH, LOSS, KNOWN = 2, 5, 6, 7, 8, 10, 17, 22
STEP_KERNELS = 4
CLOCK_NS = 5000  # what two clocks may be apart
RUN_AWAY_S = 120  # a kernel of the job's that it does not wait for
VERSIONS = {"11.8": 18, "12.4": 22, "13.0": 130001}
OLD_VERSIONS = ("11.8", "12.4")  # before 12.5: no cuptiActivityEnableRuntimeApi, ...DriverApi
OF_A_STEP = {"void gemm_kernel<float>(float*)": 10, "relu_kernel": 10,
             "Memcpy HtoD (Pageable -> Device)": 1, "Memset (Device)": 1}
ALONE = "cuInit: 0\nlaunched\n"  # what the job prints when nobody records it
# What LeakSanitizer remarks when a thread ends while it looks.
NOT_OURS = re.compile(r"==\d+==Running thread \d+ was not suspended\. .*\n")


class GpuTest(TrainglassTest):
    def environment(self, **more):
        """Of a version that lacks functions of later ones the library lacks them too."""
        if more.get("FAKE_CUPTI_VERSION") in OLD_VERSIONS:
            more["LD_LIBRARY_PATH"] = ":".join(filter(None, (
                str(BUILD / "fake" / "old"), os.environ.get("LD_LIBRARY_PATH"))))
        return super().environment(**more)

    def job_until_told(self, words, **environment):
        """The job trains until the source's reason has these words; its segment then."""
        until = self.folder / "until"
        until.unlink(missing_ok=True)
        job = subprocess.Popen(
            [JOB, "train"], stdout=subprocess.DEVNULL,
            env=self.environment(**{"TRAINGLASS_LEVEL": "kernels", "FAKE_JOB_UNTIL": until,
                                    "CUDA_INJECTION64_PATH": LIBRARY, **environment}))

        def told():
            for segment in wire.read_all(self.directory):
                if words in self.source(segment)[1]:
                    return segment
            return None
        try:
            wait_for(told, words)
            until.touch()
            self.assertEqual(job.wait(timeout=60), 0)
        finally:
            job.kill()
            job.wait()
        return wire.read_all(self.directory)[0]

    def job(self, *words, code=0, output=ALONE, level="kernels", watched="kernels",
            **environment):
        """The job alone with the probe, from when it is ready (`watched`, None: at once):
        runs to its end; its segment."""
        done = subprocess.run(
            [JOB, *map(str, words)], capture_output=True, text=True, timeout=120,
            env=self.environment(TRAINGLASS_LEVEL=level, TRAINGLASS_LIBRARY=LIBRARY,
                                 CUDA_INJECTION64_PATH=LIBRARY, FAKE_JOB_WATCHED=watched,
                                 **environment))
        self.assertEqual((done.returncode, NOT_OURS.sub("", done.stderr)), (code, ""))
        if output is not None:
            self.assertEqual(done.stdout, output)
        self.output = done.stdout
        (self.segment, *_) = wire.read_all(self.directory)
        return self.segment

    def source(self, segment):
        """(state, reason, detail, events, lost) of the source."""
        return segment.capabilities["cupti"]

    def run_until(self, scenario, condition, what, *more, level="kernels", **environment):
        """The job under `trainglass run`, until the server answers as awaited."""
        until = self.folder / "until"
        until.unlink(missing_ok=True)
        wait_for(lambda: not self.is_served(), "the end of the server of the job before")
        self.port = free_port()  # that one may be his for a moment yet
        process = self.start(
            "run", "--linger", "0", "--level", level, "--", JOB, scenario, *map(str, more),
            env={"FAKE_JOB_UNTIL": str(until), **environment})
        answer = wait_for(condition, what)
        until.touch()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, (out, err))
        self.output = out
        return answer

    def recorded(self, segment):
        """The steps that say that their kernels were recorded."""
        return [s for s in segment.steps() if s.flags & STEP_KERNELS]

    def assert_kernels(self, segment, steps, works=20):
        """Each of these steps, and there are some, has all of its kernels."""
        work = [e.start for e in segment.events(KERNEL)]
        self.assertTrue(steps)
        for step in steps:
            self.assertEqual(sum(step.start <= start < step.end for start in work), works,
                             step.number)

    def assert_claims_hold(self, segment, **untold):
        """Each recorded step of which all is known and nothing lost has all of its kernels;
        how many such steps there are. `default`: up to when all is known where the source
        never came to say so."""
        losses = [(e.start, segment.ns(e.more[0][0])) for e in segment.events(LOSS)]
        known = max((e.start for e in segment.events(KNOWN)), **untold)
        claimed = [s for s in self.recorded(segment) if s.end <= known
                   and not any(since < s.end and until > s.start for since, until in losses)]
        if claimed:
            self.assert_kernels(segment, claimed)
        return len(claimed)

    def assert_whole_steps(self, ops):
        """The operations of so many steps are those of one, so many times."""
        self.assertEqual({op["name"]: op["recorded_count"] for op in ops["ops"]},
                         {name: count * ops["recorded_steps"]
                          for name, count in OF_A_STEP.items()})

    def is_served(self):
        try:
            return get(self.port, "/healthz")[0] == 200
        except OSError:
            return False

    def cupti(self):
        """The source of the job that runs, as /api/status tells it; None before there is
        one."""
        told = try_json(self.port, "/api/status") or {"sessions": []}
        for session in told["sessions"]:
            if session["state"] != "running":
                continue  # a test may have had another job before
            for source in session["capabilities"]:
                if source["source"] == "cupti":
                    return source
        return None

    def ask_level(self, level):
        status, told = self.post("/api/level", {"level": level})
        self.assertEqual(status, 200, told)
        return told

    def cupti_is(self, state):
        source = self.cupti()
        return source if source and source["state"] == state else None


class RecordsTest(GpuTest):
    def test_every_version_of_cupti_gives_the_same_events(self):
        for version, number in VERSIONS.items():
            with self.subTest(version=version):
                self.clear()
                segment = self.job("train", 60, FAKE_CUPTI_VERSION=version)
                state, reason, detail, events, lost = self.source(segment)
                self.assertEqual((state, reason, lost), ("active", "", 0))
                self.assertIn(f"API {number}, ", detail)
                self.assertIn("CLOCK_REALTIME", detail)
                recorded = self.recorded(segment)
                self.assertTrue(recorded)
                work = segment.events(KERNEL, MEMCPY, MEMSET)
                self.assertEqual(events, len(work))
                # The last step is as good as any: all of them are told.
                for step in recorded:
                    inside = collections.Counter(
                        e.name for e in work if step.start <= e.start < step.end)
                    self.assertEqual(inside, OF_A_STEP, step.number)

    def test_work_follows_its_launch_and_knows_its_thread(self):
        told = self.folder / "told"
        segment = self.job("train", 60, FAKE_CUPTI_TOLD=told)
        behind = dict(map(int, line.split()) for line in told.read_text().splitlines())
        launches = {e.aux: e for e in segment.events(LAUNCH)}
        threads = segment.threads()
        (main_slot,) = [slot for slot, _, name, *_ in threads if name == "fake_job"]
        kernels = segment.events(KERNEL)
        self.assertTrue(kernels)
        off = []
        for kernel in kernels:
            launch = launches[kernel.aux]
            self.assertEqual(launch.aux16, main_slot + 1)
            self.assertGreater(kernel.start, launch.start)
            off.append(abs(kernel.start - launch.start - behind[kernel.aux]))
            self.assertEqual(kernel.aux16, 0x100)
            stream, grid, block = kernel.more[0]
            self.assertEqual((stream & 0xFFFFFFFF, stream >> 32), (7 if "gemm" in kernel.name
                                                                  else 13, 1))
            self.assertEqual((grid & 0xFFFFFFFF, grid >> 32 & 0xFFFF, grid >> 48), (128, 2, 1))
            self.assertEqual((block & 0x7FF, block >> 29 & 0x1FF, block >> 38), (256, 64, 4096))
        # As far behind as the device said, however long it was: the clocks of both are one
        # line, and half of the kernels lie on the same stretch of it as their launches.
        self.assertLess(sorted(off)[len(off) // 2], 1000)
        self.assertTrue(all(e.name == "cudaDeviceSynchronize" for e in segment.events(SYNC)))

    def test_launches_of_all_threads_are_told_with_their_thread(self):
        segment = self.job("threads", 10)
        launches = [e for e in segment.events(LAUNCH) if e.name == "cudaLaunchKernel"]
        kernels = [e for e in segment.events(KERNEL) if e.name == "from_a_thread"]
        by_thread = collections.Counter(e.aux16 for e in launches)
        correlations = {e.aux for e in launches}
        self.assertTrue(all(k.aux in correlations for k in kernels))
        self.assertNotIn(0, by_thread)

    def test_the_libcupti_that_torch_is_linked_to_is_taken_among_two(self):
        other = BUILD / "fake" / "other"
        segment = self.job("train", 30, FAKE_JOB_LOADS=f"{other / 'libtorch_cpu.so'}:"
                                                       f"{other / 'libcupti.so.14'}")
        detail = self.source(segment)[2]
        self.assertTrue(detail.startswith("libcupti.so.13 (another one is loaded too), "), detail)
        self.assertTrue(segment.events(KERNEL))

    def test_a_libcupti_that_comes_after_cuda_is_found(self):
        # As when another package initialises CUDA before torch is imported.
        done = subprocess.run(
            [str(BUILD / "fake" / "fake_late"), str(BUILD / "fake" / "other" / "libcupti.so.14")],
            capture_output=True, text=True, timeout=60,
            env=self.environment(TRAINGLASS_LEVEL="kernels", CUDA_INJECTION64_PATH=LIBRARY))
        self.assertEqual((done.returncode, done.stdout, NOT_OURS.sub("", done.stderr)),
                         (0, "found\n", ""))

    def test_a_child_that_was_forked_before_cuda_has_its_own_gpu_work(self):
        done = subprocess.run(
            [JOB, "fork-first", "60"], capture_output=True, text=True, timeout=120,
            env=self.environment(TRAINGLASS_LEVEL="kernels", TRAINGLASS_LIBRARY=LIBRARY,
                                 CUDA_INJECTION64_PATH=LIBRARY, FAKE_JOB_WATCHED="kernels",
                                 TSAN_OPTIONS=os.environ.get("TSAN_OPTIONS", "") +
                                 ":die_after_fork=0"))
        self.assertEqual((done.returncode, NOT_OURS.sub("", done.stderr)), (0, ""))
        child, = [s for s in wire.read_all(self.directory) if s.events(KERNEL)]
        self.assertEqual(self.source(child)[0], "active")
        self.assertEqual({e.name for e in child.events(KERNEL)},
                         {"void gemm_kernel<float>(float*)", "relu_kernel"})

    def test_gpu_work_is_told_when_python_ends_and_not_after(self):
        # The job itself sees that CUPTI is off before it leaves.
        segment = self.job("outlive-python", 60, output="cuInit: 0\n")
        self.assertEqual(len(segment.events(KERNEL)), 20 * len(self.recorded(segment)))

    def test_level_phases_leaves_cupti_off(self):
        segment = self.job("train", 30, level="phases", watched="callbacks")
        self.assertEqual(segment.events(KERNEL, LAUNCH, MEMCPY), [])
        self.assertEqual(self.source(segment)[0], "active")

    def test_auto_records_whole_steps_or_does_not_claim_them(self):
        segment = self.job("train", 600, level="auto", watched="callbacks",
                           TRAINGLASS_BUDGET="50")
        self.assertLess(len(self.recorded(segment)), 600)
        self.assert_kernels(segment, self.recorded(segment))

    def test_what_is_under_way_when_the_job_ends_comes_though_nothing_is_recorded_then(self):
        for _ in range(4):  # some end in a block that is recorded, some between
            segment = self.job("train", 300, level="auto", watched="callbacks",
                               TRAINGLASS_BUDGET="50", FAKE_CUPTI_FAULT="late=1000")
            self.assert_kernels(segment, self.recorded(segment))
            self.clear()

    def test_ten_thousand_long_names_stay_within_their_half_of_the_table(self):
        segment = self.job("names", 200)
        names = {e.name for e in segment.events(KERNEL)}
        self.assertIn("(other kernels)", names)
        self.assertIn("cudaLaunchKernel", {e.name for e in segment.events(LAUNCH)})
        self.assertTrue(all(len(name) <= 4096 for name in names))

    def test_a_kernel_whose_name_had_found_room_keeps_it_when_the_table_is_full(self):
        launched = collections.Counter(
            match[1] for e in self.job("names", 200).events(KERNEL)
            if (match := re.match(r"kernel_(\d+)_", e.name)))
        # The first 200 were launched twice, of as many of them as found room.
        first = {name: launched[str(name)] for name in range(200) if launched[str(name)]}
        self.assertGreater(len(first), 20)
        self.assertEqual(first, dict.fromkeys(first, 2))

    def test_kernels_are_called_as_torch_profiler_calls_them(self):
        """CUPTI has the linker's names; the C++ library of the job reads them."""
        segment = self.job("train", 60)
        self.assertEqual({e.name for e in segment.events(KERNEL)},
                         {"void gemm_kernel<float>(float*)", "relu_kernel"})

    def test_kernels_of_a_job_without_c_plus_plus_keep_the_names_that_cupti_has(self):
        if b"libstdc++" in subprocess.run(["ldd", JOB], capture_output=True, check=True).stdout:
            self.skipTest("a sanitizer brings the C++ library along")
        segment = self.job("train", 60, FAKE_JOB_PLAIN_C="1")
        self.assertEqual({e.name for e in segment.events(KERNEL)},
                         {"_Z11gemm_kernelIfEvPf", "relu_kernel"})

    def test_names_are_read_where_reading_by_address_is_forbidden(self):
        segment = self.job("train", 60, FAKE_JOB_FORBID="1")
        self.assertEqual({e.name for e in segment.events(KERNEL)},
                         {"void gemm_kernel<float>(float*)", "relu_kernel"})

    def test_nothing_is_written_into_files_of_a_job_that_closes_what_it_does_not_know(self):
        segment = self.job("close-all", 60, FAKE_JOB_FORBID="1")
        self.assertNotIn("", {e.name for e in segment.events(KERNEL)})

    def test_graphs_of_100000_nodes_are_told_or_counted(self):
        segment = self.job("graphs", 100000)
        state, _, _, events, lost = self.source(segment)
        self.assertEqual(state, "active")
        self.assertGreaterEqual(events + lost, 5 * 100000 + 22)
        if lost == 0:
            self.assertEqual(events, 5 * 100000 + 22)
        nodes = [e for e in segment.events(KERNEL) if e.name == "node_kernel"]
        self.assertTrue(nodes)
        self.assertTrue(all(len(e.more) == 2 for e in nodes))

    def test_eight_devices_are_eight_lanes(self):
        self.assertEqual({e.aux16 for e in self.job("devices", 60).events(KERNEL)
                          if e.name == "on_its_device"}, {0x100 + i for i in range(8)})
        devices = self.run_until("devices", self.gpu_devices_known, "eight devices", 60)
        for i, device in enumerate(devices):
            self.assertAlmostEqual(device["per_step_ms"]["compute"],
                                   0.02 * (i + 1) + (0.01 if i == 0 else 0), delta=5e-4)

    def test_occupancy_is_that_of_the_device_that_the_kernel_ran_on(self):
        def told():
            told = try_json(self.port, "/api/ops?device=cuda&window=run&q=on_")
            known = {row["name"]: row["occupancy_pct"] for row in told["ops"]
                     if row["occupancy_pct"]} if told else {}
            return known if len(known) == 2 else None
        occupied = self.run_until("devices", told, "kernels of unlike devices", 60,
                                  FAKE_CUDA_DEVICES="8", FAKE_CUDA_UNLIKE="1")
        # 256 blocks of 256 threads fill 46 multiprocessors of 1,024 threads, not 132 of 2,048.
        self.assertAlmostEqual(occupied["on_its_device"], 100)
        self.assertAlmostEqual(occupied["on_the_first"], 100 * 256 / 132 * 256 / 2048, delta=0.1)

    def test_copies_launch_delays_and_streams_are_told_while_the_job_runs(self):
        def told():
            told = try_json(self.port, "/api/gpu?window=run")
            runs = [device["run"] for device in told["devices"]] if told else []
            return runs[0] if len(runs) == 1 and runs[0]["launch_delay"]["count"] > 1000 else None
        run = self.run_until("train", told, "launch delays")
        (copies,) = run["copies"]
        self.assertEqual((copies["direction"], copies["pageable"]), ("h2d", True))
        self.assertEqual(copies["bytes"], copies["count"] << 20)
        self.assertAlmostEqual(copies["bytes_per_s"], (1 << 20) / 20e-6, delta=2e9)
        self.assertEqual({s["stream"] for s in run["streams"]}, {7, 13})
        self.assertGreaterEqual(run["streams_busy"], 1)
        # The fake's kernels begin 1 us behind their launch: never sooner.
        self.assertGreater(run["launch_delay"]["p50_us"], 0.9)
        self.assertGreater(run["queue_depth"], 0)

    def test_sums_of_the_run_say_in_how_many_of_its_steps_they_were_recorded(self):
        process = self.start("run", "--linger", "forever", "--level", "auto", "--", JOB, "train",
                             "1000", env={"FAKE_JOB_WATCHED": "callbacks"})
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, (out, err))

        def told():
            devices = get_json(self.port, "/api/gpu?window=run")["devices"]
            run = devices and devices[0]["run"]
            # A step has one copy and one memset.
            return (run and run["copies"] and run["steps"] == 1000 and run["copies"][0]["count"]
                    == run["memsets"]["count"] == run["recorded_steps"] and run)
        run = wait_for(told, "as many copies as recorded steps")
        self.assertEqual(run["copies"][0]["bytes"], run["recorded_steps"] << 20)
        self.assertLess(run["recorded_steps"], 1000)

    def test_kernels_tell_their_launch_shape_and_occupancy_while_the_job_runs(self):
        def told():
            told = try_json(self.port, "/api/ops?device=cuda&window=run&q=gemm")
            rows = told and told["ops"]
            if not rows or rows[0]["occupancy_pct"] is None:
                return None
            events = json.loads(get(self.port, "/api/trace?last=2s")[1])["traceEvents"]
            traced = [e["args"] for e in events
                      if e.get("cat") == "kernel" and "gemm" in e["name"]]
            return traced and (rows[0], traced[-1])
        kernel, traced = self.run_until("train", told, "a kernel's shape")
        self.assertEqual((traced["grid"], traced["block"], traced["registers per thread"],
                          traced["shared memory"]), ([128, 2, 1], [256, 1, 1], 64, 4096))
        self.assertEqual((kernel["grid"], kernel["block"], kernel["launch_varies"]),
                         ([128, 2, 1], [256, 1, 1], False))
        self.assertEqual((kernel["registers"], kernel["shared_memory_bytes"]), (64, 4096))
        # 256 blocks on 132 multiprocessors: fewer than the four that their registers allow.
        self.assertAlmostEqual(kernel["occupancy_pct"], 100 * 256 / 132 * 256 / 2048, delta=0.1)

    def gpu_devices_known(self):
        gpu = try_json(self.port, "/api/gpu?window=run")
        known = gpu and [d["device"] for d in gpu["devices"] if d["busy_ms"] and d["known_steps"]]
        # A job before this one may have left a segment in the same folder.
        return gpu["devices"] if gpu and gpu["live"] and known == [f"cuda:{i}" for i in range(8)] else None

    def test_a_flood_of_launches_is_recorded_or_counted(self):
        seconds = int(os.environ.get("TRAINGLASS_FLOOD_S", "2"))
        process = self.start("run", "--linger", "forever", "--level", "kernels", "--", JOB,
                             "flood", str(seconds), env={"FAKE_JOB_WATCHED": "kernels"})
        out, err = process.communicate(timeout=60 + 5 * seconds)
        self.assertEqual(process.returncode, 0, (out, err))
        launched = int(re.search(r"flood: (\d+)", out)[1])

        def told():
            devices = get_json(self.port, "/api/gpu?window=run")["devices"]
            session = get_json(self.port, "/api/status")["sessions"][0]
            (source,) = [s for s in session["capabilities"] if s["source"] == "cupti"]
            return devices and (devices[0]["work_count"], source["lost_events"],
                                session["lost_events"])
        told_of = launched + 22  # one ordinary step behind them
        counts = wait_for(lambda: (t := told()) and sum(t) >= told_of and t, "all of them")
        if counts[1:] == (0, 0):
            self.assertEqual(counts[0], told_of)
        print(f"flood: {launched} launches in {seconds} s; told, dropped, overwritten: "
              f"{counts}", file=sys.stderr)


class FaultsTest(GpuTest):
    def test_records_without_times_are_counted_as_lost(self):
        segment = self.job("train", 60, FAKE_CUPTI_FAULT="zero=10")
        state, _, _, events, lost = self.source(segment)
        kernels = segment.events(KERNEL)
        self.assertEqual(state, "active")
        self.assertTrue(all(k.start > 0 and k.aux % 10 != 0 for k in kernels))
        self.assertGreater(lost, 0)
        self.assertEqual(lost, sum(e.value for e in segment.events(LOSS)))

    def test_unknown_kinds_cost_nothing_but_themselves(self):
        segment = self.job("train", 60, FAKE_CUPTI_FAULT="unknown=7")
        kernels = segment.events(KERNEL)
        self.assertTrue(kernels and all(k.aux % 7 != 0 for k in kernels))
        self.assertEqual(self.source(segment)[0], "active")

    def test_what_cupti_drops_is_counted(self):
        segment = self.job("train", 200, FAKE_CUPTI_FAULT="drop=123")
        self.assertEqual(self.source(segment)[4], 123)
        # Told before what came beside it, so that no step around the hole is closed.
        (loss,) = segment.events(LOSS)
        self.assertLess(loss.start, segment.ns(loss.more[0][0]))
        of_thread = [e for e in segment.events() if e.thread == loss.thread]
        self.assertNotIn(KERNEL, [e.kind for e in of_thread[:of_thread.index(loss)]])

    def test_late_and_unordered_buffers_lose_nothing(self):
        segment = self.job("train", 300, FAKE_CUPTI_FAULT="late=3,reverse=1")
        self.assertEqual(self.source(segment)[4], 0)
        self.assert_kernels(segment, self.recorded(segment))

    def test_no_permission_no_driver_and_others_are_said(self):
        for environment, words in (
                ({"FAKE_CUPTI_FAULT": "enable=35"}, "permission"),
                ({"FAKE_CUPTI_FAULT": "enable=43"}, "MIG"),
                ({"FAKE_CUPTI_FAULT": "enable=31"}, "MPS"),
                ({"FAKE_CUPTI_FAULT": "enable=15"}, "older than CUPTI"),
                ({"FAKE_CUPTI_FAULT": "enable=39"}, "another profiler"),
                ({"FAKE_CUPTI_FAULT": "subscribe=39"}, "another profiler"),
                ({"NSYS_PROFILING_SESSION_ID": "7"}, "Nsight Systems"),
                # As nsys starts what it profiles: its injection in the place of ours.
                ({"CUDA_INJECTION64_PATH": "/opt/nvidia/nsys/libToolsInjection64.so",
                  "TRAINGLASS_LIBRARY": LIBRARY, "FAKE_JOB_TORCH": "1"}, "Nsight Systems"),
                ({"CUDA_INJECTION64_PATH": "/opt/vendor/libother.so",
                  "TRAINGLASS_LIBRARY": LIBRARY, "FAKE_JOB_TORCH": "1"}, "another tool is injected")):
            with self.subTest(**environment):
                self.clear()
                segment = self.job_until_told(words, **environment)
                self.assertEqual(self.source(segment)[0], "unavailable")
                self.assertEqual(segment.events(KERNEL, LAUNCH), [])
                self.assertFalse(self.recorded(segment))

    def test_a_driver_without_a_device_is_left_alone(self):
        # exit code 99 would say that libcupti was called, which 13.2 does not survive.
        segment = self.job("train", code=5, output="cuInit: 100\n", watched=None,
                           FAKE_CUDA_DEVICES="0")
        self.assertEqual(self.source(segment)[0], "unavailable")

    def test_a_flush_that_never_returns_hangs_nobody(self):
        segment = self.job("train", 100, FAKE_CUPTI_FAULT="hang=1")
        self.assertEqual(segment.steps_ended, 100)

    def test_an_exit_inside_of_a_flush_ends_the_job_with_its_code(self):
        segment = self.job("train", 100000, code=7, output=None, FAKE_CUPTI_FAULT="exit=7")
        self.assertTrue(segment.ended)

    def test_an_exit_between_two_buffers_ends_the_job_with_its_code(self):
        segment = self.job("train", 100000, code=9, output=None,
                           FAKE_CUPTI_FAULT="exit-late=9")
        self.assertTrue(segment.ended)

    def test_a_kill_in_a_flush_leaves_a_segment_that_is_read(self):
        segment = self.job("train", 100000, code=-9, output=None, FAKE_CUPTI_FAULT="kill=1")
        self.assertFalse(segment.ended)
        self.assertEqual(self.source(segment)[0], "active")

    def test_names_that_are_no_memory_any_more_end_nobody(self):
        for forbid in (None, "1"):
            with self.subTest(forbid=forbid):
                self.clear()
                segment = self.job("train", 60, FAKE_CUPTI_FAULT="stale=3",
                                   FAKE_JOB_FORBID=forbid)
                kernels = segment.events(KERNEL)
                self.assertTrue(kernels)
                for kernel in kernels:
                    self.assertEqual("kernel" in kernel.name, kernel.aux % 3 != 0)

    def test_two_kernels_whose_names_lie_at_one_address_keep_their_names_and_times(self):
        segment = self.job("reused-address", 30)
        spent = collections.defaultdict(list)
        for kernel in segment.events(KERNEL):
            spent[kernel.name].append(round((kernel.end - kernel.start) / 1e6, 1))
        self.assertEqual((spent["unloaded"], spent["loaded"]), ([1.0] * 3, [3.0] * 3))

    def test_a_kernel_that_runs_for_minutes_does_not_hold_the_exit(self):
        begun = time.monotonic()
        segment = self.job("run-away", 60)
        self.assertLess(time.monotonic() - begun, RUN_AWAY_S / 10)
        self.assertTrue(segment.events(KERNEL))

    def test_a_fork_is_quiet_and_changes_nothing(self):
        # Begun when libcupti is loaded: ThreadSanitizer's dlopen() has a lock of its own,
        # which a child that is born inside of it never gets.
        segment = self.job("fork", 60)
        self.assertTrue(segment.events(KERNEL))

    def test_calls_and_kernels_keep_their_order_within_5_us_over_a_change_of_the_clock(self):
        segment = self.job("window", 60, output=None)
        self.assertIn("time stamp counter", self.source(segment)[2])
        launches = sorted(segment.events(LAUNCH), key=lambda e: e.aux)
        kernels = {e.aux: e for e in segment.events(KERNEL)}
        syncs, phases = segment.events(SYNC), segment.events(PHASE)
        steps = self.recorded(segment)
        self.assertTrue(any(s.number < 60 for s in steps) and any(s.number >= 80 for s in steps))
        for step in steps:
            work = [(e, kernels[e.aux]) for e in launches
                    if e.aux in kernels and step.start <= (e.start + e.end) / 2 < step.end]
            (sync,) = [e for e in syncs if step.start <= (e.start + e.end) / 2 < step.end]
            self.assertEqual(len(work), 20, step.number)
            for launch, kernel in work:
                self.assertLess(launch.start - kernel.start, CLOCK_NS, step.number)
            self.assertLess(max(k.end for _, k in work) - sync.end, CLOCK_NS, step.number)
            # The phase is of the probe's own clock, its calls are of CUPTI's.
            (forward,) = [e for e in phases if step.start <= e.start < step.end]
            self.assertLess(forward.start - work[0][0].start, CLOCK_NS, step.number)
            self.assertLess(work[-1][0].end - forward.end, CLOCK_NS, step.number)


class NeighboursTest(GpuTest):
    def test_an_announced_window_gets_all_of_cupti_and_gives_it_back(self):
        segment = self.job("window", 100, output=None)
        self.assertIn("window: error 0, 400 of 400 kernels", self.output)
        state, reason, detail, _, _ = self.source(segment)
        self.assertEqual((state, reason), ("active", ""))
        self.assertIn("time stamp counter", detail)
        recorded = [s.number for s in self.recorded(segment)]
        self.assertTrue(any(n < 100 for n in recorded) and any(n >= 120 for n in recorded))
        self.assertFalse([n for n in recorded if 100 <= n < 120])

    def test_a_window_that_was_waited_for_in_vain_gets_all_of_its_kernels(self):
        segment = self.job("window", 100, output=None, FAKE_CUPTI_FAULT="slow-flush=600",
                           FAKE_JOB_SLOW_FLUSH="1")
        got, launched = re.search(r"error 0, (\d+) of (\d+) kernels", self.output).groups()
        self.assertEqual(got, launched)
        self.assertGreater(int(launched), 400)
        self.assertEqual(self.source(segment)[0], "active")
        # What the guest missed, he says he missed.
        self.assertTrue(segment.events(LOSS))
        self.assert_claims_hold(segment)

    def test_after_a_window_each_kernel_has_its_launch_again(self):
        segment = self.job("window", 100, output=None)
        launches = {e.aux for e in segment.events(LAUNCH)}
        after = next(s.start for s in self.recorded(segment) if s.number >= 120)
        kernels = [k for k in segment.events(KERNEL) if k.start >= after]
        self.assertTrue(kernels)
        self.assertLessEqual({k.aux for k in kernels}, launches)

    def test_cupti_is_taken_up_again_when_a_window_has_ended_it_for_everybody(self):
        segment = self.job("window", 100, output=None, FAKE_JOB_TEARDOWN="1")
        self.assertIn("window: error 0, 400 of 400 kernels", self.output)
        self.assertEqual(self.source(segment)[:2], ("active", ""))
        self.assert_kernels(segment, [s for s in self.recorded(segment) if s.number >= 120])

    def test_a_window_that_begins_while_we_ask_for_cupti_gets_it(self):
        self.job("early-window", 60, output=None, FAKE_CUPTI_FAULT="slow-subscribe=50")
        self.assertIn(self.output, ("cuInit: 0\nearly: free\n", "cuInit: 0\nearly: waited in vain\n"))

    def test_windows_over_running_kernels_do_not_end_the_recording(self):
        segment = self.job("busy-windows", 5)
        self.assertEqual(self.source(segment)[0], "active")
        launches = {e.aux for e in segment.events(LAUNCH)}
        (*_, last) = self.recorded(segment)
        inside = [k for k in segment.events(KERNEL) if last.start <= k.start < last.end]
        self.assertEqual(len(inside), 20)
        self.assertLessEqual({k.aux for k in inside}, launches)

    def test_stolen_callbacks_are_said_and_nothing_of_the_thief_is_touched(self):
        source = self.run_until("train", lambda: self.cupti_is("stolen"), "stolen",
                                FAKE_CUPTI_FAULT="steal-after=5000")
        self.assertIn("may have taken CUPTI", source["reason"])
        # Since when nothing comes is told: from when the last flush began that brought
        # something. What was launched while it went on may have come with it.
        (segment,) = [s for s in wire.read_all(self.directory) if s.events(KERNEL)]
        events = segment.events(KERNEL, LOSS, KNOWN)
        (loss,) = [e for e in events if e.kind == LOSS and e.value == 0]
        known = [e for e in events[:events.index(loss)] if e.kind == KNOWN][-1]
        told = known.start + segment.ns(known.value) - segment.ns(0)
        self.assertLessEqual(known.start, loss.start)
        self.assertEqual([k for k in segment.events(KERNEL) if k.start > told], [])
        # Until when, too: no step behind it says that its kernels were recorded.
        until = segment.ns(loss.more[0][0])
        self.assertGreater(until, loss.start)
        self.assertEqual([s for s in self.recorded(segment) if s.start >= until], [])

    def test_callbacks_that_are_stolen_between_blocks_of_steps_are_missed_too(self):
        # Exit code 99 would say that the thief's kinds were turned off with a block's end.
        source = self.run_until("train", lambda: self.cupti_is("stolen"), "stolen",
                                level="auto", TRAINGLASS_BUDGET="50",
                                FAKE_CUPTI_FAULT="steal-after=5000")
        self.assertIn("may have taken CUPTI", source["reason"])
        (segment,) = [s for s in wire.read_all(self.directory) if s.events(KERNEL)]
        events = segment.events(KERNEL, LOSS, KNOWN)
        (loss,) = [e for e in events if e.kind == LOSS and e.value == 0]
        since, until = loss.start, segment.ns(loss.more[0][0])
        # Nothing of the time since then was said to be known before it was said to be lost.
        before = events[:events.index(loss)]
        self.assertLessEqual(max(e.start for e in before if e.kind == KNOWN), since)
        work = [e.start for e in events if e.kind == KERNEL]
        self.assertLessEqual(max(work), until)
        self.assert_kernels(segment, [s for s in self.recorded(segment)
                                      if s.end <= since or s.start >= until])

    def test_a_job_that_stops_profiling_or_ends_cupti_is_said(self):
        for fault in ("stop-after", "finalize-after"):  # cudaProfilerStop, TEARDOWN_CUPTI=1
            with self.subTest(fault=fault):
                source = self.run_until("train", lambda: self.cupti_is("stolen"), "stolen",
                                        FAKE_CUPTI_FAULT=f"{fault}=5000")
                self.assertIn("or ended it, or the job has called cudaProfilerStop",
                              source["reason"])

    def ops_of_steps(self, steps=200):
        ops = try_json(self.port, f"/api/ops?device=cuda&window={steps}steps")
        return ops if ops and ops.get("recorded_steps", 0) >= 20 else None

    def test_kernels_of_a_step_are_right_at_level_auto_while_the_job_runs(self):
        # Blocks of steps are recorded, and their kernels are told long after they ended.
        ops = self.run_until("train", self.ops_of_steps, "steps whose kernels are known",
                             level="auto", TRAINGLASS_BUDGET="50")
        self.assertLessEqual(ops["recorded_steps"], ops["steps"])
        self.assert_whole_steps(ops)

    def test_kernels_that_later_ones_overtake_are_those_of_their_own_steps(self):
        # One that takes 400 ms, in every fiftieth step, keeps the buffer that it is in.
        def told():
            ops = self.ops_of_steps(5000)
            if not ops:
                return None
            gpu = get_json(self.port, "/api/gpu?window=run")
            worked = gpu["devices"] and gpu["devices"][0]["work_count"]
            return (ops, gpu) if worked and worked > 20000 else None
        for version, fault in (("12.4", ""), ("13.0", ""), ("13.0", "threads=1")):
            with self.subTest(version=version, fault=fault):
                environment = {"FAKE_CUPTI_FAULT": fault} if fault else {}
                ops, gpu = self.run_until("overtaking", told, "20,000 pieces of work",
                                          FAKE_CUPTI_VERSION=version, **environment)
                ops["ops"] = [op for op in ops["ops"] if not op["name"].startswith("nccl")]
                self.assert_whole_steps(ops)
                self.assertEqual(gpu["uncounted_work"], 0)

    def test_a_device_tells_on_how_many_of_the_steps_its_means_stand(self):
        def told():
            gpu = try_json(self.port, "/api/gpu?window=200steps")
            known = gpu and gpu["devices"] and gpu["devices"][0]["known_steps"]
            return gpu if known and known >= 20 else None
        gpu = self.run_until("train", told, "steps that are known", level="auto",
                             TRAINGLASS_BUDGET="50")
        (device,) = gpu["devices"]
        self.assertLessEqual(device["known_steps"], gpu["steps"])
        self.assertEqual((gpu["recorded_steps"], device["reason"]), (device["known_steps"], ""))
        self.assertIn(device["summed_steps"], (device["known_steps"], None))
        self.assertGreater(device["per_step_ms"]["compute"], 0)

    def test_what_cupti_drops_while_it_is_turned_off_is_told_though_it_stays_off(self):
        asked = []

        def told():
            source = self.cupti_is("active")
            if source and source["events"] and not asked:
                asked.append(self.ask_level("phases"))
            return asked and source and source["lost_events"]
        lost = self.run_until("train", told, "what was dropped", FAKE_CUPTI_FAULT="drop-off=7")
        self.assertEqual((asked, lost), ([{"asked": 1}], 7))

    def test_of_a_library_that_keeps_everything_it_is_said_that_nothing_has_come(self):
        def told():
            source = self.cupti_is("active")
            return source and get_json(self.port, "/api/gpu")["reason"]
        reason = self.run_until("train", told, "a reason", FAKE_CUPTI_FAULT="starve=1")
        self.assertIn("no GPU work has come yet", reason)

    def test_the_server_shows_kernels_while_the_job_runs(self):
        def trace():
            source = self.cupti_is("active")
            if not source:
                return None
            body = get(self.port, "/api/trace?last=2s")[1]
            return body if b"gemm_kernel" in body and b"cudaLaunchKernel" in body else None
        body = self.run_until("train", trace, "kernels and their launches in the trace")
        self.assertIn(b'"cat":"kernel"', body)

    def test_calls_lie_in_a_downloaded_trace_on_the_thread_that_called(self):
        def trace():
            source = self.cupti_is("active")
            body = get(self.port, "/api/trace?last=2s")[1] if source else b""
            return json.loads(body) if body.count(b"cudaLaunchKernel") > 100 else None
        events = self.run_until("train", trace, "launches in the trace")["traceEvents"]
        (trainer,) = {e["tid"] for e in events if e["name"].startswith("ProfilerStep#")}
        host = [e for e in events if e["pid"] == trainer and e["ph"] == "X"]
        self.assertEqual(list(trace_rules.broken_rules({"traceEvents": host}))[:5], [])
        calls = [e for e in events if e.get("cat") == "cuda_runtime"]
        self.assertEqual({e["tid"] for e in calls if "Launch" in e["name"]}, {trainer})
        self.assertEqual({e["tid"] for e in events if e["ph"] == "s"}, {trainer})


if __name__ == "__main__":
    main()
