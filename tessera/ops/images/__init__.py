"""Operators on images, signals and volumes: convolutions, pools, resampling, all on windows along spatial axes."""
