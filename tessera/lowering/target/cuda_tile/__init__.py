"""The CUDA Tile target: Tile IR to CUDA Tile IR bytecode, and by `tileiras` to a cubin."""
