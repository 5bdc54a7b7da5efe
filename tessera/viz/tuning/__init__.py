"""The autotuning dashboard: trials of a search as columns, tables, charts, and the live view of one that runs."""
