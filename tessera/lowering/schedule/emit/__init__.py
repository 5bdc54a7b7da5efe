"""Groups as Programs: one module a kind of kernel.  It may import `core`, and `lowering.schedule` below it."""
