"""The ground that every app stands on. It imports no app and refers to apps only by strings."""

__version__ = "0.1.0"
OLDEST_POSTGRES = 15  # that it runs on
