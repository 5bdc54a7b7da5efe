"""How operators launch their kernels: schedules and specializations that are kept for arrays of one kind."""
