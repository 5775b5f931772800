"""The demonstration: natural functions on a real model, many at once, synchronous, and raising."""

import time
from collections.abc import Sequence
from functools import partial

import anyio

import nighthawk_async as nh

from .demo_functions import AdvertisingError, Review, classify, publish, stars_in
from .demo_view import Classification, DemoRecord, DemoView

RATING = "Two stars, not more."
ADVERTISEMENT = "BUY CHEAP WATCHES AT MY SHOP!!! CLICK HERE!!!"


def run_demo(
    executor: nh.executors.StepExecutor, reviews: Sequence[Review], view: DemoView, *, concurrency: int
) -> DemoRecord:
    """Run the demonstration, from plain synchronous code.

    Args:
        executor: The executor of the steps.
        reviews: The reviews to classify.
        view: Shows the progress.
        concurrency: The number of reviews that are classified at the same time.

    Returns:
        The counts.

    Raises:
        ConfigurationError: The model cannot be used as it is set up.
        ModelError: The
        model cannot be reached, or answers with an error.
    """
    record = DemoRecord(total=len(reviews))
    began = time.monotonic()
    with view.showing(record):
        anyio.run(partial(_classify_all, executor, reviews, view, record, concurrency), backend="trio")
    _call_synchronous_functions(executor, view, record)
    record.seconds = time.monotonic() - began
    return record


async def _classify_all(
    executor: nh.executors.StepExecutor,
    reviews: Sequence[Review],
    view: DemoView,
    record: DemoRecord,
    concurrency: int,
) -> None:
    """A parallel map of an asynchronous natural function."""
    limiter = anyio.CapacityLimiter(concurrency)

    async def classify_one(review: Review) -> None:
        async with limiter:
            record.in_flight += 1
            began = time.monotonic()
            label, error = None, ""
            try:
                label = await classify(review.review)
            except nh.ExecutionError as failure:
                error = str(failure)
            finally:
                record.in_flight -= 1
            seconds = time.monotonic() - began
            record.classifications.append(
                Classification(review=review, label=label, error=error, seconds=seconds)
            )
            view.classified(record)

    async with nh.run(executor) as run, nh.scope(oversight=record):
        record.meters.append(run.usage_meter)
        async with anyio.create_task_group() as tasks:
            for review in reviews:
                tasks.start_soon(classify_one, review)


def _call_synchronous_functions(
    executor: nh.executors.StepExecutor, view: DemoView, record: DemoRecord
) -> None:
    """Natural functions in code that knows nothing of event loops: one returns, one raises."""
    with nh.run(executor) as run, nh.scope(oversight=record):
        record.meters.append(run.usage_meter)
        view.begin("2  a natural function, called from plain synchronous code")
        try:
            view.called(stars_in, RATING, f"returned {stars_in(RATING)!r}")
        except nh.ExecutionError as error:
            view.called(stars_in, RATING, f"failed: {error}")
        view.begin("3  a natural function that raises, caught by `except AdvertisingError`")
        try:
            publish(ADVERTISEMENT)
        except AdvertisingError as error:
            view.called(publish, ADVERTISEMENT, f"raised AdvertisingError: {error}")
        except nh.ExecutionError as error:
            view.called(publish, ADVERTISEMENT, f"raised without the type it was asked for: {error}")
