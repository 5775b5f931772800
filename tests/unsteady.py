"""Failed tests of a whole run, which are run once more at its end: alone, when nothing else is busy.

    python -m tests.unsteady FOLDER SESSION…     run the failed tests of these sessions

Where `NIGHTHAWK_FAILED_TESTS` names a folder, each pytest run of a nox session leaves a record of its failed
tests there. A test that passes the second time is unsteady: it is named, so that somebody makes it steady,
and more than two of them fail the run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest  # the environment of nox, which runs this at the end, has none

__all__ = ["Record", "Recorder", "judge", "main", "take_recorder"]

_VARIABLE = "NIGHTHAWK_FAILED_TESTS"

MOST_UNSTEADY = 2
MOST_FAILED = 20
"""With more failed tests, no luck is to blame: none is run again."""

Rerun = Callable[["Record"], set[str]]
"""Runs the failed tests of a session again; returns those that failed again, or were not run."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The failed tests of one session."""

    session: str
    exit_status: int
    failed: list[str] = field(default_factory=list[str])


class Recorder:
    """A plugin of pytest that leaves a record of the failed tests in a folder."""

    def __init__(self, folder: Path, session: str) -> None:
        self._file = folder / f"{session}.json"
        self._session = session
        self._failed: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        """Note a failed test, or one that failed in its preparation or its cleanup."""
        if report.failed:
            self._failed[report.nodeid] = None

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the record."""
        record = Record(session=self._session, exit_status=int(exitstatus), failed=list(self._failed))
        self._file.write_text(json.dumps(asdict(record)))


def take_recorder() -> Recorder | None:
    """The recorder of a run that is asked for one; None elsewhere, and in processes that the run starts."""
    folder, session = os.environ.pop(_VARIABLE, ""), os.environ.get("NOX_CURRENT_SESSION", "")
    return Recorder(Path(folder), session) if folder and session else None


def judge(records: Sequence[Record], rerun: Rerun, say: Callable[[str], object] = print) -> bool:
    """Run the failed tests again; return whether the run as a whole has passed.

    Args:
        records: The records of the sessions that failed.
        rerun: Runs the failed tests of a session again.
        say: Prints a line.
    """
    broken = [each for each in records if each.exit_status != 1 or not each.failed]
    for record in broken:
        say(f"{record.session} did not run to its end (exit status {record.exit_status})")
    failed = [each for each in records if each.failed]
    count = sum(len(each.failed) for each in failed)
    if count > MOST_FAILED:
        say(f"{count} tests failed; with more than {MOST_FAILED}, none is run again")
        return False
    again = {each.session: rerun(each) for each in failed}
    for record in failed:
        for test in record.failed:
            word = "FAILED AGAIN" if test in again[record.session] else "UNSTEADY"
            say(f"{word} {record.session} {test}")
    unsteady = count - sum(map(len, again.values()))
    if unsteady > MOST_UNSTEADY:
        say(f"{unsteady} unsteady tests are more than {MOST_UNSTEADY}")
    return not broken and not any(again.values()) and unsteady <= MOST_UNSTEADY


def rerun_with_nox(record: Record) -> set[str]:
    """Run the failed tests of a session once more, in one process."""
    folder = os.environ[_VARIABLE]
    file = Path(folder) / f"{record.session}.json"
    file.unlink()  # the second run leaves another one
    command = [sys.executable, "-m", "nox", "--session", record.session, "--", *record.failed]
    subprocess.run(command, stdout=sys.stderr, check=False)
    if not file.exists():
        return set(record.failed)
    again = read(file)
    return set(again.failed) if again.exit_status in (0, 1) else set(record.failed)


def read(file: Path) -> Record:
    """Read a record; of a session that left none, nothing is known but that it failed."""
    return (
        Record(**json.loads(file.read_text())) if file.exists() else Record(session=file.stem, exit_status=-1)
    )


def main() -> None:
    """Run the failed tests of the sessions that the command line names."""
    folder, *sessions = sys.argv[1:]
    os.environ[_VARIABLE] = folder
    records = [read(Path(folder) / f"{session}.json") for session in sessions]
    sys.exit(not records or not judge(records, rerun_with_nox))


if __name__ == "__main__":
    main()
