"""Classify operations of any level: load, product, index arithmetic; and its name and type in few words."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tessera.core.record import OpRecord, Verbatim
from tessera.viz.graph import model
from tessera.viz.graph.flow import Join

_LAST: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (model.CONSTANT, re.compile(r"(mlir\.)?(constant|undef|poison|zero)$")),
    (model.BARRIER, re.compile(r"(group_sync|barrier|fence|syncthreads|bar(rier)?\.|mbarrier|wait|BAR|SYNCS|commit)")),
    (model.MMA, re.compile(r"(dot|contract|mma|wgmma|matmul|H?MMA|HGMMA|UTC\w*MMA|outerproduct)")),
    (model.STORE, re.compile(r"(masked_?store|store|write|scatter|atomic|st[.]|transfer_write|compressstore|STG|STS)")),
    (model.LOAD, re.compile(r"(load|read|gather|masked_?load|ld[.]|transfer_read|expandload|LDG|LDS|prefetch)")),
    (model.MEMORY, re.compile(r"(alloc|alloca|addressof|get_global)")),
    (model.CONTROL, re.compile(r"(yield|condition$|return|br$|cond_br|ret$|unreachable|switch|exit|EXIT|BRA)")),
    (
        model.MOVE,
        re.compile(
            r"(reshape|broadcast|transpose|cast$|bitcast|shuffle|splat|copy|extf|truncf|sitofp|fptosi|uitofp|fptoui"
            r"|fpext|fptrunc|shape_cast|extract|insert|select$|concat|slice|permute)"
        ),
    ),
)
"""Style classes by how the last part of an operation's name begins; the first that fits."""
_DIALECTS: Final = frozenset(
    (
        "tessera",
        "arith",
        "math",
        "scf",
        "func",
        "cf",
        "llvm",
        "nvvm",
        "gpu",
        "vector",
        "memref",
        "tensor",
        "affine",
        "ub",
    )
)
_INTEGER: Final = re.compile(r"(index|bool|[su]?i\d+|u\d+)$")
_UNTYPED_INTEGERS: Final = re.compile(
    r"(getelementptr|add|sub|mul|[su]div|[us]rem|shl|[al]shr|and|or|xor|icmp|[sz]ext|trunc|ptrtoint|inttoptr|"
    r"insertvalue|extractvalue|freeze)$"
)
_TYPE: Final = re.compile(r"(?:tile|array|shared|memref|vector|tensor)<(.*)>$")
_PRODUCTS: Final = re.compile(r"(?<=[\w?\]])\s*x\s*(?=[\w?])")


def _without_dialect(name: str) -> str:
    """Return the name within its dialect; instructions of PTX and of machines have no dialect."""
    dialect, _, rest = name.partition(".")
    return rest if dialect in _DIALECTS else name


def style_of(record: OpRecord, data: set[str]) -> str:
    """Return the style class of an operation; `data` is what `data_slice` found."""
    last = _without_dialect(record.name)
    for style, pattern in _LAST:
        if pattern.match(last):
            return _refined(style, record, data)
    return model.INDEX if record.id not in data and _is_integer(record) else model.COMPUTE


def _refined(style: str, record: OpRecord, data: set[str]) -> str:
    """Integers that nothing but addresses, bounds and conditions are made of are index arithmetic, whatever they do."""
    if style == model.MOVE and record.id not in data and _is_integer(record):
        return model.INDEX
    return style


def _is_integer(record: OpRecord) -> bool:
    kinds = [value.type for value in record.results]
    if kinds and not any(kinds):
        return bool(_UNTYPED_INTEGERS.match(record.name.rpartition(".")[2]))
    return bool(kinds) and all(_INTEGER.match(kind) for kind in kinds)


def is_integer(kind: str) -> bool:
    """Return whether a type is that of a single integer or truth value."""
    return bool(_INTEGER.match(kind))


def memory_operands(record: OpRecord) -> tuple[str, ...]:
    """Return what a store writes to: in Tile IR, the array in front of the value, or behind it where it is scalar."""
    if record.name in ("tessera.store", "tessera.masked_store"):
        return record.operands[:1]
    return record.operands[1:2]


def data_slice(records: Sequence[OpRecord], inside: Sequence[Join]) -> set[str]:
    """Return the identities of the operations and values that what is stored is computed from.

    A load ends a slice: what it is addressed by is no data.  inside: what `flow.joins` says of `records`
    """
    made_by = {value.id: record for record in records for value in record.results}
    flows: dict[str, list[str]] = defaultdict(list)
    for join in inside:
        flows[join.into].append(join.operand)
    waiting: list[str] = []
    for record in records:
        if _begins(model.STORE, record):
            written = memory_operands(record)
            waiting += [one for one in record.operands if one not in written][:1]
    found: set[str] = set()
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        waiting += flows.get(value, ())
        record = made_by.get(value)
        if record is not None and not record.name.startswith("scf."):
            found.add(record.id)
            waiting += () if _begins(model.LOAD, record) else record.operands
    return found


def _begins(style: str, record: OpRecord) -> bool:
    last = _without_dialect(record.name)
    return next((name for name, pattern in _LAST if pattern.match(last)), "") == style


def short_name(record: OpRecord) -> str:
    """Return an operation's name without its dialect, with what tells it from others of the name."""
    said = record.attributes
    last = record.name.rpartition(".")[2]
    if last == "constant" and "value" in said:
        value = said["value"]
        text = value.text if isinstance(value, Verbatim) else str(value)
        return re.sub(r"^dense<(.*?)>.*$", r"\1", text)[:24]
    if record.name == "tessera.id":
        return f"{said.get('of', '')} id".strip()
    if record.name == "tessera.dim":
        return f"extent {said.get('symbol', '')}".strip()
    if last == "reduce" and isinstance(said.get("kind"), str):
        return f"reduce {said['kind']}"
    return last if not record.name[:1].isupper() else record.name.partition(".")[0]


def short_type(text: str) -> str:
    """Return a type in few words: `tile<128x64xbf16>` as `128×64 bf16`."""
    found = _TYPE.match(text)
    if found is None:
        return text
    inner, _, rest = found[1].partition(",")
    extents = _PRODUCTS.split(inner)
    shape = "×".join(one.strip() for one in extents[:-1])
    return " ".join(filter(None, (shape, extents[-1].strip(), rest.strip() and f"({rest.strip()})")))
