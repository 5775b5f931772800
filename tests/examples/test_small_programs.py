"""The small programs of `examples`, each on a model of the testing kit."""

import ast
import csv
import importlib
import inspect
import json
import linecache
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import CodeType
from typing import Any

import anyio
import httpx
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import (
    ModelReply,
    ModelServer,
    RecordedRequest,
    ScriptedModel,
    model_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
PASS = tool_call("nh_outcome", kind="pass")
# A picture of one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)


def program(name: str, monkeypatch: pytest.MonkeyPatch, model: object) -> Any:
    """A program whose steps run on a model."""
    module = importlib.import_module(f"examples.{name}")
    monkeypatch.setattr(module, "MODEL", model)
    return module


def sets(name: str, expression: str) -> Any:
    """A response that sets a variable and ends the block."""
    return model_response(tool_call("nh_assign", target_path=name, expression=expression), PASS)


def text_of(request: nh.models.ModelRequest) -> str:
    """The results of the last calls."""
    message = request.messages[-1]
    assert isinstance(message, nh.models.ToolResultsMessage)
    return "".join(str(part) for result in message.results for part in result.content)


def test_programs_are_short() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in PROGRAMS}
    assert len(lengths) == 27
    assert {name: length for name, length in lengths.items() if length > 40} == {}
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in [*lengths, "notebook.ipynb"] if f"({name})" not in listed] == []


def test_every_example_runs_at_the_default_level_of_code() -> None:
    """One that needs another level would say so here, with the reason."""
    levels: set[tuple[str, str]] = set()
    for path in EXAMPLES.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given = {each.arg: ast.unparse(each.value) for each in getattr(call, "keywords", ())}
            if "code" in given or ("profile" in given and "specification" in given["profile"]):
                levels.add((path.name, given.get("code", "'python', by its profile")))
    assert levels == {("test_desk.py", "'shown'")}  # its recorded answers are of the specification's profile


