"""Facts that a model server states of itself: llama.cpp, Ollama and vLLM have endpoints for that.

    /v1/models ── owned_by "llamacpp" ── /props
               ├─ owned_by "vllm" ────── /version
               └─ otherwise ─────────── /api/version ── /api/show, /api/ps      (Ollama)

Nothing here is an error: a server that gives no answer, or another one, counts as unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import SplitResult

import anyio
import httpx

from ..models.endpoint import proxy_for
from ..types.json import is_json_list, is_json_object
from ..wire.json_text import NOT_JSON, decode_json

LIMIT_SECONDS = 10.0
"""The number of seconds that a server has for all requests of this module."""

_MAX_BODY_BYTES = 4 * 1024 * 1024
_SMALL_MODEL_PARAMETERS = 500_000_000
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_COUNT_SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}

_Json: TypeAlias = Mapping[str, Any]
_NOTHING: _Json = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of a server on one capability.

    Args:
        value: The value of the field of `ModelCapabilities`; None when the server leaves it open.
        detail: Its wording.
    """

    value: object
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Facts that a server states of itself and of one model.

    Args:
        server: `llama.cpp`, `Ollama` or `vLLM`; empty when it is none of them, or did not identify itself.
        version: Its version, when reported.
        models: The names of the models that it serves, as far as reported.
        statements: Its statements on the model, by fields of `ModelCapabilities`.
        trouble: The reason why nothing was found; empty when something was.
    """

    server: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    statements: Mapping[str, Statement] = field(default_factory=dict[str, Statement])
    trouble: str = ""

    def serves(self, model_name: str) -> bool:
        """Whether it serves a model of that name, as far as reported. llama.cpp answers to any name."""
        names = {model_name, f"{model_name}:latest"}
        return self.server == "llama.cpp" or not self.models or not names.isdisjoint(self.models)


def server_root(base_url: SplitResult) -> str:
    """The URL of a server's own endpoints: the base URL without its version, such as `/v1`.

    Args:
        base_url: The base URL of the protocol.
    """
    path, _, last = base_url.path.rstrip("/").rpartition("/")
    is_version = last[:1] == "v" and last[1:2].isdigit()
    return base_url._replace(path=path if is_version else base_url.path.rstrip("/")).geturl()


async def ask_server(base_url: SplitResult, headers: Mapping[str, str], model_name: str) -> ServerFacts:
    """Ask a server for its kind and its model's capabilities. Takes ten seconds at most.

    Args:
        base_url: The base URL of the protocol.
        headers: The headers that requests to the model carry, credentials included.
        model_name: The model's name there.
    """
    root = server_root(base_url._replace(query=""))
    parameters = httpx.QueryParams(base_url.query)
    proxy = proxy_for(base_url)
    try:
        with anyio.fail_after(LIMIT_SECONDS):
            async with httpx.AsyncClient(
                headers=dict(headers),
                params=parameters,
                proxy=None if proxy is None else proxy.url,
                trust_env=False,
                timeout=LIMIT_SECONDS,
            ) as client:
                return await _Inquiry(client, root, model_name).facts()
    except (TimeoutError, httpx.TimeoutException):
        return ServerFacts(trouble=f"it said nothing of itself within {LIMIT_SECONDS:g} seconds")
    except httpx.HTTPError as error:
        return ServerFacts(trouble=f"it said nothing of itself: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """Asks one server about one model."""

    client: httpx.AsyncClient
    root: str
    model_name: str

    async def facts(self) -> ServerFacts:
        served = _objects((await self._get("/v1/models")).get("data"))
        owners = {_text(each.get("owned_by")) for each in served}
        models = tuple(filter(None, (_text(each.get("id")) for each in served)))
        if "llamacpp" in owners:
            props = await self._get("/props")
            return ServerFacts(
                server="llama.cpp",
                version=_text(props.get("build_info")),
                models=models,
                statements=_of_llama_cpp(props, served[0]),
            )
        if "vllm" in owners:
            version = await self._get("/version")
            mine = next((each for each in served if each.get("id") == self.model_name), _NOTHING)
            return ServerFacts(
                server="vLLM",
                version=_text(version.get("version")),
                models=models,
                statements=_of_vllm(mine),
            )
        version = _text((await self._get("/api/version")).get("version"))
        if not version:
            return ServerFacts(models=models, trouble="it is no llama.cpp, Ollama or vLLM that says so")
        shown = await self._post("/api/show", {"model": self.model_name})
        running = _objects((await self._get("/api/ps")).get("models"))
        return ServerFacts(
            server="Ollama",
            version=version,
            models=models,
            statements=_of_ollama(shown, self._loaded(running)),
        )

    def _loaded(self, running: list[_Json]) -> _Json:
        """An Ollama server's facts of the model, when it has it loaded."""
        names = {self.model_name, f"{self.model_name}:latest"}
        return next((each for each in running if each.get("model") in names), _NOTHING)

    async def _get(self, path: str) -> _Json:
        return await self._send("GET", path)

    async def _post(self, path: str, body: _Json) -> _Json:
        return await self._send("POST", path, json=body)

    async def _send(self, method: str, path: str, **options: Any) -> _Json:
        """The JSON object of the answer; an empty one for any other answer."""
        async with self.client.stream(method, self.root + path, **options) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                if len(body) <= _MAX_BODY_BYTES:  # read to its end: trio warns about generators that are not
                    body += part
        is_good = response.is_success and len(body) <= _MAX_BODY_BYTES
        return _decoded(bytes(body)) if is_good else _NOTHING


