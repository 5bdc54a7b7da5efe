"""Captured functions of operators as data that views share: names, lines, records and stages of graphs and schedules.

It stands below the views: these show what it makes as they show levels of kernels.
"""
