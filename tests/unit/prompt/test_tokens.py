"""Token counting: exact offline, bounded, and never over the network (specification 5.2)."""

import hashlib
import importlib.util
import logging
import socket
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import tiktoken
import tiktoken.registry

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.prompt import encodings, tokens
from nighthawk_async.prompt.token_estimate import estimate_tokens
from nighthawk_async.prompt.tokens import TokenCounter, load_offline_tokenizer

_PROSE = "The quick brown fox, said Mr. O'Neill, doesn't jump 12345 times over a lazy dog.\n"


class _CountingTokenizer:
    """Counts one token per word, and remembers how many characters it was given."""

    def __init__(self) -> None:
        self.characters = 0

    def __call__(self, text: str) -> int:
        self.characters += len(text)
        return len(text.split())


@pytest.fixture
def tokenizer() -> _CountingTokenizer:
    return _CountingTokenizer()


@pytest.fixture
def counting(tokenizer: _CountingTokenizer, monkeypatch: pytest.MonkeyPatch) -> TokenCounter:
    monkeypatch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: tokenizer)
    return TokenCounter(encoding_name="words")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def _tiny_encoding() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "tiny",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={"<|endoftext|>": 256},
    )


@pytest.mark.parametrize(
    ("model_name", "encoding_name"),
    [
        ("gpt-4o", "o200k_base"),
        ("openai-chat:gpt-5.4-nano", "o200k_base"),
        ("gpt-4-32k", "cl100k_base"),
        ("openai-chat:gpt-3.5-turbo", "cl100k_base"),
        ("ft:gpt-4:mine", "cl100k_base"),
        ("claude-something", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_5_2_encoding_is_resolved_by_model_name_then_falls_back(model_name: str, encoding_name: str) -> None:
    assert TokenCounter.resolve(encoding_name=None, model_name=model_name).encoding_name == encoding_name


def test_5_2_named_encoding_wins_over_the_model() -> None:
    counter = TokenCounter.resolve(encoding_name="cl100k_base", model_name="gpt-5")
    assert counter.encoding_name == "cl100k_base"


def test_unknown_encoding_is_a_configuration_error_that_names_it() -> None:
    with pytest.raises(ConfigurationError, match="o300k_imaginary"):
        TokenCounter.resolve(encoding_name="o300k_imaginary", model_name="gpt-5")


def test_equal_configurations_share_one_counter() -> None:
    first = TokenCounter.resolve(encoding_name=None, model_name="gpt-4o")
    second = TokenCounter.resolve(encoding_name="o200k_base", model_name="anything")
    assert first is second


def test_text_with_no_more_bytes_than_tokens_allowed_is_never_tokenized(
    counting: TokenCounter, tokenizer: _CountingTokenizer
) -> None:
    assert not counting.exceeds("a b c d", 7)
    assert not counting.exceeds("é" * 3, 6)
    assert counting.truncate("a b c d", 7) == "a b c d"
    assert tokenizer.characters == 0


def test_multibyte_text_is_judged_by_its_bytes(counting: TokenCounter, tokenizer: _CountingTokenizer) -> None:
    assert not counting.exceeds("é" * 4, 6)
    assert tokenizer.characters == 4


def test_prefix_of_a_huge_text_decides_that_it_is_too_long(
    counting: TokenCounter, tokenizer: _CountingTokenizer
) -> None:
    huge = "word " * 2_000_000
    assert counting.exceeds(huge, 100)
    assert tokenizer.characters < 20_000


def test_truncating_a_huge_text_tokenizes_only_its_beginning(
    counting: TokenCounter, tokenizer: _CountingTokenizer
) -> None:
    shortened = counting.truncate("word " * 2_000_000, 3_000)
    assert len(shortened.split()) == 3_000
    assert tokenizer.characters < 1_000_000


def test_text_without_a_seam_is_still_counted_window_by_window(
    counting: TokenCounter, tokenizer: _CountingTokenizer
) -> None:
    assert counting.exceeds("a" * 1_000_000, 5)
    assert tokenizer.characters < 100_000


def test_special_tokens_in_data_count_as_ordinary_text(counter: TokenCounter) -> None:
    assert counter.count("<|endoftext|>") > 1


@pytest.fixture
def without_tiktoken(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setitem(sys.modules, "tiktoken", None)  # importing it raises
    monkeypatch.setitem(sys.modules, "tiktoken.model", None)
    monkeypatch.setattr(encodings, "has_tiktoken", lambda: False)
    monkeypatch.setattr(tokens, "has_tiktoken", lambda: False)
    for known in (tokens._encoding_for_model, tokens._known_encoding, tokens._counter):
        known.cache_clear()
    yield
    for known in (tokens._encoding_for_model, tokens._known_encoding, tokens._counter):
        known.cache_clear()


@pytest.mark.usefixtures("without_tiktoken")
def test_without_tiktoken_names_are_known_and_counts_are_of_the_bundle_or_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {
        "openai:gpt-5.2": "o200k_base",
        "gpt-4o-mini": "o200k_base",
        "gpt-4-turbo": "cl100k_base",
        "anthropic:claude-sonnet-5": "o200k_base",  # the default
    }
    found = {name: TokenCounter.resolve(encoding_name=None, model_name=name).encoding_name for name in names}
    assert found == names
    with pytest.raises(ConfigurationError, match=r"Known encodings: cl100k_base, gpt2, o200k_base"):
        TokenCounter.resolve(encoding_name="o300k", model_name="")
    assert TokenCounter(encoding_name="o200k_base").is_exact
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    estimated = TokenCounter(encoding_name="o200k_base", is_own=False)
    assert not estimated.is_exact
    assert estimated.count(_PROSE) == estimate_tokens(_PROSE)


def test_models_and_names_without_tiktoken_agree_with_it() -> None:
    wholes = {"chatgpt-4o-": "latest", "gpt-4.5": "-preview", "text-embedding-": "3-small"}
    for encoding, beginnings in encodings._MODELS.items():
        for beginning in beginnings:
            name = beginning + wholes.get(beginning, "")
            assert tiktoken.encoding_name_for_model(name) == encoding
    assert set(tiktoken.list_encoding_names()) == encodings._NAMES


def test_exact_count_of_a_long_text_is_the_count_of_the_whole() -> None:
    bundle = pytest.importorskip("bpe_openai")
    counter = TokenCounter.resolve(encoding_name="o200k_base", model_name="")
    text = _PROSE * 1_000
    assert counter.is_exact
    assert counter.count(text) == len(bundle.get_encoding("o200k_base").encode_ordinary(text))


def test_truncated_text_fits_and_one_more_word_does_not(counter: TokenCounter) -> None:
    text = _PROSE * 500
    shortened = counter.truncate(text, 700)
    assert text.startswith(shortened)
    assert counter.count(shortened) <= 700
    assert counter.count(text[: len(shortened) + 30]) > 700


def test_truncation_holds_for_tokenizers_that_judge_a_prefix_differently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tokenizer(text: str) -> int:
        return text.count("b") if text.startswith(" ") else len(text) // 80 + 2 * text.count("b")

    monkeypatch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: tokenizer)
    counter = TokenCounter(encoding_name="contrary")
    shortened = counter.truncate("a" * 8_000 + " " + "b" * 5_000, 150)
    assert shortened == "a" * 8_000 + " " + "b" * 25


def test_tokenizer_that_another_thread_loads_is_shared(
    counting: TokenCounter, tokenizer: _CountingTokenizer
) -> None:
    class LostRace:
        """A lock that is free only after another thread has loaded the tokenizer."""

        def __enter__(self) -> None:
            counting._count = estimate_tokens

        def __exit__(self, *arguments: object) -> None: ...

    counting._lock = LostRace()
    assert counting.count("one two three four") == estimate_tokens("one two three four")
    assert tokenizer.characters == 0


def test_truncating_to_nothing_gives_nothing(counter: TokenCounter) -> None:
    assert counter.truncate("hello", 0) == ""


def test_truncating_a_text_that_fits_keeps_it(counter: TokenCounter) -> None:
    text = _PROSE * 3
    assert counter.truncate(text, counter.count(text)) == text


def test_lone_surrogates_do_not_break_counting(counter: TokenCounter) -> None:
    assert counter.count("a\ud800b") >= 1
    assert counter.exceeds("\ud800" * 50, 2)


def test_empty_text_has_no_tokens(counter: TokenCounter) -> None:
    assert counter.count("") == 0


@pytest.mark.usefixtures("no_network")
def test_missing_tokenizer_gives_estimates_without_touching_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    counter = TokenCounter(encoding_name="p50k_base")
    assert not counter.is_exact
    assert counter.count(_PROSE) == estimate_tokens(_PROSE)


def test_missing_tokenizer_is_announced_once_per_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: None)
    tokens._estimate_was_announced.clear()
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        TokenCounter(encoding_name="first").load()
        TokenCounter(encoding_name="second").load()
    assert [record.name for record in caplog.records] == ["nighthawk"]
    assert "first" in caplog.text


def test_no_tokenizer_is_missed_for_a_model_whose_own_is_not_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "load_offline_tokenizer", lambda encoding_name: None)
    tokens._estimate_was_announced.clear()
    tokens._counter.cache_clear()
    with caplog.at_level(logging.WARNING, logger="nighthawk"):
        TokenCounter.resolve(encoding_name=None, model_name="local:smollm2-135m").load()
        assert caplog.records == []
        TokenCounter.resolve(encoding_name=None, model_name="openai-chat:gpt-5").load()
        assert len(caplog.records) == 1
    tokens._counter.cache_clear()


def _cache_file(directory: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "https://vocabulary.example/r50k"
    digest = hashlib.sha256(b"vocabulary").hexdigest()
    monkeypatch.setitem(tokens._ENCODING_FILES, "r50k_base", ((address, digest),))
    (directory / hashlib.sha1(address.encode()).hexdigest()).write_bytes(content)


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_cached_vocabulary_is_loaded_through_tiktoken(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    _cache_file(tmp_path, b"vocabulary", monkeypatch)
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: _tiny_encoding())
    count = load_offline_tokenizer("r50k_base")
    assert count is not None
    assert count("abc <|endoftext|>") == 17


def test_damaged_vocabulary_is_left_alone_because_tiktoken_would_fetch_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    _cache_file(tmp_path, b"damaged", monkeypatch)
    monkeypatch.setattr(tiktoken, "get_encoding", pytest.fail)
    assert load_offline_tokenizer("r50k_base") is None


def test_switched_off_cache_means_no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setattr(tiktoken, "get_encoding", pytest.fail)
    assert load_offline_tokenizer("gpt2") is None


def test_default_cache_directory_is_tiktokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tokens.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "data-gym-cache").mkdir()
    _cache_file(tmp_path / "data-gym-cache", b"vocabulary", monkeypatch)
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: _tiny_encoding())
    assert load_offline_tokenizer("r50k_base") is not None


