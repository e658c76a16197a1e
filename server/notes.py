"""What people should know at the start about the model, whether they serve or run: who chose it, and what to do."""

from collections.abc import Iterator

from agentcore.app import App

DEMO = "scripted/demo"


def has_no_model(core: App) -> bool:
    """Nobody chose a model, and none was found: a script would play."""
    return core.config.model is None and core.default_model == DEMO


def how_to_get_a_model() -> str:
    return (
        "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or start Ollama, LM Studio or llama.cpp"
        " (see agentcore models)"
    )


def about_the_choice(core: App) -> Iterator[str]:
    """Say so when the model was not chosen by a person, and why it is not another one."""
    if core.config.model is not None:
        return
    if has_no_model(core):
        yield f"no model that is ready was found, so a script plays: {how_to_get_a_model()}"
    else:
        other = "--model or `model` in settings.toml chooses another"
        yield f"{core.default_model} is the first model that is ready; {other}"
    yield from core.providers.passed_over()
