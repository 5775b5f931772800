"""The kinds of errors that providers report, by the bodies that their endpoints send."""

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelErrorKind, ModelProviderError, ModelStatusError
from nighthawk_async.models.exchange import raise_failure
from nighthawk_async.wire.provider_errors import response_failure, status_error
from tests.cases import every


def openai(
    code: str | None, message: str, *, kind: str = "invalid_request_error", param: str | None = None
) -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic(kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(status: int, word: str, message: str, *details: Mapping[str, Any]) -> Any:
    return {"error": {"code": status, "message": message, "status": word, "details": list(details)}}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. "
    "For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
)


def violation(quota: str) -> Mapping[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


TOO_LONG: Mapping[str, tuple[int, Any]] = {
    "openai": (
        400,
        openai(
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in "
            "140000 tokens.",
            param="messages",
        ),
    ),
    "openai responses": (
        400,
        openai(
            "context_length_exceeded", "Your input exceeds the context window of this model.", param="input"
        ),
    ),
    "openai responses without a code": (
        400,
        openai(None, "Your input exceeds the context window of this model. Please adjust your input."),
    ),
    "openai long text": (
        400,
        openai(
            "string_above_max_length",
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576.",
            param="messages[1].content",
        ),
    ),
    "openai long part": (
        400,
        openai("string_above_max_length", "Invalid: string too long.", param="input[0].content[0].text"),
    ),
    "openai long text without a name": (
        400,
        openai("string_above_max_length", "string too long. Expected a string with maximum length 10485760."),
    ),
    "openai tokens per minute": (
        429,
        openai(
            "rate_limit_exceeded",
            "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Requested "
            "45000. The input or output tokens must be reduced in order to run successfully.",
            kind="tokens",
        ),
    ),
    "anthropic": (
        400,
        anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    ),
    "anthropic with max_tokens": (
        400,
        anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input "
            "length",
        ),
    ),
    "anthropic bytes": (413, anthropic("request_too_large", "Request exceeds the maximum size")),
    "google": (
        400,
        google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ),
    ),
    "google in a list": (
        400,
        [
            google(
                400,
                "INVALID_ARGUMENT",
                "The input token count exceeds the maximum number of tokens allowed 1.",
            )
        ],
    ),
    "vertex": (
        400,
        google(
            400,
            "INVALID_ARGUMENT",
            "Unable to submit request because the input token count is 32780 but model only supports up to "
            "32768.",
        ),
    ),
    "google bytes": (
        400,
        google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
    ),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 300000 tokens, too large for model with 131072 maximum context "
            "length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
    "groq": (
        400,
        openai("context_length_exceeded", "Please reduce the length of the messages or completion."),
    ),
    "groq tokens per minute": (
        413,
        openai(
            "rate_limit_exceeded",
            "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, "
            "Requested "
            "8000, please reduce your message size and try again.",
            kind="tokens",
        ),
    ),
    "deepseek": (
        400,
        openai(
            "invalid_request_error",
            "This model's maximum context length is 65536 tokens. However, you requested 69648 tokens "
            "(69648 in the messages, 0 in the completion). Please reduce the length of the messages or "
            "completion.",
        ),
    ),
    "openrouter": (
        400,
        {
            "error": {
                "code": 400,
                "message": "This endpoint's maximum context length is 131072 tokens. However, you requested "
                "about "
                "537812 tokens (537812 of text input).",
            }
        },
    ),
    "openrouter, of the provider behind it": (
        400,
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {
                    "provider_name": "Anthropic",
                    "raw": json.dumps(
                        anthropic("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum")
                    ),
                },
            }
        },
    ),
    "xai": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "bedrock nova": (
        400,
        {"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9000"},
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8192 tokens. However, you requested 9000 "
            "tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "vllm decoder": (
        400,
        {"message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192."},
    ),
    "vllm answer": (
        400,
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum "
                "context "
                "length is 8192 tokens and your request has 100 input tokens (9000 > 8192 - 100)."
            }
        },
    ),
    "sglang": (
        400,
        {"message": "The input (265330 tokens) is longer than the model's context length (262144 tokens)."},
    ),
    "tgi": (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
            "5000",
            "error_type": "validation",
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 1407,
                "n_ctx": 256,
            }
        },
    ),
    "llama.cpp, older": (
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size.",
                "type": "server_error",
            }
        },
    ),
    "ollama": (400, {"error": "prompt too long; exceeded max context length by 4 tokens"}),
    "ollama input": (400, openai(None, "the input length exceeds the context length")),
    "lm studio": (
        400,
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
            "loaded with "
            "context length of only 4096 tokens"
        },
    ),
    "cohere": (
        400,
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received "
            "5084"
        },
    ),
    "dashscope": (400, openai("invalid_parameter_error", "Range of input length should be [1, 129024]")),
    "minimax": (400, openai(None, "invalid params, context window exceeds limit (2013)")),
    "moonshot": (
        400,
        openai(None, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
    ),
    "together": (
        422,
        openai(None, "Input validation error: `inputs` must have less than 4097 tokens. Given: 5000"),
    ),
    "fireworks": (400, openai(None, "The prompt is too long: 9000, model maximum context length: 8191")),
    "cerebras": (400, openai("context_length_exceeded", "Current length is 9000 while limit is 8192")),
    "github models": (
        413,
        openai("tokens_limit_reached", "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    ),
    "perplexity": (400, openai(None, "The total length of all messages is too long.")),
    "workers": (
        413,
        openai(
            None,
            "The estimated number of input and maximum output tokens (9000) exceeded this model context "
            "window limit "
            "(8000).",
        ),
    ),
    "litellm": (400, openai("400", "litellm.ContextWindowExceededError: it failed", kind="None")),
    "a proxy": (413, "<html><title>413 Request Entity Too Large</title></html>"),
}

OTHER_KINDS: Mapping[str, tuple[ModelErrorKind | None, int, Any]] = {
    # The provider's filter.
    "azure": (
        "content_filter",
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
                "management "
                "policy. Please modify your prompt and retry.",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {
                    "code": "ResponsibleAIPolicyViolation",
                    "content_filter_result": {
                        "hate": {"filtered": True, "severity": "high"},
                        "violence": {"filtered": False},
                    },
                },
            }
        },
    ),
    "openai prompt": (
        "content_filter",
        400,
        openai(
            "invalid_prompt",
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        ),
    ),
    "openai image": (
        "content_filter",
        400,
        openai("content_policy_violation", "Your request was rejected by our safety system."),
    ),
    "anthropic output": (
        "content_filter",
        400,
        anthropic("invalid_request_error", "Output blocked by content filtering policy"),
    ),
    "deepseek risk": ("content_filter", 400, openai("invalid_request_error", "Content Exists Risk")),
    "dashscope inspection": (
        "content_filter",
        400,
        openai("data_inspection_failed", "Input text data may contain inappropriate content."),
    ),
    "xai guidelines": (
        "content_filter",
        403,
        {"code": "The caller does not have permission", "error": "Content violates usage guidelines."},
    ),
    "openrouter moderation": (
        "content_filter",
        403,
        {
            "error": {
                "code": 403,
                "message": "The model requires moderation. Your input was flagged for violence.",
                "metadata": {"reasons": ["violence"], "flagged_input": "…"},
            }
        },
    ),
    # An empty account.
    "openai quota": (
        "quota_exhausted",
        429,
        openai(
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
            kind="insufficient_quota",
        ),
    ),
    "openai hard limit": (
        "quota_exhausted",
        400,
        openai("billing_hard_limit_reached", "Billing hard limit has been reached"),
    ),
    "openai inactive": (
        "quota_exhausted",
        429,
        openai("billing_not_active", "Your account is not active, please check your billing details."),
    ),
    "anthropic credit": (
        "quota_exhausted",
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    ),
    "anthropic limit": (
        "quota_exhausted",
        400,
        anthropic("invalid_request_error", "You have reached your specified API usage limits."),
    ),
    "anthropic billing": (
        "quota_exhausted",
        402,
        anthropic("billing_error", "There is an issue with your billing"),
    ),
    "deepseek balance": ("quota_exhausted", 402, openai("invalid_request_error", "Insufficient Balance")),
    "openrouter credits": (
        "quota_exhausted",
        402,
        {"error": {"code": 402, "message": "This request requires more credits, or fewer max_tokens."}},
    ),
    "moonshot quota": (
        "quota_exhausted",
        429,
        {"error": {"type": "exceeded_current_quota_error", "message": "Your account is suspended, check it"}},
    ),
    "xai credits": (
        "quota_exhausted",
        403,
        {
            "code": "Some resource has been exhausted",
            "error": "Your team has used all available credits or reached its monthly spending limit.",
        },
    ),
    "google, per day": (
        "quota_exhausted",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            QUOTA,
            violation("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
            RETRY_INFO,
        ),
    ),
    "google billing": (
        "quota_exhausted",
        403,
        google(403, "PERMISSION_DENIED", "This API method requires billing.", {"reason": "BILLING_DISABLED"}),
    ),
    "zhipu": (
        "quota_exhausted",
        429,
        {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}},
    ),
    "dashscope arrears": (
        "quota_exhausted",
        400,
        openai("Arrearage", "Access denied, please make sure your account is in good standing."),
    ),
    # No such model.
    "openai model": (
        "model_not_found",
        404,
        openai("model_not_found", "The model `gpt-9` does not exist or you do not have access to it."),
    ),
    "openai model, of a project": (
        "model_not_found",
        403,
        openai("model_not_found", "Project `proj_1` does not have access to model `gpt-9`"),
    ),
    "anthropic model": ("model_not_found", 404, anthropic("not_found_error", "model: claude-9")),
    "google model": (
        "model_not_found",
        404,
        google(
            404,
            "NOT_FOUND",
            "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.",
        ),
    ),
    "vertex model": (
        "model_not_found",
        404,
        google(
            404,
            "NOT_FOUND",
            "Publisher Model `projects/p/models/gemini-9` was not found or your project does not.",
        ),
    ),
    "mistral model": (
        "model_not_found",
        400,
        {"object": "error", "message": "Invalid model: mistral-9", "type": "invalid_model", "code": "1500"},
    ),
    "groq retired": (
        "model_not_found",
        400,
        openai(
            "model_decommissioned", "The model `llama-2` has been decommissioned and is no longer supported."
        ),
    ),
    "deepseek model": ("model_not_found", 400, openai("invalid_request_error", "Model Not Exist")),
    "openrouter model": (
        "model_not_found",
        400,
        {"error": {"code": 400, "message": "foo/bar is not a valid model ID"}},
    ),
    "vllm model": (
        "model_not_found",
        404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
    ),
    "ollama model": ("model_not_found", 404, {"error": 'model "llama9" not found, try pulling it first'}),
    "azure deployment": (
        "model_not_found",
        404,
        {
            "error": {
                "code": "DeploymentNotFound",
                "message": "The API deployment for this resource does not exist.",
            }
        },
    ),
    "xai model": (
        "model_not_found",
        404,
        {
            "code": "Some requested entity was not found",
            "error": "The model grok-9 does not exist or your team does not have access to it.",
        },
    ),
    # The key.
    "openai key": (
        "authentication",
        401,
        openai("invalid_api_key", "Incorrect API key provided: sk-x."),
    ),
    "anthropic key": ("authentication", 401, anthropic("authentication_error", "invalid x-api-key")),
    "google key": (
        "authentication",
        400,
        google(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            {"reason": "API_KEY_INVALID"},
        ),
    ),
    "xai key": (
        "authentication",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: x. Obtain one.",
        },
    ),
    "bedrock token": (
        "authentication",
        403,
        {
            "__type": "com.amazon.coral.service#UnrecognizedClientException",
            "message": "The security token included in the request is invalid.",
        },
    ),
    "no body": ("authentication", 401, ""),
    "anthropic permission": (
        "permission_denied",
        403,
        anthropic("permission_error", "Your API key does not have permission to use the specified resource."),
    ),
    "google service": (
        "permission_denied",
        403,
        google(403, "PERMISSION_DENIED", "The API has not been used in project 1 before or it is disabled."),
    ),
    "bedrock access": (
        "permission_denied",
        403,
        {
            "__type": "AccessDeniedException",
            "message": "You don't have access to the model with the specified ID.",
        },
    ),
    "openai country": (
        "permission_denied",
        403,
        openai("unsupported_country_region_territory", "Country, region, or territory not supported"),
    ),
    # Later.
    "openai rate": (
        "rate_limit",
        429,
        openai(
            "rate_limit_exceeded",
            "Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Used 29000, "
            "Requested 2000. Please try again in 2s. You can increase your rate limit by adding a payment "
            "method to "
            "your account at https://platform.openai.com/account/billing.",
            kind="tokens",
        ),
    ),
    "anthropic rate": (
        "rate_limit",
        429,
        anthropic(
            "rate_limit_error",
            "This request would exceed the rate limit for your organization of 20,000 input tokens per "
            "minute. Please "
            "reduce the prompt length or the maximum tokens requested, or try again later.",
        ),
    ),
    "google, per minute": (
        "rate_limit",
        429,
        google(
            429,
            "RESOURCE_EXHAUSTED",
            QUOTA,
            violation("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
            RETRY_INFO,
        ),
    ),
    "bedrock throttle": (
        "rate_limit",
        429,
        {"__type": "ThrottlingException", "message": "Too many tokens, please wait before trying again."},
    ),
    "a bare 429": ("rate_limit", 429, ""),
    "anthropic overloaded": ("overloaded", 529, anthropic("overloaded_error", "Overloaded")),
    "google overloaded": (
        "overloaded",
        503,
        google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ),
    "openai overloaded": (
        "overloaded",
        503,
        openai(None, "The engine is currently overloaded, please try again later", kind="server_error"),
    ),
    "moonshot overloaded": (
        "overloaded",
        429,
        {"error": {"type": "engine_overloaded_error", "message": "The engine is currently overloaded"}},
    ),
    # Something else: a wrong kind would be worse than none.
    "a long id": (
        None,
        400,
        openai(
            "string_above_max_length",
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum "
            "length 40.",
            param="messages[2].tool_calls[0].id",
        ),
    ),
    "a long array": (
        None,
        400,
        openai(
            "array_above_max_length",
            "Invalid 'tools': array too long. Expected an array with maximum length 128.",
        ),
    ),
    "a long answer": (
        None,
        400,
        anthropic(
            "invalid_request_error",
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3",
        ),
    ),
    "a long answer of openai": (
        None,
        400,
        openai(
            "invalid_value",
            "max_tokens is too large: 30000. This model supports at most 16384 completion tokens, whereas "
            "you "
            "provided 30000.",
        ),
    ),
    "a large image": (
        None,
        400,
        anthropic(
            "invalid_request_error", "messages.0.content.1.image: image exceeds 5 MB maximum: 6 > 5 bytes"
        ),
    ),
    "a setting": (
        None,
        400,
        anthropic("invalid_request_error", "`temperature` is deprecated for this model."),
    ),
    "no such path": (None, 404, '{"detail":"Not Found"}'),
    "a former response": (
        None,
        400,
        openai("previous_response_not_found", "Previous response with id 'resp_1' not found."),
    ),
    "no provider": (
        None,
        404,
        {"error": {"code": 404, "message": "No endpoints found that support tool use."}},
    ),
    "a broken server": (None, 500, anthropic("api_error", "Internal server error")),
    "away": (None, 503, "Service Unavailable"),
    "a gateway": (None, 502, "<html>Bad gateway</html>"),
    "a schema": (None, 400, openai("invalid_function_parameters", "Invalid schema for function 'f'")),
}

