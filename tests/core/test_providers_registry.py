"""Names of models lead to providers, and what is missing is said before a prompt fails."""

import subprocess
import sys

import pytest

from agentcore.errors import BadRequest
from agentcore.providers.registry import Providers, ProviderStatus

pytestmark = pytest.mark.anyio

KEY = {"ANTHROPIC_API_KEY": "sk-ant-test"}


@pytest.mark.parametrize(
    ("model", "parsed"),
    [
        ("anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("scripted/demo", ("scripted", "demo")),
        ("scripted//srv/a b/script.yaml", ("scripted", "/srv/a b/script.yaml")),
    ],
)
def test_a_model_is_named_provider_slash_model(model: str, parsed: tuple[str, str]) -> None:
    assert Providers({}).parse(model) == parsed


@pytest.mark.parametrize("model", ["", "claude-sonnet-4-5", "anthropic/", "/demo", "nobody/x", "Anthropic/x"])
def test_a_name_that_leads_nowhere_says_which_do(model: str) -> None:
    with pytest.raises(BadRequest, match=r"anthropic, scripted"):
        Providers({}).parse(model)


def test_a_provider_is_made_once() -> None:
    providers = Providers(KEY)
    assert providers.get("anthropic") is providers.get("anthropic")
    assert providers.get("scripted").name == "scripted"
    with pytest.raises(BadRequest, match=r"nobody"):
        providers.get("nobody")


def test_the_default_is_the_first_provider_with_a_key_else_the_demo() -> None:
    assert Providers(KEY).default_model() == "anthropic/claude-sonnet-4-5"
    assert Providers({}).default_model() == "scripted/demo"


def test_what_is_not_ready_says_why() -> None:
    anthropic, scripted = Providers({}).describe()
    assert (anthropic.name, anthropic.ready) == ("anthropic", False)
    assert "ANTHROPIC_API_KEY" in str(anthropic.why_not)
    assert scripted == ProviderStatus("scripted", ("demo",), ready=True, why_not=None)
    assert [status.ready for status in Providers(KEY).describe()] == [True, True]


async def test_closing_twice_is_harmless() -> None:
    providers = Providers(KEY)
    provider = providers.get("anthropic")
    await provider.warm()
    await providers.close()
    await providers.close()
    assert providers.get("anthropic") is not provider


def test_the_registry_loads_no_sdk() -> None:
    code = (
        "import sys; from agentcore.providers.registry import Providers;"
        "Providers({'ANTHROPIC_API_KEY': 'k'}).describe();"
        "print([m for m in ('anthropic', 'openai', 'google.genai', 'httpx', 'httpx2', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
