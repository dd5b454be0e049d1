"""CUDA graphs by their nodes and as a whole: a job on the fake GPU of tests/fake that launches
one graph in each step, which the setting `cuda_graphs` decides on."""
import collections
import re

from harness import get_json, main
from test_gpu import ALONE, KERNEL, KNOWN, LAUNCH, MEMCPY, MEMSET, STEP_KERNELS, GpuTest
from test_gpu_traces import TraceTest

GRAPH, NODE = "CUDA graph", "node_kernel"
GRAPH_NS, NODES = 5_000_000, 20  # of fake_job.c
COPIES = {"Memcpy HtoD (Pageable -> Device)": 1, "Memset (Device)": 1}
WHOLE = {"FAKE_JOB_GRAPHS": "1", "TRAINGLASS_CUDA_GRAPHS": "whole"}


class GraphTest(GpuTest):
    def assert_steps_hold(self, segment, works, since=0):
        """Every step from a number on that says that its kernels were recorded has these."""
        work = segment.events(KERNEL, MEMCPY, MEMSET)
        claimed = [s for s in self.recorded(segment) if s.number >= since]
        self.assertTrue(claimed)
        for step in claimed:
            inside = collections.Counter(e.name for e in work if step.start <= e.start < step.end)
            self.assertEqual(inside, {**COPIES, **works}, step.number)
        return claimed

    def test_a_launch_is_one_piece_of_work(self):
        segment = self.job("train", 100, FAKE_CUPTI_VERSION="13.0", **WHOLE)
        state, reason, detail, events, lost = self.source(segment)
        self.assertEqual((state, reason, lost), ("active", "", 0))
        self.assertTrue(detail.endswith(", CUDA graphs as a whole: copies, collectives and gaps "
                                        "within count as compute"), detail)
        self.assertEqual(events, len(segment.events(KERNEL, MEMCPY, MEMSET)))
        self.assert_steps_hold(segment, {GRAPH: 1})
        launches = {e.aux: e for e in segment.events(LAUNCH)}
        for graph in segment.events(KERNEL):
            self.assertEqual(launches[graph.aux].name, "cudaGraphLaunch")
            self.assertAlmostEqual(graph.end - graph.start, GRAPH_NS, delta=GRAPH_NS / 1000)
            (stream, grid, block), (number, *_) = graph.more
            self.assertEqual((stream & 0xFFFFFFFF, grid, block), (7, 0, 0))
            self.assertIn(number, range(1, 61))

    def test_no_version_of_cupti_that_may_crash_on_the_whole_is_asked_for_it(self):
        for version in ("11.8", "12.4"):
            with self.subTest(version=version):
                self.clear()
                segment = self.job("train", 60, FAKE_CUPTI_VERSION=version, **WHOLE)
                state, reason, detail, _, lost = self.source(segment)
                self.assertEqual((state, reason, lost), ("active", "", 0))
                self.assertTrue(detail.endswith(", CUDA graphs by their nodes: this CUPTI may "
                                                "crash on the whole"), detail)
                self.assert_steps_hold(segment, {NODE: NODES})

    def test_its_nodes_are_recorded_unless_the_whole_is_asked_for(self):
        for environment in ({}, {"TRAINGLASS_CUDA_GRAPHS": "nodes"}):
            segment = self.job("train", 60, FAKE_JOB_GRAPHS="1", **environment)
            self.assertNotIn("CUDA graphs", self.source(segment)[2])
            self.assert_steps_hold(segment, {NODE: NODES})
            self.clear()

    def test_its_nodes_are_recorded_where_cupti_refuses_the_whole_and_that_is_said(self):
        segment = self.job("train", 60, FAKE_CUPTI_FAULT="no-graphs=27", **WHOLE)
        state, reason, detail, _, lost = self.source(segment)
        self.assertEqual((state, reason, lost), ("active", "", 0))
        self.assertIn(", CUDA graphs by their nodes: CUPTI refuses the whole", detail)
        self.assert_steps_hold(segment, {NODE: NODES})

    def test_its_nodes_are_recorded_where_graphs_may_be_older_than_we(self):
        segment = self.job("train", 200, FAKE_CUPTI_FAULT="slow-subscribe=800", **WHOLE)
        self.assertIn(", CUDA graphs by their nodes: CUDA may have been in use before",
                      self.source(segment)[2])
        self.assert_steps_hold(segment, {NODE: NODES})

    def test_a_graph_that_begins_on_the_host_is_of_the_device_where_it_ends(self):
        segment = self.job("train", 60, FAKE_CUPTI_FAULT="host-first=1", **WHOLE)
        self.assertEqual({e.aux16 for e in segment.events(KERNEL)}, {0x101})

    def test_graphs_that_are_instantiated_between_recorded_steps_are_whole_too(self):
        segment = self.job("train", 300, level="auto", watched="graphs",
                           TRAINGLASS_BUDGET="50", **{**WHOLE, "FAKE_JOB_GRAPHS": "5"})
        self.assertLess(len(self.assert_steps_hold(segment, {GRAPH: 1})), 300)
        # Each launch that is recorded has its graph; what is launched where nothing is recorded
        # may be told without, and is no loss.
        launches = {e.aux for e in segment.events(LAUNCH) if e.name == "cudaGraphLaunch"}
        self.assertLess(launches, {e.aux for e in segment.events(KERNEL)})
        self.assertEqual(self.source(segment)[4], 0)

    def test_where_no_gpu_work_is_recorded_no_graph_is(self):
        segment = self.job("train", 1000, level="phases", watched="graphs", **WHOLE)
        self.assertEqual(segment.events(KERNEL, LAUNCH, MEMCPY), [])
        self.assertEqual(self.source(segment)[::4], ("active", 0))
        # What CUPTI tells all the same is read while the job runs, not only when it begins and
        # ends.
        self.assertGreater(len(segment.events(KNOWN)), 2)

    def assert_nodes_follow(self, segment):
        """The window's graphs would be told as nothing once the whole is on again."""
        self.assertIn("window: error 0, 400 of 400 kernels", self.output)
        self.assert_steps_hold(segment, {NODE: NODES}, since=120)
        early = [s for s in self.recorded(segment) if s.number < 120]
        wholes = [e.start for e in segment.events(KERNEL) if e.name == GRAPH]
        self.assertTrue(early)
        for step in early:
            self.assertEqual(sum(step.start <= at < step.end for at in wholes), 1, step.number)
        self.assertTrue(self.source(segment)[2].endswith(
            ", CUDA graphs by their nodes since another profiler recorded"))

    def test_a_window_of_another_profiler_has_the_nodes_and_so_has_what_follows(self):
        segment = self.job("window", 100, output=None, **WHOLE)
        self.assert_nodes_follow(segment)
        self.assertFalse([s.number for s in segment.steps()
                          if s.flags & STEP_KERNELS and 100 <= s.number < 120])

    def test_a_window_that_waited_in_vain_for_us_has_the_nodes_too(self):
        segment = self.job("window", 100, output=None, FAKE_CUPTI_FAULT="slow-flush=600",
                           FAKE_JOB_SLOW_FLUSH="1", **WHOLE)
        got, launched = re.search(r"error 0, (\d+) of (\d+) kernels", self.output).groups()
        # Until the flush ends that it waited for a launch is one piece, then its nodes.
        self.assertGreater(int(got), 2 * int(launched) / NODES)
        self.assertTrue(self.source(segment)[2].endswith(
            ", CUDA graphs by their nodes since another profiler recorded"))

    def test_nothing_of_ours_is_on_when_python_has_ended(self):
        for level, watched in (("kernels", "kernels"), ("phases", "graphs")):
            self.job("outlive-python", 60, output=ALONE.splitlines(True)[0], level=level,
                     watched=watched, **WHOLE)

    def test_the_tables_hold_the_whole_and_no_rule_judges_it_as_a_kernel(self):
        def told():
            try:
                (row,) = get_json(self.port, f"/api/ops?device=cuda&window=run&q={GRAPH[:4]}"
                                  )["ops"]
                (device,) = get_json(self.port, "/api/gpu?window=run")["devices"]
                found = get_json(self.port, "/api/bottlenecks?window=run")
            except (OSError, AssertionError, ValueError):
                return None
            return device["known_steps"] >= 300 and (row, device, found)
        row, device, found = self.run_until("train", told, "300 steps", level="all",
                                            FAKE_JOB_WATCHED="kernels", **WHOLE)
        self.assertEqual((row["name"], row["kind"]), (GRAPH, "kernel"))
        self.assertAlmostEqual(row["mean_us"], GRAPH_NS / 1e3, delta=GRAPH_NS / 1e6)
        for unknown in ("grid", "block", "registers", "shared_memory_bytes", "occupancy_pct",
                        "tensor_cores"):
            self.assertIsNone(row[unknown], unknown)
        self.assertAlmostEqual(row["per_step_count"], 1, delta=0.01)
        per_step = device["per_step_ms"]
        self.assertAlmostEqual(per_step["compute"], GRAPH_NS / 1e6, delta=0.01)
        self.assertEqual(per_step["communication"], 0)
        # The host waits for the graph, and then does something else for 0.5 ms.
        self.assertGreater(sum(per_step["idle"].values()), 0.4)
        rules = {finding["id"].split("-")[0] for finding in found["findings"]}
        self.assertFalse(rules & {"dominant", "short", "small", "float32", "elementwise"},
                         found["findings"])


class GraphTraceTest(TraceTest):
    def test_a_downloaded_trace_has_the_whole_with_the_flow_from_its_launch(self):
        self.run_and_wait("train", 100, launches=300, **WHOLE)
        events = self.trace()["traceEvents"]
        graphs = [e for e in events if e.get("cat") == "kernel"]
        self.assertEqual({e["name"] for e in graphs}, {GRAPH})
        self.assertEqual(len(graphs), 100)
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        calls = {e["args"]["correlation"]: e for e in events if e["name"] == "cudaGraphLaunch"}
        for graph in graphs:
            self.assertNotIn("grid", graph["args"])
            correlation = graph["args"]["correlation"]
            self.assertEqual(starts[correlation]["tid"], calls[correlation]["tid"])
            self.assertIn((correlation, graph["tid"]),
                          {(e["id"], e["tid"]) for e in events if e["ph"] == "f"
                           and e["id"] == correlation})
        session = self.upload()
        (row,) = get_json(self.port, f"/api/ops?device=cuda&session={session}&q={GRAPH[:4]}")["ops"]
        self.assertEqual((row["count"], row["grid"]), (100, None))


if __name__ == "__main__":
    main()
