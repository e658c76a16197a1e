"""The user's settings: what counts, what is refused, and what only costs the part that is wrong."""

import os
from pathlib import Path
from typing import Any

import pytest

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import AgentError, BadRequest, ModeNotAllowed, Unprocessable
from agentcore.session import Settings
from agentcore.sessions.store import project_of
from agentcore.settings.choices import Choices
from agentcore.settings.effective import Effective, for_process
from agentcore.settings.private import project_file
from agentcore.settings.providers import ModelNames, NamedProvider, ProviderSection
from agentcore.settings.sources import Sources

SECRET = "sk-very-secret-0123456789"


def read(folder: Path) -> Effective:
    return for_process(Sources(folder, folder / "home"))


def effective(folder: Path, text: str) -> Effective:
    (folder / "settings.toml").write_text(text)
    return read(folder)


def app(folder: Path, text: str, **chosen: object) -> App:
    (folder / "settings.toml").write_text(text)
    places = {"data_dir": folder / "data", "state_dir": folder / "state", "config_dir": folder}
    chosen = {"environ": {}} | chosen
    return App(AppConfig(roots=(folder,), home=folder / "home", **places, **chosen))  # type: ignore[arg-type] # a test's table


def test_no_file_is_no_choice(tmp_path: Path) -> None:
    assert read(tmp_path).choices == Choices()
    assert effective(tmp_path, "") == read(tmp_path / "nowhere")


def test_a_whole_file(tmp_path: Path) -> None:
    text = """
        model = "fast"
        effort = "high"
        mode = "plan"
        fallbacks = ["openai/gpt-5.2", "lab/qwen3"]
        compaction = "keep_recent"
        auto_compact = false
        compact_at = 0.7
        [permissions]
        allow = ["Bash(ls)"]
        [aliases]
        fast = "anthropic/claude-haiku-4-5"
        [providers.lab]
        type = "openai-compatible"
        base_url = "http://127.0.0.1:8080/v1"
        api_key_env = "LAB_KEY"
        context_length = 32768
        [providers.work]
        type = "anthropic"
        api_key_command = "pass show work"
        """
    lab = ProviderSection(
        type="openai-compatible",
        base_url="http://127.0.0.1:8080/v1",
        api_key_env="LAB_KEY",
        context_length=32768,
    )
    work = ProviderSection(type="anthropic", api_key_command="pass show work")
    found = effective(tmp_path, text)
    assert found.choices == Choices(
        model="fast",
        effort="high",
        mode="plan",
        fallbacks=("openai/gpt-5.2", "lab/qwen3"),
        compaction="keep_recent",
        auto_compact=False,
        compact_at=0.7,
    )
    providers = (NamedProvider("lab", lab), NamedProvider("work", work))
    assert found.names == ModelNames(providers, {"fast": "anthropic/claude-haiku-4-5"})
    assert found.notices == ()


REFUSED = {
    'model = "a/b"\nmode = \neffort = "low"': "line 2",
    'model = "a/b"\nmode = ': "at its end",
    "model": "no TOML",
    "\ufeff\x00": "line 1",
    "model = 5": "`model`",
    'mode = "plam"': "`mode`",
    'effort = "extreme"': "`effort`",
    'fallbacks = "openai/gpt-5.2"': "`fallbacks` in settings.toml (line 1) is wrong: it must be a list, such as",
    "fallbacks = [1]": "`fallbacks`",
    'compaction = "off"': "`compaction`",
    "auto_compact = 1": "`auto_compact`",
    "compact_at = 80": "`compact_at`",
    "compact_at = 0.0": "`compact_at`",
}


