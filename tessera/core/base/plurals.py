"""Numbers in sentences."""


def counted(count: int, noun: str) -> str:
    """Return a number of things: "1 tile", "1,024 tiles"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short_count(number: int) -> str:
    """Return a number with three digits and the prefix of its unit: `16.4 k`."""
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} "


def short_bytes(size: int) -> str:
    """Return a number of bytes with three digits: "16.4 kB"."""
    return f"{short_count(size)}B"
