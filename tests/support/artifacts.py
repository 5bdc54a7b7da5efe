"""Small CPU artifacts made by hand from LLVM IR, for tests of the cache and the runtime."""

import dataclasses
from functools import cache

from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]

from tessera.core.artifact import Artifact, Binding, LaunchRule, Resources, Slot
from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.base.source import Source, Span
from tessera.core.program.types import Array, Extent, Scalar
from tessera.core.targets import CPU

SOURCE = Source(
    "cell.py", "@kernel\ndef scale(x: f32[n], y: mut f32[n], alpha: f32):\n    y[i] = alpha * x[i]\n", 1, "Cell In[1]"
)
SPAN = Span("cell.py", 2, 1, 2, 10)
X_SPAN, Y_SPAN, ALPHA_SPAN = (Span("cell.py", 2, a, 2, b) for a, b in ((11, 20), (22, 35), (37, 47)))

# Groups of 128 lanes: y[i] = alpha * x[i] for i < n.
SCALE = """
define i32 @entry(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel) {
entry:
  %x = load ptr, ptr %slots
  %ys = getelementptr i64, ptr %slots, i64 1
  %y = load ptr, ptr %ys
  %ns = getelementptr i64, ptr %slots, i64 2
  %n = load i64, ptr %ns
  %as = getelementptr i64, ptr %slots, i64 3
  %a = load float, ptr %as
  %lo = mul i64 %first, 128
  %hi0 = mul i64 %past, 128
  %less = icmp slt i64 %hi0, %n
  %hi = select i1 %less, i64 %hi0, i64 %n
  %any = icmp slt i64 %lo, %hi
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [%lo, %entry], [%next, %loop]
  %xp = getelementptr float, ptr %x, i64 %i
  %xv = load float, ptr %xp
  %v = fmul float %a, %xv
  %yp = getelementptr float, ptr %y, i64 %i
  store float %v, ptr %yp
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# Writes 1 to y[0], then runs until it is cancelled.
ENDLESS = """
define i32 @entry(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel) {
entry:
  %ys = getelementptr i64, ptr %slots, i64 1
  %y = load ptr, ptr %ys
  store float 1.0, ptr %y
  br label %loop
loop:
  %c = load volatile i32, ptr %cancel
  %stop = icmp ne i32 %c, 0
  br i1 %stop, label %done, label %loop
done:
  ret i32 1
}
"""

# Copies its slots to the address in the first one: shows what the launcher passes.
ECHO = """
define i32 @entry(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel) {
entry:
  %out = load ptr, ptr %slots
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr i64, ptr %slots, i64 %i
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %value, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, COUNT
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""


@cache
def object_code(text: str) -> bytes:
    """Compile LLVM IR for this machine."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    return machine.emit_object(binding.parse_assembly(text))  # pyright: ignore[reportUnknownMemberType]


def array(
    name: str, *shape: Extent, dtype: DType = dtypes.f32, mutable: bool = False, contiguous: bool = True
) -> Binding:
    """An array parameter."""
    return Binding(name, Array(dtype, shape, contiguous), mutable, {"x": X_SPAN, "y": Y_SPAN}.get(name, SPAN))


def number(name: str, dtype: DType = dtypes.f32) -> Binding:
    """A scalar parameter."""
    return Binding(name, Scalar(dtype), mutable=False, span=ALPHA_SPAN)


def scale_artifact(**changes: object) -> Artifact:
    """y[i] = alpha * x[i] on groups of 128; `changes` replace fields."""
    artifact = Artifact(
        key="scale-by-hand",
        name="scale",
        target=CPU,
        code=object_code(SCALE),
        entry="entry",
        bindings=(array("x", "n"), array("y", "n", mutable=True), number("alpha")),
        symbols=(("n", 0, 0, 1), ("n", 1, 0, 1)),
        slots=(Slot("pointer", 0), Slot("pointer", 1), Slot("symbol", symbol="n"), Slot("scalar", 2)),
        launch=LaunchRule("lanes", ("n",), lanes_per_group=128),
        resources=Resources(scratch_bytes=64),
        bounded=True,
        source=SOURCE,
        span=SPAN,
        toolchain={"llvm": "22"},
    )
    return dataclasses.replace(artifact, **changes)


def endless_artifact() -> Artifact:
    """Runs until it is cancelled."""
    return scale_artifact(key="endless", code=object_code(ENDLESS), bounded=False)


def echo_artifact(*slots: Slot, **changes: object) -> Artifact:
    """Writes its slots into parameter 0, an i64 array."""
    code = object_code(ECHO.replace("COUNT", str(len(slots) + 1)))
    everything = (Slot("pointer", 0), *slots)
    return scale_artifact(**{"key": f"echo {everything}", "code": code, "slots": everything, **changes})
