"""A story as text for a terminal: a line for each thing that happened."""

from collections.abc import Iterable, Iterator

from agentcore.tracing.timeline import Node


def outline(nodes: Iterable[Node], began: float | None = None, depth: int = 0) -> Iterator[str]:
    for node in nodes:
        began = node.at if began is None else began
        took = "" if node.ms is None else f"  {node.ms} ms"
        facts = "".join(f"  {fact}" for fact in node.facts)
        mark = "!" if node.is_bad else " "
        yield f"{node.at - began:+10.3f} s {mark} {'  ' * depth}{node.kind:<10} {node.title}{took}{facts}"
        yield from outline(node.children, began, depth + 1)
