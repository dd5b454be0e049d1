"""The package itself, without torch: what a script may say, and that it costs nothing."""

import importlib.util
import json
import os
import subprocess
import textwrap
import unittest

import harness
import segment

FAKES = harness.LIBRARY.parents[1] / "fake"

EVERYTHING = """
    import asyncio, trainglass
    from trainglass import _library

    print(type(_library.calls.mark).__name__)
    ATTACH

    class Whole:
        def __index__(self):
            return 64

    @trainglass.annotate("function")
    def function(a, b=2):
        "its text"
        return a + b

    @trainglass.annotate("generator")
    def generator():
        got = yield 1
        with trainglass.annotate("inside"):
            yield got
        return 3

    @trainglass.annotate("coroutine")
    async def coroutine():
        await asyncio.sleep(0)
        with trainglass.annotate("awaited"):
            await asyncio.sleep(0)
        return 4

    @trainglass.annotate("async generator")
    async def numbers():
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def collect():
        return [number async for number in numbers()]

    @trainglass.annotate("kept")
    def keeps():
        try:
            yield 1
        except KeyError:
            yield 2

    @trainglass.annotate("answers")
    async def answers():
        got = yield 1
        try:
            yield got
        except KeyError:
            yield 3

    async def converse():
        one = answers()
        said = [await one.asend(None), await one.asend(2), await one.athrow(KeyError())]
        await one.aclose()
        return said

    def fails():
        with trainglass.annotate("failing"):
            raise KeyError("through")

    assert (function.__name__, function.__doc__, function(1, b=3)) == ("function", "its text", 4)
    one = generator()
    assert (next(one), one.send(5)) == (1, 5)
    try:
        next(one)
    except StopIteration as stop:
        assert stop.value == 3
    assert asyncio.run(coroutine()) == 4
    assert asyncio.run(collect()) == [0, 1, 2]
    one = keeps()
    assert (next(one), one.throw(KeyError())) == (1, 2)
    one.close()
    assert asyncio.run(converse()) == [1, 2, 3]
    try:
        fails()
    except KeyError:
        pass
    for number in range(3):
        trainglass.epoch(number)
        with trainglass.phase("data"):
            pass
        with trainglass.phase("forward"):
            trainglass.metric("loss", 0.5 ** number)
        trainglass.step(samples=(32, Whole(), "many")[number])
        trainglass.metric("bad", "no number")
    try:
        trainglass.phase("other")
    except ValueError as error:
        print(error)
    with trainglass.annotate("caf\\u00e9 \\ud800"):
        pass
"""


def script(attach):
    return textwrap.dedent(EVERYTHING).replace("ATTACH", attach)


