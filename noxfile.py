"""Every check of the project, one session each. `make` starts them; `nox --list` names them.

An environment is built once and then reused without touching the network: a stamp inside it records what it
was built from, and the build is skipped while that stays the same.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.needs_version = ">=2025.10.16"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
# Pythons that are merely supported may be missing, in CI too; one that PYTHONS names may not.
nox.options.error_on_missing_interpreters = bool(os.environ.get("PYTHONS"))
nox.options.download_python = "never"
nox.options.sessions = ["tests", "lint", "types", "docs"]

# An environment is compiled once, when it is made, and not by each process that begins in it.
os.environ.setdefault("UV_COMPILE_BYTECODE", "1")
# Tests start hundreds of processes, each of which would otherwise compile the library again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The interpreters are the machine's own; uv would otherwise fetch one from a host that is no package
# registry.
os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")

HERE = Path(__file__).parent
PROJECT_FILE = HERE / "pyproject.toml"
LOCK = HERE / "constraints.txt"
"""The one release of every package that the sessions install, but for `newest`, `lowest` and `drift`."""
PROJECT = nox.project.load_toml(PROJECT_FILE)
RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SUPPORTED_PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
os.environ.setdefault("UV_BUILD_CONSTRAINT", str(LOCK))
NOT_FOR_BLOCKS = ("ARG001", "ARG002", "COM812", "CPY001", "D", "INP001", "S101", "T201")
"""Rules of ruff that docs/linters-and-type-checkers.md leaves out of all: blocks, and matters of taste."""
CODE = ["src", "tests", "benchmarks", "examples", "noxfile.py"]


# Tests of what a Python can change: the language, annotations, tracebacks, threads and cancellation, signals,
# the standard library's limits. The first Python found runs all tests, the others one case of each of these.
DEPENDS_ON_PYTHON = [
    "tests/faults/test_bad_input.py",
    "tests/faults/test_cancellation.py",
    "tests/faults/test_http_cancel_everywhere.py",
    "tests/faults/test_http_connections.py",
    "tests/faults/test_http_nested_json.py",
    "tests/faults/test_interrupted_scripts.py",
    "tests/faults/test_schedules.py",
    "tests/faults/test_single_connection.py",
    "tests/faults/test_threads_and_cancellation.py",
    "tests/faults/test_user_code.py",
    "tests/property/test_answers.py",
    "tests/property/test_gather_safety.py",
    "tests/property/test_natural_code.py",
    "tests/property/test_natural_text.py",
    "tests/property/test_plain_data.py",
    "tests/property/test_untrusted_numbers.py",
    "tests/specification",
    "tests/unit/actors",
    "tests/unit/cli/test_run.py",
    "tests/unit/cli/test_run_arguments.py",
    "tests/unit/natural",
    "tests/unit/parallel",
    "tests/unit/prompt",
    "tests/unit/agent",
    "tests/unit/kernel",
    "tests/unit/policies",
    "tests/unit/telemetry",
    "tests/unit/values",
    "tests/unit/test_configuration.py",
    "tests/unit/test_errors.py",
    "tests/unit/test_pickling.py",
]

# Tests of workers on Ray, and of what must hold on every placement.
ON_RAY = [
    "tests/examples/test_cluster.py",
    "tests/unit/distributed/test_placements.py",
    "tests/unit/distributed/test_ray_programs.py",
    "tests/unit/distributed/test_ray_workers.py",
    "tests/unit/distributed/test_without_ray.py",
]

# Tests of what releases of other packages can change: types, schemas, wire formats, tokens, commands.
DEPENDS_ON_RELEASES = [
    "tests/property/test_plain_data.py",
    "tests/specification/test_7_bindings.py",
    "tests/specification/test_8_3_tool_registration.py",
    "tests/unit/cli/test_eval.py",
    "tests/unit/cli/test_run.py",
    "tests/unit/cli/test_run_arguments.py",
    "tests/unit/credentials",
    "tests/unit/mcp/test_serving_tools.py",
    "tests/unit/prompt",
    "tests/unit/values/test_instance_checks.py",
    "tests/unit/values/test_validation.py",
    "tests/unit/wire",
]

# Tests that run on the Python of Pyodide, which has neither threads nor sockets.
ON_PYODIDE = ["tests/unit/natural"]
NPM_INSTALL = (
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-package-lock",
    "--fetch-retries=1",  # a registry that cannot be reached is not waited for
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=60000",
)
PYTHONS_SEEN: list[str] = []
NPM_FAILURES: list[str] = []


def pythons_to_test() -> list[str]:
    """The interpreters the tests run on: those named in PYTHONS, otherwise every supported one that is found.

    The interpreter that runs nox is always among the candidates, so a machine with a single Python, even one
    newer than this list, runs the tests on that.
    """
    named = os.environ.get("PYTHONS", "").replace(",", " ").split()
    candidates = named or SUPPORTED_PYTHONS
    return candidates if named or RUNNING_PYTHON in candidates else [*candidates, RUNNING_PYTHON]


def prepare(session: nox.Session, *groups: str, extras: str = "", project: bool = True) -> None:
    """Bring the session's environment to what its groups and extras ask for, unless it is there already.

    Args:
        session: The session.
        groups: Dependency groups of `pyproject.toml`.
        extras: Extras of the distribution, comma-separated.
        project: Whether the project itself is installed too, editable.
    """
    requirements = nox.project.dependency_groups(PROJECT, *groups)
    if project:
        requirements = ("-e", f".[{extras}]" if extras else ".", *requirements)
    recipe = "\n".join([*requirements, str(HERE), sys.platform])
    digest = hashlib.sha256(PROJECT_FILE.read_bytes() + LOCK.read_bytes() + recipe.encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "prepared.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    stamp.unlink(missing_ok=True)
    if requirements:
        session.install("--constraint", str(LOCK), *requirements)
    stamp.write_text(digest)


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Write the newest releases that `pyproject.toml` allows into constraints.txt.

    One file is for all Pythons and systems. It names no place that packages come from. With arguments after
    `--`, such as `--upgrade-package=pytest`, what it has stays but for what they say.
    """
    uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or "uv"
    groups = [f"--group={name}" for name in PROJECT["dependency-groups"]]
    chosen = session.posargs or ["--upgrade"]
    session.run(
        *(uv, "pip", "compile", "--quiet", "--universal", f"--python-version={SUPPORTED_PYTHONS[0]}"),
        *("--no-header", "--no-annotate", "--all-extras", *groups, *chosen),
        *(PROJECT_FILE.name, f"--output-file={LOCK.name}"),
        external=True,
    )


