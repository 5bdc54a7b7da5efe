"""Edit and rerun: a kernel's text, options or IR, changed in a view, compiled, compared with the original and timed."""