@pytest.mark.parametrize(("text", "part"), REFUSED.items())
def test_what_decides_how_a_session_works_has_to_be_right(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        effective(tmp_path, text)
    assert part in str(caught.value)
    assert "settings.toml" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_bytes(b'model = "\xff"')
    with pytest.raises(Unprocessable, match=r"settings\.toml"):
        read(tmp_path)
    (tmp_path / "folder" / "settings.toml").mkdir(parents=True)
    with pytest.raises(Unprocessable, match=r"settings\.toml"):
        read(tmp_path / "folder")


BROKEN = {
    f'[providers.lab]\napi_key = "{SECRET}"': "api_key_env",
    f'[providers.lab]\nAPI_KEY = "{SECRET}"': "api_key_env",
    f'[providers.lab]\napi_key_env = "{SECRET}"': "in capitals",
    '[providers.lab]\napi_key_env = "gsk_lowercase"': "in capitals",
    '[providers.lab]\napi_key_env = "A"\napi_key_command = "b"': "one of",
    '[providers.lab]\nbase_ulr = "http://x"': "did you mean `base_url`?",
    '[providers.lab]\ntype = "vertex"': "`type`",
    '[providers.lab]\ncontext_length = "many"': "`context_length`",
    "[providers.lab]\ncontext_length = 0": "`context_length`",
    "[providers.lab]\ncontext_length = true": "`context_length`",
    "[providers.lab]\nbase_url = 7": "`base_url`",
    "[providers]\nlab = 7": "no table",
}


@pytest.mark.parametrize(("text", "part"), BROKEN.items())
def test_a_broken_section_is_told_and_costs_nothing_else(tmp_path: Path, text: str, part: str) -> None:
    whole = f'{text}\n[providers.good]\ntype = "ollama"\n'
    broken, good = effective(tmp_path, whole).names.providers
    assert (broken.name, good) == ("lab", NamedProvider("good", ProviderSection(type="ollama")))
    assert "[providers.lab] in settings.toml" in broken.problem
    assert part in broken.problem
    assert SECRET not in broken.problem


@pytest.mark.parametrize("name", ["a/b", "", "a b", "é", "a" * 41, "-a"])
def test_a_provider_needs_a_name_that_models_can_begin_with(tmp_path: Path, name: str) -> None:
    [broken] = effective(tmp_path, f'[providers."{name}"]\ntype = "ollama"').names.providers
    assert "name" in broken.problem
    assert "/" not in broken.name


def test_what_has_no_effect_is_told(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        'modell = "a/b"\n[aliases]\n"a/b" = "c/d"\nx = "y"\nz = 1\ngood = "c/d"\n',
    )
    modell, *aliases = sorted(found.notices, key=lambda notice: "[aliases]" in notice)
    assert "`modell`" in modell
    assert "`model`" in modell
    assert [notice.split("`")[1] for notice in aliases] == ["a?b", "x", "z"]
    assert found.names.aliases == {"good": "c/d"}
    assert effective(tmp_path, "providers = 3\naliases = 4").notices != ()


MEANT = {"modle": "model", "mdoel": "model", "moed": "mode", "Mode": "mode", "efort": "effort", "fallback": "fallbacks"}


@pytest.mark.parametrize(("key", "meant"), MEANT.items())
def test_a_mistyped_key_is_told_the_right_one(tmp_path: Path, key: str, meant: str) -> None:
    [notice] = effective(tmp_path, f'{key} = "x"').notices
    assert f"(did you mean `{meant}`?)" in notice


# --- what it does to the application ---

CHOSEN = """
    model = "fast"
    mode = "plan"
    effort = "high"
    fallbacks = ["fast", "openai/gpt-5.2"]
    [aliases]
    fast = "anthropic/claude-haiku-4-5"
"""


def test_the_settings_count_where_nothing_was_chosen(tmp_path: Path) -> None:
    found = app(tmp_path, CHOSEN)
    assert found.default_model == "anthropic/claude-haiku-4-5"
    assert found.config.defaults == Settings(mode="plan", effort="high")
    assert found.config.fallbacks == ("anthropic/claude-haiku-4-5", "openai/gpt-5.2")
    assert found.notices == ()


def test_what_was_chosen_wins_over_the_settings(tmp_path: Path) -> None:
    chosen = Settings(mode="default", unattended="deny")
    found = app(tmp_path, CHOSEN, model="scripted/demo", defaults=chosen, fallbacks=("scripted/x",))
    assert found.default_model == "scripted/demo"
    assert found.config.defaults == Settings(mode="default", unattended="deny", effort="high")
    assert found.config.fallbacks == ("scripted/x",)
    assert app(tmp_path, CHOSEN, model="fast").default_model == "anthropic/claude-haiku-4-5"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("environ", "chosen", "expected"),
    [
        ({}, {}, Settings(mode="accept-edits", effort="low", unattended="wait", max_turns=7)),
        (
            {"AGENTCORE_MODE": "deny", "AGENTCORE_EFFORT": "medium"},
            {"effort": "xhigh"},
            Settings(mode="deny", effort="xhigh", unattended="wait", max_turns=7),
        ),
    ],
    ids=["files", "environment and command line"],
)
async def test_a_new_session_starts_from_the_strongest_layer(
    tmp_path: Path, environ: dict[str, str], chosen: dict[str, Any], expected: Settings
) -> None:
    work = tmp_path.resolve()
    private = project_file(tmp_path, project_of(work))
    private.parent.mkdir(parents=True)
    private.write_text('mode = "accept-edits"\neffort = "low"\nunattended = "wait"\nmax_turns = 7')
    user = 'mode = "plan"\neffort = "high"\nunattended = "deny"\nmax_turns = 3'
    found = app(tmp_path, user, environ=environ, defaults=Settings(**chosen))
    assert await found.defaults(work) == expected