def install_npm_packages(session: nox.Session) -> None:
    """Install what tests drive from npm into .cache/npm, unless NIGHTHAWK_NPM names a folder that has it.

    Without npm or its registry the tests against these packages are skipped, and say so. Scripts of packages
    are not run. The first time takes about a minute, and 730 MB.
    """
    npm = shutil.which("npm")
    if os.environ.get("NIGHTHAWK_NPM") or npm is None or NPM_FAILURES:
        return
    wanted, folder = (HERE / "tests" / "npm" / "package.json").read_text(), HERE / ".cache" / "npm"
    stamp = folder / "installed.json"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(wanted)
    command = (npm, *NPM_INSTALL)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        reason = (reasons or ["no reason given"])[0]
        NPM_FAILURES.append(reason)  # the next Python would wait for the same
        session.warn(f"npm could not install the packages that tests drive, which are skipped: {reason}")
    else:
        stamp.write_text(wanted)


@nox.session(python=pythons_to_test())
def tests(session: nox.Session) -> None:
    """Run the tests, on one process more than there are processors; arguments after `--` go to pytest.

    Tests wait for servers, processes and clocks now and then, so the processors have room for one more.

    The first Python that is found runs all of them but the weekly ones, the others one case of each function
    that a Python can change.
    """
    run_tests(session, "--other-turn", "--one-case", *DEPENDS_ON_PYTHON)


@nox.session(name="test-all", python=pythons_to_test())
def test_all(session: nox.Session) -> None:
    """Run the weekly tests too, and all cases of all tests; arguments after `--` go to pytest.

    The first Python that is found runs all of them, the others what a Python can change.
    """
    run_tests(session, "--other-turn", *DEPENDS_ON_PYTHON, always=("--all-cases",))


