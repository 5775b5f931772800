"""What a hostile text can bring a model to write ends in an error, and nothing changes.

A few hundred cases, attack by level, in the suite; NIGHTHAWK_ATTACKS is another number: `make attacks`.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import nighthawk_async as nh
from nighthawk_async.policies.code_levels import members, replaced_members
from nighthawk_async.sandbox.settings import SandboxKind
from tests.attacks import program
from tests.attacks.grammar import (
    ASSIGNMENTS,
    BUILTINS,
    FORBIDDEN,
    OWN,
    ROUTES,
    TARGETS,
    Attack,
    as_text,
    attacks,
)
from tests.attacks.watcher import Watcher

TOGETHER = 20
NUMBER = int(os.environ.get("NIGHTHAWK_ATTACKS") or 400)
LEVELS = ("none", "shown")


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    watcher = Watcher(tmp_path_factory.mktemp("canary"))
    watcher.done = program.DONE
    check_all(
        watcher, [Attack("nh_exec", "import json, math, re, decimal, collections.abc")], are_refused=False
    )
    watcher.note_tables()
    yield watcher
    watcher.close()


def check_all(watcher: Watcher, tried: list[Attack], *, are_refused: bool = True) -> None:
    root = watcher.folder.parent / "root"
    root.mkdir(exist_ok=True)
    for level in LEVELS:
        answers = anyio.run(lambda level=level: program.tried(tried, root, code=level))
        assert len(answers) >= len(tried)
        for attack, answer in zip(tried, answers, strict=False):
            assert not are_refused or program.is_error(answer), f"{level}: {as_text(attack)}: {answer}"
        if changes := watcher.changes():
            raise AssertionError(f"{level}: {changes} after {', '.join(map(as_text, tried))}")


def test_the_watcher_sees_what_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher(tmp_path)
    try:
        assert watcher.changes() == []
        (tmp_path / "canary").touch()
        socket.create_connection(("127.0.0.1", watcher.port)).close()
        watcher.done.append("hidden_effect")
        monkeypatch.setenv("NIGHTHAWK_WATCHED", "1")
        monkeypatch.setattr(members, "INTERNALS", frozenset[str]())
        monkeypatch.setattr(members.Members, "member", staticmethod(lambda value: value))
        monkeypatch.setitem(replaced_members.REPLACED["copy"], "copy", print)  # type: ignore[arg-type]
        seen = watcher.changes()
    finally:
        watcher.close()
    expected = {
        "the file canary",
        "the hidden function was called: hidden_effect",
        "a connection",
        "environment",
        "nighthawk_async.policies.code_levels.members.INTERNALS",
        "nighthawk_async.policies.code_levels.members.Members",
        "nighthawk_async.policies.code_levels.replaced_members.REPLACED",
    }
    assert expected <= set(seen)
    # Modules that were loaded before have taken the same tables by their names.
    assert {each.rpartition(".")[2] for each in set(seen) - expected} <= {"INTERNALS", "Members", "REPLACED"}


def in_parts(all_attacks: list[Attack]) -> Iterator[list[Attack]]:
    for first in range(0, len(all_attacks), TOGETHER):
        yield all_attacks[first : first + TOGETHER]


def every_form(watcher: Watcher) -> list[Attack]:
    """Every form of the grammar, with one of each of the others."""
    canary, port = watcher.canary, watcher.port
    arguments = FORBIDDEN[0][1].format(canary=canary)
    forms = [Attack("nh_eval", way.format("open") + arguments) for way in BUILTINS]
    forms += [Attack("nh_eval", f"{way}()") for way in OWN]
    forms += [Attack("nh_exec", route.format(e=f"open{arguments}", w="hidden_effect")) for route in ROUTES]
    forms += [Attack("nh_exec", text.format(canary=canary, port=port)) for text in ASSIGNMENTS]
    return [*forms, *(Attack("nh_assign", f"{target} := shown") for target in TARGETS)]


def test_each_way_is_closed(watcher: Watcher) -> None:
    for part in in_parts(every_form(watcher)):
        check_all(watcher, part)


POWERS = [
    "Workspace('/').read('etc/hostname')",
    "type(ws)('/').read('etc/hostname')",
    "await Web(allow=('127.0.0.1',)).fetch(f'http://127.0.0.1:{port}/')",
    "web.allow = ('127.0.0.1',)\nawait web.fetch(f'http://127.0.0.1:{port}/')",
    "kit.create_model('X', a=(canary, 1))",
    "kit.make_dataclass('X', [('a', canary)])",
    "kit.adapter(canary)",
    "other = web\nother.allow = ('127.0.0.1',)\nawait other.fetch(f'http://127.0.0.1:{port}/')",
]
"""Objects that decide, made or changed in a sandbox."""


@pytest.mark.parametrize("kind", ["monty", "process"])
def test_nothing_leaves_a_sandbox(watcher: Watcher, kind: SandboxKind) -> None:
    """Code does there what it likes; every third or twelfth form in the suite, as a worker has to start."""
    if kind == "process" and shutil.which("bwrap") is None:
        pytest.skip("there is no Bubblewrap")
    level = nh.Sandbox(kind=kind)
    root = watcher.folder.parent / "sandboxed"
    root.mkdir(exist_ok=True)
    step = 1 if "NIGHTHAWK_ATTACKS" in os.environ else {"monty": 3, "process": 12}[kind]
    for part in in_parts(every_form(watcher)[::step]):
        assert len(anyio.run(lambda part=part: program.tried(part, root, code=level))) >= len(part)
        assert not watcher.changes(), f"after {', '.join(map(as_text, part))}"
    canary = f"open({watcher.canary!r}, 'w')"
    powers = [Attack("nh_exec", f"port = {watcher.port}\ncanary = {canary!r}\n{each}") for each in POWERS]
    answers = anyio.run(lambda: program.tried(powers, root, code=level))
    assert [each for each in answers if not program.is_error(each)] == []
    assert not watcher.changes()


def test_the_grammar_of_attacks_is_closed(watcher: Watcher) -> None:
    @settings(
        max_examples=max(1, NUMBER // (TOGETHER * len(LEVELS))),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(attacks(watcher.canary, watcher.port), min_size=TOGETHER, max_size=TOGETHER, unique=True))
    def check(drawn: list[Attack]) -> None:
        check_all(watcher, drawn)

    check()
