"""The demonstration over scripted steps: what it counts, shows and survives."""

import contextlib
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from rich.console import Console

import nighthawk_async as nh
from nighthawk_async.catalog.models import ModelFacts
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.demo import DemoJournal, DemoRecord, DemoView, live_view, run_demo
from nighthawk_async.cli.demo_functions import Review, load_reviews
from nighthawk_async.models.weights import PullProgress
from nighthawk_async.prompt import tokens
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    RecordedRequest,
    StepCall,
    StepResponse,
    pass_response,
    raise_response,
)
from nighthawk_async.types.messages import ToolCall
from tests.busy_machine import without_held_loops

Captured = pytest.CaptureFixture[str]


def well_behaved(call: StepCall) -> StepResponse:
    """Right about everything except reviews of lamps."""
    if "label" in call.binding_names:
        review = str(call.step_locals["review"])
        right = {item.review: item.label for item in load_reviews()}[review]
        wrong = "negative" if right == "positive" else "positive"
        return pass_response(label=wrong if "lamp" in review else right)
    if "number" in call.binding_names:
        return pass_response(number=2)
    return raise_response("no advertising, please", "AdvertisingError")


def demonstrate(
    callback: Callable[[StepCall], StepResponse] = well_behaved,
    *,
    reviews: list[Review] | None = None,
    terminal: bool = False,
    width: int = 160,
    concurrency: int = 4,
) -> tuple[DemoRecord, str, CallbackExecutor]:
    output = io.StringIO()
    view = DemoView(Console(file=output, force_terminal=terminal, width=width), "test:model")
    executor = CallbackExecutor(callback)
    shown = load_reviews() if reviews is None else reviews
    record = run_demo(executor, shown, view, max_concurrent=concurrency)
    view.summarize(record, remark="A remark.")
    return record, output.getvalue(), executor


def test_the_shipped_reviews_are_many_balanced_and_all_different() -> None:
    reviews = load_reviews()
    assert len(reviews) >= 24
    labels = Counter(review.label for review in reviews)
    assert labels["positive"] == labels["negative"] == len(reviews) / 2
    assert len({review.review for review in reviews}) == len(reviews)


def test_fewer_or_more_reviews_can_be_had() -> None:
    everything = load_reviews()
    assert load_reviews(3) == everything[:3]
    assert load_reviews(len(everything) + 2) == [*everything, *everything[:2]]


def test_every_step_and_every_outcome_is_counted() -> None:
    record, _, executor = demonstrate()
    assert record.done == record.total == len(load_reviews())
    assert record.in_flight == 0
    assert record.steps == len(executor.calls) == record.total + 2
    assert record.outcomes == {"pass": record.total + 1, "raise": 1}
    lamps = sum("lamp" in review.review for review in load_reviews())
    assert lamps > 0
    assert record.right == record.total - lamps
    assert record.seconds > 0


def test_each_function_asks_for_exactly_what_it_declares() -> None:
    _, _, executor = demonstrate(reviews=load_reviews(1))
    classify, stars_in, publish = executor.calls
    assert classify.binding_names == ("label",)
    assert str(classify.binding_types["label"]) == "typing.Literal['positive', 'negative']"
    assert stars_in.binding_types == {"number": int}
    assert publish.allowed_step_kinds == ("raise",)
    assert publish.raise_error_types == ("AdvertisingError",)
    assert "deny" not in publish.natural_program


def test_no_more_reviews_are_in_flight_than_asked_for() -> None:
    in_flight = 0
    most = 0

    async def slow(call: StepCall) -> StepResponse:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        in_flight -= 1
        return well_behaved(call)

    record = DemoRecord(total=0)
    view = DemoView(Console(file=io.StringIO()), "test:model")
    record = run_demo(CallbackExecutor(slow), load_reviews(12), view, max_concurrent=3)
    assert record.done == 12
    assert most == 3


