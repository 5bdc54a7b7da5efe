"""Structured control flow of target code, and the promise that a cancelled launch ends soon.

Every loop whose length the user decides asks `*cancel` as it goes.  A loop that saw it set ends early, and so does
every loop after it, so that the entry point soon reaches its end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter

Body = Callable[..., Sequence[ir.Value]]

_CHUNK: Final = 1024
"""Iterations of an innermost loop between two looks at `*cancel`: far below a millisecond, far above its cost."""

# what `convert-scf-to-cf` hands on to the branch back, and the LLVM dialect's branch reads
_ONCE: Final = {"loop_annotation": "#llvm.loop_annotation<unroll = <disable = true>>"}

_LARGEST_STEP: Final = 1 << 40
"""Steps above it are not multiplied by `_CHUNK`, which might overflow."""


@dataclass(frozen=True, slots=True)
class StructuredControl:
    """Emits branches and loops through `emit`; `cancel` is the address of the flag."""

    emit: Emitter
    cancel: ir.Value

    def constant(self, value: int, kind: str = "i64") -> ir.Value:
        """Return an integer constant at the current point."""
        return self.emit.constant(value, kind)

    def compare(self, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
        """`arith.cmpi` of two scalars (predicates: 0 eq, 1 ne, 2 slt, 5 sge, 6 ult)."""
        return self.emit.value("arith.cmpi", [left, right], "i1", {"predicate": f"{predicate} : i64"})

    def going(self) -> ir.Value:
        """Return whether the launch was not cancelled (i1)."""
        flag = self.emit.value(
            "llvm.load", [self.cancel], "i32", {"volatile_": "unit", "alignment": "4 : i64", "ordering": "0 : i64"}
        )
        return self.compare(0, flag, self.constant(0, "i32"))

    def branch(
        self, condition: ir.Value, then: Body, otherwise: Body | None = None, types: Sequence[str] = ()
    ) -> Sequence[ir.Value]:
        """`scf.if`: run `then()` or `otherwise()`; they return the values of `types`."""
        made = self.emit.create("scf.if", [condition], types, regions=2)
        with self.emit.at(made.regions[0].blocks.append()):
            self.emit.create("scf.yield", then())
        if otherwise is not None:
            with self.emit.at(made.regions[1].blocks.append()):
                self.emit.create("scf.yield", otherwise())
        return list(made.results)

    def count(
        self,
        lower: ir.Value,
        upper: ir.Value,
        step: ir.Value,
        initial: Sequence[ir.Value],
        body: Body,
        *,
        unroll: bool = True,
    ) -> Sequence[ir.Value]:
        """`scf.for` without a look at the flag: `body(index, *carried)` returns the next carried values.

        Where a body is long, or full of independent work, `unroll=False` spares LLVM to repeat it.
        """
        operands, types = [lower, upper, step, *initial], [v.type for v in initial]
        made = self.emit.create("scf.for", operands, types, None if unroll else _ONCE, regions=1)
        block = self._block(made.regions[0], [self.emit.type("i64"), *types])
        with self.emit.at(block):
            self.emit.create("scf.yield", body(*block.arguments))
        return list(made.results)

    def watched(
        self,
        lower: ir.Value,
        upper: ir.Value,
        step: ir.Value,
        initial: Sequence[ir.Value],
        body: Body,
        *,
        innermost: bool,
    ) -> Sequence[ir.Value]:
        """Emit a counted loop that looks at the flag: every `_CHUNK` iterations when innermost, else at each."""
        emit = self.emit
        stride = step
        if innermost:
            small = self.compare(2, step, self.constant(_LARGEST_STEP))
            chunk = emit.value("arith.muli", [step, self.constant(_CHUNK)], "i64")
            stride = emit.value("arith.select", [small, chunk, step], "i64")

        def condition(index: ir.Value, *carried: ir.Value) -> tuple[ir.Value, Sequence[ir.Value]]:
            return self.both(self.compare(2, index, upper), self.going()), [index, *carried]

        def advance(index: ir.Value, *carried: ir.Value) -> Sequence[ir.Value]:
            following = emit.value("arith.addi", [index, stride], "i64")
            if not innermost:
                return [following, *body(index, *carried)]
            end = emit.value("arith.minsi", [following, upper], "i64")
            return [following, *self.count(index, end, step, carried, body)]

        return self.repeat([lower, *initial], condition, advance)[1:]

    def repeat(
        self,
        initial: Sequence[ir.Value],
        condition: Callable[..., tuple[ir.Value, Sequence[ir.Value]]],
        body: Body,
        types: Sequence[str] | None = None,
    ) -> Sequence[ir.Value]:
        """`scf.while`: `condition(*carried)` returns whether to go on and what to pass to `body(*passed)`.

        `body` returns the next carried values; the result is what was passed when the loop ended.  `types` are those
        of what is passed, where they differ from the carried values'.
        """
        carried = [v.type for v in initial]
        passed_types = [self.emit.type(t) for t in (carried if types is None else types)]
        made = self.emit.create("scf.while", initial, passed_types, regions=2)
        first = self._block(made.regions[0], carried)
        with self.emit.at(first):
            go_on, passed = condition(*first.arguments)
            self.emit.create("scf.condition", [go_on, *passed])
        second = self._block(made.regions[1], passed_types)
        with self.emit.at(second):
            self.emit.create("scf.yield", body(*second.arguments))
        return list(made.results)

    def both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """`a and b` of two i1 scalars."""
        return self.emit.value("arith.andi", [a, b], "i1")

    def _block(self, region: ir.Region, types: Sequence[ir.Type]) -> ir.Block:
        return region.blocks.append(*types, arg_locs=[self.emit.location] * len(types))
