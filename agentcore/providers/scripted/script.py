"""What a script file says. YAML or JSON; every field has a default, an unknown one is an error.

    delta_delay_ms: 15            # pause between the pieces of a text, a few words each; 0: word by word, no pause
    turns:                        # one entry for each model call of a run
      - thinking: The file may be there already.
        text: I look first.
        tool_calls:
          - {name: read, input: {file_path: notes.txt}}
      - text: Done.
        usage: {input: 900, output: 12}

Further fields of a turn: `stop` (default `tool_use` with calls, else `end_turn`), `ttft_ms` (wait before the first
piece) and `error: {kind: overloaded, message: ..., retry_after_s: 2}`, which is raised after the turn's text.
With `fail_times: 2` beside it the first two calls fail, before anything is shown, and then the turn is played whole:
how a call is made again. The calls are counted for each session and place in it; a restart counts anew.

A conversation that is compacted is summarised by itself, or with what the file says: `summary: {text: ...}`.

Several stories in one file: `scenes` in the place of `turns`, each with its own `turns` and an optional `match`. The
first scene whose `match` occurs in the prompt is played, upper and lower case alike; one without `match` fits all.

    scenes:
      - match: fail
        turns: [{error: {kind: quota, message: No credit left.}}]
      - turns: [{text: Hello.}]
"""

from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator
from pydantic_core import PydanticSerializationError, from_json

from agentcore.caps import MAX_INPUT_DEPTH, bounded_input
from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.usage import Usage
from agentcore.values import Value

DEMO = "demo"
MAX_SCRIPT_BYTES = 1024 * 1024


class ScriptedCall(Value):
    name: str
    input: dict[str, JsonValue] = Field(default_factory=dict)
    id: str | None = None
    """None: made from the message that is answered, so that it is unique in the session."""

    @field_validator("input")
    @classmethod
    def _is_bounded(cls, input: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if bounded_input(input) is None:
            raise ValueError(f"deeper than {MAX_INPUT_DEPTH} levels, or with a value that JSON cannot hold")
        return input


class ScriptedError(Value):
    kind: ProviderErrorKind
    message: str
    retry_after_s: float | None = None


class ScriptedTurn(Value):
    """One answer of the model."""

    thinking: str = ""
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    stop: str | None = None
    usage: Usage = Usage()
    ttft_ms: float = 0
    error: ScriptedError | None = None
    fail_times: Annotated[int, Field(ge=1)] | None = None
    """How many calls fail with `error` before the turn is played; None: it is played and then fails, each time."""

    @model_validator(mode="after")
    def _fails_with_something(self) -> "ScriptedTurn":
        if self.fail_times is not None and self.error is None:
            raise ValueError("fail_times needs an error")
        return self


class Scene(Value):
    """The turns of one run."""

    match: str | None = None
    turns: tuple[ScriptedTurn, ...]


class Script(Value):
    delta_delay_ms: float = 0
    summary: ScriptedTurn | None = None
    """The answer to the request for a summary; None: one is made of what was said."""
    turns: tuple[ScriptedTurn, ...] = ()
    scenes: tuple[Scene, ...] = ()

    @model_validator(mode="after")
    def _has_one_form(self) -> "Script":
        if bool(self.turns) == bool(self.scenes):
            raise ValueError("a script has either turns or scenes")
        return self

    def scene_for(self, prompt: str) -> Scene | None:
        """Choose what to play for a prompt; None when no scene fits."""
        scenes = self.scenes or (Scene(turns=self.turns),)
        folded = prompt.casefold()
        return next((scene for scene in scenes if (scene.match or "").casefold() in folded), None)


def load_script(model: str) -> Script:
    """Read the built-in script `demo`, or the file of that path. Blocks. Raises: ProviderError."""
    if model == DEMO:
        return parse_script(resources.files(__package__).joinpath("demo.yaml").read_text("utf-8"), "demo")
    path = Path(model)
    try:
        text = _beginning(path)
    except OSError as error:
        said = f"The script {path.name} cannot be read: {error.strerror}. Mend the file or name another."
        raise ProviderError("invalid_request", said) from error
    if text is None:
        raise ProviderError(
            "not_found", f"The scripted provider finds no file {path.name}: use scripted/demo or a path."
        )
    if len(text) > MAX_SCRIPT_BYTES:
        raise ProviderError("invalid_request", f"The script {path.name} has more than {MAX_SCRIPT_BYTES} bytes.")
    return parse_script(text.decode("utf-8", "replace"), path.name)


def _beginning(path: Path) -> bytes | None:
    """One byte more than a script may have, so that a longer one shows; None where there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(MAX_SCRIPT_BYTES + 1)


def parse_script(text: str, name: str) -> Script:
    """Parse JSON or YAML. The error says where, never what: the file need not be a script at all."""
    import yaml  # 10 ms that only users of scripts pay

    try:
        script = Script.model_validate(_value_of(text))
        script.model_dump_json()  # raises where a text cannot be encoded
        return script
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}" if error.problem_mark else "its YAML"
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = f"{'.'.join(str(step) for step in first['loc']) or 'the top'} ({first['msg']})"
    except PydanticSerializationError:
        where = "a text with half of a surrogate pair, which no encoding can hold"
    except (yaml.YAMLError, ValueError, RecursionError):  # dates and numbers that Python has not; endless nesting
        where = "its YAML"
    raise ProviderError(
        "invalid_request", f"The script {name} is wrong at {where}: see agentcore.providers.scripted.script."
    )


def _value_of(text: str) -> object:
    """JSON first: YAML reads a character that JSON escapes as a surrogate pair as two broken halves."""
    import yaml

    try:
        return from_json(text)
    except ValueError:
        return yaml.safe_load(text)