def test_plain_output_has_one_line_per_review_and_the_summary() -> None:
    record, output, _ = demonstrate()
    lines = output.splitlines()
    assert sum(line.startswith("   [") for line in lines) == record.total
    assert "   [ 1/32] " in output
    assert "stars_in('Two stars, not more.')" in output
    assert "returned 2" in output
    assert "raised AdvertisingError: no advertising, please" in output
    for figure in (
        f"steps              {record.total + 2}",
        f"outcomes           {record.total + 1} pass, 1 raise",
        "model round trips  0",
        "tokens             0 in, 0 out",
        f"accuracy           {record.right} of {record.total} labels right",
        "A remark.",
    ):
        assert figure in output
    assert output.count(" WRONG ") == record.total - record.right
    assert output.isascii()
    assert "\x1b" not in output


def test_in_a_terminal_the_figures_move() -> None:
    record, output, _ = demonstrate(terminal=True)
    assert f"{record.total}/{record.total} done" in output
    assert "0 steps in flight" in output
    assert f"{record.total} pass" in output
    assert "\x1b[" in output


def frame(record: DemoRecord, width: int) -> list[str]:
    """The lines that one frame of the live view draws."""
    output = io.StringIO()
    Console(file=output, width=width).print(live_view(record, width))
    return output.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 81, 160])
def test_a_frame_in_a_terminal_has_one_line_per_review_a_bar_and_two_lines_of_figures(width: int) -> None:
    record, _, _ = demonstrate()
    record.meters.clear()
    meter = nh.runtime.UsageMeter()
    meter.add("test:model", nh.Usage(requests=34, input_tokens=1_234_567, output_tokens=123_456))
    record.meters.append(meter)
    record.outcomes["fail"] = 30
    lines = frame(record, width)
    assert len(lines) == 12 + 1 + 2
    assert all(len(line) <= width for line in lines)
    if width >= 80:
        assert lines[-2].split("   ")[1:] == ["0 steps in flight", "32/32 done", f"{record.right} right"]
        assert "1,234,567 tokens in, 123,456 out" in lines[-1]
        assert lines[-1].rstrip().endswith("outcomes: 30 fail, 33 pass, 1 raise")


def test_long_reviews_fit_into_the_lines_of_a_terminal_and_of_plain_output() -> None:
    long = Review(review="word " * 100, label="negative")

    def wrong(call: StepCall) -> StepResponse:
        return pass_response(label="positive") if "label" in call.binding_names else well_behaved(call)

    record, output, _ = demonstrate(wrong, reviews=[long] * 120, width=80)
    reviews = [line for line in output.splitlines() if line.startswith("   [")]
    assert len(reviews) == 120
    assert all(len(line) <= 79 and line.endswith("...") for line in reviews)
    lines = frame(record, 80)
    assert len(lines) == 12 + 1 + 2
    assert all(line.rstrip().endswith("...") for line in lines[:12])
    assert all(len(line.rstrip()) >= 75 for line in lines[:12])


def test_a_step_that_fails_is_counted_and_the_others_go_on() -> None:
    def sometimes(call: StepCall) -> StepResponse:
        if "kettle" in str(call.step_locals.get("review")):
            raise nh.ExecutionError("no acceptable answer")
        return well_behaved(call)

    record, output, _ = demonstrate(sometimes)
    assert record.failed == 2
    assert record.done == record.total
    assert "2 failed" in output
    assert " failed          The kettle" in output


def test_synchronous_functions_that_fail_are_reported() -> None:
    def unhelpful(call: StepCall) -> StepResponse:
        if "label" in call.binding_names:
            return well_behaved(call)
        if "number" in call.binding_names:
            return pass_response(number="many")
        return raise_response("I will not say why")

    _, output, _ = demonstrate(unhelpful, reviews=load_reviews(1))
    assert "   failed: " in output
    assert "   raised without the type it was asked for: I will not say why" in output


def test_a_model_that_cannot_be_reached_ends_the_demonstration() -> None:
    def unreachable(call: StepCall) -> StepResponse:
        raise nh.errors.ModelConnectionError("nobody answers")

    with pytest.raises((nh.errors.ModelConnectionError, ExceptionGroup)) as failure:
        demonstrate(unreachable)
    assert "nobody answers" in repr(failure.value)


