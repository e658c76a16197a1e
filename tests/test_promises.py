"""Each promise has a test, and the test exists and asserts something."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.promises import PROMISES

HERE = Path(__file__).resolve().parent

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_names_a_test_that_can_fail(promise: str) -> None:
    file, _, name = PROMISES[promise].test.partition("::")
    functions = functions_of((HERE / file).read_text())
    assert name in functions, f"{promise}: {file} has no {name}"
    assert checks_something(functions[name], functions), f"{promise}: {name} checks nothing"


def functions_of(source: str) -> dict[str, Function]:
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)}


def checks_something(function: Function, functions: Mapping[str, Function]) -> bool:
    """Whether it asserts, expects an exception, or calls a function of its own file that does."""
    called = {
        node.func.id for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return can_fail(function) or any(can_fail(functions[name]) for name in called & functions.keys())


def can_fail(function: Function) -> bool:
    return any(isinstance(node, ast.Assert) or is_raises(node) for node in ast.walk(function))


def is_raises(node: ast.AST) -> bool:
    return isinstance(node, ast.withitem) and ast.unparse(node.context_expr).startswith("pytest.raises(")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert x", True),
        ("with pytest.raises(ValueError): f()", True),
        ("async_with(); check(1)", True),
        ("with fail_after(5): f()", False),
        ("with open(p): print(assertion)", False),
        ("other(1)", False),
        ("x.check(1)", False),
    ],
)
def test_a_call_alone_is_no_check(body: str, expected: bool) -> None:
    functions = functions_of(f"def test():\n  {body}\ndef check(x):\n  assert x\ndef other(x):\n  check(x)")
    assert checks_something(functions["test"], functions) is expected
