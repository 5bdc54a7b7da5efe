"""Views of where a launch's time goes: timeline, schedule, heat map, roofline, advice."""
