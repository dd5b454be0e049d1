"""Facts of the job, memory, and what is said about each source."""

import importlib
import pathlib
import re
import sys
import types
import unittest
from collections import UserDict, namedtuple
from unittest import mock

import harness
import segment

TABLE = harness.ROOT / "collector" / "wire" / "facts.h"


def of_package(name):
    """A module of the package, which is not installed here."""
    with mock.patch.object(sys, "path", [str(harness.PACKAGES), *sys.path]):
        return importlib.import_module("trainglass." + name)


class Sampler:
    """What torch's and other libraries' have is by name alone."""

    def __init__(self, **held):
        self.__dict__.update(held)


class RandomSampler(Sampler):
    pass


class Facts(harness.TorchTest):
    def test_only_keys_of_the_table_are_written_and_each_has_its_type(self):
        table = dict(re.findall(r'FACT\(\w+, "([a-z0-9_.]+)", (\w+),', TABLE.read_text()))
        types = {"TEXT": str, "NUMBER": int, "REAL": float, "BOOL": bool}
        for job in ("workers", "amp", "compiled"):
            for key, value in self.recorded(job).trainer().facts.items():
                self.assertIn(key, table)
                self.assertIs(type(value), types[table[key]], key)

    def test_the_training_loader_is_described(self):
        facts = self.recorded("workers").trainer().facts
        expected = {
            "dataloader.workers": 2, "dataloader.batch_size": 8, "dataloader.samples": 64,
            "dataloader.batches": 8, "dataloader.pin_memory": False,
            "dataloader.prefetch_factor": 3, "dataloader.persistent_workers": True,
            "dataloader.shuffle": True, "dataloader.drop_last": False,
            "dataloader.dataset": "TensorDataset", "dataloader.start_method": "fork",
        }
        self.assertEqual({key: facts.get(key) for key in expected}, expected)

    def test_a_loader_with_a_sampler_of_batches_is_described_by_that(self):
        facts = self.recorded("batch_sampler").trainer().facts
        expected = {"dataloader.batch_size": 16, "dataloader.shuffle": True,
                    "dataloader.drop_last": True, "dataloader.batches": 4}
        self.assertEqual({key: facts.get(key) for key in expected}, expected)

    def test_samplers_around_samplers_are_followed_and_not_for_ever(self):
        _samplers = of_package("_samplers")
        loader = Sampler(batch_size=None, drop_last=False)
        loader.batch_sampler = Sampler(
            batch_sampler=Sampler(batch_size=32, drop_last=True, split_batches=True,
                                  num_processes=4, sampler=RandomSampler()))
        self.assertEqual(_samplers.facts(loader), {
            "dataloader.batch_size": 8, "dataloader.shuffle": True, "dataloader.drop_last": True})
        loader.batch_sampler = Sampler(batch_size=4, sampler=Sampler(shuffle=False))
        self.assertIs(_samplers.facts(loader)["dataloader.shuffle"], False)
        loader.batch_sampler = Sampler()
        loader.batch_sampler.sampler = loader.batch_sampler
        self.assertEqual(_samplers.facts(loader), {
            "dataloader.batch_size": None, "dataloader.shuffle": None,
            "dataloader.drop_last": False})

    def test_the_functions_that_make_batches_are_named_as_watching_finds_them(self):
        facts = self.recorded("own_functions").trainer().facts
        self.assertEqual(facts["dataloader.dataset"], "Counted")
        self.assertEqual(facts["dataloader.functions"],
                         "__main__.Counted.__getitem__,__main__.stacked")
        self.assertNotIn("dataloader.functions", self.recorded("workers").trainer().facts)

    def test_a_loader_that_nobody_keeps_is_described_too(self):
        facts = self.recorded("passing").trainer().facts
        self.assertEqual((facts["dataloader.workers"], facts["dataloader.samples"]), (0, 64))
        self.assertIn("dataloader.collate_share", facts)

    def test_asking_a_stream_for_its_length_makes_torch_warn_of_nothing(self):
        facts = self.recorded("streams").trainer().facts
        self.assertEqual((facts["dataloader.samples"], facts["dataloader.batches"]), (2, 2))

    def test_tensors_are_counted_in_what_holds_them_and_in_no_endless_lists(self):
        _loaders = of_package("_loaders")
        pair = namedtuple("pair", "inputs targets")
        for batch, count in ((1, 1), ([1, (1, "a")], 2), (UserDict(ids=1, mask=1), 2),
                             ({"boxes": [1, 1, 1], "of": pair(1, None)}, 4), (object(), 0)):
            self.assertEqual(len(_loaders.tensors_in(batch, int)[0]), count)
        endless = []
        endless += [endless] * 100
        self.assertEqual(_loaders.tensors_in(endless, int), ([], False))
        texts = {"texts": ["a"] * 100000, "ids": 1, "mask": [2]}
        self.assertEqual(_loaders.tensors_in(texts, int), ([1], False))

    def test_the_tensors_of_a_batch_are_told_whoever_loads_it(self):
        self.assertEqual(self.recorded("plain").trainer().facts["dataloader.tensors"], 2)
        self.assertEqual(self.recorded("workers").trainer().facts["dataloader.tensors"], 2)

    def test_the_share_of_collating_is_told_of_the_trainer_and_of_workers_that_are_forks(self):
        for job in ("collates", "collates_in_workers"):
            share = self.recorded(job).trainer().facts["dataloader.collate_share"]
            self.assertGreater(share, 0.5, job)
            self.assertLessEqual(share, 1, job)
        for job in ("plain", "workers"):
            share = self.recorded(job).trainer().facts["dataloader.collate_share"]
            self.assertLess(share, 1, job)

    def test_a_loader_may_get_more_workers_and_a_worker_lets_its_data_set_go(self):
        facts = self.recorded("more_workers").trainer().facts
        self.assertEqual(facts["dataloader.workers"], 3)
        self.assertLess(facts["dataloader.collate_share"], 1)

    def test_the_time_of_garbage_collections_is_told(self):
        trainer = self.recorded("collates").trainer()
        seconds = trainer.facts["gc.seconds"]
        self.assertGreater(seconds, 0)
        self.assertLess(seconds, 60)
        self.assertIn("gc.seconds", self.recorded("plain").trainer().facts)

    def test_a_loader_that_only_validates_is_not(self):
        facts = self.recorded("validate").trainer().facts
        self.assertEqual((facts["dataloader.samples"], facts["dataloader.loaders"]), (64, 1))

    def test_optimizer_and_precision_are_described(self):
        facts = self.recorded("amp").trainer().facts
        expected = {"optimizer.class": "AdamW", "optimizer.foreach": False, "optimizer.count": 1,
                    "optimizer.device": "cpu", "optimizer.dtype": "float32",
                    "optimizer.parameters": 6, "amp.dtype": "bfloat16"}
        self.assertEqual({key: facts.get(key) for key in expected}, expected)
        self.assertNotIn("optimizer.fused", facts)

    def test_an_optimizer_of_a_name_of_torchs_from_elsewhere_is_not_torchs(self):
        _facts = of_package("_facts")

        def told(name, module, **torchs):
            with mock.patch.dict(sys.modules, {"torch.optim": types.SimpleNamespace(**torchs)}):
                return _facts._class_of(type(name, (), {"__module__": module})())
        self.assertEqual(told("Adam", "torch.optim.adam", Adam=1), "Adam")
        self.assertEqual(told("Adam", "bitsandbytes.optim.adam", Adam=1), "bitsandbytes.Adam")
        self.assertEqual(told("Lion", "bitsandbytes.optim.lion", Adam=1), "Lion")

    def test_compilation_is_counted(self):
        facts = self.recorded("compiled").trainer().facts
        self.assertIs(facts["compile.used"], True)
        self.assertGreaterEqual(facts["compile.count"], 1)
        self.assertGreater(facts["compile.seconds"], 0)

    def test_an_update_that_was_compiled_is_said_to_be(self):
        facts = self.recorded("compiled_updates").trainer().facts
        self.assertIs(facts["optimizer.compiled"], True)
        self.assertNotIn("optimizer.compiled", self.recorded("compiled").trainer().facts)

    def test_the_outermost_framework_on_the_stack_is_the_jobs(self):
        _framework = of_package("_framework")

        def inside(*modules):
            """What is running where the last of them is called by the one before."""
            if not modules:
                return _framework.running()
            code = "def call(inner, rest): return inner(*rest)"
            space = {"__name__": modules[0]}
            exec(code, space)
            return space["call"](inside, modules[1:])

        for modules, framework in (
                (("train", "transformers.trainer", "accelerate.optimizer"), "transformers"),
                (("trl.trainer.grpo_trainer", "transformers.trainer"), "transformers"),
                (("train", "accelerate.data_loader"), "accelerate"),
                (("lightning.pytorch.trainer.trainer", "lightning.fabric.wrappers"), "lightning"),
                (("train", "lightning_fabric.wrappers"), "fabric"),
                (("ignite.engine.engine", "train"), "ignite"),
                (("accelerate.launchers", "train"), None),  # starts a loop, and is none
                (("transformers.models.bert.modeling_bert",), None),
                ((), None)):
            self.assertEqual(inside(*modules), framework, modules)

    def test_a_loop_of_ones_own_is_no_frameworks(self):
        self.assertNotIn("framework", self.recorded("plain").trainer().facts)

    def recompiled(self, job):
        facts = self.recorded(job).trainer().facts
        return facts["compile.recompilations"], facts["compile.recompilations_most"]

    def test_functions_and_modules_that_are_compiled_once_are_not_compiled_again(self):
        self.assertEqual(self.recompiled("compiled_once"), (0, 0))

    def test_a_function_is_compiled_again_for_each_further_shape(self):
        self.assertEqual(self.recompiled("compiled_again"), (4, 4))

    def test_a_function_that_torch_gives_up_was_compiled_eight_times(self):
        again, most = self.recompiled("compiled_often")
        self.assertEqual(again, most)
        self.assertIn(most, (7, 8))  # newer torch counts the one that it refuses

    def test_command_and_versions_are_said(self):
        facts = self.recorded("plain").trainer().facts
        self.assertIn("jobs.py plain --steps 20", facts["command"])
        self.assertEqual(pathlib.Path(facts["script"]).name, "jobs.py")
        self.assertRegex(facts["version.torch"], r"^2\.")


