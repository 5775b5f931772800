"""The page about the design names the files that a step passes."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import PACKAGE, SOURCE, code_length, parse_package

TOP = Path(__file__).parents[2]
LINES_OF_AN_HOUR = 3_400


def test_the_page_names_the_files_of_a_step_in_order() -> None:
    text = (TOP / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.partition("### File by file\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_/]+\.py)`", section.partition("\n| file |")[0])
    command = [sys.executable, "-m", "tests.docs.followed_step"]  # alone: a tokenizer may be loaded here
    followed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True, timeout=240)
    assert list(dict.fromkeys(named)) == json.loads(followed.stdout)


def test_an_hour_of_reading_is_eight_files_that_are_not_too_long() -> None:
    text = (TOP / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("| file | look for |\n")[2].partition("\n\n")[0]
    files = re.findall(r"^\| `([a-z_/]+)\.py`", table, re.MULTILINE)
    modules = parse_package(SOURCE, PACKAGE)
    lengths = [code_length(modules[f"{PACKAGE}.{file.replace('/', '.')}"]) for file in files]
    assert len(lengths) == 8
    assert sum(lengths) <= LINES_OF_AN_HOUR
