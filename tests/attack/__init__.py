"""The service under attack by lists and tools of others. `make attack` runs all of it; the quick parts are tests."""
