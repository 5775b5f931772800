"""An agent that uses the tools of an MCP server; it may read files, and write none."""

# python mcp_agent.py FOLDER "What is this project about?"
import sys

import anyio

import nighthawk_async as nh

MODEL = "openai-responses:gpt-5.4-nano"
SERVER = ("npx", "-y", "@modelcontextprotocol/server-filesystem")


@nh.natural_function
async def answer(question: str) -> str:
    reply: str = nh.unset
    """natural
    Set <:reply> to the answer to <question>, from what the tools of <files> find.
    """
    return reply


async def main(folder: str, question: str) -> None:
    rules = nh.permissions(deny=["Files.write_file", "Files.edit_file", "Files.move_file"], default="allow")
    async with nh.run(MODEL, servers={"files": nh.mcp.stdio(*SERVER, folder)}, permissions=rules):
        print(await answer(question))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
