"""httpx is imported without its command line, which stays usable all the same."""

import subprocess
import sys

import pytest

LIBRARY = "from nighthawk_async.models.http_library import httpx as library"

USES_MAIN = """
from click.testing import CliRunner
result = CliRunner().invoke(httpx.main, ["--help"])
assert result.exit_code == 0 and "--help" in result.output, result.output
import httpx._main
assert callable(httpx._main.main) and httpx._main.__spec__ is not None
"""


def run_python(program: str) -> None:
    """Run a fresh interpreter in which a warning is an error."""
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_command_line_is_not_loaded() -> None:
    run_python(
        f"import sys\n{LIBRARY}\nassert sys.modules.keys().isdisjoint({{'httpx._main', 'rich', 'click'}})"
    )


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param(f"import httpx\n{LIBRARY}", id="the program's httpx first"),
        pytest.param(f"{LIBRARY}\nimport httpx", id="ours first"),
        pytest.param(f"import httpx._main\n{LIBRARY}\nimport httpx", id="the command line first"),
    ],
)
def test_a_program_can_use_the_command_line_of_httpx(imports: str) -> None:
    run_python(imports + USES_MAIN)


def test_the_command_line_can_be_called_as_a_function() -> None:
    program = (
        "import sys\nsys.argv = ['httpx', '--help']\ntry:\n    library.main()\nexcept SystemExit as end:\n"
    )
    run_python(f"{LIBRARY}\n{program}    assert end.code == 0")


def test_an_import_of_httpx_that_fails_leaves_nothing_behind() -> None:
    run_python(
        "import sys\n"
        "sys.modules['httpcore'] = sys.modules['h11'] = sys.modules['certifi'] = sys.modules['idna'] = None\n"
        f"try:\n    {LIBRARY}\n"
        "except ImportError:\n    pass\n"
        "else:\n    raise SystemExit('httpx was imported')\n"
        "assert 'httpx._main' not in sys.modules"
    )


def test_another_thread_may_import_httpx_meanwhile() -> None:
    run_python(
        "import sys, threading\n"
        "sys.setswitchinterval(1e-6)\n"
        "start, found = threading.Barrier(2), []\n"
        "def ours():\n    start.wait()\n    import nighthawk_async.models.http_library\n"
        "def theirs():\n    start.wait()\n    import httpx\n    found.append(httpx.main)\n"
        "threads = [threading.Thread(target=each) for each in (ours, theirs)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "from click.testing import CliRunner\n"
        "assert CliRunner().invoke(found[0], ['--help']).exit_code == 0"
    )
