"""The `tessera` dialect: what upstream MLIR has no operation for.  Arithmetic and control flow are upstream's.

Operands and attributes are those of `core/program/spec.py`.  Beyond them:

* `extents` and `dropped` are `array<i64: ...>`; `in_bounds` is `array<i1: ...>`, one flag an axis of the memory, true
  where the access is proven to stay inside (`tile-mask-edges`), so no mask is needed on that axis.
* An axis of None (`id`, `reduce`) is an absent attribute, and so is `compute` (`dot`); `cache = ""` means no hint.
* A bool is `i1` as a value and `i8` in memory.
* A tile is what it is in a Program, absent elements included, until `tile-mask-absent`, which makes `valid`, `fill` and
  what `reduce`, `softmax`, `dot` and `store` leave out explicit: behind it, every element of a tile exists.
* `gather` has its indices as a tile of the result's shape, `index`, for axis `axis` of the memory, whose start is 0.
* `masked_store` is a `store` of the elements for which `mask`, a tile of i1, is true.

Effects: `read`, `load` and `gather` read, `write`, `store`, `masked_store` and `copy` write, `alloc` allocates;
`barrier`, `group_sync` and `shuffle` declare nothing, which makes upstream passes treat them as doing anything: never
moved, merged or deleted.
"""

import sys
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from tessera.core.mlir import AnyOp, adopt_dialect, ext, ir
from tessera.core.tile import verify


class Tessera(ext.Dialect, name="tessera"):
    """The dialect; `load` it once a context (see `context`)."""


adopt_dialect("tessera", sys.modules[__name__])


_Record: TypeAlias = Callable[[AnyOp, ir.MemoryEffectInstancesList], None]


def _effects(name: str, record: _Record) -> type:
    """A trait that states memory effects: `record(op, effects)` appends them."""

    class Interface(ir.MemoryEffectsOpInterface):
        get_effects = staticmethod(record)

    return type(name, (), {"attach": staticmethod(Interface.attach)})


def _on_operand(effect: ir.MemoryEffect, index: int) -> _Record:
    def record(op: AnyOp, effects: ir.MemoryEffectInstancesList) -> None:
        effects.append(effect, list(op.op_operands)[index])

    return record


def _copy_effects(op: AnyOp, effects: ir.MemoryEffectInstancesList) -> None:
    destination, source = list(op.op_operands)[:2]
    effects.append(ir.MemoryEffect.Write, destination)
    effects.append(ir.MemoryEffect.Read, source)


def _alloc_effects(op: AnyOp, effects: ir.MemoryEffectInstancesList) -> None:
    effects.append(ir.MemoryEffect.Allocate, op.results[0])


_READS: Final = _effects("Reads", _on_operand(ir.MemoryEffect.Read, 0))
_WRITES: Final = _effects("Writes", _on_operand(ir.MemoryEffect.Write, 0))
_COPIES: Final = _effects("Copies", _copy_effects)
_ALLOCATES: Final = _effects("Allocates", _alloc_effects)
_PURE: Final = ext.Pure

COMPUTE: Final = "compute"
"""Attribute of a `dot` whose factors are rounded first: to what, a key of `dtypes.COMPUTE_TYPES`."""

# To IRDL, `Any` is the constraint that everything meets.
_VALUE: Final = ext.Operand[Any]
_INDEX: Final = ext.Operand[ir.IntegerType[64]]
_INDICES: Final = Sequence[_INDEX]
_RESULT: Final = ext.Result[Any]  # of every type, as above
_I64: Final = ext.Result[ir.IntegerType[64]]
# IRDL has no name for dense arrays and booleans (they would be "any attribute"); the verifiers look at them.
_ARRAY: Final[object] = Any
_EXTENTS: Final = {"extents": _ARRAY, "dropped": _ARRAY}
_ACCESS: Final = {"cache": ir.StringAttr, "in_bounds": _ARRAY}

