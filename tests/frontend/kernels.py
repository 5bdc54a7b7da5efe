"""Build Programs from text in tests."""

from collections.abc import Mapping
from typing import TypedDict

from tessera.core.base.dtypes import DType
from tessera.core.program.arguments import Argument, ArrayArgument, ScalarArgument
from tessera.core.program.program import Attribute, Program
from tessera.frontend.build.build import specialise
from tessera.frontend.syntax.source_file import read_cell


class Options(TypedDict, total=False):
    """What a kernel's decorator may say."""

    group: tuple[int, ...]
    shared_limit: int
    constants: Mapping[str, Attribute]


def array(dtype: DType, *shape: int) -> ArrayArgument:
    return ArrayArgument(dtype, shape)


def scalar(dtype: DType) -> ScalarArgument:
    return ScalarArgument(dtype)


def build(
    text: str,
    *arguments: Argument,
    group: tuple[int, ...] | None = None,
    shared_limit: int | None = None,
    constants: Mapping[str, Attribute] | None = None,
    namespace: Mapping[str, object] | None = None,
) -> Program:
    """Build the only kernel in `text` (Tessera syntax; `@kernel` may be left out)."""
    if "@kernel" not in text:
        text = text.replace("def ", "@kernel\ndef ", 1)
    (kernel,) = read_cell(text, "cell").kernels
    return specialise(
        kernel, arguments, namespace or {}, group=group, shared_limit=shared_limit, constants=constants or {}
    )
