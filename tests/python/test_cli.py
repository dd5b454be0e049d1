"""The callbacks in a YAML file of LightningCLI, which writes every parameter down again."""

import contextlib
import importlib.util
import inspect
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import lightning_jobs as jobs
import yaml

from trainglass.lightning import PerformanceProfilerCallback, ProfilerCallback

CALLBACKS = (ProfilerCallback, PerformanceProfilerCallback)
with_cli = unittest.skipUnless(
    importlib.util.find_spec("jsonargparse"), "no jsonargparse, which LightningCLI needs"
)


def write_config(folder, **parameters):
    """A fit of one epoch with our callbacks, as people write it."""
    path = pathlib.Path(folder, "config.yaml")
    performance = {"log_interval": 2, "watch": ["lightning_jobs.loader"]}
    path.write_text(
        yaml.safe_dump(
            {
                "trainer": {
                    "max_epochs": 1,
                    "accelerator": "cpu",
                    "logger": False,
                    "enable_progress_bar": False,
                    "enable_model_summary": False,
                    "default_root_dir": str(folder),
                    "callbacks": [
                        {
                            "class_path": "trainglass.lightning.ProfilerCallback",
                            "init_args": parameters,
                        },
                        {
                            "class_path": "trainglass.lightning.PerformanceProfilerCallback",
                            "init_args": performance,
                        },
                    ],
                }
            }
        )
    )
    return path


def run_cli(*words):
    """What a script of three lines does."""
    cli = __import__(f"{jobs.NAME}.cli", fromlist=["LightningCLI"])
    said = contextlib.redirect_stdout(sys.stderr)
    with mock.patch.object(sys, "argv", ["train.py", *map(str, words)]), said:
        return cli.LightningCLI(jobs.Net, save_config_kwargs={"overwrite": True})


class InAFileOfYaml(unittest.TestCase):
    def test_every_default_is_a_value_that_yaml_writes_and_reads(self):
        for callback in CALLBACKS:
            for name, one in list(inspect.signature(callback).parameters.items()):
                with self.subTest(callback=callback.__name__, name=name):
                    written = yaml.safe_dump(one.default)
                    self.assertIs(type(yaml.safe_load(written)), type(one.default))

    def test_all_defaults_written_down_mean_what_none_of_them_does(self):
        for words in ({}, {"schedule_every_n_steps": 25}):
            asked = {
                name: one.default
                for name, one in inspect.signature(ProfilerCallback).parameters.items()
            }
            whole = ProfilerCallback(**{**asked, **words})
            self.assertEqual(whole.options, ProfilerCallback(**words).options)

    @with_cli
    def test_lightnings_cli_runs_them_and_reads_the_file_that_it_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            traces = pathlib.Path(folder, "traces")
            words = {"schedule_every_n_steps": 6, "active_steps": 2, "output_dir": str(traces)}
            run_cli("fit", "--config", write_config(folder, **words))
            self.assertTrue((traces / "Net" / "chrome_trace.json").exists())
            saved = next(pathlib.Path(folder).rglob("config.yaml"))
            (again,) = [
                one
                for one in run_cli("fit", "--config", saved).trainer.callbacks
                if isinstance(one, ProfilerCallback)
            ]
            self.assertEqual(again.options, ProfilerCallback(**words).options)

    @with_cli
    def test_lightnings_cli_says_which_parameter_is_no_number(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            self.assertRaises(SystemExit),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            run_cli("fit", "--config", write_config(folder, profile_steps="many"))
        self.assertIn("profile_steps", said.getvalue())


if __name__ == "__main__":
    unittest.main()
