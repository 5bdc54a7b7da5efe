"""Random kernels as text, run on the oracle and on a target, compared by bits: `python -m fuzz --help`."""
