"""What the documents promise to a reader: links lead somewhere, every page is found from the
README, commands that are shown exist, and the README stays short.

    python check_links.py PROGRAM
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else None


def links(page):
    """Files of the project that it links to."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            yield (page.parent / target).resolve()


def commands(page):
    """The lines of its blocks of code, and what stands as code in its text."""
    for number, part in enumerate(page.read_text(encoding="utf-8").split("```")):
        yield from part.splitlines() if number % 2 else re.findall(r"`([^`]+)`", part)


class Links(unittest.TestCase):
    def test_every_link_leads_to_a_file_of_the_project(self):
        for page in PAGES:
            for target in links(page):
                self.assertTrue(target.exists() and target.is_relative_to(ROOT),
                                f"{page.name}: {target}")

    def test_every_page_is_found_from_the_readme(self):
        found, ahead = set(), [ROOT / "README.md"]
        while ahead:
            page = ahead.pop()
            if page in found or page.suffix != ".md":
                continue
            found.add(page)
            ahead += links(page)
        self.assertEqual(set(PAGES) - found, set())

    def test_every_command_and_flag_that_is_shown_is_one_of_the_program(self):
        asked = {}
        for page in PAGES:
            for line in commands(page):
                match = re.match(r"trainglass ([a-z]+)\b(.*)", line)
                if match is None:
                    continue
                command, rest = match[1], re.split(r" -- |#", match[2])[0]
                if command not in asked:
                    asked[command] = subprocess.run(
                        [PROGRAM, command, "--help"], capture_output=True, text=True, timeout=60)
                    self.assertEqual(asked[command].returncode, 0, f"{page.name}: {line}")
                for flag in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest)) - {"--help"}:
                    self.assertIn(flag, asked[command].stdout, f"{page.name}: {line}")
        self.assertGreater(len(asked), 8)

    def test_the_readme_can_be_read_in_one_sitting(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text("utf-8").splitlines()), 150)


if __name__ == "__main__":
    unittest.main()
