"""A story as one page that needs nothing else: no script, no font, no network. All text in it is escaped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape

from agentcore.tracing.timeline import Kind, Node

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What a browser may do for the page."""
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c33; --soft: light-dark(#666, #aaa); }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .sum { color: var(--soft); }
details { border-left: 3px solid var(--line); margin: .25rem 0; padding: .1rem 0 .1rem .7rem; }
summary { cursor: pointer; display: flex; gap: .8rem; align-items: baseline; }
summary::-webkit-details-marker { display: none; }
.at { color: var(--soft); font-variant-numeric: tabular-nums; min-width: 5.5rem; }
.kind { font-weight: 600; min-width: 6rem; } .title { overflow-wrap: anywhere; flex: 1; }
.fact, .ms { color: var(--soft); white-space: nowrap; }
.bad > summary .kind, .bad > summary .title { color: var(--bad); }
pre { background: #8881; margin: .3rem 0; max-height: 30rem; overflow: auto; padding: .6rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.name { color: var(--soft); margin-top: .4rem; }
.model { border-color: #47a8; } .tool { border-color: #4a78; } .permission { border-color: #c928; }
.prompt { border-color: #a4a8; } .agent { border-color: #a4a; }
"""


_COUNTED: Mapping[Kind, str] = {
    "prompt": "prompts",
    "model": "model calls",
    "tool": "tool calls",
    "permission": "permission requests",
    "agent": "subagents",
}


def render(title: str, nodes: list[Node], remark: str | None = None) -> Iterator[str]:
    """The page in pieces; `remark` stands above all."""
    began = nodes[0].at if nodes else 0.0
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY.partition("; frame-ancestors")[0])}">'
    yield f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{_STYLE}</style>'
    yield f"</head><body><h1>{escape(title)}</h1>"
    yield f'<p class="sum">{escape(_summary(nodes, began))}</p>'
    if remark is not None:
        yield f'<p class="sum">{escape(remark)}</p>'
    yield from _nodes(nodes, began)
    yield "</body></html>\n"


def _summary(nodes: list[Node], began: float) -> str:
    counts = Counter(node.kind for node in _all(nodes))
    said = ", ".join(f"{counts[kind]} {name}" for kind, name in _COUNTED.items() if counts[kind])
    began_at = datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if nodes else "nothing happened yet"
    return f"{began_at}; {said}" if said else began_at


def _all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _all(node.children)


def _nodes(nodes: Iterable[Node], began: float) -> Iterator[str]:
    for node in nodes:
        is_open = " open" if node.children else ""
        yield f'<details class="{node.kind}{" bad" if node.is_bad else ""}"{is_open}><summary>'
        yield f'<span class="at">{escape(f"{node.at - began:+.3f} s")}</span><span class="kind">{node.kind}</span>'
        yield f'<span class="title">{escape(node.title)}</span>'
        yield "".join(f'<span class="fact">{escape(fact)}</span>' for fact in node.facts)
        yield "" if node.ms is None else f'<span class="ms">{node.ms} ms</span>'
        yield "</summary>"
        for name, text in node.texts:
            yield f'<div class="name">{escape(name)}</div><pre>{escape(text)}</pre>'
        yield from _nodes(node.children, began)
        yield "</details>"
