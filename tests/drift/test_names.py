"""The names and fields of the SDKs that are installed here; the session `drift` has all of them, anew."""

import pytest

from nighthawk_async.catalog.models import UNKNOWN_MODEL
from tests.drift import names


def test_nothing_that_the_sdks_name_is_missing() -> None:
    assert list(names.missing()) == []


def test_a_model_without_a_row_and_a_field_that_vanished_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "find_model_facts", lambda model_id: UNKNOWN_MODEL)
    monkeypatch.setitem(names.ANSWERS, "media", ("google.genai.types", "Blob", ("data", "bytes")))
    found = list(names.missing())
    assert "openai-responses:gpt-5.1-mini has no row in the catalog" in found
    assert "media: Blob has no field bytes" in found