async def test_csv_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def label(request: nh.models.ModelRequest) -> Any:
        return sets("label", "'praise' if 'good' in text else 'question'")

    example = program("csv_progress", monkeypatch, ScriptedModel(label))
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('text\n"It is good, thanks"\nWhere is it?\n', encoding="utf-8")
    await example.main(source, target)
    with target.open(newline="", encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == ["praise", "question"]
    assert "parallel.map  2/2 done" in capsys.readouterr().err


class _Weather(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"celsius": 31.5, "path": self.path}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def weather_service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Weather)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_tool_over_http(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def advise(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_eval", expression="celsius(city)"))
        return sets("advice", repr("Shorts." if "31.5" in str(request.messages[-1]) else "?"))

    example = program("tool_over_http", monkeypatch, ScriptedModel(advise))
    with weather_service() as address:
        monkeypatch.setattr(example, "SERVICE", address)
        await example.main()
    assert capsys.readouterr().out == "Shorts.\n"


async def test_loop_control(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def look(request: nh.models.ModelRequest) -> Any:
        (mail,) = re.findall(r'mail: str = "(.*?)"', str(request.messages[0]))
        if "Buy now" in mail:
            return model_response(tool_call("nh_outcome", kind="continue"))
        if "an archive" in mail:
            return model_response(tool_call("nh_outcome", kind="break"))
        if "unreadable" in mail:
            failure = {"raise_error_type": "UnreadableError", "raise_message": "no text"}
            return model_response(tool_call("nh_outcome", kind="raise", **failure))
        return sets("subject", "mail.split()[0]")

    example = program("loop_control", monkeypatch, ScriptedModel(look))
    await example.main()
    assert capsys.readouterr().out == "{'My lamp is broken.': 'My', 'Where is order 7?': 'Where'}\n"
    async with nh.run(ScriptedModel(look)):
        with pytest.raises(example.UnreadableError, match="no text"):
            await example.subjects(["unreadable"])


async def test_nested_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"article": "lamp", "quantity": 2, "price": "19.90"},
        {"article": "table", "quantity": 1, "price": "149"},
    ]
    wrong = [{**lines[0], "quantity": 0}]
    model = ScriptedModel(
        [
            sets("invoice", repr({"number": "2026-17", "lines": wrong})),
            sets("invoice", repr({"number": "2026-17", "lines": lines})),
        ]
    )
    await program("nested_output", monkeypatch, model).main()
    assert capsys.readouterr().out == "2026-17 188.80\n"
    assert "greater than or equal to 1" in str(model.requests[1].messages[-1])


async def test_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dot.png"
    path.write_bytes(PNG)
    model = ScriptedModel([sets("caption", "'A red dot'")])
    await program("image", monkeypatch, model).main(path)
    assert capsys.readouterr().out == "A red dot\n"
    pictures = [each for each in model.requests[0].messages[0].content if isinstance(each, nh.BinaryContent)]
    assert [(each.media_type, each.data) for each in pictures] == [("image/png", PNG)]


async def test_retries_and_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(request: RecordedRequest) -> ModelReply:
        if request.body["model"] == "large":
            return ModelReply(status=500, text="down")
        return ModelReply(
            tool_calls=(tool_call("nh_assign", target_path="summary", expression="text[:4]"), PASS)
        )

    async with ModelServer(reply) as server:

        def configuration(name: str) -> nh.StepExecutorConfiguration:
            settings = {"base_url": server.base_url, "api_key": "k", "max_retries": 0}
            return nh.StepExecutorConfiguration(model=f"openai-chat:{name}", model_settings=settings)

        example = program("retries_and_budget", monkeypatch, configuration("large"))
        monkeypatch.setattr(example, "FALLBACK", configuration("small"))
        monkeypatch.setattr(example, "retrying", lambda **options: nh.resilience.retrying(attempts=2, wait=0))
        assert await example.main(["Rain fell."]) == ["Rain"]
        assert [request.body["model"] for request in server.requests] == ["large", "large", "small"]
    assert "tokens" in capsys.readouterr().out


async def test_fastapi_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(lambda request: sets("label", "'praise'"))
    app = program("fastapi_progress", monkeypatch, model).make_app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        one = await client.post("/label", params={"text": "Good."})
        many = await client.post("/labels", json=["Good.", "Fine."])
    assert one.json() == "praise"
    assert '"done":2,"total":2,"failed":0' in many.text
    assert many.text.rstrip().endswith('data: {"value":["praise","praise"]}')


async def test_supervised_actor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: nh.models.ModelRequest) -> Any:
        if "open" in str(request.messages[0]):
            raise nh.errors.ModelConnectionError("no line")
        return sets("reply", "'In the hall.'")

    await program("supervised_actor", monkeypatch, ScriptedModel(answer)).main()
    failed, answered, events = capsys.readouterr().out.splitlines()
    assert failed == "no answer: no line"
    assert answered == "In the hall."
    assert "'failed'" in events
    assert "'restarted'" in events


async def test_steer_and_cancel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def write(request: nh.models.ModelRequest) -> Any:
        text = str(request.messages)
        if "three words" in text:
            return sets("headline", "'Man Bites Dog'")
        return model_response(tool_call("nh_eval", expression="show_draft('Draft: ' + news)"))

    await program("steer_and_cancel", monkeypatch, ScriptedModel(write)).main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "draft: Draft: A man bit a dog."
    assert shown[1] == "headline: Man Bites Dog"
    assert shown[2] == "second: cancelled"


async def test_compatible_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = importlib.import_module("examples.compatible_server")
    value = tool_call("nh_assign", target_path="translation", expression="'Bom dia!'")
    async with ModelServer([ModelReply(tool_calls=(value, PASS))]) as server:
        settings = {**example.CONFIGURATION.model_settings, "base_url": server.base_url}
        configuration = nh.StepExecutorConfiguration(
            model=example.CONFIGURATION.model, model_settings=settings
        )
        monkeypatch.setattr(example, "CONFIGURATION", configuration)
        await example.main()
        (request,) = server.requests
    assert capsys.readouterr().out == "Bom dia!\n"
    assert (request.body["model"], request.body["temperature"]) == ("Qwen/Qwen3-8B", 0.2)


