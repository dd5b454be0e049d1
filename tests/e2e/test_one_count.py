"""One word, one count: what analyze counts, compare, cut and torch's tables count too."""
import json

from harness import TrainglassTest, main
from traces import event, kernel, memory


def updates(count=4, step_us=1000):
    """Steps that only the optimizer's updates tell."""
    return [one for number in range(count) for one in (
        event("aten::mm", number * step_us + 100, 200),
        event("Optimizer.step#SGD.step", number * step_us + 700, 200, "user_annotation"))]


INFERENCE = [one for number in range(3) for one in (
    event("aten::mm", number * 100, 50),
    event("cudaLaunchKernel", number * 100 + 10, 5, "cuda_runtime", correlation=number + 1),
    kernel("gemm", number * 100 + 20, 60, correlation=number + 1))]


class OneCount(TrainglassTest):
    def rows(self, events):
        document = self.answer("analyze", self.write(events))
        return {row["name"]: row for row in document["ops"]["cpu"]}, document

    def test_compare_counts_the_steps_that_analyze_counts(self):
        fast = self.write(INFERENCE, "fast.json")
        slow = self.write([{**one, "ts": one["ts"] * 2, "dur": one["dur"] * 2}
                           for one in INFERENCE], "slow.json")
        steps = self.answer("analyze", fast)["steps"]
        compared = self.answer("compare", fast, slow)
        self.assertEqual((steps, compared["base"]["steps"], compared["others"][0]["steps"]),
                         (1, 1, 1))
        text = self.trainglass("compare", fast, slow).stdout
        self.assertIn("1 step", text)
        self.assertIn("gemm", text)

    def test_a_range_whose_only_child_is_itself_counts_once_as_in_key_averages(self):
        rows, _ = self.rows([event("outer", 10 * deep, 100 - 20 * deep, "user_annotation")
                             for deep in range(3)] + [event("aten::mm", 30, 20)])
        self.assertEqual((rows["outer"]["count"], rows["outer"]["total_ms"]), (1, 0.1))

    def test_cut_takes_the_step_numbers_that_analyze_prints(self):
        path = self.write(updates(), "updates.json")
        rows = self.answer("analyze", path)["step_rows"]
        numbers = [row["number"] for row in rows]
        self.assertEqual(numbers, [0, 1, 2, 3])
        out = self.folder / "out.json"
        for number, row in zip(numbers, rows):
            self.trainglass("cut", path, "--steps", str(number), "-o", out, code=0)
            names = [one["name"] for one in json.loads(out.read_text())["traceEvents"]]
            self.assertEqual(names, ["aten::mm", "Optimizer.step#SGD.step"], row)
        done = self.trainglass("cut", path, "--steps", "4-5", "-o", out, code=3)
        self.assertIn("has the steps 0-3, not 4-5", done.stderr)
        whole = self.write(INFERENCE, "inference.json")
        self.assertEqual(self.trainglass("cut", whole, "--steps", "0", "-o", out).returncode, 0)
        self.assertEqual(len(json.loads(out.read_text())["traceEvents"]), 9)

    def test_an_op_whose_only_child_is_itself_counts_once_as_in_key_averages(self):
        rows, _ = self.rows([event("aten::mean", 0, 100), event("aten::mean", 10, 80),
                             event("aten::mean", 20, 60), event("aten::sum", 30, 20)])
        mean = rows["aten::mean"]
        self.assertEqual((mean["count"], mean["total_ms"], mean["self_ms"], mean["max_us"]),
                         (1, 0.1, 0.08, 100))

    def test_an_op_with_another_child_beside_itself_counts_twice(self):
        rows, _ = self.rows([event("aten::mean", 0, 100), event("aten::mean", 10, 60),
                             event("aten::sum", 80, 10)])
        self.assertEqual((rows["aten::mean"]["count"], rows["aten::mean"]["total_ms"],
                          rows["aten::mean"]["self_ms"]), (2, 0.16, 0.09))
        rows, _ = self.rows([event("aten::mean", 0, 100), event("aten::sum", 5, 10),
                             event("aten::mean", 20, 60)])
        self.assertEqual(rows["aten::mean"]["count"], 2)

    def test_device_time_and_memory_of_such_an_op_count_once(self):
        rows, _ = self.rows([
            event("aten::div_", 0, 100), event("aten::div_", 10, 80), memory(40, 512),
            event("cudaLaunchKernel", 30, 5, "cuda_runtime", correlation=1),
            kernel("div", 200, 50, correlation=1)])
        row = rows["aten::div_"]
        self.assertEqual((row["count"], row["device_total_ms"], row["device_self_ms"],
                          row["device_memory_bytes"], row["self_device_memory_bytes"]),
                         (1, 0.05, 0.05, 512, 512))

    def test_what_nests_too_deep_is_counted_and_no_share_passes_a_whole_thread(self):
        depth = 700
        rows, document = self.rows([event(f"op{level}", level, 2 * (depth - level))
                                    for level in range(depth)])
        self.assertAlmostEqual(sum(row["self_ms"] for row in rows.values()), 2 * depth / 1000)
        self.assertLessEqual(max(row["share"] for row in rows.values()), 1)
        self.assertEqual([row["count"] for row in document["incomplete"]], [depth - 512])
        self.assertIn("deeper", document["incomplete"][0]["reason"])

    def test_begins_beyond_what_fits_do_not_end_others(self):
        events = [{"ph": phase, "cat": "cpu_op", "name": f"op{level}", "pid": 5, "tid": 5,
                   "ts": level if phase == "B" else 1000 - level}
                  for phase, levels in (("B", range(200)), ("E", range(199, -1, -1)))
                  for level in levels]
        rows, document = self.rows(events)
        self.assertEqual(rows["op0"]["total_ms"], 1)
        self.assertEqual(document["skipped"]["count"], 72)


if __name__ == "__main__":
    main()
