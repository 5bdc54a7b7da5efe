"""Numbers in sentences."""


def counted(count: int, noun: str) -> str:
    """Return a number of things: "1 tile", "1,024 tiles"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
