"""The string that a model may hand to a tool."""

from typing import Annotated

from pydantic import AfterValidator


def _encodable(text: str) -> str:
    """JSON can spell half a surrogate pair; no file and no process can take it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains half of a surrogate pair: not valid text") from None
    return text


Plain = Annotated[str, AfterValidator(_encodable)]
"""Text that can be encoded as UTF-8."""
