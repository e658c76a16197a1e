"""The search services that are known: how each is asked, and how its answer is read. Pure.

By their public documentation (November 2026): Brave's web search, Tavily's and Exa's search. Whoever has set one of
their keys has chosen it; with several keys the first of the list is used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic_core import to_json

from agentcore.tools.web.fetching import Query
from agentcore.web_address import parse_address

RESULTS = 10
_SNIPPET_CHARS = 1000
_JSON = {"Accept": "application/json"}
_POSTED = {**_JSON, "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for."""

    query: str
    allowed: tuple[str, ...] = ()
    """Domains; results come from these and what is below them alone."""
    blocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Service:
    """One search service."""

    name: str
    key_variable: str
    """Of the environment; holds the key."""
    endpoint: str
    asked: Callable[[str, Wanted, str], Query]
    """Of endpoint, what is wanted, and key."""
    hits: Callable[[Mapping[str, Any]], object]
    """What should be the list of results in an answer, each an object with `title`, `url` and one of `_SNIPPETS`."""


def chosen(environ: Mapping[str, str]) -> tuple[Service, str] | None:
    """The service whose key is there, and the key; None when there is none."""
    for service in SERVICES:
        if key := environ.get(service.key_variable, "").strip():
            return service, key
    return None


def read_hits(service: Service, answer: object) -> list[Hit]:
    """Raises: ValueError for an answer of another shape."""
    if not isinstance(answer, dict):
        raise ValueError("no object")
    try:
        found = service.hits(answer)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("no results in it") from error
    if not isinstance(found, list):
        raise ValueError("no list in it")
    return [hit for one in found if (hit := _hit(one)) is not None]


_SNIPPETS = ("description", "content", "text", "snippet")


def _hit(found: object) -> Hit | None:
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        return None
    said = (found.get(name) for name in _SNIPPETS)
    snippet = next((text for text in said if isinstance(text, str)), "")
    title = found.get("title")
    shown = title if isinstance(title, str) and title else found["url"]
    return Hit(_line(shown)[:300], _line(found["url"])[:2000], _line(snippet)[:_SNIPPET_CHARS])


def _line(text: str) -> str:
    return " ".join(text.split())


# --- the services ---


def _ask_brave(endpoint: str, wanted: Wanted, key: str) -> Query:
    # It has no fields for domains; the operators of its query language are what its documentation names.
    allowed = " OR ".join(f"site:{domain}" for domain in wanted.allowed)
    blocked = [f"-site:{domain}" for domain in wanted.blocked]
    words = " ".join([wanted.query, *([f"({allowed})"] if allowed else []), *blocked])
    query = urlencode({"q": words, "count": RESULTS, "text_decorations": "false"})
    return Query(parse_address(f"{endpoint}?{query}"), headers={**_JSON, "X-Subscription-Token": key})


def _ask_tavily(endpoint: str, wanted: Wanted, key: str) -> Query:
    body: dict[str, Any] = {"query": wanted.query, "max_results": RESULTS}
    if wanted.allowed:
        body["include_domains"] = wanted.allowed
    if wanted.blocked:
        body["exclude_domains"] = wanted.blocked
    return _posted(endpoint, body, {"Authorization": f"Bearer {key}"})


def _ask_exa(endpoint: str, wanted: Wanted, key: str) -> Query:
    body: dict[str, Any] = {
        "query": wanted.query,
        "numResults": RESULTS,
        "contents": {"text": {"maxCharacters": _SNIPPET_CHARS}},
    }
    if wanted.allowed:
        body["includeDomains"] = wanted.allowed
    if wanted.blocked:
        body["excludeDomains"] = wanted.blocked
    return _posted(endpoint, body, {"x-api-key": key})


def _posted(endpoint: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Query:
    data = to_json(body)
    sent = {**_POSTED, **headers, "Content-Length": str(len(data))}
    return Query(parse_address(endpoint), "POST", sent, data)


SERVICES = (
    Service(
        "Brave",
        "BRAVE_API_KEY",
        "https://api.search.brave.com/res/v1/web/search",
        _ask_brave,
        lambda answer: answer.get("web", {}).get("results", []),  # there is no `web` when nothing was found
    ),
    Service("Tavily", "TAVILY_API_KEY", "https://api.tavily.com/search", _ask_tavily, lambda answer: answer["results"]),
    Service("Exa", "EXA_API_KEY", "https://api.exa.ai/search", _ask_exa, lambda answer: answer["results"]),
)

KEY_VARIABLES = frozenset(service.key_variable for service in SERVICES)
"""What no command and no export may see."""
