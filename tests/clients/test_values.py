"""What the Python client models is all that `openapi.yaml` says there is."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

from agentcore_client import values
from agentcore_client.client import Client
from agentcore_client.values import Outcome, Received, RunError
from tests.daemon import Daemon

SCHEMAS = yaml.safe_load((Path(__file__).resolve().parents[2] / "openapi.yaml").read_text())["components"]["schemas"]
ANSWERS: dict[str, type[Received]] = {
    "StandingRule": values.Rule,
    "ApprovalInfo": values.Approval,
    "BackgroundTask": values.BackgroundTask,
    "BudgetState": values.BudgetState,
    "ForkAnswer": values.Fork,
    "HistoryMessage": values.StoredMessage,
    "Info": values.Info,
    "McpServerInfo": values.McpServerState,
    "Messages": values.MessagePage,
    "OpenRequest": values.OpenRequest,
    "PermissionGranted": values.GrantReport,
    "PromptAccepted": values.Accepted,
    "PromptDone": values.Outcome,
    "ProviderInfo": values.ProviderState,
    "RunError": values.RunError,
    "RunningCall": values.RunningCall,
    "SandboxInfo": values.SandboxState,
    "SessionEntry": values.SessionSummary,
    "SessionList": values.SessionPage,
    "SessionState": values.SessionState,
    "StoredBlob": values.Blob,
    "SubagentWait": values.SubagentWait,
    "UndoAnswer": values.Undo,
    "Why": values.Why,
    "WhyDetail": values.WhyDetail,
}
BODIES: dict[str, tuple[set[str], set[str]]] = {
    "PromptBody": (set(get_type_hints(values.PromptOptions)), {"text", "wait"}),
    "PatchSession": (set(get_type_hints(values.Settings)), set()),
    "CreateSession": (set(get_type_hints(values.Settings)), {"cwd", "resume", "continue", "takeover"}),
    "AnswerBody": (set(values.Answer.model_fields), set()),
}
"""What a caller may send, and what the client sends by itself or takes as an argument of its own."""


@pytest.mark.parametrize("name", ANSWERS)
def test_every_property_of_an_answer_can_be_read(name: str) -> None:
    assert set(SCHEMAS[name]["properties"]) - set(ANSWERS[name].model_fields) == set()


@pytest.mark.parametrize("name", BODIES)
def test_every_property_of_a_body_can_be_sent(name: str) -> None:
    options, arguments = BODIES[name]
    assert set(SCHEMAS[name]["properties"]) - options == arguments


def test_every_answer_that_is_modelled_is_looked_at() -> None:
    modelled = {one for one in vars(values).values() if isinstance(one, type) and issubclass(one, Received)}
    assert modelled - {Received} == set(ANSWERS.values())


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"passed": {"type": "integer"}}, "required": ["passed"]}


def test_an_answer_of_a_given_form_comes_as_a_value(daemon: Daemon) -> None:
    model = daemon.script("form", {"turns": [{"tool_calls": [{"name": "final_answer", "input": {"passed": 7}}]}]})
    with Client(daemon.url, daemon.token) as client:
        session = client.create_session(daemon.cwd, model=model)
        assert session.prompt_and_wait("How many?", output_schema=SCHEMA).structured == {"passed": 7}
        assert session.prompt_and_wait("How many?").structured is None


def test_a_failure_says_when_to_come_back() -> None:
    error = {"code": "rate_limit", "text": "Later.", "retryable": True, "retry_after": 7.5}
    head = {"session": "s", "prompt_id": "p", "text": "", "stop_reason": "error", "cost_usd": 0.25}
    outcome = Outcome.model_validate({**head, "error": error})
    assert outcome.error == RunError(code="rate_limit", text="Later.", retryable=True, retry_after=7.5)
    assert outcome.cost_usd == 0.25
