"""View models as JSON."""

import base64
import json
import zlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from tessera.viz.base.payload import as_text, deflated, encode


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: float
    names: tuple[str, ...]


def test_plain_data():
    assert encode(Point(1.5, ("a", "b"))) == {"x": 1.5, "names": ["a", "b"]}
    assert encode({"k": Colour.RED, 3: None, "s": frozenset({2, 1}), "p": Path("a/b")}) == {
        "k": "red", "3": None, "s": [1, 2], "p": "a/b",
    }  # fmt: skip
    assert encode([True, np.int32(4), np.float32(0.5), float("inf"), float("nan")]) == [True, 4, 0.5, None, None]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("f4", "f4"), (">f4", "f4"), ("i2", "i2"), ("i8", "f8"), ("?", "u1"), ("f2", "f8"), ("u4", "u4")],
)
def test_arrays_travel_as_bytes(dtype: str, kind: str):
    array = np.arange(6).reshape(2, 3).astype(dtype)[:, ::2]
    made = encode(array)
    assert isinstance(made, dict)
    assert (made["$array"], made["shape"]) == (kind, [2, 2])
    back = np.frombuffer(base64.b64decode(str(made["data"])), "<" + kind).reshape(2, 2)
    np.testing.assert_array_equal(back, array.astype(back.dtype))


def test_handles_are_refused():
    with pytest.raises(TypeError, match="holds a builtin_function_or_method, which is no plain data"):
        encode({"f": print})


def test_texts():
    text = as_text(encode({"a": [1, "é<"]}))
    assert text == '{"a":[1,"é<"]}'
    assert json.loads(zlib.decompress(deflated(text))) == {"a": [1, "é<"]}