@pytest.mark.parametrize(
    ("model", "hint"),
    [("nonsense", "provider:model"), ("nowhere:model", "nowhere"), ("local:unknown", "smollm2-135m")],
)
def test_a_model_that_does_not_exist_is_one_line_and_exit_code_2(
    model: str, hint: str, capsys: Captured
) -> None:
    assert run_command_line(["demo", "--model", model]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert hint in captured.err
    assert len(captured.err.splitlines()) == 1


def over_the_wire(request: RecordedRequest) -> ModelReply:
    """Answers as a model with tools does: assignments and outcome in one response."""
    prompt = str(request.body["messages"][-1]["content"])
    if "<:label>" in prompt:
        assignments, outcome = {"target_path": "label", "expression": "'positive'"}, {"kind": "pass"}
    elif "<:number>" in prompt:
        assignments, outcome = {"target_path": "number", "expression": "2"}, {"kind": "pass"}
    else:
        outcome = {"kind": "raise", "raise_message": "watches", "raise_error_type": "AdvertisingError"}
        return ModelReply(tool_calls=(ToolCall(id="", name="nh_outcome", arguments=json.dumps(outcome)),))
    return ModelReply(
        tool_calls=(
            ToolCall(id="", name="nh_assign", arguments=json.dumps(assignments)),
            ToolCall(id="", name="nh_outcome", arguments=json.dumps(outcome)),
        ),
        usage=nh.Usage(requests=1, input_tokens=100, output_tokens=10),
    )


def test_another_model_runs_the_same_demonstration(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer.in_thread(over_the_wire) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        assert run_command_line(["demo", "--model", "openai-chat:any", "--reviews", "4"]) == 0
        assert len(server.requests) == 6
    output = capsys.readouterr().out
    assert "Natural functions on openai-chat:any" in output
    assert "model round trips  6" in output
    assert "accuracy           2 of 4 labels right (50%)" in output
    assert "raised AdvertisingError: watches" in output
    assert "135 million parameters" in output


def test_a_missing_tokenizer_is_nothing_to_tell_a_newcomer(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked_for: list[str] = []
    monkeypatch.setattr("nighthawk_async.prompt.tokens.load_offline_tokenizer", looked_for.append)
    tokens._counter.cache_clear()
    tokens._estimate_was_announced.clear()
    long_reviews = [replace(load_reviews(1)[0], review="I love it. " * 1_000)]
    monkeypatch.setattr("nighthawk_async.cli.demo_functions.load_reviews", lambda count: long_reviews)
    with ModelServer.in_thread(over_the_wire) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run_command_line(["demo", "--model", "openai-chat:any", "--reviews", "1"]) == 0
    tokens._counter.cache_clear()
    assert looked_for == ["o200k_base"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_small", [True, False])
def test_the_remark_is_about_what_the_model_can_do_whatever_its_name(
    is_small: bool, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ModelFacts(pattern="*", capabilities=nh.models.ModelCapabilities(is_small=is_small))
    monkeypatch.setattr("nighthawk_async.catalog.models.UNKNOWN_MODEL", facts)
    with ModelServer.in_thread(over_the_wire) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert run_command_line(["demo", "--model", "openai-chat:any", "--reviews", "1"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert ("This is a small model" in output) is is_small
    assert ("Run the demonstration without --model" in output) is not is_small


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is another error elsewhere")
def test_a_reader_that_goes_away_ends_the_demonstration_silently() -> None:
    is_closed = threading.Event()

    def answer_when_closed(request: RecordedRequest) -> ModelReply:
        assert is_closed.wait(240)
        return over_the_wire(request)

    with (
        ModelServer.in_thread(answer_when_closed) as server,
        subprocess.Popen(
            [sys.executable, "-m", "nighthawk_async", "demo", "--model", "openai-chat:any", "--reviews", "4"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OPENAI_BASE_URL": server.base_url},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"Natural functions on openai-chat:any")
            assert process.stdout.readline().startswith(b"1  4 reviews")
            process.stdout.close()
            is_closed.set()
            assert process.wait(240) == 1
            assert without_held_loops(process.stderr.read().decode()) == []
        finally:
            is_closed.set()
            process.kill()


def test_missing_weights_are_pulled_before_anything_is_shown(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("nighthawk_async.cli.demo_command.require_local_extra", lambda: None)
    pulled: list[Path] = []

    def pull(source: object, path: Path, *, report: Callable[[PullProgress], None]) -> bool:
        report(PullProgress(phase="downloading", done_bytes=0, total_bytes=10))
        pulled.append(path)
        raise nh.ConfigurationError("no index")

    monkeypatch.setattr("nighthawk_async.cli.demo_command.pull_weights", pull)
    assert run_command_line(["demo"]) == 2
    assert pulled == [tmp_path / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["smollm2-135m: downloading 0 %, 0 MB", "nighthawk-async: no index"]


def test_a_refused_connection_is_one_line_and_exit_code_1(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    assert run_command_line(["demo", "--model", "openai-chat:any", "--reviews", "4"]) == 1
    error = capsys.readouterr().err
    assert "127.0.0.1" in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


def run_in(
    journal: Path, callback: Callable[[StepCall], StepResponse], reviews: list[Review]
) -> tuple[DemoRecord | None, str, int]:
    """Run the demonstration with a journal; gives its counts, its output, and the steps of the model."""
    output = io.StringIO()
    view = DemoView(Console(file=output, width=160), "test:model")
    executor = CallbackExecutor(callback)
    record = None
    with nh.journal.open(f"sqlite:///{journal}") as store, contextlib.suppress(KeyboardInterrupt):
        record = run_demo(executor, reviews, view, max_concurrent=2, journal=DemoJournal(store, "test"))
    return record, output.getvalue(), len(executor.calls)


def test_an_interrupted_demonstration_continues_from_its_journal(tmp_path: Path) -> None:
    reviews = load_reviews(8)
    answered: list[str] = []

    def interrupted(call: StepCall) -> StepResponse:
        if len(answered) == 5:
            raise KeyboardInterrupt
        answered.append(str(call.step_locals["review"]))
        return well_behaved(call)

    record, output, _ = run_in(tmp_path / "demo.db", interrupted, reviews)
    assert record is None
    assert "continues" not in output
    record, output, asked = run_in(tmp_path / "demo.db", well_behaved, reviews)
    assert record is not None
    assert "continues: 5 of 8 reviews were done before" in output
    assert asked == 3 + 2  # the two functions of the second part were not reached
    assert (record.done, record.failed, record.steps) == (8, 0, 10)
    again, output, asked = run_in(tmp_path / "demo.db", well_behaved, reviews)
    assert again is not None
    assert "continues: 8 of 8 reviews were done before" in output
    assert (asked, again.right, again.outcomes) == (0, record.right, record.outcomes)


def test_a_demonstration_continues_on_the_command_line_after_a_real_interrupt(tmp_path: Path) -> None:
    may_answer = threading.Event()
    asked = threading.Semaphore(0)

    async def answer(request: RecordedRequest) -> ModelReply:
        asked.release()
        if len(server.requests) > 3:
            assert await anyio.to_thread.run_sync(may_answer.wait, 240, abandon_on_cancel=True)
        return over_the_wire(request)

    command = [sys.executable, "-m", "nighthawk_async", "demo", "--model", "openai-chat:any"]
    command += ["--reviews", "6", "--max-concurrent", "1", "--journal", "demo.db"]
    with ModelServer.in_thread(answer) as server:
        environment = {**os.environ, "OPENAI_BASE_URL": server.base_url}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, text=True
        ) as process:
            try:
                for _ in range(4):
                    assert asked.acquire(timeout=240)
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=240)
            finally:
                may_answer.set()
                process.kill()
        assert (process.returncode, errors) == (130, "interrupted\n")
        assert "continues" not in output
        before = len(server.requests)
        ended = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "   continues: 3 of 6 reviews were done before, and are not asked again" in ended.stdout
        assert "model round trips  8" in ended.stdout
        assert len(server.requests) - before == 3 + 2
