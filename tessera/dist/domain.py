"""Domains: the indices that an array is made over.  `tessera.domain.Rect((B, S, Dm))`."""

from collections.abc import Sequence
from dataclasses import dataclass

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadShardSpec

__all__ = ["Rect"]


@dataclass(frozen=True, init=False)
class Rect:
    """All indices below some extents."""

    shape: tuple[int, ...]

    def __init__(self, shape: int | Sequence[int]) -> None:
        """Check the extents.  Raises BadShardSpec."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        if not all(isinstance(each, int) and each >= 0 for each in extents):  # pyright: ignore[reportUnnecessaryIsInstance] - users write anything
            raise at_call(BadShardSpec(f"{shape!r} are no extents", hint="write Rect((8, 128, 64))"))
        object.__setattr__(self, "shape", extents)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)