def run_tests(session: nox.Session, *later: str, always: Sequence[str] = ()) -> None:
    """Run tests on one process more than there are processors.

    Args:
        session: The session.
        later: What pytest is told on the Pythons after the first one.
        always: What it is told on each.
    """
    prepare(session, "test", extras="all")
    install_npm_packages(session)
    if session.posargs:
        session.run("pytest", *always, *session.posargs)
        return
    chosen = later if PYTHONS_SEEN else ()
    PYTHONS_SEEN.append(str(session.python))
    processes = f"--numprocesses={(os.cpu_count() or 1) + 1}"
    session.run("pytest", processes, "--dist=worksteal", "--durations=20", *always, *chosen)


@nox.session
def kills(session: nox.Session) -> None:
    """Kill durable runs at every moment, some thousand times; arguments after `--` go to the program.

    Those after `generated` go to the kills of generated programs: `make kills ARGS="generated --kills 2000"`.
    Their files are in memory where the machine has a file system for that.
    """
    prepare(session, "test", extras="all")
    memory = Path("/dev/shm")
    folder = ["--folder", str(memory)] if memory.is_dir() and "--folder" not in session.posargs else []
    if session.posargs[:1] == ["generated"]:
        session.run("python", "-m", "tests.faults.generated.matrix", *folder, *session.posargs[1:])
        return
    session.run("python", "-m", "tests.faults.durable.matrix", *folder, *session.posargs)
    if not session.posargs:
        session.run("python", "-m", "tests.faults.generated.matrix", *folder)
        session.run("python", "-m", "tests.faults.durable_workers.matrix", *folder)


@nox.session
def attacks(session: nox.Session) -> None:
    """Try 20,000 attacks of a grammar on the levels of code; arguments after `--` go to pytest."""
    prepare(session, "test", extras="all")
    session.run(
        "pytest", "tests/attacks", "--timeout=1800", *session.posargs, env={"NIGHTHAWK_ATTACKS": "20000"}
    )


@nox.session
def http(session: nox.Session) -> None:
    """Compare plain HTTP as the library reads it with h11, two million times, or as often as is asked for."""
    prepare(session, "test", extras="all")
    session.run("python", "-m", "tests.property.http_bytes", *(session.posargs or ["2000000"]))


@nox.session
def drift(session: nox.Session) -> None:
    """Compare the catalog and its rules with the newest packages of providers; weekly, not in the gate."""
    prepare(session, extras="all")
    session.install("--upgrade", "openai", "anthropic", "google-genai", "mistralai", "groq")
    session.run("python", "-m", "tests.drift.names")


@nox.session
def ray(session: nox.Session) -> None:
    """Run the tests of workers on Ray, which is too large for the environments of the others.

    They start one cluster on this machine, with about ten processes. Arguments after `--` go to pytest.
    """
    prepare(session, "test", "cluster", extras="ray")
    session.run("pytest", "--durations=10", *(session.posargs or ON_RAY))