class Sources(harness.TorchTest):
    def test_each_source_of_torch_says_that_it_works(self):
        rows = self.recorded("plain").trainer().capabilities
        for source in ("cpu_ops", "ranges", "cpu_memory", "python", "stacks"):
            self.assertEqual(rows[source][0], "active", (source, rows[source]))

    def test_an_unknown_torch_is_refused_with_the_reason(self):
        run = self.run_python(harness.HERE / "strange_torch.py", harness.PACKAGES,
                              harness.LIBRARY, watched=False)
        state, reason, *_ = run.trainer().capabilities["cpu_ops"]
        self.assertEqual((state, reason),
                         ("unavailable", "this torch has other record scopes"))

    def test_stacks_are_written_on_the_signal(self):
        run = self.run_python(harness.HERE / "hang.py")
        (path,) = self.directory.glob("*.stacks")
        self.assertIn("in stuck_here", path.read_text())
        self.assertIn("hang.py", path.read_text())
        self.assertEqual(run.stderr, "")


class Memory(harness.TorchTest):
    def test_totals_of_every_step_are_exact(self):
        for level in ("ops", "phases"):
            with self.subTest(level):
                self.totals(level)

    def totals(self, level):
        trainer = self.recorded("memory", level=level).trainer()
        samples = [e for e in trainer.events(segment.MEMORY) if e.aux16 == 0]
        self.assertEqual(len(samples), 20)
        usual = samples[5:]
        allocated = {sample.value for sample in usual}
        self.assertLessEqual(max(allocated) - min(allocated), 4096)
        for sample in usual:
            (_, peak, counts), (fresh, _, _) = sample.more
            allocations, frees = counts & 0xFFFFFFFF, counts >> 32
            self.assertAlmostEqual(peak - sample.value, 8_000_000, delta=200_000)
            self.assertGreaterEqual(fresh, 8_000_000)
            self.assertEqual(allocations, frees)

    def test_the_operator_at_the_peak_is_named(self):
        trainer = self.recorded("memory", level="ops").trainer()
        names = {e.name for e in trainer.events(segment.MEMORY)[5:]}
        self.assertTrue(all(name.startswith("aten::") for name in names), names)

    def test_single_allocations_add_up_to_the_totals(self):
        trainer = self.recorded("memory", level="ops").trainer()
        events = trainer.events(segment.ALLOC)
        steps = trainer.steps()
        samples = {e.end: e for e in trainer.events(segment.MEMORY)}
        for before, step in zip(steps[5:], steps[6:]):
            inside = [e for e in events if before.end <= e.start < step.end]
            signed = [e.value - (1 << 64) if e.value >> 63 else e.value for e in inside]
            change = samples[step.end].value - samples[before.end].value
            self.assertEqual(sum(signed), change)
            counts = samples[step.end].more[0][2]
            self.assertEqual(len([s for s in signed if s >= 0]), counts & 0xFFFFFFFF)

    def test_a_failed_allocation_reaches_the_script(self):
        run = self.run_python("-c", "import torch\n"
                              "try:\n    torch.empty(1 << 50)\n"
                              "except RuntimeError as error:\n    print('refused', error)")
        self.assertIn("refused", run.stdout)


