"""Watched functions: what they cost is counted, what they do is not changed."""

import contextlib
import io
import itertools
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collector" / "python"))

import watched
import watched_twin

from trainglass.watch import tally
from trainglass.watch.loaders import Begin, Watching, watching
from trainglass.watch.stage import Heard, Told


def in_child(name, count):
    for _ in range(count):
        getattr(watched, name)([1, 2])


class Watched(unittest.TestCase):
    def watching(self, *names):
        one = Watching(list(names))
        one.start()
        self.addCleanup(one.stop)
        return one

    def spawned(self, watching, *stage):
        """Three calls in a spawned child that watches the same."""
        begin = pickle.loads(pickle.dumps(
            Begin(watching.names, watching.tally.folder, None, *stage)))
        child = multiprocessing.get_context("spawn").Process(target=spawned, args=(begin, sys.path))
        child.start()
        child.join()
        self.assertEqual(child.exitcode, 0)

    def calls(self, watching):
        return [counts.calls for _, counts in watching.take()]


class WhatItDoes(Watched):
    def test_calls_are_counted_with_their_time(self):
        watching = self.watching("watched.polygons")
        self.assertEqual(watched.polygons([1, 2], scale=3, offset=1), 7)
        self.assertEqual(watched.polygons([1, 2]), 2)
        ((label, counts),) = watching.take()
        self.assertEqual((label, counts.calls), ("polygons", 2))
        self.assertGreaterEqual(counts.mean_ms, 2.0)
        self.assertGreaterEqual(counts.percentile_ms(95), 1.94)

    def test_every_reference_to_the_function_is_timed_and_stays_the_same_object(self):
        reference = watched.polygons
        watching = self.watching(watched.polygons)
        reference([1])
        watched.half([1])
        self.assertIs(pickle.loads(pickle.dumps(reference)), watched.polygons)
        self.assertEqual(self.calls(watching), [2])

    def test_functions_of_every_kind_do_what_they_did(self):
        squares = watched.Squares()
        names = ("add_ten", "numbers", "Squares.__getitem__", "Squares.still", "Squares.made")
        watching = self.watching(*("watched." + name for name in names), squares, watched.half)
        self.assertEqual(watched.add_ten(5), 15)
        self.assertEqual(list(watched.numbers(3)), [0, 1, 2])
        self.assertEqual(squares[3], [9.0])
        self.assertEqual((squares.still(1), watched.Squares.still(1)), (2, 2))
        self.assertEqual(squares.made(1), ("Squares", 1))
        self.assertEqual(squares(4), -4)
        self.assertEqual(watched.half([1, 2]), 1.0)
        self.assertEqual(self.calls(watching), [1, 1, 1, 2, 1, 1, 1])
        self.assertEqual(watching.problems, [])

    def test_an_exception_comes_through_and_is_a_call(self):
        watching = self.watching("watched.fails")
        with self.assertRaises(KeyError):
            watched.fails(1)
        self.assertEqual(self.calls(watching), [1])

    def test_after_stop_everything_is_as_before(self):
        code = watched.polygons.__code__
        watching = Watching(["watched.polygons"])
        watching.start()
        self.assertIsNot(watched.polygons.__code__, code)
        folder = watching.tally.folder
        watching.stop()
        self.assertIs(watched.polygons.__code__, code)
        self.assertFalse(os.path.exists(folder))

    def test_what_cannot_be_watched_is_one_sentence_that_says_what_to_write(self):
        wrong = {
            "nowhere.at.all": "there is no module",
            "watched.absent": "no 'absent'",
            "math.sqrt": "name the one that calls it",
            "watched.Squares": "is a class; name a method",
        }
        watching = self.watching(*wrong)
        self.assertEqual(len(watching.problems), len(wrong))
        for problem, sentence in zip(watching.problems, wrong.values()):
            self.assertIn(sentence, problem)


    def test_a_name_that_does_not_exist_names_those_that_are_near(self):
        watching = self.watching("watched.poligons", "watched.Squares.stil", "wached.polygons")
        for problem, near in zip(watching.problems, ("polygons", "still", "watched")):
            self.assertRegex(problem, f"; near it: (.*, )?{near}\\b")
        self.assertEqual(watching.take(), [])

    def test_functions_of_one_last_name_are_told_apart_by_the_rest(self):
        watching = self.watching("watched.polygons", watched_twin.polygons, "watched.half",
                                 "watched.add_ten", lambda: 1, lambda: 2)
        watched.polygons([1])
        watched_twin.polygons()
        watched_twin.polygons()
        told = [(label, counts.calls) for label, counts in watching.take()]
        self.assertEqual(told[:3], [("watched.polygons", 1), ("watched_twin.polygons", 2),
                                    ("add_ten", 0)])
        lambdas = [label for label, _ in told[3:]]
        self.assertEqual(len(set(lambdas)), 2)

    def test_a_function_of_the_running_script_is_timed_and_the_script_runs_once(self):
        script = (
            "from trainglass.watch.loaders import watching\n"
            "def collate(rows): return rows\n"
            "print('runs')\n"
            "with watching('train.collate') as one:\n"
            "    collate([1])\n"
            "    print([counts.calls for _, counts in one.take()])\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "train.py").write_text(script)
            package = os.environ.get("PYTHONPATH", ""), *sys.path[:1]
            for arguments in (["train.py"], ["-m", "train"]):
                done = subprocess.run(
                    [sys.executable, *arguments],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, package))},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual((done.stdout, done.returncode), ("runs\n[1]\n", 0), done.stderr)

    def test_the_same_function_under_two_names_is_one(self):
        watching = self.watching("watched.polygons", watched.polygons, watched.half)
        watched.polygons([1])
        watched.half([1])
        self.assertEqual([(label, counts.calls) for label, counts in watching.take()],
                         [("polygons", 2)])

    def test_a_function_that_is_timed_already_is_said_and_not_told_as_never_called(self):
        with mock.patch.object(watched, "other", watched.polygons, create=True):
            watching = self.watching("watched.polygons", "watched.other", "watched.add_ten")
        watched.polygons([1])
        self.assertEqual([(label, counts.calls) for label, counts in watching.take()],
                         [("polygons", 1), ("add_ten", 0)])
        self.assertRegex(watching.problems[0], "timed already")

    def test_two_watches_of_one_function_count_each_call_once_and_stop_in_any_order(self):
        code = watched.polygons.__code__
        for order in ((0, 1), (1, 0)):
            both = [self.watching("watched.polygons"), self.watching(watched.polygons)]
            watched.polygons([1])
            self.assertEqual([self.calls(one) for one in both], [[1], [1]])
            both[order[0]].stop()
            watched.polygons([1])
            self.assertEqual(self.calls(both[order[1]]), [1])
            both[order[1]].stop()
            self.assertIs(watched.polygons.__code__, code)
            self.assertEqual([one.problems for one in both], [[], []])