@nox.session(python=SUPPORTED_PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """Run tests with the lowest releases that `pyproject.toml` allows, on the oldest Python.

    Old releases may use what new ones deprecate, so that is no error. Arguments after `--` go to pytest.
    """
    run_with_releases(session, "--resolution=lowest-direct")


@nox.session
def newest(session: nox.Session) -> None:
    """Run tests with the newest releases that `pyproject.toml` allows, whatever constraints.txt says.

    What they deprecate is no error yet. Arguments after `--` go to pytest.
    """
    run_with_releases(session, "--upgrade")


def run_with_releases(session: nox.Session, choice: str) -> None:
    """Run one case of each test function of what releases of other packages can change.

    Args:
        session: The session.
        choice: The option of uv that says which releases are installed.
    """
    requirements = nox.project.dependency_groups(PROJECT, "test")
    session.install(choice, "-e", ".[all]", *requirements)
    processes = f"--numprocesses={os.cpu_count() or 1}"
    chosen = session.posargs or [processes, "--dist=worksteal", "--one-case", *DEPENDS_ON_RELEASES]
    session.run("pytest", "-W", "default::DeprecationWarning", *chosen)


@nox.session(venv_backend="venv")
def pyodide(session: nox.Session) -> None:
    """Run the tests of natural functions and annotations on Python 3.14 in Pyodide, which Node runs.

    It stands in where there is no other Python 3.14. What it needs comes from the package registries into
    .cache/pyodide, in about 20 seconds. Without Node, npm or a registry the tests are skipped, with the
    reason. Arguments after `--` go to pytest.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        session.skip("Node and npm, which run Pyodide, are not there")
    folder = HERE / ".cache" / "pyodide"
    wanted = [
        (HERE / "tests" / "pyodide" / name).read_text() for name in ("package.json", "requirements.txt")
    ]
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(wanted):
        if (reason := install_pyodide(session, npm, folder)) is not None:
            session.skip(f"Pyodide or its packages could not be installed: {reason}")
        stamp.write_text("\n".join(wanted))
    program = str(HERE / "tests" / "pyodide" / "run.mjs")
    session.run(node, program, str(HERE), str(folder), *(session.posargs or ON_PYODIDE), external=True)


def install_pyodide(session: nox.Session, npm: str, folder: Path) -> str | None:
    """Install Pyodide and the packages of its tests into a folder; return what failed, None for nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "tests" / "pyodide" / "package.json", folder)
    pip = (python_of(session), "-m", "pip")  # it takes the tags of a platform that uv does not know
    tags = (
        "--python-version=3.14",
        "--platform=pyemscripten_2026_0_wasm32",
        "--only-binary=:all:",
        "--no-deps",
    )
    quick = ("--quiet", "--retries=1", "--disable-pip-version-check")
    install = (*pip, "install", *quick, "--target", str(folder / "packages"))
    for command in (
        (npm, *NPM_INSTALL),
        (*install, *tags, "--requirement", str(HERE / "tests" / "pyodide" / "requirements.txt")),
        (*install, "--no-deps", "pyyaml==6.0.4"),  # works without its compiled part, which is of this machine
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith(("npm error", "ERROR"))]
            return (lines or ["no reason given"])[0]
    return None


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests in one process and report their branch coverage, in htmlcov/ too."""
    prepare(session, "test", extras="all")
    install_npm_packages(session)
    environment = {"COVERAGE_FILE": str(Path(session.create_tmp()).resolve() / "coverage")}
    session.run("coverage", "erase", env=environment)
    session.run("coverage", "run", "-m", "pytest", *session.posargs, env=environment)
    session.run("coverage", "combine", "--quiet", env=environment)
    session.run("coverage", "report", env=environment)
    session.run("coverage", "html", "--quiet", env=environment)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting; `-- --fix` mends what can be mended."""
    prepare(session, "lint", project=False)
    paths = [path for path in CODE if (HERE / path).exists()]
    if "--fix" in session.posargs:
        session.run("ruff", "check", "--fix", *paths)
        session.run("ruff", "format", *paths)
        return
    session.run("ruff", "check", *paths)
    session.run("ruff", "format", "--check", *paths)


@nox.session
def types(session: nox.Session) -> None:
    """Check types strictly; with `-- --report`, tell how completely the public interface is typed.

    mypy and pyright look at the library, the examples, typical programs and all examples of the pages.
    """
    prepare(session, "types", extras="all")
    if "--report" in session.posargs:  # names that a dependency leaves untyped count against the interface
        verify = ("pyright", "--pythonpath", python_of(session), "--ignoreexternal", "--verifytypes")
        session.run(*verify, "nighthawk_async", success_codes=[0, 1])
        return
    folder = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "tests.types.pages", str(folder / "pages"))
    session.run("python", "-m", "tests.types.pages", str(folder / "first"), "--first")
    (folder / "pyrightconfig.json").write_text(json.dumps(pyright_project(folder)))
    with ThreadPoolExecutor(1) as beside:  # each of the two takes one processor
        pyright = ("pyright", "--pythonpath", python_of(session), "--project", str(folder))
        checked = beside.submit(session.run, *pyright)
        session.run("mypy", *PROJECT["tool"]["mypy"]["files"], str(folder / "pages"))
        check_first_pages(session, folder / "first", cache=folder / "mypy-first")
        checked.result()


