"""Counters for the tests of prompts: an exact one where a tokenizer is installed, and an estimating one."""

import importlib.util

import pytest

from nighthawk_async.prompt import tokens
from nighthawk_async.prompt.tokens import TokenCounter


@pytest.fixture
def estimating_counter(monkeypatch: pytest.MonkeyPatch) -> TokenCounter:
    """A counter without a tokenizer."""
    counter = TokenCounter(encoding_name="o200k_base")
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: None)
        counter.load()
    return counter


@pytest.fixture(params=["exact", "estimate"])
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    """Both kinds of counter, one after the other."""
    if request.param == "estimate":
        return request.getfixturevalue("estimating_counter")
    return exact_counter()


def exact_counter() -> TokenCounter:
    """The counter of the default encoding, with the tokenizer that the extra brings."""
    if importlib.util.find_spec("bpe_openai") is None:
        pytest.skip("needs the package bpe_openai")
    return TokenCounter.resolve(encoding_name="o200k_base", model_name="gpt-5")