async def test_apply_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    patch = tmp_path / "change.diff"
    patch.write_text(
        "--- a/shop.py\n+++ b/shop.py\n@@ -1,1 +1,1 @@\n-def total(price):\n+def total(costs):\n"
    )

    def apply(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_eval", expression="workspace.patch(patch)"))
        assert "and the patch expects 'def total(price):'" in text_of(request)
        return sets("changed", "workspace.patch(patch.replace('(price)', '(prices)'))")

    example = program("apply_patch", monkeypatch, ScriptedModel(apply))
    await example.main(tmp_path, patch)
    assert capsys.readouterr().out == "changed shop.py\n"
    assert (tmp_path / "shop.py").read_text() == "def total(costs):\n    return sum(prices)\n"
    failure = {"raise_error_type": "PatchError", "raise_message": "not there"}
    refuse = ScriptedModel([model_response(tool_call("nh_outcome", kind="raise", **failure))])
    async with nh.run(refuse):
        with pytest.raises(nh.library.PatchError, match="not there"):
            await example.apply_patch(nh.library.Workspace(tmp_path), "")


async def test_research(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text("RATE = 0.19\n")

    def look(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_eval", expression="workspace.search('RATE')"))
        assert "shop.py:1: RATE" in text_of(request)
        return sets("finding", repr({"answer": "19 percent.", "sources": ["shop.py:1"]}))

    await program("research", monkeypatch, ScriptedModel(look)).main(tmp_path, "Which rate?")
    assert capsys.readouterr().out == "19 percent.\nshop.py:1\n"


async def test_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            assert "+    return max(prices)" in str(request.messages[0])
            return model_response(tool_call("nh_eval", expression="await workspace.shell('sh tests.sh')"))
        assert "1 failed" in text_of(request)
        return sets("remarks", repr([{"place": "shop.py:2", "text": "takes the maximum"}]))

    (tmp_path / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    (tmp_path / "tests.sh").write_text("echo 1 failed; exit 1\n")
    commit = "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm begin"
    await anyio.run_process(commit, cwd=tmp_path)
    (tmp_path / "shop.py").write_text("def total(prices):\n    return max(prices)\n")
    example = program("review", monkeypatch, ScriptedModel(judge))
    confined_if_possible = partial(
        nh.library.Workspace, sandbox="auto"
    )  # machines without Bubblewrap test it too
    monkeypatch.setattr(example.library, "Workspace", confined_if_possible)
    await example.main(tmp_path)
    assert capsys.readouterr().out == "shop.py:2: takes the maximum\n"


def test_the_tests_of_the_desk() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_desk.py"]
    ended = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


NOTEBOOK = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


async def run_notebook(replace: dict[str, str]) -> dict[str, Any]:
    """Run the code cells one after the other, with `await` at their top, as notebooks do."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        source = cell
        for old, new in replace.items():
            source = source.replace(old, new)
        filename = f"<cell {number}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        code: CodeType = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        async with anyio.create_task_group() as tasks:  # each cell has a context of its own
            tasks.start_soon(_run_cell, code, names)
    return names


async def _run_cell(code: CodeType, names: dict[str, Any]) -> None:
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


async def test_notebook(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: nh.models.ModelRequest) -> Any:
        if "Summarize" in str(request.messages[0]):
            return sets("summary", "'It rained.'")
        return sets("answer", "text.endswith('?')")

    monkeypatch.setattr(nh, "notebook_model", ScriptedModel(answer), raising=False)
    model = {'"openai-responses:gpt-5.4-nano"': "nh.notebook_model"}
    names = await run_notebook(model)
    assert names["result"].summary == "It rained."
    assert names["answers"] == [True, False]
    assert "is_question(text=" in capsys.readouterr().out