def pyright_project(folder: Path) -> dict[str, object]:
    """The settings of one run of pyright over everything, which reads the library once.

    Strict is what `pyproject.toml` includes, and the pages. Those that a user reads first have the default
    rules. pyright leaves out folders whose names begin with a dot unless it is told what else to leave out.

    Args:
        folder: Where the pages are, below `pages` and `first`.
    """
    settings = PROJECT["tool"]["pyright"]
    strict = [*(os.path.relpath(HERE / path, folder) for path in settings["include"]), "pages"]
    return {
        "include": [*strict, "first"],
        "strict": strict,
        "exclude": ["**/node_modules"],
        "pythonVersion": settings["pythonVersion"],
        "extraPaths": [os.path.relpath(HERE, folder), os.path.relpath(HERE / "src", folder)],
        "stubPath": os.path.relpath(HERE / "typings", folder),
    }


def check_first_pages(session: nox.Session, folder: Path, *, cache: Path) -> None:
    """Check the pages that a user reads first with default rules of ruff and mypy, for errors of pylint.

    Args:
        session: The session.
        folder: Where the pages are.
        cache: Where mypy keeps what it knows of the library, for all of them.
    """
    session.run("ruff", "check", "--isolated", "--no-cache", "examples")
    programs = sorted(str(each) for each in Path("examples").glob("*.py"))
    chosen = ("--select", "ALL", "--ignore", ",".join(NOT_FOR_BLOCKS), "--line-length", "110")
    session.run("ruff", "check", "--isolated", "--no-cache", *chosen, *programs)
    session.run("pylint", "--errors-only", *programs)
    for made in (folder, *sorted({each.parent for each in folder.glob("*/*.py")})):
        files = [str(each.relative_to(made)) for each in sorted(made.glob("*.py"))]
        with session.chdir(made):  # as its reader does, for whom the files of the folder are their own
            session.run("ruff", "check", "--isolated", "--no-cache", *files)
            session.run("mypy", "--config-file=", f"--cache-dir={cache}", *files)
            if made.name in (folder.name, "tutorial"):
                session.run("pylint", "--errors-only", *files)


def python_of(session: nox.Session) -> str:
    """Path of the session's interpreter."""
    return str(Path(session.virtualenv.bin) / ("python.exe" if sys.platform == "win32" else "python"))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into site/, failing on broken links or lost words; `-- serve` shows it as you write."""
    prepare(session, "docs", project=False)
    if session.posargs:
        session.run("zensical", *session.posargs)
        return
    session.run("zensical", "build", "--clean", "--strict")
    session.run("python", "-m", "tests.docs.build", "site")
    session.run("python", "-m", "tests.docs.words", "site")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks in a few minutes; arguments after `--` go to `python -m benchmarks`."""
    run_benchmarks(session)


@nox.session(name="bench-full")
def bench_full(session: nox.Session) -> None:
    """Run all benchmarks, bursts of ten thousand steps included."""
    run_benchmarks(session, "--full")


@nox.session(name="bench-peers")
def bench_peers(session: nox.Session) -> None:
    """Run the benchmarks and, side by side, what others offer; each peer gets an environment of its own."""
    run_benchmarks(session, "--peers")


