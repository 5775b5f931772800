"""Testing natural functions without a network, a key or a wait. Floor 6; no other room imports it."""

from ..recording.exchange import RecordedExchange
from ..recording.file import CassetteError, CassetteMissError
from .cassettes import Cassette, CassetteMode, cassette
from .executors import (
    CallbackExecutor,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    break_response,
    continue_response,
    pass_response,
    raise_response,
    return_response,
)
from .model_reply import ModelReply, RecordedRequest, ReplyEnding, ReplyFault, ReplyPacing
from .model_server import ModelServer, ModelServerConnections, ReplyHandler
from .scripted_model import ModelResponse, ScriptedModel, model_response, tool_call

__all__ = [
    "CallbackExecutor",
    "Cassette",
    "CassetteError",
    "CassetteMissError",
    "CassetteMode",
    "ModelReply",
    "ModelResponse",
    "ModelServer",
    "ModelServerConnections",
    "RecordedExchange",
    "RecordedRequest",
    "ReplyEnding",
    "ReplyFault",
    "ReplyHandler",
    "ReplyPacing",
    "ScriptedExecutor",
    "ScriptedModel",
    "StepCall",
    "StepResponse",
    "break_response",
    "cassette",
    "continue_response",
    "model_response",
    "pass_response",
    "raise_response",
    "return_response",
    "tool_call",
]
