"""The workbench: all views of one kernel side by side, linked.  It may import every other view."""