def run_benchmarks(session: nox.Session, *options: str) -> None:
    """Run the benchmarks with what they serve and draw with."""
    prepare(session, "bench", extras="cli,otel,tokenizers")
    session.run("python", "-m", "benchmarks", *options, *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Run the demo on the embedded model; arguments after `--` go to `nighthawk-async demo`."""
    prepare(session, extras="cli,local")
    session.run("nighthawk-async", "demo", *session.posargs)


@nox.session
def service(session: nox.Session) -> None:
    """Serve examples/triage_service, on the embedded model unless NIGHTHAWK_MODEL names another one."""
    prepare(session, "services", extras="cli,local,otel")
    model = os.environ.get("NIGHTHAWK_MODEL") or "local:smollm2-135m"
    if model == "local:smollm2-135m":
        session.run("nighthawk-async", "models", "pull", "smollm2-135m")
    # Ctrl-C reaches the service too, which takes its time to end what is in progress.
    session.run("python", "-m", "examples.triage_service", *session.posargs, interrupt_timeout=40)


@nox.session
def workflows(session: nox.Session) -> None:
    """Check the files of the hosting service: workflows, forms, the citation; nothing is fetched."""
    prepare(session, "release", project=False)
    forms = [str(each) for each in sorted(Path(".github", "ISSUE_TEMPLATE").glob("*.yml"))]
    for schema, files in {
        "vendor.github-workflows": [str(each) for each in sorted(Path(".github", "workflows").glob("*.yml"))],
        "vendor.github-issue-forms": [each for each in forms if not each.endswith("config.yml")],
        "vendor.github-issue-config": [each for each in forms if each.endswith("config.yml")],
        "vendor.citation-file-format": ["CITATION.cff"],
    }.items():
        session.run("check-jsonschema", "--builtin-schema", schema, *files)
    session.run("zizmor", "--offline", "--no-progress", "--quiet", ".github/workflows")


@nox.session
def release(session: nox.Session) -> None:
    """Build a release into dist/, check it, and list the components of each extra; nothing is uploaded.

    The tag that NIGHTHAWK_RELEASE_TAG names, if any, has to be that of the version. The sessions `wheel` and
    `sdist` go on from here.
    """
    prepare(session, "release", project=False)
    tag, version = os.environ.get("NIGHTHAWK_RELEASE_TAG"), PROJECT["project"]["version"]
    if tag and tag != f"v{version}":
        session.error(f"the tag is {tag}, and pyproject.toml has version {version}")
    folder, again = HERE / "dist", Path(session.create_tmp()).resolve() / "again"
    for each in (folder, again):
        shutil.rmtree(each, ignore_errors=True)
        session.run("python", "-m", "build", "--installer", "uv", "--outdir", str(each), silent=True)
    files = sorted(folder.iterdir())
    if different := [each.name for each in files if each.read_bytes() != (again / each.name).read_bytes()]:
        session.error(f"two builds differ: {', '.join(different)}")
    session.run("twine", "check", "--strict", *map(str, files))
    session.run("check-wheel-contents", str(built_wheel(session)))
    session.run("python", "-m", "tests.packaging.components", str(built_wheel(session)), str(folder))


@nox.session(python=pythons_to_test(), reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """Install the wheel of dist/ into an empty environment, import every module, and try the command."""
    file, program = built_wheel(session), str(HERE / "tests" / "packaging" / "imports.py")
    with session.chdir(session.create_tmp()):  # nothing of the repository can be imported
        session.install(str(file))
        session.run("python", program)
        session.install(f"nighthawk-async[all] @ {file.as_uri()}")
        session.run("python", program, "--all")
        session.run("nighthawk-async", "demo", "--help", silent=True)
        session.run("nighthawk-async", "--version")


@nox.session(python=pythons_to_test()[0])
def sdist(session: nox.Session) -> None:
    """Run tests from the source distribution of dist/; arguments after `--` go to pytest."""
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (archive,) = sorted((HERE / "dist").glob("*.tar.gz")) or [session.error("dist/ is empty: make release")]
    shutil.unpack_archive(archive, folder, filter="data")
    with session.chdir(folder / archive.name.removesuffix(".tar.gz")):
        session.install(".[all]", *nox.project.dependency_groups(PROJECT, "test"))
        processes = f"--numprocesses={os.cpu_count() or 1}"
        session.run("pytest", *(session.posargs or (processes, *IN_AN_SDIST)))


def built_wheel(session: nox.Session) -> Path:
    """The wheel in dist/."""
    found = sorted((HERE / "dist").glob("*.whl"))
    return found[0] if len(found) == 1 else session.error("dist/ has no wheel, or several: make release")


# Tests that read files of the repository, or stand for the others: what an archive lacks fails.
IN_AN_SDIST = [
    "tests/architecture",
    "tests/docs",
    "tests/packaging",
    "tests/specification",
    "tests/unit/kernel",
    "tests/unit/natural",
]


# What works without the means of POSIX, as far as is known: docs/stability.md says what does not.
ON_WINDOWS = [
    "tests/packaging",
    "tests/property/test_natural_text.py",
    "tests/specification",
    "tests/unit/actors",
    "tests/unit/natural",
    "tests/unit/parallel",
    "tests/unit/prompt",
    "tests/unit/values",
    "tests/unit/wire",
]


@nox.session(python=pythons_to_test())
def windows(session: nox.Session) -> None:
    """Run the tests that need nothing of POSIX; arguments after `--` go to pytest."""
    prepare(session, "test", extras="all")
    session.run("pytest", "--timeout-method=thread", *(session.posargs or ON_WINDOWS))
