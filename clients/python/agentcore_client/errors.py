"""What a call or a stream of this client can fail with. A run that fails is none of these: it is a `done` event.

Decide by type, `status` and `code`; the text is for people.
"""

from collections.abc import Mapping

from pydantic import JsonValue


class ClientError(Exception):
    """Base of everything this package raises on purpose."""


class ApiError(ClientError):
    """The server answered, and the answer is no."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, JsonValue] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message
        self.details: dict[str, JsonValue] = dict(details or {})
        self.retry_after_s = retry_after_s
        """Seconds, where the server said when to come back."""


class ConnectionLost(ClientError):
    """The server could not be reached until the retry budget was used up. Says nothing about the run."""


class NoServer(ClientError):
    """No running server is known for the folder."""
