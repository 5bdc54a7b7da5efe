"""Artifacts and listings as JSON: nothing is lost, spans move with the kernel, nothing else is read."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from support.artifacts import SOURCE, SPAN, scale_artifact
from tessera.core.artifact import LaunchRule, Remark, Resources
from tessera.core.base import dtypes
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.core.resources import Buffers
from tessera.lowering.artifact_cache.codec import (
    Malformed,
    Place,
    pack_artifact,
    pack_levels,
    unpack_artifact,
    unpack_levels,
)
from tessera.lowering.artifact_cache.record_codec import Json

HERE = Place(SOURCE, SPAN)
THERE = Place(Source("other.py", "text", 11, "Cell In[9]"), Span("other.py", 12, 1, 12, 10))


def test_artifact_round_trip():
    artifact = scale_artifact(
        launch=LaunchRule("ranges", (4, "n"), (16, 16), 7, (("n", 2), (3, 4)), ("m",)),
        resources=Resources(1, 2, 3, None, buffers=(Buffers("pipeline 0", 4, 1024),)),
        remarks=(Remark("slow", SPAN),),
    )
    assert unpack_artifact(pack_artifact(artifact), artifact.code, HERE) == artifact


def test_dtypes_come_back_as_themselves():
    back = unpack_artifact(pack_artifact(scale_artifact()), b"", HERE)
    assert back.bindings[0].type.dtype is dtypes.f32


def test_spans_move_with_the_kernel():
    back = unpack_artifact(pack_artifact(scale_artifact(remarks=(Remark("slow", SPAN),))), b"code", THERE)
    assert back.remarks == (Remark("slow", THERE.span),)
    assert back.source == THERE.source
    assert back.span == THERE.span
    assert back.bindings[1].span == Span("other.py", 12, 22, 12, 35)
    assert back.code == b"code"


def test_levels_round_trip_and_move():
    elsewhere = Span("library.py", 3, 1, 3, 2)
    listing = Listing(
        "tile", "tile-simplify",
        (Line("a", (SPAN, elsewhere), (1, 2)), Line("", (), ()), Line("b\u00e9", (Span("cell.py", 3, 5, 4, 6),), (7,))),
    )  # fmt: skip
    compilation = Compilation(
        scale_artifact(), (listing, listing), (PassRan("scale", "cpu", "tile", "p", 0.25, False, {"products": True}),)
    )
    packed = pack_levels(compilation)
    assert unpack_levels(packed, HERE) == (compilation.listings, compilation.passes)
    moved, _ = unpack_levels(packed, THERE)
    assert moved[0].lines[0].spans == (THERE.span, elsewhere)
    assert moved[0].lines[2].spans == (Span("other.py", 13, 5, 14, 6),)


def test_nothing_recorded_is_nothing_packed():
    assert pack_levels(Compilation(scale_artifact())) == b""
    assert unpack_levels(b"", HERE) == ((), ())


DAMAGE: list[Callable[[dict[str, Json]], Json]] = [
    lambda d: {**d, "launch": {"is": "Popen", "args": ["true"]}},
    lambda d: {**d, "launch": {"is": "LaunchRule", "nonsense": 1}},
    lambda d: {**d, "bindings": [{"dtype": "f33"}]},
    lambda d: {**d, "surprise": 1},
    lambda d: {k: v for k, v in d.items() if k != "slots"},
    lambda d: [d],
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_other_things_are_refused(damage: Callable[[dict[str, Json]], Json]):
    stored = json.loads(pack_artifact(scale_artifact()))
    with pytest.raises(Malformed):
        unpack_artifact(json.dumps(damage(stored)).encode(), b"", HERE)


@pytest.mark.parametrize("data", [b"garbage", b"\x78\x01garbage", pack_levels(
    Compilation(scale_artifact(), (Listing("tile", "", ()),)))[:-3]])  # fmt: skip
def test_damaged_levels_are_refused(data: bytes):
    with pytest.raises(Malformed):
        unpack_levels(data, HERE)


def test_an_unknown_class_is_not_written():
    artifact = dataclasses.replace(scale_artifact(), slots=(object(),))
    with pytest.raises(TypeError, match="object cannot be stored"):
        pack_artifact(artifact)
