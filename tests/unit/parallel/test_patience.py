"""Bounded waits in real time go on in a forked process."""

import os
import subprocess
import sys

import pytest

_FORKED = """
import os, threading, warnings
warnings.simplefilter("ignore")
from nighthawk_async.parallel import patience

def beats():
    has_beaten = threading.Event()
    patience.Watch(lambda: has_beaten.set())
    return has_beaten.wait(60)

assert beats()
patience.Watch(lambda: True)  # the thread goes on
if {is_held}:
    patience._ticker._changed.acquire()
child = os.fork()
if child == 0:
    os._exit(0 if beats() else 1)
_, status = os.waitpid(child, 0)
os._exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("is_held", [False, True])
def test_a_forked_process_has_beats_of_its_own(is_held: bool) -> None:
    program = _FORKED.format(is_held=is_held)
    ended = subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert ended.returncode == 0
