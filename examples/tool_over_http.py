"""A block that calls a Python function, which asks a web service."""

import anyio
import httpx

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"
SERVICE = "https://api.example.org"


async def celsius(city: str) -> float:
    """The temperature in a city, in degrees Celsius."""
    async with httpx.AsyncClient(base_url=SERVICE, timeout=10) as client:
        answer = await client.get("/temperature", params={"city": city})
        answer.raise_for_status()
        return float(answer.json()["celsius"])


@nh.natural_function
async def advise(city: str) -> str:
    advice: str = nh.unset
    """natural
    Get the temperature in <city> from <celsius>, and set <:advice> to one sentence about what to wear there.
    """
    return advice


async def main() -> None:
    async with nh.run(MODEL):
        print(await advise("Lisbon"))


if __name__ == "__main__":
    anyio.run(main)
