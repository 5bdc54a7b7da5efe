"""Masked loads longer than a register, kept away from a mistake of LLVM's code generator.

Without AVX-512, LLVM 22 reads the whole of a part of a masked load whose lanes are all off (`and` of the mask with a
constant, or a `select`): a lane that is off is a number of which the sign bit alone says so by then, and
`combineMaskedLoadConstantMask` of X86ISelLowering asks whether it is 0.  What lies behind an array was read, and where
it is NaN a product with it was NaN.  A load for each register, by the instruction itself, is left as it is.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_LOAD: Final = re.compile(
    r" *(?P<result>%[-\w.$\"]+) = (?:tail )?call (?P<type><(?P<lanes>\d+) x (?P<element>float|double|i32|i64)>) "
    r"@llvm\.masked\.load\.[\w.]+\(ptr (?:[a-z]\w* )*?align \d+ (?P<pointer>[@%][-\w.$\"]+), "
    r"<\d+ x i1> (?P<mask>%[-\w.$\"]+), <[^>]*> (?P<otherwise>[^()]*)\)(?P<end>.*)"
)
_REGISTER_BITS: Final = 256
_BITS: Final = {"float": 32, "double": 64, "i32": 32, "i64": 64}
_AS_FLOAT: Final = {32: "float", 64: "double"}
_LETTER: Final = {32: "s", 64: "d"}
_NOTHING: Final = ("zeroinitializer", "poison", "undef")
"""Values of lanes that are off which the instruction gives as well."""


def load_by_registers(text: str, features: str) -> str:
    """Divide masked loads of words that are longer than a register, where the processor has AVX and no AVX-512.

    features: as LLVM writes them, `+avx2,-avx512f,...`
    before: `%v = masked.load <16 x float>, %p, %mask`
    after:  `%low = x86.avx.maskload.ps.256 %p, sext(%mask[0:8])`, `%high = ...`, `%v = shufflevector %low, %high`
    """
    has = features.split(",")
    if "+avx" not in has or "+avx512f" in has:
        return text
    lines, used = text.split("\n"), set[int]()
    for number, line in enumerate(lines):
        if "@llvm.masked.load." not in line or (load := _LOAD.match(line)) is None:
            continue
        bits = _BITS[load["element"]]
        if int(load["lanes"]) > _REGISTER_BITS // bits:
            lines[number] = "\n".join(f"  {each}{_place(load)}" for each in _divided(load, bits))
            used.add(bits)
    return "\n".join([*lines, *(_declaration(bits) for bits in sorted(used))])


def _place(load: re.Match[str]) -> str:
    found = re.search(r", !dbg !\d+", load["end"])
    return found[0] if found else ""


def _intrinsic(bits: int) -> str:
    return f"@llvm.x86.avx.maskload.p{_LETTER[bits]}.256"


def _declaration(bits: int) -> str:
    lanes = _REGISTER_BITS // bits
    return f"declare <{lanes} x {_AS_FLOAT[bits]}> {_intrinsic(bits)}(ptr, <{lanes} x i{bits}>)"


def _divided(load: re.Match[str], bits: int) -> Iterator[str]:
    """Read a register after the other, and join them."""
    lanes, part, element = int(load["lanes"]), _REGISTER_BITS // bits, load["element"]
    name = f"%words.{load['result'].strip('%').strip(chr(34))}"
    parts: list[str] = []
    for first in range(0, lanes, part):
        mine, chosen = f"{name}.{first}", _numbers(range(first, first + part))
        yield f"{mine}.on = shufflevector <{lanes} x i1> {load['mask']}, <{lanes} x i1> poison, {chosen}"
        yield f"{mine}.mask = sext <{part} x i1> {mine}.on to <{part} x i{bits}>"
        yield f"{mine}.place = getelementptr {element}, ptr {load['pointer']}, i64 {first}"
        given, vector = f"<{part} x i{bits}> {mine}.mask", f"<{part} x {_AS_FLOAT[bits]}>"
        yield f"{mine}.read = call {vector} {_intrinsic(bits)}(ptr {mine}.place, {given})"
        yield f"{mine} = bitcast {vector} {mine}.read to <{part} x {element}>"
        parts.append(mine)
    last = load["result"] if load["otherwise"] in _NOTHING else f"{name}.whole"
    yield from _joined(parts, part, element, last)
    if last != load["result"]:
        on, whole, otherwise = f"<{lanes} x i1> {load['mask']}", f"{load['type']} {last}", load["otherwise"]
        yield f"{load['result']} = select {on}, {whole}, {load['type']} {otherwise}"


def _joined(parts: Sequence[str], size: int, element: str, last: str) -> Iterator[str]:
    """Put vectors of `size` lanes side by side, two by two; the result is called `last`."""
    while len(parts) > 1:
        pairs, size, made = zip(parts[::2], parts[1::2], strict=True), 2 * size, list[str]()
        for low, high in pairs:
            vector = f"<{size // 2} x {element}>"
            made.append(last if len(parts) == 2 else f"{low}.{size}")
            yield f"{made[-1]} = shufflevector {vector} {low}, {vector} {high}, {_numbers(range(size))}"
        parts = made


def _numbers(lanes: range) -> str:
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
