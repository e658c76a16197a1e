"""Names of models lead to providers, and what is missing is said before a prompt fails."""

import re
import subprocess
import sys
from typing import get_args

import pytest

from agentcore.environment import command_environ
from agentcore.errors import BadRequest, ProviderError
from agentcore.messages import Message, Text
from agentcore.ports.models import ModelRequest
from agentcore.providers.answers import HttpProvider
from agentcore.providers.catalogue import context_window
from agentcore.providers.registry import ModelStatus, Providers, ProviderStatus
from agentcore.providers.setups import Setup, ollama_url, set_up
from agentcore.providers.vendors import DIALECTS, SERVICES
from agentcore.settings.providers import ModelNames, NamedProvider, ProviderSection, ProviderType

pytestmark = pytest.mark.anyio

KEY = {"ANTHROPIC_API_KEY": "sk-ant-test"}
SECRET = "sk-very-secret-0123456789"


def named(name: str, **section: object) -> ModelNames:
    return ModelNames(providers=(NamedProvider(name, ProviderSection.model_validate(section)),))


def setup_of(name: str, environ: dict[str, str], configuration: ModelNames | None = None) -> Setup:
    return next(one for one in set_up(environ, (configuration or ModelNames()).providers) if one.name == name)


# --- names ---


@pytest.mark.parametrize(
    ("model", "parsed"),
    [
        ("anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("openrouter/anthropic/claude-sonnet-4.5", ("openrouter", "anthropic/claude-sonnet-4.5")),
        ("scripted/demo", ("scripted", "demo")),
        ("scripted//srv/a b/script.yaml", ("scripted", "/srv/a b/script.yaml")),
        ("lab/qwen3", ("lab", "qwen3")),
        ("fast", ("anthropic", "claude-haiku-4-5")),
    ],
)
def test_a_model_is_named_provider_slash_model_or_by_its_short_name(model: str, parsed: tuple[str, str]) -> None:
    lab = named("lab", type="openai-compatible", base_url="http://127.0.0.1:9/v1").providers
    providers = Providers({}, ModelNames(aliases={"fast": "anthropic/claude-haiku-4-5"}, providers=lab))
    assert providers.parse(model) == parsed
    assert providers.full_name(model) == "/".join(parsed)


@pytest.mark.parametrize("model", ["", "claude-sonnet-4-5", "anthropic/", "/demo", "nobody/x", "Anthropic/x", "lost"])
def test_a_name_that_leads_nowhere_says_which_do(model: str) -> None:
    providers = Providers({}, ModelNames(aliases={"lost": "nobody/x"}))
    with pytest.raises(BadRequest, match=r"anthropic, openai, gemini, .*ollama, lmstudio, llamacpp, scripted"):
        providers.parse(model)


def test_short_names_are_told_where_one_was_mistyped() -> None:
    with pytest.raises(BadRequest, match="fast"):
        Providers({}, ModelNames(aliases={"fast": "anthropic/x"})).parse("fats")


MEANT = {
    "claude-sonnet-4-5": "anthropic/claude-sonnet-4-5",
    "claude-sonet-4-5": "anthropic/claude-sonnet-4-5",
    "gpt-6.1-soll": "openai/gpt-6.1-sol",
    "antropic/claude-sonnet-4-5": "anthropic/claude-sonnet-4-5",
    "Anthropic/mine": "anthropic/mine",
    "grok/grok-4.5": "groq/grok-4.5",
    "google/gemini-2.5-pro": "gemini/gemini-2.5-pro",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "anthropic/": "anthropic/claude-sonnet-4-5",
    "/demo": "scripted/demo",
    "lba/qwen3": "lab/qwen3",
    "lab": "lab/<model>",
    "fats": "fast",
    "fast/": "fast",
}


@pytest.mark.parametrize(("model", "meant"), MEANT.items())
def test_a_name_that_is_nearly_right_is_told_the_right_one(model: str, meant: str) -> None:
    lab = named("lab", type="openai-compatible", base_url="http://127.0.0.1:9/v1").providers
    providers = Providers({}, ModelNames(aliases={"fast": "anthropic/claude-haiku-4-5"}, providers=lab))
    with pytest.raises(BadRequest, match=re.escape(f"(did you mean {meant}?)")):
        providers.parse(model)


@pytest.mark.parametrize("model", ["", "zzz", "nobody/x"])
def test_nothing_is_guessed_where_nothing_is_near(model: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Providers({}).parse(model)
    assert "did you mean" not in str(caught.value)


def test_every_provider_is_made_once_under_its_own_name() -> None:
    providers = Providers({}, named("mine", type="scripted"))
    for name in (*SERVICES, "mine"):
        assert providers.get(name) is providers.get(name)
        assert providers.get(name).name == name
    with pytest.raises(BadRequest, match=r"nobody"):
        providers.get("nobody")


def test_every_type_of_the_settings_has_its_way_of_talking() -> None:
    assert set(DIALECTS) == set(get_args(ProviderType))


# --- the environment ---

ENVIRONMENT = [
    ({}, "anthropic", "https://api.anthropic.com", False),
    (KEY, "anthropic", "https://api.anthropic.com", True),
    ({"ANTHROPIC_AUTH_TOKEN": "t"}, "anthropic", "https://api.anthropic.com", True),
    ({"ANTHROPIC_API_KEY": " "}, "anthropic", "https://api.anthropic.com", False),
    ({**KEY, "ANTHROPIC_BASE_URL": "https://gw.example/x/"}, "anthropic", "https://gw.example/x", True),
    ({"OPENAI_API_KEY": "k"}, "openai", "https://api.openai.com/v1", True),
    ({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "openai", "http://127.0.0.1:9/v1", True),
    ({"OPENAI_BASE_URL": "https://gw.example/v1"}, "openai", "https://gw.example/v1", False),
    ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "gw.example"}, "openai", "gw.example", False),
    ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://a:pw@gw.example"}, "openai", "https://a:pw@gw.example", False),
    ({"GEMINI_API_KEY": "k"}, "gemini", "https://generativelanguage.googleapis.com", True),
    ({"GOOGLE_API_KEY": "k"}, "gemini", "https://generativelanguage.googleapis.com", True),
    ({"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "https://gw.example"}, "gemini", "https://gw.example", True),
    ({"OPENROUTER_API_KEY": "k"}, "openrouter", "https://openrouter.ai/api/v1", True),
    ({"GROQ_API_KEY": "k"}, "groq", "https://api.groq.com/openai/v1", True),
    ({"DEEPSEEK_API_KEY": "k"}, "deepseek", "https://api.deepseek.com/v1", True),
    ({"MISTRAL_API_KEY": "k"}, "mistral", "https://api.mistral.ai/v1", True),
    ({"XAI_API_KEY": "k"}, "xai", "https://api.x.ai/v1", True),
    ({"OPENAI_API_KEY": "k"}, "groq", "https://api.groq.com/openai/v1", False),
    ({}, "lmstudio", "http://127.0.0.1:1234/v1", True),
    ({"LM_STUDIO_API_BASE": "http://localhost:9"}, "lmstudio", "http://localhost:9/v1", True),
    ({}, "llamacpp", "http://127.0.0.1:8080/v1", True),
    ({"LLAMA_BASE_URL": "http://127.0.0.1:9/"}, "llamacpp", "http://127.0.0.1:9/v1", True),
    ({"LLAMA_BASE_URL": "http://127.0.0.1:9/api"}, "llamacpp", "http://127.0.0.1:9/api", True),
    ({"OLLAMA_HOST": ":9"}, "ollama", "http://127.0.0.1:9", True),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "name", "url", "is_complete"), ENVIRONMENT)
def test_the_vendors_own_variables_count(environ: dict[str, str], name: str, url: str, is_complete: bool) -> None:
    setup = setup_of(name, environ)
    assert (setup.endpoint.base_url, setup.why_not() is None) == (url, is_complete)


NO_ADDRESSES = [
    ("ollama", {"OLLAMA_HOST": "https://u:password@box.lan"}),
    ("ollama", {"OLLAMA_HOST": "u:password@box.lan:11434"}),
    ("ollama", {"OLLAMA_HOST": "box.lan:99999"}),
    ("ollama", {"OLLAMA_HOST": "0.0.0.0:abc"}),
    ("ollama", {"OLLAMA_HOST": "box.lan:0"}),
    ("openai", {"OPENAI_BASE_URL": "http://127.0.0.1:99999999/v1"}),
    ("anthropic", {"ANTHROPIC_BASE_URL": "https://box.lan:port"}),
    ("lmstudio", {"LM_STUDIO_API_BASE": "http://127.0.0.1:-1"}),
]


@pytest.mark.parametrize(("name", "environ"), NO_ADDRESSES)
def test_an_address_that_makes_no_sense_is_told_and_no_other_one_taken(name: str, environ: dict[str, str]) -> None:
    ((variable, _),) = environ.items()
    setup = setup_of(name, {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", **environ})
    problem = setup.why_not() or ""
    assert (variable in problem, "password@" in problem, setup.is_asked) == (True, False, False)


OWN = [
    ("anthropic", {}, {}, True),
    ("anthropic", {"ANTHROPIC_BASE_URL": "https://gw.example"}, {}, True),
    ("anthropic", {}, {"anthropic": {"api_key_env": "K"}}, True),
    ("anthropic", {}, {"anthropic": {"base_url": "https://gw.example"}}, False),
    ("openai", {}, {}, True),
    ("openai", {}, {"openai": {"type": "openai-compatible"}}, False),
    ("openai", {}, {"openai": {"type": "openai", "api_key_env": "K"}}, True),
    ("groq", {}, {}, False),
    ("lab", {}, {"lab": {"type": "openai", "base_url": "https://api.openai.com/v1"}}, False),
    ("lab", {}, {"lab": {"type": "anthropic"}}, False),
]


@pytest.mark.parametrize(("name", "environ", "sections", "is_own"), OWN)
def test_only_a_built_in_service_at_its_own_address_gets_what_else_is_meant_for_its_vendor(
    name: str, environ: dict[str, str], sections: dict[str, dict[str, object]], is_own: bool
) -> None:
    ((section, fields),) = sections.items() or [("other", {"type": "scripted"})]
    assert setup_of(name, environ, named(section, **fields)).endpoint.is_vendors_own is is_own


WITHOUT_PATH = [
    ("openai-compatible", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
    ("openai-compatible", "http://localhost:8000/", "http://localhost:8000/v1"),
    ("openai-compatible", "http://127.0.0.1:8000/api", "http://127.0.0.1:8000/api"),
    ("openai-compatible", "https://gw.example", "https://gw.example"),
    ("lmstudio", "http://[::1]:1234", "http://[::1]:1234/v1"),
    ("anthropic", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    ("ollama", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
]


@pytest.mark.parametrize(("kind", "given", "url"), WITHOUT_PATH)
def test_an_address_on_this_machine_may_lack_the_path_that_all_have(kind: str, given: str, url: str) -> None:
    assert setup_of("lab", {}, named("lab", type=kind, base_url=given)).endpoint.base_url == url


HOSTS = {
    "0.0.0.0": "http://127.0.0.1:11434",
    "127.0.0.1": "http://127.0.0.1:11434",
    "localhost:8000": "http://localhost:8000",
    ":11435": "http://127.0.0.1:11435",
    "0.0.0.0:11435": "http://127.0.0.1:11435",
    "box.lan": "http://box.lan:11434",
    "http://box.lan": "http://box.lan:80",
    "https://box.lan": "https://box.lan:443",
    "https://box.lan:1/ollama/": "https://box.lan:1/ollama",
    "[::1]:7": "http://[::1]:7",
    "::1": "http://[::1]:11434",
    "[::]": "http://[::1]:11434",
    "//box.lan": "http://box.lan:11434",
    # What makes no sense stays, and is told as a problem; no other address is taken in its place.
    "box.lan:many": "http://box.lan:many",
    "box.lan:99999": "http://box.lan:99999",
    "https://u:password@box.lan": "https://u:password@box.lan",
    "u:password@box.lan:80": "http://u:password@box.lan:80",
    " 127.0.0.1 ": "http://127.0.0.1:11434",
    "https://": "https://127.0.0.1:443",
}


@pytest.mark.parametrize(("host", "url"), HOSTS.items())
def test_the_forms_of_ollama_host(host: str, url: str) -> None:
    assert ollama_url(host) == url


# --- sections of the settings ---


def test_a_named_provider_is_what_its_section_says() -> None:
    section = {"type": "openai-compatible", "base_url": "https://lab.example/v1/", "api_key_env": "LAB_KEY"}
    setup = setup_of("lab", {"LAB_KEY": SECRET}, named("lab", **section, context_length=32768))
    assert (setup.endpoint.base_url, setup.endpoint.context_length) == ("https://lab.example/v1", 32768)
    assert setup.endpoint.key.secrets == (SECRET,)
    assert setup.why_not() is None
    assert "LAB_KEY" in str(setup_of("lab", {}, named("lab", **section)).why_not())


async def test_a_command_gives_the_key_and_runs_only_when_the_key_is_needed() -> None:
    section = {"type": "anthropic", "api_key_command": f"echo {SECRET}"}
    setup = setup_of("work", {}, named("work", **section))
    assert (setup.why_not(), setup.endpoint.key.secrets) == (None, ())
    assert await setup.endpoint.key.read() == SECRET


@pytest.mark.parametrize(
    ("name", "section", "part"),
    [
        ("lab", {"base_url": "http://127.0.0.1:1"}, "type"),
        ("lab", {"type": "openai-compatible"}, "base_url"),
        ("lab", {"type": "openai-compatible", "base_url": "127.0.0.1:8080"}, "base_url of [providers.lab]"),
        ("lab", {"type": "openai-compatible", "base_url": "https://me:pw@lab.example"}, "api_key_env"),
        ("work", {"type": "anthropic"}, "api_key_env of [providers.work]"),
        ("openai", {"base_url": "https://gw.example/v1"}, "OPENAI_API_KEY"),
    ],
)
def test_what_a_section_lacks_is_said(name: str, section: dict[str, str], part: str) -> None:
    why_not = str(setup_of(name, KEY, named(name, **section)).why_not())
    assert part in why_not
    assert "pw" not in why_not


async def test_a_broken_section_is_a_provider_that_fails_with_its_reason_and_the_rest_works() -> None:
    broken = NamedProvider("lab", problem="[providers.lab] in settings.toml cannot be used: so.")
    providers = Providers(KEY, ModelNames(providers=(broken,)))
    assert providers.status("lab") == ProviderStatus("lab", (), ready=False, why_not=broken.problem)
    assert providers.notices() == [broken.problem]
    assert providers.default_model().startswith("anthropic/")
    request = ModelRequest("m", "", (), [Message(id="u0", role="user", content=(Text(text="go"),))])
    with pytest.raises(ProviderError, match=r"cannot be used: so\."):
        async with providers.get("lab").stream(request):
            pass


def test_a_section_with_the_name_of_a_built_in_one_changes_it_and_wins_over_the_environment() -> None:
    section = {"base_url": "https://gw.example", "api_key_env": "WORK"}
    environ = {**KEY, "ANTHROPIC_BASE_URL": "https://elsewhere.example", "WORK": SECRET}
    setup = setup_of("anthropic", environ, named("anthropic", **section))
    assert (setup.type, setup.endpoint.base_url) == ("anthropic", "https://gw.example")
    assert setup.endpoint.key.secrets == (SECRET,)
    assert [one.name for one in set_up(environ, named("anthropic", **section).providers)].count("anthropic") == 1


def test_no_vendors_key_goes_to_a_named_providers_address() -> None:
    section = {"type": "anthropic", "base_url": "https://elsewhere.example"}
    assert setup_of("lab", KEY, named("lab", **section)).endpoint.key.secrets == ()


def test_a_key_over_plain_http_to_another_machine_is_told() -> None:
    section = {"type": "openai-compatible", "api_key_env": "K"}
    for url, count in {"http://10.0.0.5/v1": 1, "https://10.0.0.5/v1": 0, "http://127.0.0.1/v1": 0}.items():
        notices = Providers({"K": SECRET}, named("lab", **section, base_url=url)).notices()
        assert ["provider lab" in notice and "unencrypted" in notice for notice in notices] == [True] * count
    open_door = named("lab", type="openai-compatible", base_url="http://10.0.0.5/v1")
    assert Providers({}, open_door).notices() == []


def test_what_was_set_up_wrongly_is_told_at_the_start_and_what_only_lacks_its_key_is_not() -> None:
    lab = {"type": "openai-compatible", "base_url": "localhost:9/v1"}
    wrong = "has no usable address: give base_url of [providers.{}] in settings.toml as http://… or https://…"
    assert Providers({}, named("lab", **lab)).notices() == [f"provider lab {wrong.format('lab')}"]
    assert Providers({}, named("openai", base_url="gw.example")).notices() == [f"OpenAI {wrong.format('openai')}"]
    assert len(Providers({"OPENAI_BASE_URL": "gw.example"}).notices()) == 1
    assert Providers({}, named("lab", type="anthropic", api_key_env="LAB")).notices() == []
    assert Providers({}, named("play", type="scripted")).notices() == []


def test_a_short_name_that_leads_to_no_provider_is_told_at_the_start() -> None:
    aliases = {"good": "openai/x", "lost": "opemai/x"}
    [notice] = Providers({}, ModelNames(aliases=aliases)).notices()
    assert notice.startswith("`lost` in [aliases] of settings.toml leads nowhere: ")
    assert "(did you mean openai/x?)" in notice


# --- the choice ---

LOCAL_LAB = named("lab", type="openai-compatible", base_url="http://127.0.0.1:9/v1")
CHOICES = [
    ({}, None, "scripted/demo"),
    (KEY, None, "anthropic/claude-sonnet-4-5"),
    ({"OPENAI_API_KEY": "k", **KEY}, None, "anthropic/claude-sonnet-4-5"),
    ({"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, None, "openai/gpt-6.1-sol"),
    ({"GEMINI_API_KEY": "k", "GROQ_API_KEY": "k"}, None, "gemini/gemini-3.8-flash"),
    ({"GROQ_API_KEY": "k"}, named("work", type="anthropic", api_key_env="W"), "groq/openai/gpt-oss-120b"),
    ({"W": "k"}, named("work", type="anthropic", api_key_env="W"), "work/claude-sonnet-4-5"),
    ({}, named("work", type="anthropic", api_key_env="W"), "scripted/demo"),
    ({}, LOCAL_LAB, "scripted/demo"),
    ({}, named("openai", type="openai-compatible", base_url="http://127.0.0.1:9/v1"), "scripted/demo"),
]


@pytest.mark.parametrize(("environ", "configuration", "model"), CHOICES)
def test_the_default_is_the_first_provider_with_a_key_else_the_demo(
    environ: dict[str, str], configuration: ModelNames | None, model: str
) -> None:
    assert Providers(environ, configuration).default_model() == model


REMOTE_LAB = named("lab", type="openai-compatible", base_url="https://lab.example/v1")
UNCHOSEN = "{0} is ready, but no model of it is chosen: --model {0}/<model>, or `model` in settings.toml"
PASSED_OVER: list[tuple[dict[str, str], ModelNames | None, list[str]]] = [
    ({}, None, []),
    (KEY, None, []),
    (
        {**KEY, "ANTHROPIC_BASE_URL": "gw.example"},
        None,
        ["Anthropic has no usable address: give ANTHROPIC_BASE_URL as http://… or https://…"],
    ),
    (
        {"OPENAI_API_KEY": "ké", **KEY},
        None,
        ["OpenAI is not ready: OPENAI_API_KEY holds characters that no key has: copy it again."],
    ),
    (
        {"OPENAI_BASE_URL": "https://gw.example"},
        None,
        ["OpenAI is not ready: it needs a key: set OPENAI_API_KEY."],
    ),
    (
        {},
        named("work", type="anthropic", api_key_env="W"),
        ["provider work is not ready: it needs a key: set W."],
    ),
    ({}, REMOTE_LAB, [UNCHOSEN.format("lab")]),
    ({"OLLAMA_HOST": "https://box.example"}, None, [UNCHOSEN.format("ollama")]),
    (KEY, REMOTE_LAB, []),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "configuration", "told"), PASSED_OVER)
def test_whoever_chose_no_model_is_told_why_what_he_set_up_was_not_taken(
    environ: dict[str, str], configuration: ModelNames | None, told: list[str]
) -> None:
    assert list(Providers(environ, configuration).passed_over()) == told


def test_a_server_on_this_machine_that_was_set_up_and_does_not_answer_is_told_as_well() -> None:
    providers = Providers({"OLLAMA_HOST": "127.0.0.1:1"}, named("lab", type="ollama", base_url="http://127.0.0.1:1"))
    providers.choose()
    assert list(providers.passed_over()) == [
        "provider lab does not answer at http://127.0.0.1:1: start it, or correct base_url of [providers.lab] in"
        " settings.toml.",
        "Ollama does not answer at http://127.0.0.1:1: start it, or correct OLLAMA_HOST.",
    ]


def test_what_is_not_ready_says_why() -> None:
    statuses = {one.name: one for one in Providers({}).describe()}
    assert list(statuses) == ["anthropic", "openai", "gemini", "ollama", "lmstudio", "llamacpp", "scripted"]
    assert [name for name, one in statuses.items() if one.ready] == ["scripted"]
    for name, variable in {
        "anthropic": "ANTHROPIC_API_KEY",
        "openai": "OPENAI_API_KEY",
        "gemini": "GEMINI_API_KEY",
    }.items():
        assert variable in str(statuses[name].why_not)
    assert statuses["scripted"] == ProviderStatus("scripted", ("demo",), ready=True, why_not=None)


def test_a_gateway_is_told_of_once_it_has_a_key() -> None:
    names = [one.name for one in Providers({"GROQ_API_KEY": "k"}).describe()]
    assert names[:4] == ["anthropic", "openai", "gemini", "groq"]
    assert "xai" not in names


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if service.vendor])
def test_every_model_that_is_offered_has_a_price(name: str) -> None:
    for model in Providers({}).models(name):
        assert model.input_usd, model
        assert model.output_usd, model


def test_the_windows_of_a_vendors_pages_count_where_the_catalogue_has_none() -> None:
    assert context_window("gemini", "gemini-2.5-pro") is None
    assert {model.context_window for model in Providers({}).models("gemini")} <= {1_000_000, 1_048_576}


def test_a_window_of_the_settings_wins_and_a_host_that_is_known_has_prices() -> None:
    section = {"type": "openai-compatible", "base_url": "https://api.groq.com/openai/v1", "context_length": 1000}
    providers = Providers({}, named("lab", **section))
    provider = providers.get("lab")
    assert provider.context_window("openai/gpt-oss-120b") == 1000
    assert isinstance(provider, HttpProvider)
    assert provider.endpoint.vendor == "groq"
    assert Providers({}, named("anthropic", context_length=5)).models("anthropic")[0] == ModelStatus(
        "claude-sonnet-4-5", 5, 3.0, 15.0
    )


# --- secrets ---


def test_the_variables_that_hold_keys_are_known_and_kept_from_commands() -> None:
    known = Providers({}, named("lab", type="openai-compatible", base_url="http://x", api_key_env="LAB")).key_variables
    built_in = {variable for service in SERVICES.values() for variable in service.keys}
    assert known == built_in | {"LAB"}
    assert command_environ(dict.fromkeys((*built_in, "ANTHROPIC_CUSTOM_HEADERS"), "x")) == {}


def test_no_key_is_in_anything_that_is_told() -> None:
    section = {"type": "openai-compatible", "base_url": "http://127.0.0.1:9", "api_key_env": "LAB"}
    environ = dict.fromkeys((*Providers({}).key_variables, "LAB"), SECRET)
    providers = Providers(environ, named("lab", **section))
    made = [providers.get(name) for name in (*SERVICES, "lab")]
    told = [providers.describe(), providers.notices(), providers.choose(), made, set_up(environ, ())]
    assert SECRET not in repr(told)


# --- its life ---


async def test_closing_twice_is_harmless() -> None:
    providers = Providers(KEY)
    provider = providers.get("anthropic")
    await provider.warm()
    await providers.close()
    await providers.close()
    assert providers.get("anthropic") is not provider


async def test_whoever_asked_is_told_that_a_client_is_being_loaded() -> None:
    entered = []

    class Loading:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    providers = Providers(KEY, loading=Loading)
    await providers.get("anthropic").warm()
    await providers.get("anthropic").warm()
    assert entered == ["in", "out"]
    await providers.close()


def test_the_registry_loads_no_sdk() -> None:
    code = (
        "import sys; from agentcore.providers.registry import Providers;"
        "Providers({'ANTHROPIC_API_KEY': 'k'}).describe();"
        "late = ('anthropic', 'openai', 'google.genai', 'httpx', 'httpx2', 'yaml', 'http.client');"
        "print([m for m in late if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