# It needs no GPU: torch chooses its allocator when it is loaded, or is told another before
# it has allocated.
PLUGGED = """
memory = torch.cuda.memory
memory.change_current_allocator(memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free"))
"""
TRAINS = """
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
"""


# An allocator of CUDA that says what it is told to, where there is none.
FAKE_CUDA = """
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 3
torch.cuda.get_allocator_backend = lambda: {backend!r}
torch.cuda.memory_stats_as_nested_dict = lambda device: {{
    "inactive_split_bytes": {{"all": {{"current": 1000 * device}}}}}}
"""


class InactiveSplit(harness.TorchTest):
    def facts(self, backend):
        run = self.run_python("-c", "import torch\n" + FAKE_CUDA.format(backend=backend) + TRAINS)
        return run.trainer().facts

    def test_what_is_free_beside_live_blocks_is_told_as_the_allocator_says_it(self):
        facts = self.facts("native")
        self.assertEqual(facts["allocator.device"], 3)
        self.assertEqual(facts["allocator.inactive_split_bytes"], 3000)

    def test_another_allocator_is_not_asked(self):
        self.assertNotIn("allocator.inactive_split_bytes", self.facts("cudaMallocAsync"))


class DeviceAllocator(harness.TorchTest):
    def said(self, before="", **environment):
        run = self.run_python("-c", "import torch\n" + before + TRAINS, **environment)
        state, reason, *_ = run.trainer().capabilities["device_memory"]
        if reason == "no accelerator's allocator is loaded":
            self.skipTest("this torch was built without CUDA")
        self.assertEqual(state, "unavailable")
        return reason

    def test_torchs_own_is_not_said_to_report_before_it_has(self):
        self.assertEqual(self.said(), "nothing was allocated on a device yet")

    def test_cuda_malloc_async_is_named(self):
        self.assertIn("PYTORCH_CUDA_ALLOC_CONF names cudaMallocAsync",
                      self.said(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"))

    def test_a_pluggable_one_is_named(self):
        self.assertIn("a pluggable allocator is in use", self.said(PLUGGED))


if __name__ == "__main__":
    unittest.main()