def test_encoding_that_the_program_has_loaded_already_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "custom", _tiny_encoding())
    count = load_offline_tokenizer("custom")
    assert count is not None
    assert count("four") == 4


def test_encoding_of_unknown_origin_is_never_constructed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", pytest.fail)
    assert load_offline_tokenizer("somebody_elses") is None


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("encoding_name", ["o200k_base", "o200k_harmony", "cl100k_base"])
def test_bundled_vocabulary_serves_without_network(
    encoding_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bpe_openai")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    count = load_offline_tokenizer(encoding_name)
    assert count is not None
    assert count("hello world") == 2


def test_without_the_bundle_there_is_no_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert load_offline_tokenizer("cl100k_base") is None


@pytest.mark.parametrize(
    "text",
    [
        _PROSE * 20,
        '{"id": 17, "name": "row 17", "tags": ["a", "b"], "price": 1.5}\n' * 20,
        "def average(numbers: list[float]) -> float:\n    return sum(numbers) / len(numbers)\n" * 20,
        "HTTP_STATUS_NOT_FOUND " * 20,
        "zqxjkvbwpyfgmucl" * 20,
        "Сегодня хорошая погода. " * 20,
        "今日は天気がいいですね。" * 20,
        "🎉🚀" * 20,
    ],
    ids=["prose", "json", "code", "capitals", "random", "cyrillic", "japanese", "emoji"],
)
def test_estimate_errs_upwards_but_stays_below_the_bytes(text: str) -> None:
    pytest.importorskip("bpe_openai")
    exact = TokenCounter.resolve(encoding_name="o200k_base", model_name="").count(text)
    assert exact <= estimate_tokens(text) <= len(text.encode())
