"""What is to be noted in a database that a backup has just been restored into. Apps register it."""

from collections.abc import Callable
from datetime import datetime

NOTES: list[Callable[[datetime], None]] = []
"""Each is called by `restore` with the time at which the backup was begun. The database may lack newer migrations."""