class Package(harness.TorchTest):
    def python(self, text, **more):
        more.setdefault("PYTHONPATH", str(harness.PACKAGES))
        return self.run_python("-c", text, level="all", **more)

    def check(self, run):
        trainer = run.trainer()
        names = [e.name for e in trainer.events(segment.USER_RANGE)]
        for name, count in (("function", 1), ("generator", 3), ("inside", 1), ("coroutine", 3),
                            ("awaited", 1), ("failing", 1)):
            self.assertEqual(names.count(name), count, name)
        self.assertGreaterEqual(names.count("async generator"), 4)
        self.assertGreaterEqual(names.count("kept"), 3)
        self.assertGreaterEqual(names.count("answers"), 4)
        self.assertEqual([row.number for row in trainer.steps()], [0, 1, 2])
        self.assertEqual([row.epoch for row in trainer.steps()], [1, 2, 3])
        self.assertTrue(all(row.flags & segment.STEP_MARKED for row in trainer.steps()))
        samples = [(e.value, e.aux) for e in trainer.events(segment.SAMPLES)]
        self.assertEqual(samples, [(32, 0), (64, 1)])
        metrics = [(e.name, e.aux) for e in trainer.events(segment.METRIC)]
        self.assertEqual(metrics, [("loss", 0), ("loss", 1), ("loss", 2)])
        self.assertIn("phase 'other' is none of data, forward, backward, optimizer", run.stdout)
        self.assertEqual(run.stderr, "")

    @unittest.skipUnless((harness.LIBRARY.parent / "_native.abi3.so").exists(),
                         "built without Python's headers")
    def test_what_a_script_says_is_recorded(self):
        run = self.python(script("assert trainglass.attach()"))
        self.assertIn("builtin_function_or_method", run.stdout.split())
        self.check(run)

    def test_without_the_extension_the_same_is_recorded(self):
        blocked = "import sys; sys.modules['trainglass._native'] = None\n"
        run = self.python(blocked + script("assert trainglass.attach()"))
        self.assertIn("method", run.stdout.split())
        self.check(run)

    def test_a_number_that_is_none_raises_nothing(self):
        done = self.python(
            "import trainglass, sys\n"
            "class Odd:\n"
            "    def __float__(self): raise RuntimeError('a tensor of two numbers')\n"
            "    __index__ = __float__\n"
            "from trainglass._fallback import Hot\n"
            "for one in (trainglass, Hot()):\n"
            "    for value in (10**400, Odd(), None, 'x', float('nan')):\n"
            "        one.metric('loss', value)\n"
            "        one.step(value)\n"
            "print('on')\n")
        self.assertEqual((done.stdout, done.stderr), ("on\n", ""))

    def test_before_attach_every_call_does_nothing(self):
        run = self.python(script(""))
        self.assertEqual((run.segments, run.stderr), ([], ""))

    def test_without_the_library_every_call_does_nothing_and_says_why_once(self):
        attach = "assert not trainglass.attach() and not trainglass.attach()"
        run = self.python(script(attach), TRAINGLASS_LIBRARY="/nowhere/libtrainglass.so")
        self.assertEqual(run.segments, [])
        self.assertEqual(run.stderr, "trainglass: this process is not recorded: "
                         "libtrainglass.so was not found\n")

    def beside_the_extension(self, library):
        """The library of that fake in a folder of its own, with the extension of the build."""
        folder = self.directory / library
        folder.mkdir()
        (folder / "libtrainglass.so").symlink_to(FAKES / library / "libtrainglass.so")
        for extension in harness.LIBRARY.parent.glob("_native*.so"):
            (folder / extension.name).symlink_to(extension)
        return folder / "libtrainglass.so"

    def test_a_library_of_another_version_is_said_once_and_every_call_does_nothing(self):
        attach = "assert not trainglass.attach() and not trainglass.attach()"
        for name, path in (("fallback", FAKES / "library" / "libtrainglass.so"),
                           ("extension", self.beside_the_extension("library"))):
            with self.subTest(name=name):
                run = self.python(script(attach), TRAINGLASS_LIBRARY=str(path))
                self.assertEqual(run.segments, [])
                self.assertEqual(run.stderr, "trainglass: this process is not recorded: "
                                 "libtrainglass.so cannot be used: library and package have "
                                 "different versions\n")

    def test_of_an_older_library_what_it_lacks_does_nothing(self):
        for name, path in (
                ("fallback", FAKES / "library_old" / "libtrainglass.so"),
                ("extension", self.beside_the_extension("library_old"))):
            with self.subTest(name=name):
                run = self.python(script("trainglass.attach()"), TRAINGLASS_LIBRARY=str(path))
                self.assertEqual(run.segments, [])
                self.assertEqual(run.stdout.split()[1:],
                                 self.python(script("")).stdout.split()[1:])

    def test_a_window_that_nobody_can_record_is_said_once(self):
        run = self.python("import trainglass\nprint([trainglass.window(5) for _ in range(3)])")
        self.assertEqual((run.segments, run.stdout), ([], "[None, None, None]\n"))
        self.assertEqual(run.stderr, "trainglass: no window: this process is not recorded; "
                         "see trainglass.attach()\n")

    def test_so_is_a_window_of_a_process_that_has_no_torch(self):
        hidden = self.directory / "packages"  # beside no torch, which this Python may have
        hidden.mkdir()
        (hidden / "trainglass").symlink_to(harness.PACKAGES / "trainglass")
        run = self.run_python("-S", "-c", "import trainglass\nassert trainglass.attach()\n"
                              "print([trainglass.window(5) for _ in range(3)])",
                              PYTHONPATH=str(hidden))
        self.assertEqual((run.stdout, run.stderr),
                         ("[None, None, None]\n", "trainglass: no window: there is no torch here\n"))

    def test_a_directory_that_cannot_be_written_is_said_once(self):
        attach = "assert not trainglass.attach() and not trainglass.attach()"
        run = self.python(script(attach), TRAINGLASS_DIR="/proc/nowhere")
        self.assertEqual(run.stderr.count("trainglass: this process is not recorded:"), 1)

    def test_a_torch_that_is_a_scripts_own_or_half_imported_is_looked_at_once(self):
        run = self.python(textwrap.dedent("""
            import sys, types
            sys.modules["torch"] = types.ModuleType("torch")
            import trainglass
            from trainglass import _attach
            looks, look = [], _attach._with_torch
            _attach._with_torch = lambda awake: (looks.append(awake), look(awake))
            print(trainglass.attach(), len(looks))
        """))
        self.assertEqual((run.stdout, run.stderr), ("True 1\n", ""))

    def test_the_package_is_found_under_run_without_being_installed(self):
        run = self.python(script("assert trainglass.attach()"), PYTHONPATH=str(harness.SITE))
        self.check(run)

    def test_a_forked_child_that_annotates_is_a_worker_with_a_small_segment(self):
        run = self.python(textwrap.dedent("""
            import os, trainglass
            assert trainglass.attach()
            trainglass.step()
            child = os.fork()
            with trainglass.annotate("both"):
                pass
            if child:
                os.waitpid(child, 0)
        """))
        roles = {one.role: one for one in run.segments}
        self.assertEqual(sorted(roles), ["trainer", "worker"])
        self.assertEqual(roles["worker"].parent, roles["trainer"].pid)
        self.assertLessEqual(len(roles["worker"].bytes), 256 * 1024)
        for one in run.segments:
            self.assertEqual([e.name for e in one.events(segment.USER_RANGE)], ["both"])

    def test_collections_of_garbage_are_marked_with_their_length(self):
        run = self.python("import gc, trainglass\ntrainglass.attach()\ngc.collect()\ngc.collect()")
        marks = [e for e in run.trainer().events(segment.MARK) if e.flags == 5 and e.aux == 2]
        self.assertGreaterEqual(len(marks), 2)
        self.assertTrue(all(mark.value > 0 for mark in marks))


