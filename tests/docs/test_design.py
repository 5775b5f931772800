"""The page about the design names the files that a step passes."""

import json
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_page_names_the_files_of_a_step_in_order() -> None:
    text = (TOP / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.partition("### File by file\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_/]+\.py)`", section.partition("`tests/docs/")[0])
    command = [sys.executable, "-m", "tests.docs.followed_step"]  # alone: a tokenizer may be loaded here
    followed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True, timeout=240)
    assert list(dict.fromkeys(named)) == json.loads(followed.stdout)
