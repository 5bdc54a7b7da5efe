"""View models as JSON: frozen dataclasses, tuples, mappings and NumPy arrays become what the browser reads.

An array travels as its bytes, `{"$array": "f4", "shape": [2, 3], "data": "<base64>"}`, which the frontend turns into a
typed array; integers of 64 bits become doubles there, exact up to 2**53.
"""

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, cast

import numpy as np

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

Numbers = np.ndarray[tuple[int, ...], np.dtype[Any]]  # of any type

_TYPED: Final = {"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"}
"""Types of elements that have a typed array in JavaScript."""
PACK_FROM: Final = 24_000
"""Characters from which data in a page are deflated: below that, the base64 costs what deflating saves."""


def encode(value: object) -> Json:
    """Return a view model as JSON values; fields of dataclasses by name.

    Raises TypeError for anything that is no plain data: a view model holds no kernels, arrays of libraries or handles.
    """
    if isinstance(value, np.ndarray):
        return _array(cast("Numbers", value))
    if isinstance(value, np.generic):
        return encode(cast("object", value.item()))
    if isinstance(value, Enum):
        return encode(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        # JSON has no infinities; the frontend shows null as "not known".
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(cast("object", getattr(value, field.name))) for field in dataclasses.fields(value)}
    return _collection(value)


def _collection(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(name): encode(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - of anything
    if isinstance(value, AbstractSet):
        return [encode(item) for item in sorted(cast("AbstractSet[str]", value))]
    if isinstance(value, Sequence):
        return [encode(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a view model holds a {type(value).__name__}, which is no plain data")


def _array(array: Numbers) -> Json:
    kind = array.dtype.str.lstrip("<>|=")
    if kind not in _TYPED:
        array = array.astype(np.uint8 if array.dtype == bool else np.float64)
        kind = array.dtype.str.lstrip("<>|=")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"$array": kind, "shape": list(array.shape), "data": base64.b64encode(little.tobytes()).decode("ascii")}


def as_text(value: Json) -> str:
    """Return JSON in its shortest spelling; the same value gives the same text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def deflated(text: str) -> bytes:
    """Return the text as zlib's bytes, which `DecompressionStream("deflate")` reads.

    At zlib's usual level: the highest one takes three times as long and makes 3 % less of it.
    """
    return zlib.compress(text.encode(), zlib.Z_DEFAULT_COMPRESSION)
