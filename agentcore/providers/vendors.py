"""Tables of what there is to choose from: the ways of talking, and the services that are known by name.

Data and the making of providers; what is decided with them stands in `setups` and `registry`. A new vendor is a
function here and an entry in each table. Promise: importing this loads no SDK.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agentcore.ports.models import Provider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.gemini.models import context_tokens
from agentcore.providers.openai.models import OFFERED as OPENAI_MODELS
from agentcore.settings.providers import ProviderType

DEMO = "demo"


def _anthropic(endpoint: Endpoint) -> Provider:
    from agentcore.providers.anthropic.provider import AnthropicProvider

    return AnthropicProvider(endpoint)


def _openai(endpoint: Endpoint) -> Provider:
    from agentcore.providers.openai.provider import OpenAIProvider

    return OpenAIProvider(endpoint)


def _compatible(endpoint: Endpoint) -> Provider:
    from agentcore.providers.compatible.provider import CompatibleProvider

    return CompatibleProvider(endpoint)


def _gemini(endpoint: Endpoint) -> Provider:
    from agentcore.providers.gemini.provider import GeminiProvider

    return GeminiProvider(endpoint)


def _ollama(endpoint: Endpoint) -> Provider:
    from agentcore.providers.ollama.provider import OllamaProvider

    return OllamaProvider(endpoint)


def _lmstudio(endpoint: Endpoint) -> Provider:
    from agentcore.providers.lmstudio.provider import LmStudioProvider

    return LmStudioProvider(endpoint)


def _scripted(endpoint: Endpoint) -> Provider:
    from agentcore.providers.scripted.provider import ScriptedProvider

    made = ScriptedProvider()
    made.name = endpoint.name
    return made


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way of talking: what `type` names in the settings."""

    make: Callable[[Endpoint], Provider]
    vendor: str = ""
    """Whose prices and windows apply; empty: whose the host is."""
    list_path: str = ""
    """Below the base URL: where a server on this machine lists its models; empty where it is not asked."""
    window: Callable[[str], int | None] = lambda model: None
    """How many tokens a model holds that the catalogue does not know the window of; None: unknown."""


DIALECTS: dict[ProviderType, Dialect] = {
    "anthropic": Dialect(_anthropic, "anthropic"),
    "openai": Dialect(_openai, "openai"),
    "openai-compatible": Dialect(_compatible, list_path="/models"),
    "gemini": Dialect(_gemini, "gemini", window=context_tokens),
    "ollama": Dialect(_ollama, list_path="/api/tags"),
    "lmstudio": Dialect(_lmstudio, list_path="/models"),
    "scripted": Dialect(_scripted),
}


@dataclass(frozen=True, slots=True)
class Service:
    """A provider that is there without any settings."""

    type: ProviderType
    title: str
    base_url: str = ""
    vendor: str = ""
    """As in the catalogue of prices."""
    keys: tuple[str, ...] = ()
    """Variables that may hold its key; the first that is set counts."""
    url_variable: str = ""
    models: tuple[str, ...] = ()
    """Offered to people, and in the catalogue; the first is the default one. Other names are passed on as well."""
    is_local: bool = False
    """It usually runs on this machine, and needs no key."""
    is_gateway: bool = False
    """One of many: told of only when it is set up."""


SERVICES: dict[str, Service] = {
    "anthropic": Service(
        type="anthropic",
        title="Anthropic",
        base_url="https://api.anthropic.com",
        vendor="anthropic",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        url_variable="ANTHROPIC_BASE_URL",
        models=(
            "claude-sonnet-4-5",
            "claude-haiku-4-5",
            "claude-opus-4-5",
            "claude-sonnet-5-5",
            "claude-haiku-5-5",
            "claude-opus-5-5",
        ),
    ),
    "openai": Service(
        type="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        vendor="openai",
        keys=("OPENAI_API_KEY",),
        url_variable="OPENAI_BASE_URL",
        models=OPENAI_MODELS,
    ),
    "gemini": Service(
        type="gemini",
        title="Gemini",
        base_url="https://generativelanguage.googleapis.com",
        vendor="gemini",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_variable="GOOGLE_GEMINI_BASE_URL",
        models=("gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash"),
    ),
    "openrouter": Service(
        type="openai-compatible",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        vendor="openrouter",
        keys=("OPENROUTER_API_KEY",),
        models=("anthropic/claude-sonnet-4.5", "openai/gpt-5.2", "google/gemini-2.5-pro", "qwen/qwen3-coder"),
        is_gateway=True,
    ),
    "groq": Service(
        type="openai-compatible",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        vendor="groq",
        keys=("GROQ_API_KEY",),
        models=("openai/gpt-oss-120b", "openai/gpt-oss-20b", "qwen/qwen3-32b"),
        is_gateway=True,
    ),
    "deepseek": Service(
        type="openai-compatible",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        vendor="deepseek",
        keys=("DEEPSEEK_API_KEY",),
        models=("deepseek-chat", "deepseek-reasoner"),
        is_gateway=True,
    ),
    "mistral": Service(
        type="openai-compatible",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        vendor="mistral",
        keys=("MISTRAL_API_KEY",),
        models=("mistral-large-latest", "mistral-medium-latest", "mistral-small-latest"),
        is_gateway=True,
    ),
    "xai": Service(
        type="openai-compatible",
        title="xAI",
        base_url="https://api.x.ai/v1",
        vendor="x-ai",
        keys=("XAI_API_KEY",),
        models=("grok-4.5", "grok-code-fast-1"),
        is_gateway=True,
    ),
    "ollama": Service(
        type="ollama",
        title="Ollama",
        base_url="http://127.0.0.1:11434",
        url_variable="OLLAMA_HOST",
        is_local=True,
    ),
    "lmstudio": Service(
        type="lmstudio",
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        keys=("LM_API_TOKEN", "LM_STUDIO_API_KEY"),  # its own variable, and the one that its users know from clients
        url_variable="LM_STUDIO_API_BASE",  # it has none of its own; this one is customary in clients
        is_local=True,
    ),
    "llamacpp": Service(
        type="openai-compatible",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        keys=("LLAMA_API_KEY",),  # what its server reads as well
        url_variable="LLAMA_BASE_URL",
        is_local=True,
    ),
    "scripted": Service(type="scripted", title="The script player", models=(DEMO,), is_local=True),
}
"""In the order in which a default is looked for; named providers stand before the local ones."""
