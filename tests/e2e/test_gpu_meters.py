"""What the GPUs say of themselves, through the real server, from a fake driver's library
(tests/fake): on the page's endpoints, in the metrics and in `doctor`."""
import contextlib
import json
import os

from harness import (BUILD, PATIENCE_S, TrainglassTest, get, get_json, main, try_json,
                     wait_for)

JOB = str(BUILD / "fake" / "fake_job")
GIB = 1 << 30


class MetersTest(TrainglassTest):
    def setUp(self):
        super().setUp()
        self.faults = self.folder / "nvml"
        self.until = self.folder / "until"
        self.tell()

    def tell(self, **values):
        """What the fake driver does from now on."""
        new = self.faults.with_suffix(".new")
        new.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        new.rename(self.faults)

    def driver(self, age="nvml"):
        return {"LD_LIBRARY_PATH": str(BUILD / "fake" / age), "FAKE_NVML": str(self.faults)}

    def job(self, age="nvml", **environment):
        """A job and its server, until end()."""
        self.process = self.start(
            "run", "--linger", "forever", "--level", "kernels", "--", JOB, "train",
            env={"FAKE_JOB_UNTIL": str(self.until), **self.driver(age), **environment})
        return self.process

    def end(self):
        self.until.touch()
        out, err = self.process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.process.returncode, 0, (out, err))

    def hardware(self, window="60s"):
        told = try_json(self.port, f"/api/gpu?window={window}")
        return told and told["hardware"]

    def until_hardware(self, condition, what):
        def ask():
            told = self.hardware()
            return told if told and condition(told) else None
        return wait_for(ask, what)

    def first(self, condition, what):
        """The first device, when it is there and as awaited."""
        return self.until_hardware(
            lambda told: told["devices"] and condition(told["devices"][0]), what)["devices"][0]

    def meters(self):
        """The source as /api/status tells it."""
        session = get_json(self.port, "/api/status")["sessions"][0]
        (source,) = [s for s in session["capabilities"] if s["source"] == "nvml"]
        return source

    def test_a_device_tells_power_clocks_memory_links_and_errors(self):
        self.job()
        device = self.first(lambda d: d["now"]["nvlink_sent_bytes_per_s"] is not None
                            and d["joules_per_step"] is not None, "two samples")
        self.assertEqual((device["device"], device["index"], device["name"], device["pci"]),
                         ("cuda:0", 0, "Fake GPU", "0000:3b:00.0"))
        now = device["now"]
        told = {"busy_share": 0.97, "memory_busy_share": 0.41, "used_bytes": 36 * GIB,
                "power_w": 412, "temperature_c": 71, "sm_mhz": 1755, "memory_mhz": 2619,
                "pcie_sent_bytes_per_s": 1e9, "pcie_received_bytes_per_s": 3e9}
        for name, value in told.items():
            self.assertAlmostEqual(now[name], value, delta=value * 1e-4, msg=name)
        # The fake's counters grow with time: what is divided by it comes out whole.
        self.assertAlmostEqual(now["nvlink_sent_bytes_per_s"] / GIB, 50, delta=5)
        self.assertAlmostEqual(now["nvlink_received_bytes_per_s"] / GIB, 25, delta=2.5)
        self.assertEqual(now["slowed_by"], [])
        self.assertEqual((device["total_bytes"], device["power_limit_w"], device["sm_max_mhz"]),
                         (80 * GIB, 700, 1980))
        self.assertEqual((device["ecc_corrected"], device["ecc_uncorrected"]), (3, 0))
        self.assertEqual((device["xid_count"], device["last_xid"]), (0, None))
        self.assertEqual(device["columns"][:2], ["time_ms", "busy_share"])
        self.assertGreaterEqual(len(device["points"]), 2)
        self.end()

    def test_energy_of_a_step_is_power_by_time(self):
        self.job()
        wait_for(lambda: (self.hardware() or {}).get("joules_per_step"), "energy")
        self.end()
        told = get_json(self.port, "/api/gpu?window=run")
        (device,) = told["hardware"]["devices"]
        self.assertAlmostEqual(device["energy_j"] / device["energy_span_ms"] * 1e3, 412,
                               delta=412 * 0.02)
        # All steps of the run, of which those between the first and last sample count.
        steps = get_json(self.port, "/api/steps?window=run&points=10000")["steps"]
        from_ms, to_ms = device["points"][0][0], device["points"][-1][0]
        inside = sum(max(0, min(to_ms, s["start_ms"] + s["duration_ms"]) -
                         max(from_ms, s["start_ms"])) / s["duration_ms"] for s in steps)
        if len(steps) == told["window"]["last_step"] + 1:
            self.assertAlmostEqual(device["joules_per_step"] * inside, device["energy_j"],
                                   delta=device["energy_j"] * 0.01)
        self.assertEqual(told["hardware"]["joules_per_step"], device["joules_per_step"])
        self.assertIsNone(device["samples_per_joule"])
        wait_for(lambda: get_json(self.port, "/api/gpu")["hardware"]["devices"][0]["now"][
            "power_w"] is None, "a job that has ended to use nothing now")

    def test_energy_that_was_not_told_for_a_while_leaves_that_of_the_rest(self):
        def samples(count):
            return self.first(lambda d: len(d["points"]) >= count, f"{count} samples")
        self.job(age="nvml_old")  # without a counter of energy
        samples(3)
        self.tell(mute=1)
        first = self.first(lambda d: d["now"]["power_w"] is None, "a sample without")
        muted = samples(len(first["points"]) + 6)
        self.assertEqual(muted["now"]["temperature_c"], 71)
        self.tell()
        self.first(lambda d: d["now"]["power_w"], "power again")
        samples(len(muted["points"]) + 3)
        self.end()
        (device,) = get_json(self.port, "/api/gpu?window=run")["hardware"]["devices"]
        self.assertAlmostEqual(device["energy_j"] / device["energy_span_ms"] * 1e3, 412, delta=1)
        points = device["points"]
        self.assertLess(device["energy_span_ms"], points[-1][0] - points[0][0] - 5000)
        self.assertGreater(device["joules_per_step"], 0)

    def test_what_a_device_takes_while_it_waits_is_told_in_joules_of_a_step(self):
        self.tell(idle=70000)
        self.job()
        idle = self.first(lambda d: d["idle_w"] is not None, "an idle second")
        self.assertEqual((idle["idle_w"], idle["now"]["busy_share"]), (70, 0))
        self.tell()

        def found():
            told = get_json(self.port, "/api/bottlenecks")["findings"]
            return next((f for f in told if f["id"].startswith("idle-energy-")), None)
        finding = wait_for(found, "the finding")
        self.end()
        evidence = finding["evidence"]
        self.assertEqual((finding["ms_per_step"], evidence["idle_w"], evidence["device"]),
                         (0, 70, "cuda:0"))
        self.assertGreater(evidence["idle_j_per_step"], 0.05 * evidence["joules_per_step"])
        self.assertLess(evidence["idle_j_per_step"], evidence["joules_per_step"])

    def test_a_process_that_sees_one_of_eight_devices_is_shown_which(self):
        self.tell(devices=8)
        self.job(FAKE_CUDA_DEVICES="1", FAKE_CUDA_FIRST="2")
        told = self.until_hardware(
            lambda t: any(d["device"] for d in t["devices"]), "the job's device")
        self.assertEqual([d["device"] for d in told["devices"]],
                         [None, None, "cuda:0"] + 5 * [None])
        self.assertEqual([d["index"] for d in told["devices"]], list(range(8)))
        self.end()

    def test_the_energy_of_a_step_is_that_of_the_devices_it_works_on(self):
        self.tell(devices=8)
        self.job(FAKE_CUDA_DEVICES="8")
        self.until_hardware(
            lambda t: len(t["devices"]) == 8 and t["joules_per_step"] is not None and
            all(d["energy_j"] for d in t["devices"]), "the energy of eight devices")
        self.end()
        told = get_json(self.port, "/api/gpu?window=run")
        self.assertEqual([d["device"] for d in told["devices"]], ["cuda:0"])
        hardware = told["hardware"]
        self.assertEqual([d["works"] for d in hardware["devices"]], [True] + 7 * [False])
        self.assertEqual([d["joules_per_step"] for d in hardware["devices"]],
                         [hardware["joules_per_step"]] + 7 * [None])

    def test_memory_of_other_processes_is_told_apart(self):
        self.job()
        first = self.first(lambda d: d["now"]["processes_reason"], "a list without us")
        self.assertIn("PID namespace", first["now"]["processes_reason"])
        self.assertIsNone(first["now"]["other_bytes"])
        self.tell(pid=get_json(self.port, "/api/gpu")["pid"])
        now = self.first(lambda d: d["now"]["job_bytes"], "our own")["now"]
        self.assertEqual((now["job_bytes"], now["other_bytes"]), (30 * GIB, 5 * GIB))
        self.end()

    def test_clocks_that_are_held_back_say_why(self):
        self.tell(slowed=0x24)
        self.job()
        device = self.first(lambda d: d["now"]["slowed_by"], "reasons")
        self.assertEqual(device["now"]["slowed_by"], ["power_cap", "thermal"])
        self.assertEqual(device["points"][-1][-1], 1)
        self.end()

    def test_an_xid_is_counted_with_its_number(self):
        self.job()
        self.first(lambda d: d["xid_count"] == 0, "a watched device")
        self.tell(xid=79)
        device = self.first(lambda d: d["xid_count"] == 1, "the event")
        self.assertEqual(device["last_xid"], 79)
        self.assertGreater(device["last_xid_ms"], 0)
        self.end()

    def test_an_old_driver_tells_what_it_can(self):
        self.job(age="nvml_old")
        device = self.first(lambda d: d["joules_per_step"], "energy from power alone")
        now = device["now"]
        self.assertEqual((now["power_w"], now["slowed_by"]), (412, []))
        self.assertIsNone(now["nvlink_sent_bytes_per_s"])
        self.assertIsNone(device["xid_count"])
        self.assertIn("does not tell", now["processes_reason"])
        self.end()

    def test_what_is_not_supported_is_null_and_never_zero(self):
        self.tell(unsupported=1)
        self.job()
        device = self.first(lambda d: d["points"], "a sample")
        numbers = {k: v for k, v in device["now"].items() if k != "processes_reason"}
        self.assertEqual(set(numbers.values()), {None})
        for key in ("total_bytes", "power_limit_w", "ecc_corrected", "xid_count", "energy_j"):
            self.assertIsNone(device[key], key)
        self.end()

    def test_mig_is_said_and_its_instances_are_told_apart(self):
        self.tell(mig=2)
        self.job()
        device = self.first(lambda d: d["energy_j"] and d["now"]["power_w"], "two samples")
        self.assertTrue(device["mig"])
        self.assertIsNone(device["now"]["busy_share"])
        self.assertEqual(device["now"]["power_w"], 412)
        self.assertEqual(
            [(one["name"], one["uuid"], one["used_bytes"], one["total_bytes"])
             for one in device["instances"]],
            [("Fake GPU MIG 1g.10gb", f"MIG-fake-0-{n}", 2 * GIB, 10 * GIB) for n in (1, 3)])
        # Others may have a part of the same GPU: its power is nobody's alone.
        self.assertIsNone(device["joules_per_step"])
        self.assertIsNone(self.hardware()["joules_per_step"])
        self.end()

    def test_doctor_tells_mig_instances(self):
        self.tell(devices=2, mig=3)
        told = self.trainglass("doctor", env=self.driver()).stdout
        self.assertIn("MIG is on on 2, with 6 instances", told)

    def test_one_of_eight_devices_that_is_lost_leaves_seven(self):
        self.tell(devices=8)
        self.job(FAKE_CUDA_DEVICES="8")
        self.until_hardware(lambda t: sum(bool(d["points"]) for d in t["devices"]) == 8,
                            "eight devices")
        self.tell(devices=8, lost=1, xid=79)
        device = self.first(lambda d: d["reason"] and d["xid_count"], "the loss")
        self.assertIn("fallen off the bus", device["reason"])
        self.assertEqual((device["device"], device["last_xid"]), ("cuda:0", 79))
        others = self.hardware()["devices"][1:]
        self.assertEqual([d["now"]["power_w"] for d in others], 7 * [412])
        self.assertEqual([d["device"] for d in others], [f"cuda:{n}" for n in range(1, 8)])
        self.end()

    def test_a_device_that_is_lost_says_so_and_keeps_its_past(self):
        self.job()
        self.first(lambda d: d["points"], "a sample")
        self.tell(lost=1)
        device = self.first(lambda d: d["reason"], "the loss")
        self.assertIn("fallen off the bus", device["reason"])
        self.assertIsNone(device["now"]["power_w"])
        self.assertTrue(device["points"])
        self.end()

    def test_a_driver_that_was_loaded_again_is_asked_anew_and_its_past_stays(self):
        self.job()
        self.first(lambda d: d["points"] and d["xid_count"] == 0, "a sample")
        self.tell(xid=79)
        self.first(lambda d: d["xid_count"] == 1, "the event")
        self.tell(xid=79, loaded=1, init=9)
        device = self.first(lambda d: d["reason"], "the end of the session")
        self.assertIn("answers nothing about this GPU (NVML error 1)", device["reason"])
        told = self.until_hardware(lambda t: t["state"] != "active", "a driver that is gone")
        self.assertIn("not loaded", told["reason"])
        (device,) = told["devices"]
        self.assertEqual((device["device"], device["pci"]), ("cuda:0", "0000:3b:00.0"))
        self.assertIsNone(device["now"]["power_w"])
        self.tell(xid=79, loaded=1)
        self.until_hardware(lambda t: t["state"] == "active", "the driver again")
        device = self.first(lambda d: d["now"]["power_w"], "its numbers")
        self.assertEqual((device["reason"], device["xid_count"], device["last_xid"]), ("", 1, 79))
        self.tell(xid=79, loaded=2)  # in a look's time, with nobody the wiser
        self.first(lambda d: d["reason"], "the end of the session")
        self.first(lambda d: not d["reason"] and d["now"]["power_w"], "its numbers again")
        self.end()
        (device,) = get_json(self.port, "/api/gpu?window=run")["hardware"]["devices"]
        self.assertGreater(device["joules_per_step"], 0)

    def test_a_driver_that_hangs_holds_nobody(self):
        self.job()
        self.first(lambda d: d["points"], "a sample")
        self.tell(hang=1)
        told = self.until_hardware(lambda t: t["state"] != "active", "the silence")
        self.assertIn("has not answered", told["reason"])
        self.assertEqual(self.meters()["state"], "unavailable")
        self.assertIsNone(told["devices"][0]["now"]["power_w"])
        # The collector goes on: steps come in as before.
        before = get_json(self.port, "/api/steps?window=run&points=2")["now_ms"]
        wait_for(lambda: get_json(self.port, "/api/steps?window=run&points=2")["now_ms"] > before,
                 "newer steps")
        self.tell()
        self.until_hardware(lambda t: t["state"] == "active", "an answer again")
        self.end()

    def test_a_server_ends_while_its_driver_hangs(self):
        self.tell(hang=1)
        server = self.serve(env=self.driver())
        job = self.start("run", "--", JOB, "train",
                         env={"FAKE_JOB_UNTIL": str(self.until), **self.driver()})
        self.until_hardware(lambda t: t["state"] != "active", "the silence")
        self.until.touch()
        job.communicate(timeout=PATIENCE_S)
        server.terminate()
        self.assertEqual(server.wait(timeout=PATIENCE_S), 0)

    def test_each_reason_for_no_meters_is_said(self):
        for code, words in ((9, "not loaded"), (4, "permission"), (18, "different versions"),
                            (999, "error 999")):
            with self.subTest(code=code):
                self.tell(init=code)
                told = self.trainglass("doctor", "--json", env=self.driver())
                (row,) = [r for r in json.loads(told.stdout)["sources"]
                          if r["source"] == "gpu meters"]
                self.assertEqual(row["state"], "limited")
                self.assertIn(words, row["reason"])
        self.tell(init=18)
        self.job()
        told = self.until_hardware(lambda t: t["state"] == "unavailable", "the reason")
        self.assertIn("different versions", told["reason"])
        self.assertEqual((told["devices"], told["joules_per_step"]), ([], None))
        self.assertIn("different versions", self.meters()["reason"])
        self.end()

    def test_doctor_has_one_line_for_the_gpu_where_there_is_no_driver(self):
        if any(map(os.path.exists, ("/proc/driver/nvidia/version", "/dev/nvidiactl"))):
            self.skipTest("this machine has a driver")
        told = self.trainglass("doctor").stdout
        self.assertEqual(
            [line for line in told.splitlines() if line[9:].startswith("gpu")],
            ["limited  gpu            no NVIDIA driver on this machine, or none in this "
             "container"])
        rows = json.loads(self.trainglass("doctor", "--json").stdout)["sources"]
        self.assertEqual([row["source"] for row in rows if "gpu" in row["source"]], ["gpu"])

    def test_doctor_names_the_devices(self):
        told = self.trainglass("doctor", env=self.driver())
        self.assertIn("1 x Fake GPU, driver 580.00-fake", told.stdout)

    def test_the_metrics_have_them_under_the_labels_of_other_exporters(self):
        self.tell(devices=2)
        self.job()
        text = wait_for(lambda: b"trainglass_gpu_power_watts{" in (page := self.metrics()) and
                        b"trainglass_step_joules{" in page and page, "power").decode()
        self.assertIn('trainglass_gpu_power_watts{gpu="1",UUID="GPU-fake-1",'
                      'modelName="Fake GPU"} 412', text)
        self.assertIn("trainglass_gpu_temperature_celsius", text)
        self.end()

    def metrics(self):
        with contextlib.suppress(OSError):
            return get(self.port, "/metrics")[1]
        return b""


if __name__ == "__main__":
    main()
