"""Encrypted stores: what is stored is not readable, and keys that are missing or wrong lose nothing."""

import base64
import sys
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, JournalError, JournalKeyError

from . import durable_runs
from .durable_runs import change, live, opened, query, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

SECRET = "my secret word"
LARGE = SECRET * 10_000
OLD, NEW = {"2026-05": b"o" * 32}, {"2026-11": b"n" * 32}


async def program() -> str:
    message: str = await nh.journal.receive("reply")
    return await shout(message)


async def send_and_live(store: nh.journal.JournalStore, *, message: str = SECRET) -> str:
    await store.send("run-1", "reply", message, id="1")
    return await live(store, shouting(), program)


def stored(store: nh.journal.JournalStore) -> bytes:
    """Everything that is stored in bodies."""
    tables = ("records", "messages", "blobs")
    return b"".join(body for table in tables for (body,) in query(store, f"SELECT body FROM {table}"))


def read_files(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


@pytest.mark.parametrize("message", [SECRET, LARGE], ids=["small", "large"])
async def test_no_content_is_readable_without_the_key(tmp_path: Path, message: str) -> None:
    with opened(tmp_path, keys=NEW, audit_key=b"k" * 32) as store:
        for _ in range(2):
            assert await send_and_live(store, message=message) == message.upper()
        assert store.verify()
        found = stored(store)
        assert b"2026-11" in found
    assert SECRET.encode() not in found
    assert SECRET.upper().encode() not in found
    if durable_runs.server is None:
        assert SECRET.encode() not in read_files(tmp_path)
    plain_folder = tmp_path / "plain"
    plain_folder.mkdir()
    with opened(plain_folder) as store:
        await send_and_live(store, message=message)
        assert SECRET.encode() in stored(store)


async def test_a_large_body_has_another_name_with_each_key(tmp_path: Path) -> None:
    names: list[object] = []
    for number, keys in enumerate((OLD, NEW, None)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(folder, keys=keys) as store:
            await store.send("run-1", "reply", LARGE)
            await store.send("run-2", "reply", LARGE)
            ((name,),) = query(store, "SELECT digest FROM blobs")
            names.append(name)
    assert len(set(names)) == 3


@pytest.mark.parametrize("keys", [None, OLD, {"2026-11": b"w" * 32}], ids=["none", "other", "wrong"])
@pytest.mark.parametrize("message", [SECRET, LARGE], ids=["small", "large"])
async def test_without_its_key_a_run_does_not_continue_and_nothing_is_lost(
    tmp_path: Path, keys: dict[str, bytes] | None, message: str
) -> None:
    with opened(tmp_path, keys=NEW) as store:
        assert await send_and_live(store, message=message) == message.upper()
    with opened(tmp_path, keys=keys) as store:
        before = store.runs()
        with pytest.raises(JournalKeyError, match="2026-11") as caught:
            await live(store, shouting(), program)
        assert caught.value.key_id == "2026-11"
        if keys != OLD:  # with which new bodies may be encrypted
            with pytest.raises(JournalKeyError, match="2026-11"):
                await store.send("run-1", "reply", "x")
        with pytest.raises(JournalKeyError, match="2026-11"):
            store.records("run-1")
        assert store.runs() == before
    with opened(tmp_path, keys=NEW) as store:
        assert await send_and_live(store, message=message) == message.upper()


async def test_the_list_of_runs_has_no_texts_of_errors(tmp_path: Path) -> None:
    async def failing() -> None:
        raise ValueError(SECRET)

    with opened(tmp_path, keys=NEW) as store:
        with pytest.raises(ValueError, match=SECRET):
            await live(store, shouting(), failing)
        assert [row.error for row in store.runs()] == ["ValueError"]


async def test_keys_are_exchanged_while_old_bodies_stay_readable(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.send("run-0", "reply", LARGE)
    with opened(tmp_path, keys=OLD) as store:
        await send_and_live(store, message=LARGE)
    with opened(tmp_path, keys={**OLD, **NEW}, active_key="2026-11") as store:
        assert await send_and_live(store, message=LARGE) == LARGE.upper()
        assert b"2026-05" in stored(store)
        assert store.reencrypt() == 1
        assert store.verify()
        assert b"2026-05" not in stored(store)
        assert SECRET.encode() not in stored(store)
    with opened(tmp_path, keys=NEW) as store:
        assert await send_and_live(store, message=LARGE) == LARGE.upper()
        assert query(store, "SELECT key_id FROM encryption_keys") == [("2026-11",)]


async def test_a_run_in_progress_is_not_encrypted_anew(tmp_path: Path) -> None:
    async def encrypting() -> None:
        with pytest.raises(nh.journal.RunInProgressError):
            store.reencrypt()

    with opened(tmp_path, keys=NEW) as store:
        await live(store, shouting(), encrypting)


async def test_bodies_cannot_be_exchanged(tmp_path: Path) -> None:
    async def two() -> list[str]:
        return [await shout(LARGE), await shout("b"), await shout("c")]

    exchange = "UPDATE records SET body = (SELECT body FROM records WHERE seq = ?) WHERE seq = ?"
    with opened(tmp_path, keys=NEW) as store:
        await live(store, shouting(), two)
        large, second, third = (each.seq for each in store.records("run-1") if each.kind == "response")
        for other in (large, third):
            ((body,),) = query(store, "SELECT body FROM records WHERE seq = ?", second)
            change(store, exchange, other, second)
            with pytest.raises(JournalKeyError, match="changed or moved"):
                store.records("run-1")
            change(store, "UPDATE records SET body = ? WHERE seq = ?", body, second)
        assert store.records("run-1")


async def test_a_changed_large_body_is_found(tmp_path: Path) -> None:
    for keys in (None, NEW):
        folder = tmp_path / str(keys is None)
        folder.mkdir()
        with opened(folder, keys=keys) as store:
            await send_and_live(store, message=LARGE)
            ((body,), *_) = query(store, "SELECT body FROM blobs")
            changed = body[:-1] + bytes([body[-1] ^ 1])
            change(store, "UPDATE blobs SET body = ?", changed)
            with pytest.raises(JournalAuditError, match="changed"):
                store.verify()
            with pytest.raises(JournalError, match="changed"):
                store.records("run-1")
            change(store, "DELETE FROM blobs")
            with pytest.raises(JournalAuditError, match="missing"):
                store.verify()


def test_keys_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(words: str, **options: object) -> None:
        with pytest.raises(nh.ConfigurationError, match=words):
            nh.journal.open("sqlite:///runs.db", **options)

    refused("has 3 bytes", keys={"a": b"abc"})
    refused("several keys", keys={**OLD, **NEW})
    refused("only '2026-11'", keys=NEW, active_key="a")
    refused("there are none", active_key="a")
    refused("1 to 255", keys={"": b"n" * 32})
    refused("KEY_OF_NOW is not set", keys={"a": "KEY_OF_NOW"})
    monkeypatch.setenv("KEY_OF_NOW", "!")
    refused("is no Base64", keys={"a": "KEY_OF_NOW"})
    monkeypatch.setenv("KEY_OF_NOW", base64.urlsafe_b64encode(b"\xff" * 32).decode())
    nh.journal.open("sqlite:///runs.db", keys={"a": "KEY_OF_NOW"}).close()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(nh.ConfigurationError, match=r"pip install 'nighthawk-async\[encryption\]'"):
        nh.journal.open("sqlite:///runs.db", keys=NEW)
