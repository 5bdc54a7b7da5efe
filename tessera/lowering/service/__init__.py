"""The compile service: worker processes, the protocol between them and this one, crash reports.

Only `worker` imports the compiler itself; the other modules never load MLIR.
"""
