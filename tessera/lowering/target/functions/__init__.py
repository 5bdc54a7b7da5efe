"""Mathematical functions and conversions, written with upstream vector arithmetic."""
