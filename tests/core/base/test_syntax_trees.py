"""Parsing in several threads at once."""

import ast
import gc
import sys
import threading

import pytest

from tessera.core.base.syntax_trees import parse_expression, parse_module

DEEP = "a + (b * (c - (d / (e + f))))\n" * 60


class Finalized:
    """Runs Python while the collector does, so that another thread may take over in the middle of a parse."""

    ring: "list[Finalized]"

    def __del__(self) -> None:
        for _ in range(50):
            pass


def test_threads_parse_at_once():
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(100):
                ring = [Finalized() for _ in range(3)]
                for each in ring:
                    each.ring = ring
                assert len(parse_module(DEEP).body) == 60
                assert isinstance(parse_expression(DEEP[:29]), ast.BinOp)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is asserted below
            failed.append(error)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        sys.setswitchinterval(1e-6)
        gc.set_threshold(50)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert failed == []


def test_a_mistake_names_the_file_and_leaves_the_lock_free():
    for _ in range(2):
        with pytest.raises(SyntaxError) as caught:
            parse_module("x = (", "cell.py")
        assert caught.value.filename == "cell.py"
    with pytest.raises(SyntaxError):
        parse_expression("x = 1")
    assert ast.unparse(parse_expression("x  +1")) == "x + 1"