def _of_llama_cpp(props: _Json, model: _Json) -> dict[str, Statement]:
    settings, modalities = _object(props.get("default_generation_settings")), _object(props.get("modalities"))
    template, meta = _object(props.get("chat_template_caps")), _object(model.get("meta"))
    said: dict[str, Statement] = {}
    if window := _count(settings.get("n_ctx")):
        said["context_window"] = Statement(value=window, detail="for each request (/props)")
    for name, field_name in (("vision", "images"), ("audio", "audio"), ("video", "video")):
        if isinstance(modalities.get(name), bool):
            said[field_name] = Statement(value=modalities[name], detail=f"the modality {name!r} (/props)")
    for name, field_name in (
        ("supports_tools", "tools"),
        ("supports_parallel_tool_calls", "parallel_tool_calls"),
        ("supports_reasoning_effort", "reasoning"),
    ):
        if template.get(name) is False:
            said[field_name] = Statement(value=False, detail="the chat template knows none (/props)")
    said |= _of_size(_count(meta.get("n_params")))
    return said


def _of_vllm(model: _Json) -> dict[str, Statement]:
    window = _count(model.get("max_model_len"))
    if not window:
        return {}
    return {"context_window": Statement(value=window, detail="max_model_len (/v1/models)")}


def _of_ollama(shown: _Json, loaded: _Json) -> dict[str, Statement]:
    said: dict[str, Statement] = {}
    if isinstance(shown.get("capabilities"), list):
        abilities = set(_texts(shown["capabilities"]))
        for ability, name in (("tools", "tools"), ("vision", "images"), ("thinking", "reasoning")):
            detail = f"{ability!r} is {'' if ability in abilities else 'not '}among its capabilities"
            said[name] = Statement(value=ability in abilities, detail=f"{detail} (/api/show)")
    efforts = tuple(each for each in _texts(_object(shown.get("thinking")).get("values")) if each in _EFFORTS)
    if efforts:
        said["reasoning_efforts"] = Statement(value=efforts, detail="the values of 'thinking' (/api/show)")
    said["context_window"] = _window_of_ollama(shown, loaded)
    said |= _of_size(_parameter_count(_text(_object(shown.get("details")).get("parameter_size"))))
    return said


def _window_of_ollama(shown: _Json, loaded: _Json) -> Statement:
    """The context that requests get, which is smaller than the model's own."""
    if window := _count(loaded.get("context_length")):
        return Statement(value=window, detail="of the loaded model (/api/ps)")
    for line in _text(shown.get("parameters")).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdecimal():
            return Statement(value=int(value), detail="the parameter num_ctx (/api/show)")
    facts = _object(shown.get("model_info"))
    most = _count(facts.get(f"{facts.get('general.architecture')}.context_length"))
    could = f"; the model could take {most:,} tokens" if most else ""
    return Statement(value=None, detail=f"the server does not say what requests get{could}")


def _of_size(parameters: int) -> dict[str, Statement]:
    if not 0 < parameters < _SMALL_MODEL_PARAMETERS:
        return {}
    return {"is_small": Statement(value=True, detail=f"it has {parameters / 1e6:.0f} million parameters")}


def _parameter_count(text: str) -> int:
    """The number that a text such as `134.52M` means; 0 for another text."""
    try:
        return int(float(text[:-1]) * _COUNT_SUFFIXES[text[-1:].upper()])
    except (KeyError, ValueError, OverflowError):
        return 0


def _decoded(body: bytes) -> _Json:
    try:
        return _object(decode_json(body))
    except NOT_JSON:
        return {}


def _object(value: object) -> _Json:
    return value if is_json_object(value) else _NOTHING


def _objects(value: object) -> list[_Json]:
    return [_object(each) for each in value] if is_json_list(value) else []


def _texts(values: object) -> list[str]:
    found = values if is_json_list(values) else []
    return [each for each in found if isinstance(each, str)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
