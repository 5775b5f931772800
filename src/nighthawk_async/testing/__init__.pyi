"""What `nighthawk_async.testing` exports. Each name is loaded when it is first used."""

from .answer_server import AnswerServer
from .cassettes import (
    Cassette,
    CassetteError,
    CassetteMissError,
    CassetteMode,
    RecordedExchange,
    cassette,
)
from .contracts import (
    Contract,
    JournalStoreContract,
    ModelContract,
    PlacementContract,
    PolicyContract,
    StepExecutorContract,
)
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
from .model_server_batches import BatchEnding, ServedBatch, ServedBatches
from .model_server_files import ServedFile, ServedFiles
from .replays import RunReplay, replay
from .scripted_model import ModelResponse, ScriptedModel, model_response, tool_call

__all__ = [
    "AnswerServer",
    "BatchEnding",
    "CallbackExecutor",
    "Cassette",
    "CassetteError",
    "CassetteMissError",
    "CassetteMode",
    "Contract",
    "JournalStoreContract",
    "ModelContract",
    "ModelReply",
    "ModelResponse",
    "ModelServer",
    "ModelServerConnections",
    "PlacementContract",
    "PolicyContract",
    "RecordedExchange",
    "RecordedRequest",
    "ReplyEnding",
    "ReplyFault",
    "ReplyHandler",
    "ReplyPacing",
    "RunReplay",
    "ScriptedExecutor",
    "ScriptedModel",
    "ServedBatch",
    "ServedBatches",
    "ServedFile",
    "ServedFiles",
    "StepCall",
    "StepExecutorContract",
    "StepResponse",
    "break_response",
    "cassette",
    "continue_response",
    "model_response",
    "pass_response",
    "raise_response",
    "replay",
    "return_response",
    "tool_call",
]