class AsModule(harness.TorchTest):
    """`python -m trainglass`, with the program and where it is missing."""

    SHOW = ("import json, os; print(json.dumps({k: v for k, v in os.environ.items() "
            "if k.startswith(('TRAINGLASS', 'PYTHON', 'NVTX', 'CUDA'))}))")

    def module(self, *words, **more):
        values = harness.environment(self.directory, PYTHONPATH=str(harness.PACKAGES), **more)
        values.setdefault("TRAINGLASS_PROGRAM", "/nowhere/trainglass")
        command = [harness.PYTHON, "-m", "trainglass", *map(str, words)]
        return subprocess.run(command, env=values, capture_output=True, text=True, check=False,
                              timeout=harness.SECONDS, cwd=self.directory)

    def tool(self, text):
        path = self.directory / "program"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def test_without_the_program_run_records_its_command_and_says_it_in_one_line(self):
        ended = self.module("run", "--no-server", "--name", "mine", "--level=ops", "--budget", "2",
                            "--cuda-graphs", "whole", "--", harness.PYTHON, "-c", self.SHOW)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stderr.count("trainglass:"), 1)
        seen = json.loads(ended.stdout)
        for name, value in (("TRAINGLASS_RUN_NAME", "mine"), ("TRAINGLASS_LEVEL", "ops"),
                            ("TRAINGLASS_BUDGET", "2"), ("TRAINGLASS_CUDA_GRAPHS", "whole"),
                            ("TRAINGLASS_LIBRARY", str(harness.LIBRARY)),
                            ("NVTX_INJECTION64_PATH", str(harness.LIBRARY)),
                            ("PYTHONPATH", f"{harness.SITE}{os.pathsep}{harness.PACKAGES}")):
            self.assertEqual(seen[name], value)

    def test_without_the_program_a_profiler_of_nvidias_finds_cuda_free_too(self):
        tool = self.directory / "ncu"
        tool.write_text('#!/bin/sh\necho "<$CUDA_INJECTION64_PATH>"\n')
        tool.chmod(0o755)
        self.assertEqual(self.module("run", str(tool)).stdout, "<>\n")

    def test_without_the_library_the_command_runs_and_that_is_said_too(self):
        ended = self.module("run", harness.PYTHON, "-c", "print('trained')",
                            TRAINGLASS_LIBRARY="/nowhere/libtrainglass.so")
        self.assertEqual((ended.returncode, ended.stdout), (0, "trained\n"))
        self.assertIn("nothing is recorded", ended.stderr)

    def test_what_needs_the_program_or_cannot_be_meant_ends_with_a_sentence(self):
        for words, code, sentence in (
            (["run", "--report", "x.html", "--", "true"], 2, "--report needs the trainglass program"),
            (["run", "--name"], 2, "--name needs a value"),
            (["run", "--"], 2, "run needs a command"),
            (["run", "/nowhere/at/all"], 127, "command not found"),
            (["run", "/"], 126, "Permission denied"),
            (["serve"], 4, "not installed here"),
        ):
            ended = self.module(*words)
            self.assertEqual(ended.returncode, code, ended.stderr)
            self.assertIn(sentence, ended.stderr)

    def test_with_the_program_every_word_goes_to_it(self):
        tool = self.tool('#!/bin/sh\necho "$@"\nexit 5\n')
        ended = self.module("analyze", "a b.json", "--json", TRAINGLASS_PROGRAM=tool)
        self.assertEqual((ended.returncode, ended.stdout), (5, "analyze a b.json --json\n"))

    def test_the_doctor_asks_the_interpreter_that_the_package_is_in(self):
        tool = self.tool('#!/bin/sh\necho "$@"\n')
        ended = self.module("doctor", TRAINGLASS_PROGRAM=tool)
        self.assertEqual(ended.stdout, f"doctor --python {harness.PYTHON}\n")

    def test_a_program_that_cannot_be_run_is_said_and_run_goes_on_without_it(self):
        ended = self.module("run", "--", "true", TRAINGLASS_PROGRAM=self.tool("no program\n"))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("cannot be run", ended.stderr)


class Numbers(unittest.TestCase):
    def test_the_package_has_the_numbers_of_the_headers(self):
        path = harness.PACKAGES / "trainglass" / "_constants.py"
        spec = importlib.util.spec_from_file_location("constants", path)
        constants = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(constants)
        text = (harness.ROOT / "collector" / "probe" / "steps" / "steps.h").read_text()
        body = text[text.index("enum steps_mark_kind {") : text.index("STEPS_MARKS,")]
        names = [line.split("STEPS_")[1].split(",")[0] for line in body.splitlines()
                 if line.strip().startswith("STEPS_")]
        for number, name in enumerate(names):
            if hasattr(constants, name):
                self.assertEqual(getattr(constants, name), number, name)
        self.assertIn("FETCH_EXHAUSTED", names)


if __name__ == "__main__":
    unittest.main()
