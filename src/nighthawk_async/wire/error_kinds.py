"""The kinds of errors that providers report, by their codes, texts and statuses.

A code that has one meaning counts first, then what the text says, then codes and statuses that say little:
Groq reports a request that is too long as `rate_limit_exceeded`, and Anthropic an empty account as
`invalid_request_error`. The texts are those that endpoints write; a rate limit that counts tokens reads much
like a request with too many of them, so the texts of the latter do not count beside words of the former.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..errors import ModelErrorKind
from ..types.json import is_json_list, is_json_mapping

_MAX_CHARACTERS: Final = 4_000

FINAL_KINDS: Final = frozenset(
    (
        *("context_too_long", "content_filter", "quota_exhausted"),
        *("model_not_found", "authentication", "permission_denied"),
    )
)
"""Kinds after which the same request fails again."""


def _by_code(table: Mapping[ModelErrorKind, str]) -> Mapping[str, ModelErrorKind]:
    return {code: kind for kind, codes in table.items() for code in codes.split()}


_EXACT_CODES = _by_code(
    {
        "context_too_long": (
            "contextlengthexceeded contextwindowexceeded modelcontextwindowexceeded contextlength "
            "exceedcontextsize requesttoolarge requestentitytoolarge payloadtoolarge contexttoolong "
            "prompttoolong promptistoolong inputtoolong tokenslimitreached modelmaxprompttokensexceeded"
        ),
        "content_filter": (
            "contentfilter contentpolicyviolation responsibleaipolicyviolation datainspectionfailed "
            "contentfiltered contentmoderation moderationblocked contentblocked sensitivewordsdetected 1301"
        ),
        "quota_exhausted": (
            "insufficientquota billinghardlimitreached billingnotactive billing billingdisabled "
            "insufficientbalance insufficientcredits insufficientcredit insufficientfunds paymentrequired "
            "exceededcurrentquota quotaexhausted usagelimitreached usagelimitexceeded usagenotincluded "
            "insufficientuserquota arrearage accountoverdue allocationquotafreetieronly 1113"
        ),
        "model_not_found": (
            "modelnotfound modelnotexist modeldoesnotexist invalidmodel unknownmodel nosuchmodel "
            "modeldecommissioned modeldeprecated deploymentnotfound modelnotsupported"
        ),
        "authentication": (
            "invalidapikey incorrectapikey apikeyinvalid apikeyexpired invalidauthentication "
            "unrecognizedclient invalidsignature expiredtoken accesstokenexpired invalidaccesstoken "
            "missingauthenticationtoken credentialsmissing"
        ),
        "permission_denied": "servicedisabled apikeyserviceblocked unsupportedcountryregionterritory",
        "overloaded": (
            "overloaded serverisoverloaded serveroverloaded modeloverloaded engineoverloaded slowdown "
            "servicetiercapacityexceeded modelnotready"
        ),
    }
)
_BROAD_CODES = _by_code(
    {
        "authentication": "authentication unauthorized unauthenticated",
        "permission_denied": "permission permissiondenied forbidden accessdenied",
        "rate_limit": (
            "ratelimit ratelimitexceeded ratelimited ratelimitreached toomanyrequests throttling throttled "
            "resourceexhausted"
        ),
    }
)
_STATUSES: Mapping[int, ModelErrorKind] = {
    401: "authentication",
    402: "quota_exhausted",
    403: "permission_denied",
    413: "context_too_long",
    429: "rate_limit",
    529: "overloaded",
}

_LIMIT = (
    r"context (?:length|window|size|limit)|(?:token|input|prompt) limit"
    r"|max(?:imum)? (?:allowed )?(?:input|prompt|model length|sequence length|tokens allowed"
    r"|(?:allowed )?number of (?:input )?tokens)"
)
_TOO_LONG = re.compile(
    rf"(?:exceed(?:s|ed|ing)?|longer than|larger than|greater than|more than"
    rf"|too large for) .{{0,60}}?(?:{_LIMIT})"
    r"|(?:prompt|input|request|conversation|messages?)(?: is| are)? too (?:long|large)"
    r"|(?:entity|payload|content|body) too large|request (?:payload )?size exceeds"
    r"|too large for .{0,60}?model"
    r"|request exceeds the maximum (?:size|allowed)|tokens? exceeds? (?:the )?max(?:imum)? length"
    r"|maximum (?:context|prompt) (?:length|limit|window|size)"
    r"|context (?:window|length|size|limit) (?:exceed|is full|overflow)|context (?:the )?overflow"
    r"|contextwindowexceeded|context_length_exceeded|model_context_window_exceeded"
    r"|(?:model|context) token limit|tokens? limit exceeded|input tokens exceeded"
    r"|token count .{0,40}?(?:exceeds?|but model only supports)|tokens? .{0,60}?cannot exceed"
    r"|too many (?:input |prompt )?tokens|max tokens of \d+ exceeded"
    r"|reduce the (?:length of the |size of the )?(?:messages|prompt|input|request)"
    r"|input length should be|configured context size|context length (?:is|of) only"
    r"|`?inputs`? (?:tokens \+|must have less than)|max_new_tokens`? must be <="
    r"|message larger than max|length of all messages is too long"
    r"|上下文.{0,12}(?:超|过长)|超.{0,12}上下文|输入.{0,8}(?:过长|超长)"
)
_LIMITS_ANSWER = re.compile(r"max_(?:completion_|output_)?tokens")
_LIMITED_RATE = re.compile(
    r"rate.?limit|throttl|too many requests|please wait|per (?:second|minute|hour|day)|\b[tr]p[smd]\b"
    r"|service unavailable|quota"
)
_TOO_LONG_FOR_RATE = re.compile(
    r"request too large for|must be reduced in order to run|reduce your message size"
)
_FILTERED = re.compile(
    r"content (?:management|filtering|safety) polic|content exists risk|flagged (?:as|for|by)|was flagged"
    r"|violat\w* .{0,60}?(?:polic|guideline|terms)|(?:inappropriate|prohibited|unsafe|sensitive) content"
    r"|safety system|considered high risk|for safety reasons|sensitive words|content filter|敏感|违规"
)
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient (?:account )?(?:balance|credits?|funds|quota)"
    r"|requires more credits|(?:out of|no) credits|balance is (?:insufficient|too low|used up)"
    r"|(?:all|monthly|your) .{0,30}?(?:available|included) credits|spend(?:ing)? limit"
    r"|(?:check your|plan and|and) billing|billing (?:hard )?limit|billing is not active"
    r"|exceeded your current quota|usage limits?\b|payment required|quota (?:is |has been )?exhausted"
    r"|overdue|in good standing|余额不足|欠费|额度不足"
)
_SHARED = re.compile(r"exceeded your current quota|rate.?limit|per (?:minute|hour)")
_NO_MODEL = re.compile(
    r"\bmodels?\b.{0,160}?(?:not found|not exist|doesn't exist|is not a valid model|decommissioned|deprecated"
    r"|retired|no longer (?:available|supported|served)|end of life|is not available)"
    r"|(?:invalid|unknown|incorrect|unrecognized|no such|not a valid|not found the) model\b(?! (?:setting"
    r"|param|output))"
    r"|model (?:name|id|identifier) (?:is )?invalid|^model: \S+$|no endpoints found for|try pulling it first"
    r"|requested model is not (?:supported|available|valid)"
    r"|deployment .{0,60}?does not exist|模型.{0,20}不存在"
)
_BAD_KEY = re.compile(
    r"(?:incorrect|invalid|missing|expired|wrong|no) (?:api[ -_]?key|access token|authentication|credentials)"
    r"|api[ _-]?key .{0,20}?(?:not valid|invalid|expired|missing|not found|incorrect|disabled)"
    r"|security token .{0,40}?(?:invalid|expired)|request signature we calculated"
)
_BUSY = re.compile(r"overloaded|high demand|at capacity|over capacity|too busy|server is busy|负载")


def kind_of(
    error: object, message: str, *, status: int | None = None, outer: object = None
) -> ModelErrorKind | None:
    """The kind of an error; None where neither its code, its text nor its status says.

    Args:
        error: The provider's error object, or its text.
        message: The provider's message.
        status: The HTTP status code; None inside a stream.
        outer: What holds the error object, which may hold its code.
    """
    names = [*_names(error), *_names(outer)]
    if status is None or status == 200:
        status = next((int(each) for each in names if each in _STATUS_NAMES), None)
    exact: ModelErrorKind | None = next((_EXACT_CODES[each] for each in names if each in _EXACT_CODES), None)
    if exact is not None and not (exact == "context_too_long" and _limits_rate(names, message)):
        return exact
    if "stringabovemaxlength" in names and _is_long_text(error, message):
        return "context_too_long"
    if status == 402 or _is_daily_quota(error):
        return "quota_exhausted"
    by_text = _kind_of_text(message[:_MAX_CHARACTERS].lower(), status, names)
    if by_text is not None:
        return by_text
    broad: ModelErrorKind | None = next((_BROAD_CODES[each] for each in names if each in _BROAD_CODES), None)
    return broad or _STATUSES.get(status or 0)


def filter_category(error: object) -> str | None:
    """The category of refused content that a filter names; None for none.

    Args:
        error: The provider's error object.
    """
    if not is_json_mapping(error):
        return None
    inner = error.get("innererror")
    results = inner.get("content_filter_result") if is_json_mapping(inner) else None
    if is_json_mapping(results):
        found = [name for name, each in results.items() if is_json_mapping(each) and each.get("filtered")]
        return ", ".join(found)[:100] or None
    metadata = error.get("metadata")
    reasons = metadata.get("reasons") if is_json_mapping(metadata) else None
    if is_json_list(reasons):
        return ", ".join(each for each in reasons if isinstance(each, str))[:100] or None
    return None


_STATUS_NAMES = frozenset(str(status) for status in range(400, 600))


def _kind_of_text(text: str, status: int | None, names: list[str]) -> ModelErrorKind | None:
    if _TOO_LONG_FOR_RATE.search(text):
        return "context_too_long"
    # A setting that asks for more than the model writes is another error.
    is_long = _TOO_LONG.search(text) and ("context" in text or not _LIMITS_ANSWER.search(text))
    if status in (None, 400, 413, 422, 500) and is_long and not _limits_rate(names, text):
        return "context_too_long"
    if status in (None, 400, 403, 422, 451) and _FILTERED.search(text):
        return "content_filter"
    # Google and others say the same of a limit per minute.
    is_minute = any(_BROAD_CODES.get(each) == "rate_limit" for each in names) and _SHARED.search(text)
    if (status is None or 400 <= status < 500) and _NO_CREDIT.search(text) and not is_minute:
        return "quota_exhausted"
    if status in (None, 400, 404, 409, 410, 422) and _NO_MODEL.search(text):
        return "model_not_found"
    if status in (None, 400, 401, 403) and _BAD_KEY.search(text):
        return "authentication"
    if (status is None or status in (429, 529) or status >= 500) and _BUSY.search(text):
        return "overloaded"
    return None


def _limits_rate(names: list[str], text: str) -> bool:
    """Whether an error is about tokens in a time, not about those of a request."""
    is_broad = any(_BROAD_CODES.get(each) == "rate_limit" for each in names)
    return is_broad or _LIMITED_RATE.search(text[:_MAX_CHARACTERS].lower()) is not None


def _names(error: object) -> Iterator[str]:
    """The codes of an error, without case, signs and the word `error`, the most exact ones first."""
    if not is_json_mapping(error):
        return
    for part in (error, error.get("innererror")):
        if is_json_mapping(part):
            for key in ("code", "type", "status", "__type", "reason"):
                if (name := _plain(part.get(key))) is not None:
                    yield name
    details = error.get("details")
    for detail in details if is_json_list(details) else ():
        if is_json_mapping(detail) and (name := _plain(detail.get("reason"))) is not None:
            yield name


def _plain(name: object) -> str | None:
    """A code in the form of the tables; None for what is none."""
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if not isinstance(name, str) or not 0 < len(name) <= 100:
        return None
    last = name.rpartition("#")[2].lower()
    plain = "".join(each for each in last if each.isalnum())
    return plain.removesuffix("exception").removesuffix("error") or None


_TEXT_FIELDS = ("content", "text", "input", "instructions", "prompt", "output", "arguments")
_LONG_TEXT = 100_000
_MAXIMUM_LENGTH = re.compile(r"maximum length (\d{1,12})")


def _is_long_text(error: object, message: str) -> bool:
    """Whether a text that is too long is one of the conversation; names and ids have limits too."""
    param: Any = error.get("param") if is_json_mapping(error) else None
    if isinstance(param, str) and param:
        return param.rpartition(".")[2].partition("[")[0] in _TEXT_FIELDS
    found = _MAXIMUM_LENGTH.search(message)
    return found is not None and int(found[1]) >= _LONG_TEXT


def _is_daily_quota(error: object) -> bool:
    """Whether Google counts by days: a wait of seconds, for which it asks nevertheless, does not help."""
    details: Any = error.get("details") if is_json_mapping(error) else None
    for detail in details if is_json_list(details) else ():
        violations: Any = detail.get("violations") if is_json_mapping(detail) else None
        for each in violations if is_json_list(violations) else ():
            if is_json_mapping(each) and "PerDay" in str(each.get("quotaId", "")):
                return True
    return False
