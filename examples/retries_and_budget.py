"""Retries, another model when the first one fails, and a budget for everything."""

import anyio

import nighthawk_async as nh
from nighthawk_async.resilience import Baseline, retrying

MODEL: str | nh.StepExecutorConfiguration = "openai-responses:gpt-5.4-nano"
FALLBACK: str | nh.StepExecutorConfiguration = "anthropic:claude-haiku-4-5"


@nh.natural_function
async def summarize(text: str) -> str:
    summary: str = nh.unset
    """natural
    Set <:summary> to one sentence that summarizes <text>.
    """
    return summary


async def main(texts: list[str]) -> list[str]:
    resilience = Baseline(timeout=60, retries=retrying(attempts=2, wait=0.5), fallback_models=[FALLBACK])
    budget = nh.budget(tokens=20_000, max_output_tokens=1_000)
    summaries: list[str] = []
    async with nh.run(MODEL, resilience=resilience, budget=budget):
        try:
            for text in texts:
                summaries += [await summarize(text)]
        except nh.BudgetExceededError as error:
            print("stopped:", error)
        print("used:", nh.get_usage_meter().usage)
    return summaries


if __name__ == "__main__":
    print(anyio.run(main, ["Rain fell on the city all day.", "The market was closed."]))
