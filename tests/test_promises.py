"""Each promise has a test, and the test exists and asserts something."""

import ast
from pathlib import Path

import pytest

from tests.promises import PROMISES

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_names_a_test_that_can_fail(promise: str) -> None:
    file, _, name = PROMISES[promise].test.partition("::")
    functions = {
        node.name: node
        for node in ast.walk(ast.parse((HERE / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name in functions, f"{promise}: {file} has no {name}"
    calls = [node for node in ast.walk(functions[name]) if isinstance(node, ast.Assert | ast.With | ast.Call)]
    assert calls, f"{promise}: {name} checks nothing"
