"""The plain data of a profile, as `Profile.to_dict` and `Profile.to_json` give it."""

from typing import NotRequired, TypedDict


class RooflineDocument(TypedDict):
    """The limits of the machine for this work: seconds, operations a byte, bytes a second."""

    bound: str
    floor_seconds: float
    attained: float
    intensity: float
    ridge: float
    memory_bytes_per_second: float
    source: str


class ProfileDocument(TypedDict):
    """A profile; times in seconds, sizes in bytes; `tiles` are the records as columns, times in nanoseconds."""

    format: int
    kernel: str
    target: str
    device: str
    unit: str
    units: int
    groups: int
    every: int
    wall_seconds: float
    plain_seconds: list[float]
    instrumented_seconds: list[float]
    overhead: float
    noise: float
    least_bytes: float
    requested_bytes: float
    operations: dict[str, float]
    bytes_per_second: float
    operations_per_second: float
    roofline: RooflineDocument
    registers: int | None
    shared_bytes: int
    spill_bytes: int | None
    notes: list[str]
    phases: dict[str, float]
    tiles: NotRequired[dict[str, list[float]]]
