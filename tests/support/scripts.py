"""Load the scripts of `docs`, which are no package, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"


def load(path: str) -> ModuleType:
    """Return the module of a script, `site/docstrings.py`, loaded once; it finds the scripts beside it."""
    name = "docs_" + path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        folder = str((DOCS / path).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        spec = importlib.util.spec_from_file_location(name, DOCS / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[name]
