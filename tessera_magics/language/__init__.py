"""Answer an editor about a `%%tessera` cell while it is written: mistakes, types, completions, colours.

Nothing here runs the user's code.  Everything comes from the frontend and the language's own tables.
"""
