"""Files that earlier versions wrote are read, and runs that they began go on; one folder for each version.

docs/stability.md has the table. A release adds its folder (`tests/formats/write.py`) and changes no other.
"""

import gzip
import json
import re
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.evals import load_report
from nighthawk_async.testing import CassetteError, CassetteMissError, ScriptedModel, cassette

from . import program

HERE = Path(__file__).parent
VERSIONS = sorted((each for each in HERE.iterdir() if re.match(r"\d", each.name)), key=lambda each: each.name)
KINDS = [
    "cassette.yaml",
    "journal.db.gz",
    "memory.db.gz",
    "recording.jsonl",
    "report.jsonl",
    "transcript.json",
]
of_every_version = pytest.mark.parametrize("folder", VERSIONS, ids=lambda each: each.name)


def unpacked(file: Path, folder: Path) -> Path:
    """A store in a folder of its own, which reading it may bring up to date."""
    target = folder / file.stem
    target.write_bytes(gzip.decompress(file.read_bytes()))
    return target


@of_every_version
def test_a_version_has_a_file_of_each_kind(folder: Path) -> None:
    assert sorted(each.name for each in folder.iterdir()) == KINDS


@of_every_version
def test_a_run_that_an_earlier_version_began_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked or sent again."""
    monkeypatch.setattr(program, "SENT", [])

    async def second_life() -> str:
        with nh.journal.open(unpacked(folder / "journal.db.gz", tmp_path)) as store:
            async with nh.run(ScriptedModel([]), journal=store, run_id="mail-17"):
                return await program.handle(program.MAIL, is_cut=False)

    assert anyio.run(second_life) == "sent to ann@example.com"
    assert program.SENT == []


@of_every_version
def test_a_memory_of_an_earlier_version_is_recalled_and_continued(folder: Path, tmp_path: Path) -> None:
    async def recall() -> list[str]:
        with nh.memory.open(unpacked(folder / "memory.db.gz", tmp_path), namespace="support") as memory:
            await memory.store("lamps", "A lamp takes a week.")
            return [record.text for record in await memory.recall("how long does a refund take?", k=1)]

    assert anyio.run(recall) == ["A refund takes three days."]


@of_every_version
def test_an_earlier_cassette_is_read(folder: Path) -> None:
    """It answers while the prompt is the one that was recorded; otherwise its steps are named."""

    async def replay() -> str:
        async with cassette(folder / "cassette.yaml", mode="none") as tape:
            async with nh.run(ScriptedModel([])):
                kind = await program.label(program.MAIL)
            return f"{kind}, {tape.recorded} recorded, {tape.replayed} replayed"

    try:
        said = anyio.run(replay)
    except CassetteMissError as error:
        said = str(error).partition("recordings of these steps only")[2].splitlines()[1]
    assert said in ("order, 0 recorded, 1 replayed", "- tests.formats.program:label:1")


@of_every_version
def test_an_earlier_transcript_is_the_past_of_a_new_step(folder: Path) -> None:
    transcript = nh.Transcript.load(folder / "transcript.json")
    assert (transcript.usage.requests, transcript.outcome) == (1, "pass")
    model = program.model_that_labels(times=1)

    async def go_on() -> None:
        async with nh.run(model):
            with nh.scope(past=transcript):
                await program.label("And my table?")

    anyio.run(go_on)
    assert len(model.requests[0].messages) > len(transcript.messages)


@of_every_version
def test_an_earlier_report_and_an_earlier_recording_are_read(folder: Path) -> None:
    report = load_report(folder / "report.jsonl")
    assert (report.counts["passed"], report.decided) == (1, 1)
    recording = observe.read_recording(folder / "recording.jsonl")
    assert recording.is_complete
    assert [view.kind for view in recording.snapshot().walk()].count("step") == 1


def test_a_file_of_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    """Each names both versions, so that it is clear what has to be updated."""
    newest = VERSIONS[-1]
    path = tmp_path / "cassette.yaml"
    path.write_text((newest / "cassette.yaml").read_text().replace("version: 1", "version: 99", 1))

    async def replay() -> None:
        async with cassette(path, mode="none"):
            pass

    with pytest.raises(CassetteError, match="version 99; this is version 1"):
        anyio.run(replay)
    transcript = json.loads((newest / "transcript.json").read_text()) | {"transcript_version": 99}
    with pytest.raises(nh.errors.TranscriptError, match="transcript_version is 99, not 1"):
        nh.Transcript.from_json(json.dumps(transcript))
    report = tmp_path / "report.jsonl"
    report.write_text((newest / "report.jsonl").read_text().replace('"version":1', '"version":99', 1))
    with pytest.raises(nh.evals.ReportError, match="99"):
        load_report(report)
