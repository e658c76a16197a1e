"""The base of every value that crosses a border: frozen, closed, compared by content.

`frozen` is shallow: nested input (a tool call's arguments) is copied at each crossing.
"""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """An immutable value; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
