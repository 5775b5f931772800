"""The peers: what is installed for each, and how it is put there. Nothing here needs a network."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import peer_environments, peers
from benchmarks.measure import CannotMeasureHereError
from benchmarks.peer_environments import PINS, find_python, interpreter_of
from benchmarks.peers import PEER_BENCHMARKS, PEERS, SYNC_SCRIPT, SYNC_SUBJECTS
from benchmarks.rounds import Subject, carry_out
from benchmarks.server.script import read_script
from benchmarks.subjects.harness import KINDS
from benchmarks.subjects.two_turns import SENT_AT, call, two_turns

SUBJECTS = "benchmarks.subjects"

DISTRIBUTIONS = {"pydantic-ai": "pydantic-ai-slim", "openai-sdk": "openai"}
"""What peers are distributed as, where they are called otherwise."""

INSTALLER = """#!{python}
import pathlib, sys

log = pathlib.Path({log!r})
log.write_text((log.read_text() if log.exists() else "") + sys.argv[1] + "\\n")
if sys.argv[1] == "venv":
    interpreter = pathlib.Path(sys.argv[-1], "bin", "python")
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
elif {fails}:
    print("nothing is found under this name")
    sys.exit(2)
"""


class Installer:
    """A `uv` that notes what it is called for, makes an environment out of nothing and installs nothing."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls"
        self._program = folder / "bin" / "uv"
        self._program.parent.mkdir()
        self.write(fails=False)

    def write(self, *, fails: bool) -> None:
        """Put it where it is found."""
        text = INSTALLER.format(python=sys.executable, log=str(self._log), fails=fails)
        self._program.write_text(text)
        self._program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """What it was called for."""
        return self._log.read_text().split() if self._log.exists() else []


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peer that is called "made-up", as the only one; its pins."""
    monkeypatch.setattr(peer_environments, "PINS", tmp_path)
    monkeypatch.setattr(peer_environments, "ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setattr(peer_environments, "OLDEST_PYTHON", (3, 11))
    file = tmp_path / "made-up.txt"
    file.write_text("made-up==1.0\n")
    return file


@pytest.fixture
def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """What installs during the test."""
    made = Installer(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return made


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_peer_has_a_program_and_pins_every_version(peer: Subject) -> None:
    assert importlib.util.find_spec(f"{SUBJECTS}.{peer.program}")
    lines = (PINS / f"{peer.program}.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines)
    # The harness needs AnyIO in every environment.
    assert {DISTRIBUTIONS.get(peer.name, peer.name), "anyio"} <= set(versions)


def test_peers_are_measured_on_request_and_our_own_script_always() -> None:
    of_others = {each.subject for each in PEER_BENCHMARKS if each.is_peer}
    assert of_others == {*(peer.name for peer in PEERS), "nighthawk-python-sync"}
    assert [each.name for each in PEER_BENCHMARKS if not each.is_peer] == ["sync-script-nighthawk-async-sync"]


def test_peers_have_bursts_as_large_as_a_machine_can_bear() -> None:
    largest = {
        peer.name: max(each.concurrency or 0 for each in PEER_BENCHMARKS if each.subject == peer.name)
        for peer in PEERS
    }
    in_threads = {"netflux": 1_000, "nightjarpy": 1_000}
    assert largest == {peer.name: in_threads.get(peer.name, 3_000) for peer in PEERS}


def test_an_environment_is_made_once(pins: Path, installer: Installer) -> None:
    first = interpreter_of("made-up")
    assert interpreter_of("made-up") == first
    assert first.exists()
    assert installer.calls == ["venv", "pip"]


def test_an_environment_is_made_anew_when_a_pin_changes(pins: Path, installer: Installer) -> None:
    interpreter_of("made-up")
    pins.write_text("made-up==1.1\n")
    interpreter_of("made-up")
    assert installer.calls == ["venv", "pip"] * 2


def test_a_peer_that_cannot_be_installed_is_told_and_tried_again(pins: Path, installer: Installer) -> None:
    installer.write(fails=True)
    with pytest.raises(CannotMeasureHereError, match="nothing is found under this name"):
        interpreter_of("made-up")
    installer.write(fails=False)
    assert interpreter_of("made-up").exists()


def test_a_machine_without_a_new_python_is_told(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_environments, "OLDEST_PYTHON", (9, 9))
    with pytest.raises(CannotMeasureHereError, match=r"Python 9\.9 or newer"):
        interpreter_of("made-up")


def test_the_running_python_is_taken_when_it_is_new_enough(pins: Path) -> None:
    assert find_python() == sys.executable


def test_the_command_says_which_peers_are_there_and_which_are_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> Path:
        raise CannotMeasureHereError("the registry is away")

    there = Subject(name="there", program="there")
    away = Subject(name="away", program="away", interpreter=refuse)
    monkeypatch.setattr(peers, "PEERS", (there, away))
    monkeypatch.setattr(peers, "PEERS_OF_DURABLE_CALLS", ())
    assert peers.main() == 1
    told = capsys.readouterr()
    assert told.out == "there is there\n"
    assert told.err == "away is not to be had: the registry is away\n"


def test_the_scripts_of_two_turns_are_scripts_for_every_kind_of_step() -> None:
    scripts = two_turns(
        assign=call("assign", name="result", value=1), wait=call("wait"), note=call("note", at=SENT_AT)
    )
    assert set(scripts) == set(KINDS)
    read = {kind: read_script(json.dumps(script).encode()) for kind, script in scripts.items()}
    assert [len(script.turns) for script in read.values()] == [2] * len(KINDS)
    assert len(read["eight-tools"].turns[0].calls) == 8
    assert read["tool-start"].turns[0].text


def test_our_own_plain_natural_function_never_fails_in_a_script() -> None:
    [ours] = [subject for subject in SYNC_SUBJECTS if not subject.is_peer]
    figures = carry_out(SYNC_SCRIPT, ours, 4)
    assert (figures["errors"], figures["round_trips"]) == (0.0, 2.0)
