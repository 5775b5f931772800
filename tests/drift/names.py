"""The names of models and the fields of requests in the newest SDKs, against the catalog and its rules.

Run it with a Python that has the SDKs: `python -m tests.drift.names`; the session `drift` of nox installs the
newest ones. It fails with everything that is missing, so a new release of a provider is noticed by its names.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from nighthawk_async.catalog.endpoint_rules import ENDPOINT_RULES
from nighthawk_async.catalog.models import UNKNOWN_MODEL, find_model_facts

_OF_NO_FAMILY = re.compile(r"gpt-\[5-9\]\*-\[a-z\]\*$")
"""The row of OpenAI's models that are not known: what it covers is missing."""

OUTDATED = re.compile(
    r"chatgpt-4o-latest|codex-mini-latest|gpt-3\.5.*|gpt-4(-.*)?|o1-(mini|preview).*|computer-use-preview.*"
    r"|claude-[0-3].*|gemini-(1|2\.0|pro-vision).*|gemini-(1|2)"
)
"""Models that their providers have retired, or that answer in no form of the library."""

APART = re.compile(
    r".*(embedding|moderation|ocr|realtime|transcribe|tts|whisper|live|robotics|omni|lyria|veo|imagen).*"
    r"|gpt-4o(-mini)?-(audio|search)-preview.*|gpt-audio.*|.*-native-audio.*|gemini-2\.5-computer-use.*"
    r"|gpt-(daybreak|rosalind).*|antigravity.*|deep-research.*|voxtral.*|mistral-(embed|voice).*"
    r"|gemini-.*(preview-\d\d-\d\d|-00\d)|gemini-3-pro-preview|gemini-3\.1-pro-preview-customtools"
)
"""Models for other endpoints than those of answers, or of protocols that the library does not speak to them.

Through Responses, models of sound and of searches are not served.
"""

FIELDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "mistral": (
        "mistralai.client.models.chatcompletionrequest",
        "ChatCompletionRequest",
        ("random_seed", "max_tokens", "temperature", "stop", "tools", "tool_choice", "parallel_tool_calls"),
    ),
    "groq": (
        "groq.types.chat.chat_completion_assistant_message_param",
        "ChatCompletionAssistantMessageParam",
        ("reasoning", "tool_calls", "content"),
    ),
    "openai-chat": (
        "openai.types.chat.completion_create_params",
        "CompletionCreateParamsStreaming",
        ("max_completion_tokens", "stream_options", "stop", "seed", "prompt_cache_key"),
    ),
    "openai-responses": (
        "openai.types.responses.response_create_params",
        "ResponseCreateParamsStreaming",
        ("max_output_tokens", "store", "include", "prompt_cache_key", "previous_response_id"),
    ),
}
"""For endpoints whose SDK types its requests: the type, and the fields that rules and codecs rely on."""

ABSENT: Mapping[str, tuple[str, ...]] = {
    "mistral": ("stream_options", "seed"),
    "groq": ("reasoning_content",),
}
"""Fields that a rule says are refused, so that they may not be in these types."""

ANSWERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "images and audio of OpenAI": (
        "openai.types.chat",
        "ChatCompletionMessage",
        ("annotations", "audio", "refusal"),
    ),
    "tools of Groq": (
        "groq.types.chat.chat_completion_message",
        "ChatCompletionMessage",
        ("executed_tools",),
    ),
    "refusals of Claude": ("anthropic.types", "RefusalStopDetails", ("category", "explanation")),
    "grounding of Gemini": (
        "google.genai.types",
        "GroundingMetadata",
        ("grounding_chunks", "grounding_supports", "web_search_queries"),
    ),
    "media of Gemini": ("google.genai.types", "Blob", ("data", "mime_type")),
    "images of Responses": (
        "openai.types.responses.response_output_item",
        "ImageGenerationCall",
        ("id", "result", "status"),
    ),
}
"""For parts of answers that the decoders read: the SDK's type, and its fields."""


def words_in(annotation: Any) -> Iterator[str]:
    """The words of a type, however it joins them."""
    for each in get_args(annotation):
        if isinstance(each, str):
            yield each
        else:
            yield from words_in(each)


def is_installed(module: str) -> bool:
    """Whether the SDK of a module is installed."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def named_models() -> Iterator[tuple[str, str]]:
    """The providers, with the names of models in their SDKs, as far as they are installed."""
    shared = importlib.import_module("openai.types.shared")
    for provider, name in (("openai-chat", "chat_model"), ("openai-responses", "responses_model")):
        module = importlib.import_module(f"{shared.__name__}.{name}")
        annotation = getattr(module, "".join(each.capitalize() for each in name.split("_")))
        yield from ((provider, word) for word in sorted(set(words_in(annotation))))
    claude = importlib.import_module("anthropic.types.model_param").ModelParam
    yield from (("anthropic", word) for word in sorted(set(words_in(claude))))
    # The SDKs of Google and Mistral take any name; those of their types and examples are the ones to know.
    for provider, package, pattern in (
        ("google", "google.genai._gaos.types.interactions.model", r'"(gemini-[0-9a-z.-]+[0-9a-z])"'),
        (
            "mistral",
            "mistralai.client",
            r'"((?:mistral|magistral|ministral|codestral|devstral)-[0-9a-z.-]+[0-9a-z])"',
        ),
    ):
        if is_installed(package):
            yield from ((provider, name) for name in sorted(quoted_in(package, pattern)))


def quoted_in(package: str, pattern: str) -> set[str]:
    """The names that the source of a module, or of all modules of a package, quotes."""
    origin = Path(importlib.import_module(package).__file__ or "")
    files = origin.parent.rglob("*.py") if origin.name == "__init__.py" else [origin]
    return {name for file in files for name in re.findall(pattern, file.read_text(encoding="utf-8"))}


def fields_of(module: str, name: str) -> set[str]:
    """The fields of a type of an SDK, under their Python names."""
    form = getattr(importlib.import_module(module), name)
    return {*getattr(form, "model_fields", ()), *getattr(form, "__annotations__", ())} | {
        field for base in form.__mro__ for field in getattr(base, "__annotations__", ())
    }


def missing() -> Iterator[str]:
    """Everything that the SDKs have and the catalog lacks, or that a rule needs and the SDKs have no more."""
    for provider, name in named_models():
        facts = find_model_facts(f"{provider}:{name}")
        is_known = facts.pattern != UNKNOWN_MODEL.pattern and not _OF_NO_FAMILY.search(facts.pattern)
        if not is_known and not OUTDATED.fullmatch(name) and not APART.fullmatch(name):
            yield f"{provider}:{name} has no row in the catalog"
    for place, (module, form, fields) in {**FIELDS, **ANSWERS}.items():
        if not is_installed(module):
            continue
        known = fields_of(module, form)
        yield from (f"{place}: {form} has no field {field}" for field in fields if field not in known)
        yield from (
            f"{place}: {form} has the field {field}, which a rule calls refused"
            for field in ABSENT.get(place, ())
            if field in known
        )
    for provider, rules in ENDPOINT_RULES.items():
        given = {name for name in rules.__struct_fields__ if name not in ("hosts", "sources")}
        unsourced = {name for name in rules.sources if name not in given}
        yield from (f"{provider}: a source for {name}, which is no rule" for name in sorted(unsourced))


def main() -> int:
    """Print what is missing; return 1 if something is."""
    packages = ("openai", "anthropic", "google-genai", "mistralai", "groq")
    print("compared with", ", ".join(f"{name} {version(name)}" for name in packages))
    found = list(missing())
    print("\n".join(found) or "nothing is missing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
