"""Pipelines: functions that run one after the other on parts of a mesh, with micro-batches under way at once."""
