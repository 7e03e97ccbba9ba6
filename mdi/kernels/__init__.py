"""The compiled loops (numba). Nothing here knows files, messages or options."""
