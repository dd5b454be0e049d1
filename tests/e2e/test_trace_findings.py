"""What is found in real traces, each read by hand first: the finding, and why it is right.

A price may move by a tenth when its formula becomes better; a finding that appears or
goes is a decision, and belongs here with its reason."""
import unittest

import harness
from traces import TRACES, answer_of, needs_traces, real_trace

# (part of the file's name): [(finding, ms per step, why)]
EXPECTED = {
    "resnet50_num_workers_0": [
        ("data-loading", 59.6,
         "69.3 of 174.8 ms wait for a loader without workers, but the GPU works off its "
         "queue for 9.7 of them. The same job with 4 workers takes 139.7 ms; what it lost "
         "less than promised shows there as launch-bound and host-copies"),
        ("launch-bound", 16.3,
         "the GPU waits while 3,090 AddFunctor kernels of 6 steps are launched one by one"),
        ("optimizer-loop", 15.1,
         "and why: SGD over 161 tensors one by one, aten::add_ and no _foreach_ in 18.8 ms a step"),
        ("zero-grad", 6.0,
         "torch 1.8 zeroed gradients by default: 161 aten::zero_ a step, the GPU idle beside"),
        ("float32-products", 0,
         "sgemm, scudnn and float convolutions on a V100: 65.6 ms of a step, no autocast; but the "
         "host loads, launches and updates without a pause and waits for none of them"),
    ],
    "resnet50_num_workers_4": [
        ("launch-bound", 26.9, "the same optimizer, and workers that take the trainer's cores"),
        ("optimizer-loop", 18.1, "as above, in 22.6 ms"),
        ("host-copies", 7.5,
         "cudaMemcpyAsync holds the host for 9.4 ms a step: HtoD from pageable memory, at 6.1 GB/s; "
         "that the GPU copies alone for 3.3 ms holds up nobody"),
        ("zero-grad", 6.5, "as above"),
        ("float32-products", 0, "as above"),
    ],
    "Qwen_Qwen1.5-0.5B": [
        ("elementwise-kernels", 11.4,
         "1,048 elementwise kernels are 24.8 of 43 ms: rotary embeddings, norms and casts of "
         "an eager model; the GPU is busy for 92 %, so nothing on the host matters"),
    ],
    "gaunernst_bert-small": [
        ("launch-bound", 2.15, "a forward pass of 0.31 ms of kernels in 4.4 ms"),
        ("python-between-ops", 1.81, "the modules' Python between them, recorded with stacks"),
        ("larger-batch", 1.11,
         "the GPU works for 0.31 of 4.43 ms and 0.09 of its 79 GiB are used: as many launches "
         "for twice the samples take half as long for each"),
    ],
    "timeline_analysis__sampled_rank-0": [
        ("python-between-ops", 104.7,
         "Shampoo.step and the start of it run Python without an op for 45 ms at a time; in "
         "backward the file keeps a sample of the ops, so part of it is their absence. Of a gap "
         "of 56.6 ms the next kernel was launched after 0.4: the rest is not the host's"),
        ("exposed-communication", 84.2,
         "all-to-all of embeddings: 168 of 615 ms in ncclSendRecv while nothing computes"),
        ("launch-bound", 37.4, "aten::_foreach_mul_ alone holds the host for 32 ms, the GPU idle"),
        ("collective-wait", 29.6,
         "a collective was queued, nothing else ran, and its kernel began later: peers"),
        ("idle-rest", 0,
         "169 of 615 ms before work that was launched long before: the file keeps a sample of "
         "the kernels"),
    ],
    "trace_filter__sampled_rank-1": [
        ("python-between-ops", 112.1, "as on rank 0, its peer"),
        ("exposed-communication", 75.9, "as on rank 0"),
        ("launch-bound", 45.2, "as on rank 0"),
        ("collective-wait", 32.4,
         "a collective was queued, nothing else ran, and its kernel began later: peers"),
        ("idle-rest", 0, "as on rank 0; there the peers have a finding of their own"),
    ],
}


@needs_traces
class RealTraces(unittest.TestCase):
    def test_each_real_trace_has_the_findings_that_were_read_in_it(self):
        for part, expected in EXPECTED.items():
            found = answer_of(real_trace(part))["findings"]
            with self.subTest(part):
                self.assertEqual([f["id"] for f in found], [e[0] for e in expected])
                for finding, (_, ms, why) in zip(found, expected):
                    self.assertLessEqual(abs(finding["ms_per_step"] - ms), 0.1 * ms, why)

    def test_no_real_trace_is_without_expectation(self):
        names = [path.name for path in TRACES.glob("*.pt.trace.json.gz")]
        names += [path.name for path in TRACES.glob("*__h100__*.json.gz")]
        names += [path.name for path in TRACES.glob("*sampled*.json.gz")]
        self.assertEqual([n for n in names if not any(part in n for part in EXPECTED)], [])

    def test_what_is_found_does_not_depend_on_how_many_rows_are_asked_for(self):
        for part in EXPECTED:
            few, usual, many = (answer_of(real_trace(part), *top)
                                for top in (("--top", "1"), ("--top", "10"), ()))
            with self.subTest(part):
                self.assertEqual(few["findings"], many["findings"])
                self.assertEqual(usual["findings"], many["findings"])
                self.assertEqual(few.get("verdict"), many.get("verdict"))
                self.assertEqual(len(few["ops"]["cpu"]), 1)
                self.assertLessEqual(len(few["top_cuda_ops"]), 1)

    def test_nothing_is_found_to_be_avoidable_twice(self):
        for part in EXPECTED:
            answer = answer_of(real_trace(part))
            with self.subTest(part):
                self.assertLessEqual(answer["avoidable_ms"], answer["step_ms"]["mean"])
                self.assertLessEqual(answer["avoidable_ms"],
                                     sum(f["ms_per_step"] for f in answer["findings"]) + 1e-6)


if __name__ == "__main__":
    harness.main()
