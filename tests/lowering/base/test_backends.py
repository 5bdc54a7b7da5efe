"""The modules that the rows of the table of targets name."""

from dataclasses import replace

import pytest

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.targets import TARGETS, TargetKind
from tessera.lowering.base.backends import Backend, backend_of

COMPILED = [kind for kind in TARGETS.values() if kind.backend]


@pytest.mark.parametrize("kind", COMPILED, ids=lambda kind: kind.name)
def test_each_row_names_a_backend(kind: TargetKind):
    found = backend_of(kind)
    assert isinstance(found, Backend)
    assert found is backend_of(replace(kind, name="another"))
    assert found.fp8_products is kind.on_gpu


def test_what_is_run_as_it_is_has_no_compiler():
    with pytest.raises(CompilerCrash, match="no compiler for the target 'interpret'"):
        backend_of(TARGETS["interpret"])
