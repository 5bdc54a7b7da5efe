"""Short texts on the operations of every level, by name and modifiers; only those that occur are sent to a page."""
