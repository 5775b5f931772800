"""The programs of `examples` that people write first, each on a model of the testing kit."""

import csv
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel, model_response, tool_call

from .test_small_programs import PNG, program, sets

pytestmark = pytest.mark.anyio

PLAIN_SERVER = Path(__file__).parents[1] / "unit" / "mcp" / "plain_server.py"


def passing(**values: object) -> Any:
    return model_response(tool_call("nh_outcome", kind="pass", bindings=values))


async def test_rename_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = [tmp_path / "DSC_1.png", tmp_path / "DSC_2.png"]
    for photo in photos:
        photo.write_bytes(PNG)
    model = ScriptedModel([passing(name="A red dot!"), passing(name="red-dot"), passing(name="red-dot")])
    await program("rename_photos", monkeypatch, model).main(photos)
    assert [photo.exists() for photo in photos] == [False, False]
    assert (tmp_path / "red-dot-2.png").read_bytes() == PNG


async def test_fastapi_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(lambda request: passing(label="praise"))
    example = program("fastapi_deadline", monkeypatch, model)
    transport = httpx.ASGITransport(example.app)
    async with (
        example.lifespan(example.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        assert (await client.post("/label", params={"text": "Good."})).json() == "praise"
        monkeypatch.setattr(example, "SECONDS", 0.0)
        late = await client.post("/label", params={"text": "Good."})
    assert (late.status_code, late.json()) == (504, {"detail": "no answer in time"})


async def test_rows_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([f"Good {number}"] for number in range(20))])
    asked: list[str] = []

    def answer_some(request: nh.models.ModelRequest) -> Any:
        asked.append(str(request.messages[0]))
        if len(asked) > 12:
            raise SystemError("the power is off")
        return passing(label="praise")

    with pytest.raises((SystemError, ExceptionGroup)):  # of one call, or of several
        await program("rows_resumed", monkeypatch, ScriptedModel(answer_some)).main(source, target)
    rest = ScriptedModel(lambda request: passing(label="praise"))
    await program("rows_resumed", monkeypatch, rest).main(source, target)
    assert len(rest.requests) < 20
    with target.open(newline="", encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == ["praise"] * 20


async def test_desk_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            code = "[each.text for each in await memory.recall(mail)]"
            store = "await memory.store('ann/contact', 'Ann prefers mail')"
            return model_response(tool_call("nh_exec", statements=f"{store}\n{code}"))
        return passing(reply="By mail, in three days." if "three days" in str(request.messages[-1]) else "?")

    example = program("desk_memory", monkeypatch, ScriptedModel(answer))
    for _ in range(2):  # the second program finds what the first has stored
        await example.main(tmp_path / "memory.db", "Ann", "How long does a refund take?")
        printed = capsys.readouterr().out.splitlines()
        assert printed[0] == "By mail, in three days."
        assert "ann/contact: Ann prefers mail" in printed


async def test_mail_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["Where is my lamp?", "It came, thank you."]
    last = anyio.Event()

    def answer(request: nh.models.ModelRequest) -> Any:
        if "It came" in str(request.messages[0]):
            last.set()
        return passing(reply="Fine.")

    example = program("mail_topic", monkeypatch, ScriptedModel(answer))
    database = tmp_path / "mails.db"
    with nh.journal.open(database) as store:
        async with anyio.create_task_group() as group:
            group.start_soon(example.main, database, [*texts, *texts])
            await last.wait()
            await store.result("mails@examples.mail_topic:answer#2")
            group.cancel_scope.cancel()
        assert [message.id for message in store.messages("mails")] == texts
    assert capsys.readouterr().out.splitlines() == [f"{text} -> Fine." for text in texts]


async def test_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["I am Ada.", "Who am I?", "", "And now?", ""]
    monkeypatch.setattr("builtins.input", lambda prompt: lines.pop(0))
    model = ScriptedModel([passing(reply="Hello."), passing(reply="Ada."), passing(reply="Still Ada.")])
    example = program("chat", monkeypatch, model)
    monkeypatch.setattr(example, "HISTORY", tmp_path / "chat.json")
    await example.main()
    await example.main()  # started again
    assert capsys.readouterr().out.split("\n") == ["bot: Hello.", "bot: Ada.", "bot: Still Ada.", ""]
    assert "I am Ada." in str(model.requests[2].messages)


async def test_polars_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    source = tmp_path / "reviews.csv"
    source.write_text("review,shop\nFine.,Oslo\nDull.,Lima\nFine.,Lima\n", encoding="utf-8")
    model = ScriptedModel(lambda request: passing(mood="good" if "Fine" in str(request.messages) else "bad"))
    rows = await program("polars_rows", monkeypatch, model).main(str(source))
    assert rows["mood"].to_list() == ["good", "bad", "good"]
    assert len(model.requests) == 2


async def test_mcp_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_eval", expression="await files.add(a=2, b=3)"))
        return passing(reply="It adds." if "5" in str(request.messages[-1]) else "?")

    example = program("mcp_agent", monkeypatch, ScriptedModel(look))
    monkeypatch.setattr(example, "SERVER", (sys.executable, str(PLAIN_SERVER)))
    await example.main(str(tmp_path), "What is it?")
    assert capsys.readouterr().out == "It adds.\n"


async def test_order_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([passing(note="A new customer.")])
    example = program("order_approval", monkeypatch, model)
    monkeypatch.setattr(example, "STORE", address := f"sqlite:///{tmp_path}/orders.db")
    monkeypatch.setattr(example, "WAIT", 0.01)
    await example.main("17", 800.0)
    with nh.journal.open(address) as store:
        (question,) = store.questions()

    def approve() -> None:
        arguments = ["journal", "approve", f"{tmp_path}/orders.db", question.id, "--as", "ada"]
        assert run_command_line(arguments) == 0

    await anyio.to_thread.run_sync(approve)
    await example.main("17", 800.0)
    waits, *_, paid = capsys.readouterr().out.splitlines()
    assert waits.startswith("nobody has approved it yet")
    assert paid == "order 17: 800.00 paid"
    assert len(model.requests) == 1


async def test_two_wordings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(request: nh.models.ModelRequest) -> Any:
        exact = "waits for something" in str(request.messages[0])
        text = "'broken' in mail or 'today' in mail" if exact else "'!' in mail"
        return sets("urgent", text)

    await program("two_wordings", monkeypatch, ScriptedModel(judge)).main()
    assert "1 better: late 0.00 -> 1.00" in capsys.readouterr().out


async def test_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text("lighthouse " * 3, encoding="utf-8")
    topic = tool_call("nh_outcome", kind="pass", bindings={"topic": "the sea"})
    async with ModelServer(lambda request: ModelReply(tool_calls=(topic,))) as server:
        settings = {"base_url": server.base_url, "api_key": "k"}
        model = nh.StepExecutorConfiguration(model="openai-chat:gpt-5.4-nano", model_settings=settings)
        await program("workers", monkeypatch, model).main(paths)
    assert capsys.readouterr().out == "a.txt: the sea\nb.txt: the sea\n"


TEXT = "Light of the sun is scattered by the air, blue light more than red."


async def test_stream_to_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await program("stream_to_terminal", monkeypatch, ScriptedModel([passing(text=TEXT)])).main("Why blue?")
    assert capsys.readouterr().out == f"{TEXT}\n"


async def test_fastapi_text(monkeypatch: pytest.MonkeyPatch) -> None:
    example = program("fastapi_text", monkeypatch, ScriptedModel([passing(text=TEXT)]))
    transport = httpx.ASGITransport(example.app)
    async with (
        example.lifespan(example.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        answer = await client.get("/explain", params={"question": "Why blue?"})
    assert answer.text == TEXT
    assert answer.headers["content-type"].startswith("text/plain")
