"""How often the embedded model is right, asked for several values together and for one after the other.

`python -m benchmarks small-models --full` measures it. It needs the extra `local` and the model's weights.
Which requests share a batch changes an answer or two from run to run; one round is enough to see the rest.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib.resources import files
from typing import Any
from unittest.mock import patch

import anyio

import nighthawk_async as nh
from nighthawk_async.executors import direct
from nighthawk_async.runtime.step_context import StepContext

from ..measure import Benchmark, CannotMeasureHereError, Figures
from ..small_models import blocks

__all__ = ["BENCHMARKS"]

MODEL = "local:smollm2-135m"
AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A block, and texts whose values are known.

    Args:
        name: The names of the values, joined by hyphens, in the order of the program.
        ask: The natural function.
        texts: The name of the file with the texts.
    """

    name: str
    ask: Callable[[str], Any]
    texts: str


SUBJECTS = (
    Subject(name="sentiment-recommended", ask=blocks.sentiment_recommended, texts="reviews"),
    Subject(name="recommended-sentiment", ask=blocks.recommended_sentiment, texts="reviews"),
    Subject(name="mood-topic", ask=blocks.mood_topic, texts="tickets"),
    Subject(name="mood-urgent", ask=blocks.mood_urgent, texts="tickets"),
    Subject(name="urgent-mood", ask=blocks.urgent_mood, texts="tickets"),
    Subject(name="language-urgent-mood", ask=blocks.language_urgent_mood, texts="tickets"),
    Subject(name="mood-topic-urgent-language", ask=blocks.mood_topic_urgent_language, texts="tickets"),
    Subject(name="quantity-price", ask=blocks.quantity_price, texts="orders"),
    Subject(name="quantity-price-item", ask=blocks.quantity_price_item, texts="orders"),
    Subject(name="item-price-quantity", ask=blocks.item_price_quantity, texts="orders"),
)


def one_by_one(context: StepContext) -> list[tuple[str, ...]]:
    """Each binding by itself."""
    return [(name,) for name in context.write_names]


def joined(context: StepContext) -> list[tuple[str, ...]]:
    """All bindings together."""
    return [tuple(context.write_names)]


WAYS = {"one-by-one": one_by_one, "joined": joined, "as-it-is": direct.question_groups}


def classify(subject: Subject, groups: Callable[[StepContext], Any], operations: int) -> Figures:
    """Let the model set the values for texts, and compare them with those that are known."""
    configuration = nh.StepExecutorConfiguration(model=MODEL)
    try:
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    except nh.ConfigurationError as error:
        raise CannotMeasureHereError(str(error)) from error
    known = _texts(subject.texts)[:operations]
    with patch.object(direct, "question_groups", groups):
        answers, requests = anyio.run(_answer_all, executor, subject, known, backend="trio")
    rights = [
        [_is_right(answer[name], text[name]) for name in answer] if answer else [False]
        for text, answer in zip(known, answers, strict=True)
    ]
    values = len(subject.name.split("-")) * len(known)
    return {
        "values_right": sum(map(sum, rights)) / values,
        "steps_right": sum(map(all, rights)) / len(known),
        "round_trips": requests / len(known),
        "errors": float(answers.count(None)),
    }


async def _answer_all(
    executor: nh.AgentStepExecutor, subject: Subject, texts: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, object] | None], int]:
    """The answers, None where there is none, and how many requests they took."""
    answers: list[dict[str, object] | None] = [None] * len(texts)
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def answer(index: int) -> None:
        async with limiter:
            try:
                answers[index] = await subject.ask(texts[index]["text"])
            except nh.ExecutionError:
                answers[index] = None

    async with nh.run(executor) as run, anyio.create_task_group() as tasks:
        for index in range(len(texts)):
            tasks.start_soon(answer, index)
    return answers, run.usage_meter.usage.requests


@cache
def _texts(name: str) -> list[dict[str, Any]]:
    """Texts with the values that a person gave them."""
    if name == "reviews":
        file = files("nighthawk_async.cli").joinpath("reviews.json")
        reviews = json.loads(file.read_text(encoding="utf-8"))
        return [
            {"text": each["review"], "sentiment": each["label"], "recommended": each["label"] == "positive"}
            for each in reviews
        ]
    file = files("benchmarks.small_models").joinpath(f"{name}.json")
    return json.loads(file.read_text(encoding="utf-8"))


def _is_right(value: object, known: object) -> bool:
    """Whether a value is the one that is known; of a thing that is ordered, the singular is enough."""
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(plain, str) and isinstance(known, str):
        return known.lower().rstrip("s") in plain.lower()
    return plain == known


BENCHMARKS = tuple(
    Benchmark(
        name=f"small-models-{subject.name}-{way}",
        what=f"the values {subject.name.replace('-', ', ')} of one of the {subject.texts}, asked {way}",
        run=partial(classify, subject, groups),
        operations=len(_texts(subject.texts)),
        quick_operations=2,
        rounds=1,
        smallest_suite="full",
        is_warmed_up=False,
        timeout=1_800.0,
    )
    for subject in SUBJECTS
    for way, groups in WAYS.items()
)