_Check: TypeAlias = Callable[[AnyOp], str | None]
# name -> (trait or None, fields in order, verifier or None)
_OPERATIONS: Final[dict[str, tuple[type | None, dict[str, object], _Check | None]]] = {
    "id": (_PURE, {"of": ir.StringAttr, "result": _I64}, verify.identifier),
    "dim": (_PURE, {"symbol": ir.StringAttr, "result": _I64}, None),
    "read": (_READS, {"memory": _VALUE, "indices": _INDICES, **_ACCESS, "result": _RESULT}, verify.read),
    "write": (_WRITES, {"memory": _VALUE, "value": _VALUE, "indices": _INDICES, **_ACCESS}, verify.write),
    "load": (_READS, {"memory": _VALUE, "starts": _INDICES, **_EXTENTS, **_ACCESS, "result": _RESULT}, verify.load),
    "gather": (
        _READS,
        {
            "memory": _VALUE,
            "index": _VALUE,
            "starts": _INDICES,
            "axis": ir.IntegerAttr,
            **_EXTENTS,
            **_ACCESS,
            "result": _RESULT,
        },
        verify.gather,
    ),
    "store": (_WRITES, {"memory": _VALUE, "value": _VALUE, "starts": _INDICES, **_EXTENTS, **_ACCESS}, verify.store),
    "masked_store": (
        _WRITES,
        {"memory": _VALUE, "value": _VALUE, "mask": _VALUE, "starts": _INDICES, **_EXTENTS, **_ACCESS},
        verify.masked_store,
    ),
    "valid": (_PURE, {"source": _VALUE, "result": _RESULT}, verify.valid),
    "fill": (_PURE, {"source": _VALUE, "value": _VALUE, "result": _RESULT}, verify.fill),
    "alloc": (_ALLOCATES, {"result": _RESULT}, verify.alloc),
    "copy": (
        _COPIES,
        {"destination": _VALUE, "source": _VALUE, "starts": _INDICES, **_EXTENTS, "in_bounds": _ARRAY},
        verify.copy,
    ),
    "barrier": (None, {}, None),
    "group_sync": (None, {"size": ir.IntegerAttr}, verify.group_sync),
    "shuffle": (
        None,
        {"value": _VALUE, "lane": _INDEX, "mode": ir.StringAttr, "width": ir.IntegerAttr, "result": _RESULT},
        verify.shuffle,
    ),
    "arange": (_PURE, {"start": _INDEX, "result": _RESULT}, verify.arange),
    "broadcast": (_PURE, {"source": _VALUE, "result": _RESULT}, verify.broadcast),
    "reshape": (_PURE, {"source": _VALUE, "result": _RESULT}, verify.reshape),
    "transpose": (_PURE, {"source": _VALUE, "permutation": _ARRAY, "result": _RESULT}, verify.transpose),
    "reduce": (_PURE, {"source": _VALUE, "kind": ir.StringAttr, "result": _RESULT}, verify.reduce),
    "softmax": (_PURE, {"source": _VALUE, "axis": ir.IntegerAttr, "result": _RESULT}, verify.softmax),
    "dot": (
        _PURE,
        {"a": _VALUE, "b": _VALUE, "acc": Sequence[_VALUE], "exact": _ARRAY, "result": _RESULT},
        verify.dot,
    ),
}


def _define(name: str, trait: type | None, fields: dict[str, object], check: _Check | None) -> type:
    """Define one operation of the dialect: fields are the operands, attributes and results in order."""
    namespace: dict[str, object] = {"__annotations__": dict(fields), "__doc__": f"`tessera.{name}`."}
    if check is not None:

        def verify_invariants(op: AnyOp) -> bool:
            problem = check(op)
            if problem is not None:
                op.location.emit_error(f"{name}: {problem}")
            return problem is None

        namespace["verify_invariants"] = staticmethod(verify_invariants)
    title = "".join(part.capitalize() for part in name.split("_")) + "Op"
    keywords = {"name": name, "traits": [] if trait is None else [trait]}
    return types.new_class(title, (Tessera.Operation,), keywords, lambda body: body.update(namespace))


OPERATIONS: Final[dict[str, type]] = {name: _define(name, *row) for name, row in _OPERATIONS.items()}
"""Each operation's class, by its name without the dialect's."""


@contextmanager
def context() -> Generator[ir.Context]:
    """A fresh MLIR context with the dialect loaded, current inside the `with` (about 10 ms)."""
    with ir.Context() as fresh, ir.Location.unknown():
        Tessera.load()
        yield fresh


@contextmanager
def shared_context() -> Generator[ir.Context]:
    """The process's own context, for many small modules: replaced now and then, as contexts only ever grow."""
    global _kept, _uses  # noqa: PLW0603 - one context a process is the point
    if _kept is None or _uses >= _MAX_USES:
        with context() as _kept:
            _uses = 0
    _uses += 1
    with _kept, ir.Location.unknown():
        yield _kept


_MAX_USES: Final = 64
_kept: ir.Context | None = None
_uses: int = 0
