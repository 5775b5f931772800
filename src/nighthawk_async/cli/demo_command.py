"""`nighthawk-async demo`: prepare the model, run the demonstration, show the figures."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import nighthawk_async as nh

from ..catalog.local import LOCAL_MODELS
from ..configuration import StepExecutorConfiguration, parse_model_id
from ..models.local import require_local_extra
from ..models.weights import are_weights_whole, pull_weights, weights_path
from .journal_store import open_store
from .pull_view import showing_pull

DEMO_MODEL = "local:smollm2-135m"

SMALL_MODEL_REMARK = (
    "This is a small model. It is good for one short answer at a time: a label, a number, a few words. It is "
    "no good at reasoning, tools or long texts, and the sentences it writes may be beside the point. Use "
    "--model provider:name to see the same functions on another model."
)
OTHER_MODEL_REMARK = (
    "The shipped reviews are easier than most work. Run the demonstration without --model to see what a "
    "model of 135 million parameters makes of them on this machine's processor."
)


def demo(
    model: Annotated[str, typer.Option(help="The model, provider:name.")] = DEMO_MODEL,
    max_concurrent: Annotated[int, typer.Option(min=1, help="Reviews classified at the same time.")] = 8,
    reviews: Annotated[
        int | None, typer.Option(min=1, help="Number of reviews; more than are shipped repeats them.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="The file that records the demonstration: interrupted and started again, it continues.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Run natural functions on a real model, by default a small one on this machine's processor."""
    # Imported here, since the natural functions are compiled on import and the other commands do not need
    # them.
    from .demo import DemoJournal, DemoView, run_demo
    from .demo_functions import load_reviews

    console = Console()
    prepare_local_model(model, Console(stderr=True))
    executor = nh.AgentStepExecutor.from_configuration(configuration=StepExecutorConfiguration(model=model))
    view = DemoView(console, model)
    chosen = load_reviews(reviews)
    with nullcontext() if journal is None else open_store(str(journal), may_be_new=True) as store:
        record = run_demo(
            executor,
            chosen,
            view,
            max_concurrent=max_concurrent,
            journal=None if store is None else DemoJournal(store, f"{model} {len(chosen)}"),
        )
    is_small = executor.model is not None and executor.model.capabilities.is_small
    view.summarize(record, remark=SMALL_MODEL_REMARK if is_small else OTHER_MODEL_REMARK)


def prepare_local_model(model: str, console: Console) -> None:
    """Pull the weights of a named local model, unless they are present.

    Args:
        model: The model, of any provider.
        console: The console that shows the pull.
    """
    model_id = parse_model_id(model)
    facts = LOCAL_MODELS.get(model_id.name) if model_id.provider == "local" else None
    if facts is None or facts.weights is None:
        return
    require_local_extra()
    path = weights_path(facts.weights)
    if not are_weights_whole(facts.weights, path):
        with showing_pull(console, model_id.name) as report:
            pull_weights(facts.weights, path, report=report)
