"""The command line on what looks like another machine to a journal: `… other_machine NAME SKEW ARGUMENTS`.

Its processes are not seen elsewhere, its name is another one, and its clock is ahead by some seconds.
"""

import socket
import sys
import time

from nighthawk_async.cli.application import run_command_line
from nighthawk_async.journal import holders, tables

LEASE_SECONDS = 1.5

if __name__ == "__main__":
    machine, skew, right_time = sys.argv[1], float(sys.argv[2]), time.time
    socket.gethostname = lambda: machine
    holders._machine = lambda: machine  # type: ignore[assignment]  # pyright: ignore
    time.time = lambda: right_time() + skew
    tables.LEASE_SECONDS = LEASE_SECONDS
    sys.exit(run_command_line(sys.argv[3:]))