WRONG: dict[str, tuple[str, type[AgentError], str]] = {
    "model": ('model = "nobody/x"', BadRequest, "`model` in settings.toml"),
    "fallback": ('fallbacks = ["scripted/x", "gpt"]', BadRequest, "`fallbacks` in settings.toml"),
    "yolo": ('mode = "yolo"', ModeNotAllowed, "--allow-yolo"),
}


@pytest.mark.parametrize(("text", "error", "part"), WRONG.values(), ids=WRONG.keys())
def test_a_choice_that_leads_nowhere_starts_nothing(
    tmp_path: Path, text: str, error: type[AgentError], part: str
) -> None:
    with pytest.raises(error) as caught:
        app(tmp_path, text)
    assert part in str(caught.value)


def test_an_empty_name_is_no_choice_that_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="provider/model"):
        app(tmp_path, CHOSEN, model="")


def test_a_choice_made_here_is_not_blamed_on_the_settings(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        app(tmp_path, CHOSEN, model="nobody/x")
    assert "settings.toml" not in str(caught.value)


def test_a_model_of_a_broken_section_is_named_but_not_refused(tmp_path: Path) -> None:
    found = app(tmp_path, 'model = "lab/x"\n[providers.lab]\napi_key = "sk-123456789"')
    assert found.default_model == "lab/x"
    assert "api_key_env" in str(found.providers.why_not("lab"))
    assert found.notices == (found.providers.why_not("lab"),)


def test_a_repository_changes_none_of_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for folder in (work, work / ".agentcore"):
        folder.mkdir()
        (folder / "settings.toml").write_text('model = "nobody/x"\nmode = "yolo"')
    config = AppConfig(roots=(work,), data_dir=tmp_path, state_dir=tmp_path, config_dir=tmp_path / "config", environ={})
    assert App(config).default_model == "scripted/demo"


def test_a_file_that_is_none_ends_the_start_at_once_with_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    os.mkfifo(file)
    for make, part in [
        (lambda: None, "no regular file"),
        (lambda: file.symlink_to("/dev/zero"), "no regular file"),
        (lambda: file.write_bytes(b"#" * 2_000_000), "larger than"),
        (lambda: file.write_text("a = " + "[" * 3000 + "]" * 3000), "nested too deeply"),
    ]:
        make()
        with pytest.raises(Unprocessable, match=part):
            read(tmp_path)
        file.unlink()


def test_thousands_of_mistakes_are_not_all_told(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("".join(f"x{number} = 1\n" for number in range(5000)))
    notices = read(tmp_path).notices
    assert len(notices) == 21
    assert "4980 more" in notices[-1]
