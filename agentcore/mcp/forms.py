"""The form that a server wants filled in (elicitation), as questions to a person, and what came back as its values.

Pure functions. A form has fields of simple kinds; one that has others is not for us, and is declined.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentcore.caps import safe_text
from agentcore.questions import CONFIRM, MAX_OPTIONS, MAX_QUESTIONS, Option, Question, QuestionsInput

MAX_FIELDS = 12
LEAVE_OUT = "(leave it out)"
"""The option for a field that need not be filled in; where one answers in words, a dash says so."""
_DASH = "-"

Value: TypeAlias = str | int | float | bool | list[str] | None


class BadForm(ValueError):
    """It cannot be put as questions."""


class BadAnswer(ValueError):
    """An answer is none for its field; `str(error)` is a sentence for the person."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: str
    """`string`, `number`, `integer`, `boolean` or `array`."""
    text: str
    """The question."""
    choices: tuple[tuple[str, str], ...] = ()
    """Value and label of each."""
    is_required: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether it is answered by choosing, not in words."""
        count = len(self.choices) + (not self.is_required)
        return self.kind == "boolean" or 2 <= count <= MAX_OPTIONS


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Raises: BadForm."""
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list) or len(properties) > MAX_FIELDS:
        raise BadForm
    return tuple(_field(name, one, is_required=name in required) for name, one in properties.items())


def _field(name: str, schema: Any, *, is_required: bool) -> Field:
    if not isinstance(schema, dict):
        raise BadForm
    kind, choices = schema.get("type", "string"), _choices(schema)
    if kind == "array":
        items = schema.get("items")
        choices = _choices(items) if isinstance(items, dict) else ()
        if not choices:
            raise BadForm
    elif kind not in ("string", "number", "integer", "boolean"):
        raise BadForm
    title, more = schema.get("title") or name, schema.get("description")
    text = _line(f"{title}: {more}" if more and more != title else title)
    return Field(name, kind, text or "?", choices, is_required)


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    named = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(named, list):
        pairs = [(one.get("const"), one.get("title")) for one in named if isinstance(one, dict)]
    else:
        values, titles = schema.get("enum"), schema.get("enumNames")
        if not isinstance(values, list):
            return ()
        labels = titles if isinstance(titles, list) and len(titles) == len(values) else values
        pairs = list(zip(values, labels, strict=True))
    found = {value: _line(str(label or value))[:200] or value for value, label in pairs if isinstance(value, str)}
    if len(set(found.values())) < len(found):
        found = {value: value[:200] for value in found}
    return tuple((value, label) for value, label in found.items() if value.strip())


# --- asking ---


def rounds(fields: Sequence[Field]) -> Iterator[tuple[Field, ...]]:
    """What is asked at once: a few that are chosen from, or one that is answered in words."""
    chosen = [field for field in fields if field.is_choice]
    for start in range(0, len(chosen), MAX_QUESTIONS):
        yield tuple(chosen[start : start + MAX_QUESTIONS])
    yield from ((field,) for field in fields if not field.is_choice)


def questions(fields: Sequence[Field], objection: str = "") -> QuestionsInput:
    """The questions of one round. `objection` says what was wrong with the last answer."""
    if not fields[0].is_choice:
        return QuestionsInput(input=_in_words(fields[0], objection))
    texts = _told_apart(fields)
    return QuestionsInput(
        questions=tuple(_question(field, text) for field, text in zip(fields, texts, strict=True)),
    )


def _question(field: Field, text: str) -> Question:
    labels = [label for _, label in field.choices] or (list(CONFIRM) if field.kind == "boolean" else [])
    labels += [] if field.is_required else [LEAVE_OUT]
    return Question.model_validate(
        {
            "question": text,
            "options": tuple(Option(label=label) for label in labels),
            "multiSelect": field.kind == "array",
        }
    )


def _in_words(field: Field, objection: str) -> str:
    parts = [objection, field.text]
    if field.choices:
        parts.append(f"One of: {', '.join(label for _, label in field.choices)}.")
    elif field.kind in ("number", "integer"):
        parts.append(f"({field.kind})")
    if not field.is_required:
        parts.append(f"({_DASH} leaves it out)")
    return " ".join(part for part in parts if part)[:2000]


def _told_apart(fields: Sequence[Field]) -> list[str]:
    texts = [field.text for field in fields]
    return [
        text if texts.count(text) == 1 else f"{text} ({field.name})"[:2000]
        for field, text in zip(fields, texts, strict=True)
    ]


# --- answers ---


def values(fields: Sequence[Field], answers: Mapping[str, Any]) -> dict[str, Value]:
    """What was answered in one round, by field. Raises: BadAnswer."""
    if not fields[0].is_choice:
        word = next((text for text in answers.values() if isinstance(text, str)), "")
        return _worded(fields[0], word.strip())
    found: dict[str, Value] = {}
    for field, text in zip(fields, _told_apart(fields), strict=True):
        said = answers.get(text)
        if isinstance(said, str) and said != LEAVE_OUT:
            found[field.name] = _chosen(field, said)
    return found


def _chosen(field: Field, said: str) -> Value:
    if field.kind == "boolean":
        return said == CONFIRM[0]
    by_label = {label: value for value, label in field.choices}
    if field.kind != "array":
        return by_label.get(said, said)
    found = []
    for value, label in field.choices:  # answers come in the order of the options, joined by ", "
        if said == label or said.startswith(f"{label}, "):
            found.append(value)
            said = said[len(label) + 2 :]
    return found


def _worded(field: Field, said: str) -> dict[str, Value]:
    if said == _DASH and not field.is_required:
        return {}
    if field.choices:
        by_word = {word: value for value, label in field.choices for word in (value, label)}
        if field.kind == "array":
            picked = [by_word.get(part.strip()) for part in said.split(",")]
            if None in picked:
                raise BadAnswer("Name some of the values, with commas between them.")
            return {field.name: [one for one in picked if one is not None]}
        if said not in by_word:
            raise BadAnswer("Name one of the values.")
        return {field.name: by_word[said]}
    if field.kind not in ("number", "integer"):
        return {field.name: said}
    try:
        number = int(said) if field.kind == "integer" else float(said)
    except ValueError:
        raise BadAnswer(f"That is no {field.kind}.") from None
    if not math.isfinite(number):
        raise BadAnswer(f"That is no {field.kind}.")
    return {field.name: number}


def _line(text: object) -> str:
    return " ".join(safe_text(str(text)).split())[:1500]
