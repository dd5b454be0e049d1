"""The `profiling:` section: its two forms, its flags, and what it refuses."""

import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collector" / "python"))

import trainglass
from trainglass.windows import section
from trainglass.windows.schedule import Schedule


class Forms(unittest.TestCase):
    def test_without_a_section_nothing_is_asked_for(self):
        nothing = (None, {}, {"model": 1}, {"profiling": None}, {"profiling": False}, False)
        for config in nothing:
            self.assertIsNone(section.read(config), config)

    def test_absent_keys_of_the_epochs_form_are_1_1_3_1(self):
        for config in ({"profiling": {}}, {"profiling": True}, True):
            found = section.read(config)
            self.assertEqual(found.schedule, Schedule(wait=1, warmup=1, active=3, repeat=1))
            self.assertFalse(found.by_steps)
            what = (found.details.record_shapes, found.details.profile_memory)
            self.assertEqual((*what, found.details.with_stack), (True, True, False))

    def test_the_steps_form_is_told_by_its_keys_and_off_by_default(self):
        self.assertIsNone(section.read({"profiling": {"schedule_every_n_steps": 25}}))
        found = section.read({"profiling": {"enabled": True, "schedule_every_n_steps": 25}})
        self.assertTrue(found.by_steps)
        numbers = Schedule(wait=1, warmup=1, active=3, repeat=2, every=25)
        self.assertEqual(found.schedule, numbers)
        self.assertEqual(found.output_dir, "outputs/profiler_logs")

    def test_a_section_may_be_given_as_it_is_or_within_any_object(self):
        for config in (
            {"wait": 2, "active": 1},
            types.SimpleNamespace(profiling={"wait": 2, "active": 1}),
            types.SimpleNamespace(profiling=types.SimpleNamespace(wait=2, active=1)),
        ):
            found = section.read(config)
            self.assertEqual(found.schedule, Schedule(wait=2, warmup=1, active=1, repeat=1))

    def test_a_yaml_file_is_read_where_there_is_a_reader(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("model: x\nprofiling:\n  wait: 3\n")
            file.flush()
            try:
                import yaml  # noqa: F401
            except ImportError:
                with self.assertRaisesRegex(ValueError, "install PyYAML"):
                    section.read(file.name)
                return
            self.assertEqual(section.read(file.name).schedule.wait, 3)

    def test_what_cannot_be_meant_says_what_to_write(self):
        wrong = [
            ({"wait": 1, "schedule_every_n_steps": 5}, "write the keys of one form"),
            ({"wiat": 1, "active": 2}, "did you mean 'wait'"),
            ({"wait": -1}, "write 0 or more"),
            ({"active": 0}, "write 1 or more"),
            ({"active": "3"}, "no whole number"),
            ({"with_stack": 1}, "write true or false"),
            ({"enabled": True, "schedule_every_n_steps": 4}, "write 5 or more"),
        ]
        for inner, sentence in wrong:
            with self.assertRaisesRegex((TypeError, ValueError), sentence):
                section.read({"profiling": inner})
        with self.assertRaisesRegex(TypeError, "write a dictionary"):
            section.read(3)


class Flags(unittest.TestCase):
    def test_our_flags_are_taken_and_the_others_stay(self):
        words = ["x", "--lr", "1", "--profiling.wait", "2", "--profiling.with_stack", "--profile"]
        words += ["--profiling.active=4", "--", "--profiling.wait", "9"]
        self.assertEqual(
            trainglass.profiling_flags(words), {"wait": 2, "with_stack": True, "active": 4}
        )
        self.assertEqual(words, ["x", "--lr", "1", "--profile", "--", "--profiling.wait", "9"])

    def test_a_switch_that_stands_alone_leaves_the_next_word_where_it_is(self):
        words = ["--profiling.with_stack", "train.yaml", "--profiling.record_shapes", "false"]
        flags = {"with_stack": True, "record_shapes": False}
        self.assertEqual((trainglass.profiling_flags(words), words), (flags, ["train.yaml"]))
        words = ["--profiling.with_stack", "0"]
        with self.assertRaisesRegex(TypeError, "write true or false"):
            section.read({}, trainglass.profiling_flags(words))

    def test_they_win_over_the_section_and_may_be_all_there_is(self):
        config = {"profiling": {"wait": 5, "warmup": 0}}
        self.assertEqual(section.read(config, {"wait": 2}).schedule.wait, 2)
        self.assertEqual(section.read({}, {"wait": 2}).schedule.wait, 2)

    def test_a_flag_that_is_not_ours_is_an_error_and_nothing_is_taken(self):
        words = ["--profiling.wiat", "1"]
        with self.assertRaisesRegex(ValueError, "did you mean 'wait'"):
            trainglass.profiling_flags(words)
        self.assertEqual(words, ["--profiling.wiat", "1"])


class Wishes(unittest.TestCase):
    def test_a_wish_that_cannot_be_meant_says_what_may_be(self):
        for wish, sentence in (
            (lambda: trainglass.level("loud"), "none of auto, off, phases"),
            (lambda: trainglass.budget(101), "not within 0 to 100"),
            (lambda: trainglass.record(1001), "not within 0 to 1000"),
            (lambda: trainglass.window(0), "write 1 to 1000"),
            (lambda: trainglass.window(1, max_seconds=0), "write more than 0"),
            (lambda: trainglass.window(1, max_mb=-1), "write 0 or more"),
        ):
            with self.assertRaisesRegex(ValueError, sentence):
                wish()
        with self.assertRaisesRegex(AttributeError, "no attribute 'steps'"):
            trainglass.steps()

    def test_a_process_that_is_not_recorded_takes_wishes_and_does_nothing(self):
        trainglass.level("off")
        trainglass.budget(0.5)
        trainglass.record(10)
        self.assertIsNone(trainglass.window(10))


class Cost(unittest.TestCase):
    def test_the_package_imports_neither_torch_nor_lightning(self):
        for name in trainglass.__all__:
            getattr(trainglass, name)
        self.assertFalse({"torch", "lightning", "pytorch_lightning"} & set(sys.modules))

    def test_without_a_section_the_context_does_nothing(self):
        with trainglass.profiling({}) as p:
            p.step()
        self.assertFalse(p.enabled)
        self.assertNotIn("torch", sys.modules)


if __name__ == "__main__":
    unittest.main()
