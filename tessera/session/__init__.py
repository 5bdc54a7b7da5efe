"""One process's compiler: the session that specializes, compiles and remembers, and what a compilation gives.

It may import `performance`, `runtime`, `lowering`, `frontend` and `core`.
"""
