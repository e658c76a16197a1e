"""Every way in which a service says no gets its kind from what it said, and a sentence that helps and gives nothing
away: all vendors, recorded and known forms, and nonsense."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from agentcore.errors import ProviderErrorKind
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.faults import Faults
from agentcore.providers.retry_after import retry_after_s
from agentcore.providers.sse import SseSplitter
from tests.recordings import names, needs_recordings, recording

FAILURES = [name for name in names("") if recording(name)["expect"]["error"]]


def faults(key: str = "", title: str = "provider lab") -> Faults:
    source = "LAB_URL"
    return Faults(Endpoint("lab", title, "http://127.0.0.1", Key(key, source="LAB_KEY"), url_source=source))


def answer(status: int, body: object) -> tuple[ProviderErrorKind, str]:
    """The kind and the sentence of an error body, JSON or raw."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = faults().of_answer(status, raw, {})
    return error.kind, str(error)


# --- recordings ---------------------------------------------------------------------------------------------------


def last_error(body: str) -> object:
    """The error object in the last event of a recorded stream."""
    splitter = SseSplitter()
    *_, last = splitter.feed(body.encode() + b"\n\n")
    event = json.loads(last)
    return event.get("error") or event["response"]["error"]


@needs_recordings
@pytest.mark.parametrize("name", FAILURES)
def test_a_recorded_failure_has_its_kind(name: str) -> None:
    recorded = recording(name)
    expect = recorded["expect"]["error"]
    if expect["phase"] == "http":
        error = faults().of_answer(recorded["status"], recorded["body"].encode(), recorded["headers"])
    else:
        error = faults().of_event(last_error(recorded["body"]))
    assert error.kind in expect.get("accept_kinds", [expect["kind"]])
    assert expect["message"].split("\n")[0][:150].rstrip(".") in str(error)
    if "retry_after" in expect:
        assert error.retry_after_s == float(expect["retry_after"])


@needs_recordings
def test_a_wait_that_stands_in_the_body_is_read() -> None:
    recorded = recording("gemini-error-429-retryinfo")
    error = faults().of_answer(429, recorded["body"].encode(), {"retry-after": "7"})
    assert (error.kind, error.retry_after_s) == ("rate_limit", 48.0)


# --- by what they say ---------------------------------------------------------------------------------------------


