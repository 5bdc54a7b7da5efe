"""The kernels themselves, in plain Tessera: one module for each module of functions around them."""