CASES: Mapping[str, tuple[ModelErrorKind | None, int, Any]] = {
    **{name: ("context_too_long", *each) for name, each in TOO_LONG.items()},
    **OTHER_KINDS,
}

TYPES: Mapping[str, type[nh.errors.ModelError]] = {
    "context_too_long": nh.errors.ContextTooLongError,
    "content_filter": nh.errors.ContentFilterError,
    "quota_exhausted": nh.errors.QuotaExhaustedError,
    "model_not_found": nh.errors.ModelNotFoundError,
    "authentication": nh.errors.AuthenticationError,
    "permission_denied": nh.errors.PermissionDeniedError,
    "rate_limit": nh.errors.RateLimitError,
    "overloaded": nh.errors.OverloadedError,
}


@every("case", CASES)
def test_an_error_with_a_status_is_of_its_kind(case: str) -> None:
    kind, status, body = CASES[case]
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = status_error(status, {}, content)
    assert isinstance(error, ModelStatusError)
    assert (error.kind if isinstance(error, nh.errors.KnownModelError) else None) == kind
    if kind is not None:
        assert isinstance(error, TYPES[kind])
        assert error.is_transient is (kind in ("rate_limit", "overloaded"))
    assert error.status == status
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)


SAID_BY_THE_STATUS = {"anthropic bytes", "openrouter credits", "google service"}
IN_STREAMS = [
    case
    for case, (_, _, body) in CASES.items()
    if not isinstance(body, str) and case not in SAID_BY_THE_STATUS
]


@every("case", IN_STREAMS)
def test_an_error_inside_a_stream_is_of_its_kind(case: str) -> None:
    kind, _, body = CASES[case]
    event = response_failure(json.dumps(body).encode())
    assert event.kind == kind
    with pytest.raises(ModelProviderError) as raised:
        raise_failure(event)
    if kind is not None:
        assert isinstance(raised.value, TYPES[kind])
        assert raised.value.is_transient is (kind in ("rate_limit", "overloaded"))


def test_the_filter_names_what_it_refused() -> None:
    for case, category in {
        "azure": "hate",
        "openrouter moderation": "violence",
        "deepseek risk": None,
    }.items():
        _, status, body = CASES[case]
        error = status_error(status, {}, json.dumps(body).encode())
        assert isinstance(error, nh.errors.RefusalError), case
        assert error.category == category, case
        assert error.explanation, case


def test_the_endpoints_word_is_kept_with_a_status() -> None:
    error = status_error(400, {}, json.dumps(openai("odd_code", "odd")).encode())
    assert (type(error), error.error_type) == (ModelStatusError, "invalid_request_error")