class InOneLine(unittest.TestCase):
    def test_a_block_watches_and_says_what_cannot_be(self):
        code = watched.polygons.__code__
        with contextlib.redirect_stderr(io.StringIO()) as said:
            with watching("watched.polygons", "watched.absent") as one:
                watched.polygons([1])
                self.assertEqual([(label, counts.calls) for label, counts in one.take()],
                                 [("polygons", 1)])
        self.assertIs(watched.polygons.__code__, code)
        self.assertEqual(said.getvalue().count("\n"), 1)
        self.assertIn("trainglass: watch: 'watched.absent' does not exist", said.getvalue())


class InOtherProcesses(Watched):
    def test_forked_children_are_counted(self):
        watching = self.watching("watched.polygons")
        child = multiprocessing.get_context("fork").Process(target=in_child, args=("polygons", 3))
        child.start()
        child.join()
        in_child("polygons", 1)
        self.assertEqual(self.calls(watching), [4])

    def test_spawned_workers_are_counted(self):
        watching = self.watching("watched.polygons")
        self.spawned(watching)
        self.assertEqual(self.calls(watching), [3])

    def test_a_partial_is_counted_in_spawned_workers_by_its_function(self):
        watching = self.watching(watched.half)
        self.spawned(watching)
        self.assertEqual(watching.problems, [])
        self.assertEqual(self.calls(watching), [3])

    def test_a_worker_without_this_package_begins_as_without_us(self):
        for users in (None, os.getcwd):
            begin = pickle.dumps(Begin(["watched.polygons"], "/nowhere", users))
            words = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
            done = subprocess.run([sys.executable, "-I", "-S", "-c", words], input=begin,
                                  capture_output=True, check=True)
            self.assertEqual(done.stdout.decode().strip(), repr(users))

    def test_what_fails_in_a_worker_leaves_the_users_function_its_turn(self):
        begun = []
        with mock.patch.object(Begin, "_watch", side_effect=SystemExit):
            Begin(["watched.polygons"], "/nowhere", begun.append)(3)
        self.assertEqual(begun, [3])
        Begin(["nowhere.at.all"], "/nowhere", begun.append)(4)
        self.assertEqual(begun, [3, 4])

    def test_a_worker_counts_for_what_its_loader_works_for_now(self):
        watching = self.watching("watched.polygons")
        told = Told(watching.tally.folder, "sanity_check")
        Begin(watching.names, watching.tally.folder, None, "sanity_check", told.path)(0)
        in_child("polygons", 1)
        told.tell("validate")
        in_child("polygons", 2)
        counted = {stage: watching.take(stage)[0][1].calls for stage in ("sanity_check", "validate")}
        self.assertEqual(counted, {"sanity_check": 1, "validate": 2})

    def test_where_nothing_can_be_told_the_stage_is_that_of_the_beginning(self):
        told = Told("/nowhere/at/all", "train")
        told.tell("validate")
        self.assertEqual(Heard(told.path, "train")(), "train")

    def test_threads_lose_no_call_not_even_their_first(self):
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)
        for _ in range(20):
            watching = Watching(["watched.add_ten"])
            watching.start()
            together = threading.Barrier(4)

            def work(together=together):
                together.wait()
                for _ in range(100):
                    watched.add_ten(1)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(self.calls(watching), [400])
            watching.stop()

    def test_a_call_belongs_to_the_stage_that_its_process_works_for(self):
        now = ["train"]
        watching = Watching(["watched.polygons"], lambda: now[0])
        watching.start()
        self.addCleanup(watching.stop)
        now[0] = "validate"
        self.spawned(watching, "train")
        in_child("polygons", 2)
        counted = {stage: watching.take(stage)[0][1].calls for stage in ("train", "validate")}
        self.assertEqual(counted, {"train": 3, "validate": 2})

    def loader(self, method):
        """What _get_iterator of torch is given, and torch's module with it."""
        loader = mock.MagicMock(num_workers=1, worker_init_fn=None)
        loader.multiprocessing_context = multiprocessing.get_context(method)
        kind = type("DataLoader", (), {"_get_iterator": lambda self: self.worker_init_fn})
        module = mock.Mock(DataLoader=kind, _MultiProcessingDataLoaderIter=None)
        patch = mock.patch.dict(sys.modules, {"torch.utils.data.dataloader": module})
        patch.start()
        self.addCleanup(patch.stop)
        return kind, loader

    def test_what_a_spawned_worker_cannot_find_is_said_once_and_to_a_fork_not_at_all(self):
        for method, lines in (("spawn", 1), ("forkserver", 1), ("fork", 0)):
            kind, loader = self.loader(method)
            said = []
            one = Watching([watched.add_ten, lambda: 1, watched.polygons], say=said.append)
            one.start()
            self.addCleanup(one.stop)
            kind._get_iterator(loader), kind._get_iterator(loader)
            self.assertEqual(len(said), lines)
            for line in said:
                self.assertRegex(line, "closure.<locals>.add.*<lambda>.*write a def")
                self.assertNotIn("polygons", line)
            one.stop()

    def test_workers_count_for_each_of_two_watches_and_torch_is_as_before_in_any_order(self):
        kind, loader = self.loader("spawn")
        before = kind._get_iterator
        for order in ((0, 1), (1, 0)):
            both = [self.watching("watched.polygons"), self.watching("watched.polygons")]
            begin = pickle.loads(pickle.dumps(kind._get_iterator(loader)))
            child = multiprocessing.get_context("spawn").Process(
                target=spawned, args=(begin, sys.path))
            child.start()
            child.join()
            self.assertEqual([self.calls(one) for one in both], [[3], [3]])
            both[order[0]].stop()
            self.assertEqual(kind._get_iterator(loader).folder, both[order[1]].tally.folder)
            both[order[1]].stop()
            self.assertIs(kind._get_iterator, before)
            self.assertIsNone(loader.worker_init_fn)

    def test_what_a_process_left_that_ended_at_once_is_removed_by_the_next(self):
        alive = self.watching("watched.polygons")
        words = ("import os, sys; sys.path[:] = eval(sys.argv[1])\n"
                 "from trainglass.watch.loaders import Watching\n"
                 "one = Watching(['watched.polygons']); one.start()\n"
                 "print(one.tally.folder, flush=True); os._exit(7)")
        done = subprocess.run([sys.executable, "-c", words, repr(sys.path)], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 7, done.stderr)
        left = done.stdout.strip()
        self.assertTrue(os.path.isdir(left), left)
        self.watching("watched.half")
        self.assertFalse(os.path.exists(left))
        self.assertTrue(os.path.isdir(alive.tally.folder))
        watched.polygons([1])
        self.assertEqual(self.calls(alive), [1])

    def test_what_else_lies_in_the_folder_is_not_read(self):
        watching = self.watching("watched.add_ten")
        pathlib.Path(watching.tally.folder, "foreign").write_bytes(b"\xff" * 33)
        watched.add_ten(1)
        self.assertEqual(self.calls(watching), [1])


def spawned(begin, path):
    sys.path[:] = path
    begin(0)
    in_child("polygons", 3)


class Bins(unittest.TestCase):
    def test_a_bin_stands_for_its_times_within_three_per_cent(self):
        times = itertools.chain(range(1, 5000), (10**power + 7 for power in range(4, 12)))
        for ns in times:
            self.assertLessEqual(abs(tally.middle_of(tally.bin_of(ns)) - ns), 0.032 * ns + 0.5)

    def test_times_beyond_the_last_bin_are_in_it(self):
        self.assertEqual(tally.bin_of(2**62), tally.BINS - 1)
        self.assertEqual(tally.bin_of(-5), 0)

    def test_a_later_time_is_in_no_earlier_bin(self):
        bins = [tally.bin_of(ns) for ns in range(0, 100000, 3)]
        self.assertEqual(bins, sorted(bins))


if __name__ == "__main__":
    unittest.main()
