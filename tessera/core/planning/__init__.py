"""Plans of work on meshes, before it runs: described models, timelines of devices, parallel plans.

It may import `placement` and what is below that.  Nothing here is measured or searched: the verbs are above.
"""
