"""Parallel training before it runs: schedules of pipelines, costs of stages, the search for a plan."""