def anthropic(type: str, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


def openai(message: str, type: str | None = "invalid_request_error", code: object = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def google(code: int, status: str, message: str = "words", *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


OVERFLOWS: dict[str, object] = {
    "anthropic": anthropic("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
    "anthropic with max_tokens": anthropic(
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
    ),
    "openai responses": openai("Your input exceeds the context window of this model.", code="context_length_exceeded"),
    "openai without a code": openai("Your input exceeds the context window of this model. Please adjust it."),
    "openai chat": openai(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 128009 tokens."
    ),
    "deepseek": openai(
        "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens.",
        code="invalid_request_error",
    ),
    "groq": openai("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
    "vllm": {
        "object": "error",
        "message": "The decoder prompt (length 40960) is longer than the maximum model length of 32768.",
        "type": "BadRequestError",
        "code": 400,
    },
    "mistral": {
        "object": "error",
        "message": "Prompt contains 40960 tokens and 0 draft tokens, too large for model with 32768 maximum context"
        " length",
        "type": "invalid_request_prompt",
        "code": "3051",
    },
    "xai": {
        "code": "Client specified an invalid argument",
        "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    },
    "ollama": openai("prompt too long; exceeded max context length by 1119046 tokens (ref: 9616)"),
    "ollama native": {"error": "prompt too long; exceeded max context length by 12 tokens"},
    "llama.cpp": {
        "error": {
            "code": 400,
            "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_ctx": 4096,
        }
    },
    "llama.cpp older": openai("the request exceeds the available context size. try increasing the context size"),
    "lm studio": {
        "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with"
        " context length of only 4096 tokens, which is not enough."
    },
    "gemini": google(
        400, "INVALID_ARGUMENT", "The input token count (1250074) exceeds the maximum number of tokens allowed (1)."
    ),
    "perplexity": {"error": {"message": "Too many.", "type": "too_many_prompt_tokens", "code": 400}},
    "moonshot": openai("Invalid request: Your request exceeded model token limit: 8192"),
    "openrouter": {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": '{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}'},
        }
    },
    "bedrock": {"message": "Input is too long for requested model."},
    "sglang": {
        "object": "error",
        "message": "The input (200009 tokens) is longer than the model's context length (32768 tokens).",
        "type": "BadRequestError",
        "code": 400,
    },
    "text-generation-inference": {
        "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000",
        "error_type": "validation",
    },
    "text-generation-inference older": {
        "error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 9000",
    },
    "together": openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 10000"),
    "cohere": {"message": "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 2"},
    "cohere older": {"message": "too many tokens: size limit exceeded by 23254 tokens. Try using shorter inputs."},
    "copilot": openai("prompt token count of 250012 exceeds the limit of 128000"),
    "copilot's code": openai("words", code="model_max_prompt_tokens_exceeded"),
    "snowflake": {"message": "max tokens of 131072 exceeded", "request_id": "x"},
}


@pytest.mark.parametrize("body", OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_a_conversation_that_is_too_long_is_told_from_other_bad_requests(body: object) -> None:
    assert answer(400, body)[0] == "context_overflow"


ORDINARY = [
    "Too many tokens, please wait before trying again.",
    "messages.0.content.0.text: message too long",
    "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64.",
    "Invalid 'prompt_cache_key': string too long.",
    "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    "max_tokens is too large: 200000. This model supports at most 16384 completion tokens.",
    "The value of context_length must be a number.",
    "The long context beta is not yet available for this subscription.",
    "tool_choice: the context window of the editor is unknown to us",
    "messages: roles must alternate; the model message has a tool call id that was not found",
    "The model produced an unknown field.",
    "I do not know this api key parameter, nor a casino api key.",
    "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "metadata.user_id: quota_user is not a valid name",
]


@pytest.mark.parametrize("message", ORDINARY)
@pytest.mark.parametrize("type", ["invalid_request_error", None])
def test_an_ordinary_bad_request_is_nothing_else(message: str, type: str | None) -> None:
    assert answer(400, openai(message, type)) == (
        "invalid_request",
        f"Provider lab refused the request: {message.rstrip('.')}. It has to change before it is sent again.",
    )


PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"}],
}
PER_MINUTE = {"violations": [{"quotaId": "GenerateContentPaidTierInputTokensPerModelPerMinute"}]}
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9.5s"}
NO_QUOTA = "You exceeded your current quota, please check your plan and billing details."
BY_CODE_OR_WORDING: list[tuple[int, object, ProviderErrorKind]] = [
    # Anthropic
    (401, anthropic("authentication_error"), "auth"),
    (403, anthropic("permission_error"), "auth"),
    (400, anthropic("invalid_request_error"), "invalid_request"),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), "quota"),
    (400, anthropic("invalid_request_error", "You have reached your specified API usage limits."), "quota"),
    (402, anthropic("billing_error"), "quota"),
    (404, anthropic("not_found_error", "model: claude-9"), "not_found"),
    (413, anthropic("request_too_large"), "request_too_large"),
    (429, anthropic("rate_limit_error", "Number of request tokens has exceeded your limit"), "rate_limit"),
    (500, anthropic("api_error"), "server_error"),
    (504, anthropic("timeout_error"), "server_error"),
    (529, anthropic("overloaded_error"), "overloaded"),
    (400, anthropic("overloaded_error", "the body knows better than the status"), "overloaded"),
    (418, anthropic("brand_new_error"), "invalid_request"),
    (500, anthropic("brand_new_error"), "server_error"),
    # OpenAI
    (401, openai("Incorrect API key provided: x.", code="invalid_api_key"), "auth"),
    (401, openai("You didn't provide an API key."), "auth"),
    (404, openai("The model `x` does not exist or you do not have access to it.", code="model_not_found"), "not_found"),
    (404, openai("Invalid URL (POST /v2/responses)"), "not_found"),
    (400, openai("The model `x` does not exist."), "not_found"),
    (429, openai("Rate limit reached for gpt-x", "tokens", "rate_limit_exceeded"), "rate_limit"),
    (429, openai(NO_QUOTA, "insufficient_quota", "insufficient_quota"), "quota"),
    (
        429,
        openai("Request too large for gpt-x on tokens per min (TPM): Limit 1, Requested 2.", "tokens"),
        "request_too_large",
    ),
    (500, openai("The server had an error", "server_error"), "server_error"),
    (500, openai("litellm.BadRequestError: prompt is too long: 2 tokens > 1 maximum", None), "context_overflow"),
    (503, openai("The engine is currently overloaded", "server_error"), "server_error"),
    (403, openai("Country not supported", "request_forbidden"), "auth"),
    # Groq
    (400, openai("Failed to call a function", code="tool_use_failed"), "tool_use_failed"),
    (413, openai("Request too large for model `x` on tokens per minute", "tokens", "rate_limit_exceeded"),
     "request_too_large"),
    (498, openai("Capacity exceeded", None), "overloaded"),
    # Azure, DeepSeek, Moonshot, Z.ai
    (429, {"error": {"code": "RateLimitReached", "message": "Slow down"}}, "rate_limit"),
    (404, {"error": {"code": "DeploymentNotFound", "message": "words"}}, "not_found"),
    (402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "quota"),
    (400, openai("Model Not Exist"), "not_found"),
    (429, openai("Your account is not active", "exceeded_current_quota_error"), "quota"),
    (404, openai("Not found the model x or Permission denied", "resource_not_found_error"), "not_found"),
    (429, openai("Insufficient balance or no resource package. Please recharge.", None, "1113"), "quota"),
    # Google
    (400, google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}), "auth"),
    (400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "auth"),
    (400, google(400, "INVALID_ARGUMENT", "Please use a valid role: user, model."), "invalid_request"),
    (403, google(403, "PERMISSION_DENIED"), "auth"),
    (404, google(404, "NOT_FOUND", "models/x is not found for API version v1beta"), "not_found"),
    (429, google(429, "RESOURCE_EXHAUSTED", NO_QUOTA, PER_MINUTE, DELAY), "rate_limit"),
    (429, google(429, "RESOURCE_EXHAUSTED", NO_QUOTA, PER_DAY, DELAY), "quota"),
    (500, google(500, "INTERNAL"), "server_error"),
    (503, google(503, "UNAVAILABLE"), "overloaded"),
    (504, google(504, "DEADLINE_EXCEEDED"), "server_error"),
    (429, [google(429, "RESOURCE_EXHAUSTED")], "rate_limit"),
    # xAI: the error is a string, the code a sentence
    (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xx***."}, "auth"),
    (404, {"code": "Some requested entity was not found", "error": "The model x does not exist"}, "not_found"),
    (403, {"code": "The caller does not have permission", "error": "Your team used all available credits."}, "quota"),
    # Mistral
    (401, {"detail": "Unauthorized"}, "auth"),
    (422, {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]}, "invalid_request"),
    (400, {"object": "error", "message": "words", "type": "invalid_model", "code": "1500"}, "not_found"),
    (400, {"object": "error", "message": "Invalid model: x", "type": "x", "code": "1500"}, "not_found"),
    (429, {"message": "Requests rate limit exceeded"}, "rate_limit"),
    (422, {"object": "error", "message": {"detail": [{"msg": "Field required"}]}, "type": "x"}, "invalid_request"),
    # OpenRouter: the code is a number
    (401, {"error": {"code": 401, "message": "No auth credentials found"}}, "auth"),
    (402, {"error": {"code": 402, "message": "This request requires more credits"}}, "quota"),
    (400, {"error": {"code": 400, "message": "x is not a valid model ID"}}, "not_found"),
    (200, {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": None}}}, "rate_limit"),
    (200, {"error": {"code": 502, "message": "Provider disconnected"}}, "server_error"),
    (403, {"error": {"code": 403, "message": "Key limit exceeded (total limit)"}}, "quota"),
    (403, {"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}},
     "invalid_request"),
    # DashScope, Moonshot, Groq, xAI
    (400, openai("Access denied, is your account in good standing?", "Arrearage", "Arrearage"), "quota"),
    (429, openai("The engine is currently overloaded", "engine_overloaded_error"), "overloaded"),
    (400, openai("The model `x` has been decommissioned.", code="model_decommissioned"), "not_found"),
    (403, {"code": "The caller does not have permission", "error": "Your team doesn't have any credits yet."}, "quota"),
    # Ollama, LM Studio, vLLM
    (404, {"error": "model 'x:latest' not found"}, "not_found"),
    (404, {"error": 'model "x" not found, try pulling it first'}, "not_found"),
    (500, {"error": "model requires more system memory (5.5 GiB) than is available"}, "server_error"),
    (400, {"error": {"message": "No models loaded. Please load a model.", "type": "invalid_request_error"}},
     "not_found"),
    (404, {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
     "not_found"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind"), BY_CODE_OR_WORDING)
def test_the_kind_is_read_from_the_body(status: int, body: object, kind: ProviderErrorKind) -> None:
    assert answer(status, body)[0] == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        ({"type": "rate_limit_error", "message": "Slow down"}, "rate_limit"),
        ({"type": "invalid_request_error", "message": "prompt is too long: 1 > 0"}, "context_overflow"),
        ({"type": "invalid_request_error", "message": "words"}, "invalid_request"),
        ({"message": "words", "type": "invalid_request_error", "status_code": 413}, "request_too_large"),
        ({"code": 503, "message": "Overloaded"}, "overloaded"),
        ({"code": 7, "message": "no status"}, "server_error"),
        ({"code": True, "message": "no status"}, "server_error"),
        ({"type": "brand_new_error"}, "server_error"),
        ("prompt too long; exceeded max context length by 1 tokens", "context_overflow"),
        ("not an object", "server_error"),
        (None, "server_error"),
        ([], "server_error"),
        (5, "server_error"),
    ],
)
def test_an_error_in_mid_stream_is_read_without_a_status(error: object, kind: ProviderErrorKind) -> None:
    assert faults().of_event(error).kind == kind


# --- what is no error body ----------------------------------------------------------------------------------------

NONSENSE: list[object] = [
    b"",
    b"<html><h1>secret page</h1></html>",
    b"\xff\xfe\x00",
    b"[" * 5_000,
    [],
    [[]],
    [None],
    {},
    None,
    5,
    "text",
    {"error": None},
    {"error": True},
    {"error": {}},
    {"error": []},
    {"error": [[[[[[["deep"]]]]]]]},
    {"error": {"message": None}},
    {"error": {"message": {"message": {"message": {"message": {"message": "deep"}}}}}},
    {"error": {"code": {}, "type": [], "status": 5, "details": "text"}},
    {"error": {"details": [None, 5, [], {"reason": None}, {"retryDelay": []}, {"violations": [5, {}]}]}},
    {"error": {"metadata": {"raw": {"a": 1}}}},
    {"detail": [5, None, {"msg": 5}]},
    {"message": {"error": "x"}},
]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "server_error"),
        (302, "not_found"),
        (400, "invalid_request"),
        (401, "auth"),
        (402, "quota"),
        (404, "not_found"),
        (405, "not_found"),
        (407, "network"),
        (413, "request_too_large"),
        (422, "invalid_request"),
        (429, "rate_limit"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "overloaded"),
        (524, "server_error"),
        (529, "overloaded"),
    ],
)
def test_what_says_nothing_counts_by_its_status(status: int, kind: ProviderErrorKind) -> None:
    for body in NONSENSE:
        found, sentence = answer(status, body)
        assert found == kind, body
        assert f"HTTP {status}." in sentence, body
        assert "None" not in sentence
        assert "secret" not in sentence


# --- sentences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", get_args(ProviderErrorKind))
def test_every_sentence_names_the_provider_and_says_what_to_do(kind: ProviderErrorKind) -> None:
    bare, quoting = str(faults().of(kind)), str(faults().of(kind, "Some words."))
    assert "provider lab" in bare.lower()
    assert bare[0].isupper()
    what, advice = bare.removesuffix(".").split(". ")
    assert quoting == f"{what}: Some words. {advice}."
    assert "{" not in bare
    if kind == "auth":
        assert "LAB_KEY" in advice
    if kind in ("not_found", "network"):
        assert "LAB_URL" in advice


@pytest.mark.parametrize(
    ("key", "said", "shown"),
    [
        ("plain-secret", "invalid key plain-secret", "invalid key [key]"),
        ("plain-secret", "url=/v1?key=plain-secretX&a=1", "url=/v1?key=[key]X&a=1"),
        ("plain-secret", "xplain-secretx", "x[key]x"),
        ("plain-secret", "plain-secret\nplain-secret", "[key] [key]"),
        ("a+b(c)*d.e", "key a+b(c)*d.e or aab(c)*d.e", "key [key] or aab(c)*d.e"),
        ("hunter2", "bad key hunter2!", "bad key [key]!"),
        ("hunter2", "Authorization: Bearer hunter2", "Authorization: Bearer [key]"),
        ("a.b", "a.b acb", "[key] acb"),
        ("ollama", "the ollamas know ollama", "the ollamas know [key]"),
        ("x", "x marks a box", "x marks a box"),
        ("", "no key at all", "no key at all"),
        ("other-key", "someone's sk-ant-api03-AbC_1-x here", "someone's [key] here"),
        ("other-key", "sk-proj-abcdef xai-abcdef123 csk-abcdef12 gsk_abcdefghij12", "[key] [key] [key] [key]"),
        ("other-key", "AIzaSyA1234567890abcdefghijk", "[key]"),
        ("other-key", "a task-management disk-usage desk-booking", "a task-management disk-usage desk-booking"),
        ("other-key", "cannot read /home/ann/models/a.gguf and /Users/bob/b", "cannot read ~/models/a.gguf and ~/b"),
    ],
)
def test_no_key_and_no_home_is_passed_on(key: str, said: str, shown: str) -> None:
    error = faults(key).of_answer(400, json.dumps({"error": {"message": said}}).encode(), {})
    assert str(error) == f"Provider lab refused the request: {shown}. It has to change before it is sent again."
    assert f": {shown}. " in str(faults(key).of_event(said))


def test_what_is_quoted_is_short_printable_and_cut_after_the_key_was_taken_out() -> None:
    said = "\x1b[31mred\u0000\u202e " + "a" * 380 + " plain-secret " + "b" * 500
    sentence = str(faults("plain-secret").of("server_error", said))
    assert sentence == f"Provider lab failed: [31mred {'a' * 380} [key] {'b' * 5}…. Try again in a moment."


def test_a_title_and_a_message_with_braces_are_taken_as_they_are() -> None:
    error = faults(title="{lab}").of("server_error", "{0} {title} %s")
    assert str(error) == "{lab} failed: {0} {title} %s. Try again in a moment."


# --- how long to wait ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("48s", 48.0), ("0.25s", 0.25), ("48", None), ("-1s", None), ("9" * 400 + "s", None), (48, None), (None, None)],
)
def test_the_wait_in_the_details_is_seconds(delay: object, seconds: float | None) -> None:
    body = google(429, "RESOURCE_EXHAUSTED", "words", {"retryDelay": delay})
    assert faults().of_answer(429, json.dumps(body).encode(), {}).retry_after_s == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 01:00:30 +0100"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:30 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 99999 00:00:30 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 +9999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=datetime(2026, 1, 1, tzinfo=UTC)) == seconds
