"""The ground that every app stands on. It imports no app and names them only as strings."""

__version__ = "0.1.0"
