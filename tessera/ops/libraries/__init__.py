"""Routines that operators call: functions on arrays of NumPy or CuPy, which stand for LAPACK, cuSOLVER and others."""
