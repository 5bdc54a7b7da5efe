"""The IR explorer: every level of a compilation as linked texts, and what is known of their lines."""
