"""The package is clean for ruff and for mypy --strict, as pyproject.toml sets them."""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "collector/python/trainglass"


class Style(unittest.TestCase):
    def clean(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=600
        )
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-4000:])

    def test_ruff_finds_nothing(self):
        self.clean("ruff", "check", "--no-cache", PACKAGE)

    def test_ruff_would_format_nothing(self):
        self.clean("ruff", "format", "--no-cache", "--check", PACKAGE)

    def test_mypy_finds_nothing(self):
        self.clean("mypy", "--cache-dir=/dev/null")


if __name__ == "__main__":
    unittest.main()
