"""Tell subscribers of copies between memories; costs a copy nothing where nothing subscribed."""

from typing import Final

from tessera.core.events import BytesMoved, publish, wanted

HOST: Final = "host"


def tell_copy(size: int, source: int | None, destination: int | None) -> None:
    """Publish a copy between two memories: those of GPUs, by their numbers, or the host's (None)."""
    if wanted(BytesMoved) and size:
        publish(BytesMoved(size, _memory(source), _memory(destination)))


def _memory(device: int | None) -> str:
    return HOST if device is None else f"cuda:{device}"
