"""Parts of every view: the class `View`, its static page, and its data on the way to the browser.

It imports nothing else of `viz`, and anywidget only in `live`.
"""
