"""Attacks on the service with public lists and tools. `make attack` runs all of them; the quick parts are tests."""
