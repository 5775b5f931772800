"""Any server that is compatible with a known protocol: vLLM, llama.cpp, Ollama, a gateway."""

import anyio

import nighthawk_async as nh

CONFIGURATION = nh.StepExecutorConfiguration(
    model="openai-chat:Qwen/Qwen3-8B",
    model_settings={"base_url": "http://localhost:8000/v1", "api_key": "none", "temperature": 0.2},
)


@nh.natural_function
async def translate(text: str, language: str) -> str:
    translation: str = nh.unset
    """natural
    Set <:translation> to <text> in <language>.
    """
    return translation


async def main() -> None:
    async with nh.run(CONFIGURATION):
        print(await translate("Good morning!", "Portuguese"))


if __name__ == "__main__":
    anyio.run(main)
