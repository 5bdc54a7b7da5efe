"""Views of the schedule of a captured function: what was fused and why, and memory over time."""
