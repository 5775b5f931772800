"""What the peer's agents send for the same blocks: captured from the real package, kept in a file.

The file is committed, so that a comparison needs no installation. `python -m benchmarks prompts --peers`
makes
it again.
"""

import hashlib
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..measure import CannotMeasureHereError
from ..peer_environments import interpreter_of
from .measuring import parts_of_peer, tokens_of_body

__all__ = ["FILE", "PeerTokens", "capture", "digest_of_sources", "read_peer_tokens"]

FOLDER = Path(__file__).parent
FILE = FOLDER / "peer_tokens.json"
LIMIT_SECONDS = 120.0


class PeerTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that each agent sends.

    Args:
        version: The version of pydantic-ai.
        sources: A digest of the agents and of their inputs, by which one sees that the file is older.
        parts: All tokens of the first requests by their parts.
        tokens: Tokens of the first request by the names of the blocks.
        until_answered: Tokens of all requests until the answer, by the same names.
        requests: How many requests these are.
    """

    version: str
    sources: str
    parts: Mapping[str, int]
    tokens: Mapping[str, int]
    until_answered: Mapping[str, int]
    requests: Mapping[str, int]


def read_peer_tokens() -> PeerTokens:
    """What was captured last."""
    return msgspec.json.decode(FILE.read_bytes(), type=PeerTokens)


def capture() -> PeerTokens:
    """Run the agents in the peer's environment, and keep what they send.

    Raises:
        CannotMeasureHereError: The peer cannot be installed, or its agents fail.
    """
    interpreter = interpreter_of("pydantic_ai")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "captured.json"
        told = subprocess.run(
            [str(interpreter), "-m", f"{__package__}.peers", str(file)],
            env={**os.environ, "PYTHONPATH": str(FOLDER.parents[1])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if told.returncode:
            raise CannotMeasureHereError(f"the agents of pydantic-ai failed:\n{told.stderr.strip()}")
        captured = json.loads(file.read_text(encoding="utf-8"))
    bodies = captured["bodies"]
    found = PeerTokens(
        version=captured["version"],
        sources=digest_of_sources(),
        parts=sum((Counter(parts_of_peer(body)) for body, *_ in bodies.values()), Counter[str]()),
        tokens={name: tokens_of_body(sent[0]) for name, sent in bodies.items()},
        until_answered={name: sum(map(tokens_of_body, sent)) for name, sent in bodies.items()},
        requests={name: len(sent) for name, sent in bodies.items()},
    )
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return found


def digest_of_sources() -> str:
    """A digest of the agents and their inputs."""
    files = sorted((*(FOLDER / "peers").glob("*.py"), *(FOLDER / "data").glob("*.py")))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
