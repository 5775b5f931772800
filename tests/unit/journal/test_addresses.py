"""Addresses of stores: files that are none, databases that are not there, passwords, which nothing shows."""

import sys
import traceback
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStoreError


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"not a database" * 100)
    with (
        nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store,
        pytest.raises(JournalStoreError, match="cannot be opened"),
    ):
        store.runs()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with (
        nh.journal.open(f"sqlite:///{tmp_path}/missing/runs.db") as store,
        pytest.raises(JournalStoreError, match="cannot be opened"),
    ):
        store.runs()


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(nh.ConfigurationError, match=r"pip install 'nighthawk-async\[postgresql\]'"):
        nh.journal.open("postgresql://ann@localhost/runs")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:sesame@/runs?host={folder}",
        "postgres:///runs?user=ann&password=sesame&host={folder}",
        "postgresql://ann:%73esame@/runs?host={folder}",
    ],
)
def test_no_password_is_shown(url: str, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    with nh.journal.open(url.format(folder=tmp_path)) as store:
        assert repr(store) == f"JournalStore('postgresql://ann@{tmp_path}/runs')"
        with pytest.raises(JournalStoreError, match="cannot be opened") as caught:
            store.runs()
        assert _shown(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:sesame/x@localhost/runs",
        "postgresql://ann:1/sesame@localhost/runs",
        "postgresql://ann:@sesame@localhost/runs",
        "postgresql://ann:sesame%@localhost/runs",
        "postgresql://ann:sesame@local:host/runs",
        "postgresql+psycopg://ann:sesame@localhost/runs",
        "mysql://ann:sesame@localhost/runs",
    ],
)
def test_no_part_of_a_password_is_shown_of_what_is_no_address(url: str) -> None:
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    with pytest.raises(nh.ConfigurationError, match="address") as caught:
        nh.journal.open(url)
    assert _shown(caught.value)


def _shown(error: BaseException) -> str:
    """What a traceback shows of an error, without the sources; it has no password."""
    shown = "".join(traceback.TracebackException.from_exception(error, limit=0).format())
    assert "sesame" not in shown
    return shown
