"""Questions to a person, and what an answer to them must be like. Pure functions over values.

The tool `ask_user` poses them, the pending table offers them to clients, and both have to agree on what counts as an
answer. Field names are those that users' hook scripts read: an answer reaches the tool as `answers` of its input.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from agentcore.caps import safe_text
from agentcore.errors import BadRequest, Unprocessable
from agentcore.values import Value

MAX_QUESTIONS = 4  # the contract's
MAX_OPTIONS = 10
MAX_ANSWER_CHARS = 10_000
CONFIRM = ("yes", "no")
"""The options of a question that has none of its own."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return safe_text(text)


Label = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_said)]
Prompt = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_said)]


class Option(Value):
    label: Label = Field(description="What is chosen, in one to five words.")
    description: str | None = Field(default=None, max_length=1000, description="What choosing it means.")


class Question(Value):
    """One question with a choice: of its options, or of yes and no where it has none."""

    question: Prompt = Field(description="The whole question.")
    header: str = Field(default="", max_length=40, description="A word or two to show above it.")
    options: tuple[Option, ...] = Field(
        default=(), max_length=MAX_OPTIONS, description="Two or more to choose from; none for a yes or no."
    )
    multi_select: bool = Field(default=False, alias="multiSelect", description="Whether several may be chosen.")

    @model_validator(mode="after")
    def _is_a_choice(self) -> Self:
        if len(self.options) == 1:
            raise ValueError("one option is no choice: give two or more, or none for a yes or no")
        if _has_doubles(self.labels):
            raise ValueError("two options have the same label")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(option.label for option in self.options) or CONFIRM


class QuestionsInput(Value):
    """Questions with choices, or one that is answered in words."""

    questions: tuple[Question, ...] = Field(
        default=(), max_length=MAX_QUESTIONS, description="Questions with options to choose from, one to four."
    )
    input: Prompt | None = Field(
        default=None, description="In place of questions: one question that the user answers in words."
    )
    answers: SkipJsonSchema[dict[str, str]] = Field(default={})
    """By question: what the person said. Not the model's to fill in: the answer takes the place of whatever is here."""

    @model_validator(mode="after")
    def _asks_one_way(self) -> Self:
        if bool(self.questions) == (self.input is not None):
            raise ValueError("give either `questions`, one to four, or `input`")
        if _has_doubles([question.question for question in self.questions]):
            raise ValueError("two questions are the same")
        return self


def options_of(input: Mapping[str, JsonValue]) -> tuple[str, ...] | None:
    """What there is to choose from, where one question is asked that has a choice; else None."""
    try:
        asked = QuestionsInput.model_validate(input)
    except ValidationError:  # a tool of somebody's own, which asks in its own way
        return None
    return asked.questions[0].labels if len(asked.questions) == 1 else None


def with_answer(input: Mapping[str, JsonValue], answer: JsonValue) -> dict[str, JsonValue]:
    """The input of the call with what a person answered.

    One question takes its answer itself: a label, or a list of them where several may be chosen; true and false are
    yes and no; what is asked in words takes text. Several questions take a list in their order, or an object by
    question or header. Raises: BadRequest when there is none; Unprocessable, which says what is allowed.
    """
    asked = _read(input)
    if answer is None:
        raise BadRequest(f"A question is answered with `answer`: {_wanted(asked)}. To refuse it send `allow: false`.")
    answers: dict[str, JsonValue] = dict(_answers(asked, answer))
    return {**input, "answers": answers}


def _read(input: Mapping[str, JsonValue]) -> QuestionsInput:
    """Raises: Unprocessable for the input of a tool that asks in its own way."""
    try:
        return QuestionsInput.model_validate(input)
    except ValidationError as error:
        raise Unprocessable("This request takes no `answer`: send `updated_input`, or `allow: false`.") from error


def _answers(asked: QuestionsInput, answer: JsonValue) -> dict[str, str]:
    if asked.input is not None:
        return {asked.input: _text(answer)}
    questions = asked.questions
    if isinstance(answer, dict):
        given = [_named(question, answer, questions) for question in questions]
        if unknown := answer.keys() - {question.question for question in questions} - {q.header for q in questions}:
            raise Unprocessable(f"`answer` names a question that was not asked: {sorted(unknown)[0][:80]!r}.")
    elif len(questions) == 1:
        given = [answer]
    elif isinstance(answer, list) and len(answer) == len(questions):
        given = answer
    else:
        raise Unprocessable(f"`answer` does not fit: send {_wanted(asked)}.")
    return {question.question: _choice(question, one) for question, one in zip(questions, given, strict=True)}


def _named(question: Question, answer: Mapping[str, JsonValue], all_of_them: Sequence[Question]) -> JsonValue:
    """The answer to one question, by its text, or by its header where that is its own."""
    if question.question in answer:
        return answer[question.question]
    is_own = sum(other.header == question.header for other in all_of_them) == 1
    if question.header and is_own and question.header in answer:
        return answer[question.header]
    raise Unprocessable(f"`answer` lacks an answer to {question.question[:80]!r}.")


def _choice(question: Question, answer: JsonValue) -> str:
    if isinstance(answer, bool) and not question.options:
        return CONFIRM[0] if answer else CONFIRM[1]
    chosen = answer if isinstance(answer, list) and question.multi_select else [answer]
    labels = [label for label in chosen if isinstance(label, str) and label in question.labels]
    if len(labels) < len(chosen) or not labels or _has_doubles(labels):
        raise Unprocessable(f"The answer to {question.question[:80]!r} does not fit: send {_wanted_of(question)}.")
    return ", ".join(label for label in question.labels if label in labels)


def _text(answer: JsonValue) -> str:
    if not isinstance(answer, str) or not answer.strip() or len(answer) > MAX_ANSWER_CHARS:
        raise Unprocessable(f"`answer` must be a text of at most {MAX_ANSWER_CHARS:,} characters, and not empty.")
    return safe_text(answer)


def _wanted(asked: QuestionsInput) -> str:
    if asked.input is not None:
        return "a text"
    if len(asked.questions) == 1:
        return _wanted_of(asked.questions[0])
    each = "; ".join(_wanted_of(question) for question in asked.questions)
    return f"a list with one answer to each question, in their order ({each}), or an object by question"


def _wanted_of(question: Question) -> str:
    labels = ", ".join(repr(label) for label in question.labels)
    return f"a list of {labels}" if question.multi_select else f"one of {labels}"


def _has_doubles(texts: Sequence[str]) -> bool:
    return any(count > 1 for count in Counter(texts).values())
