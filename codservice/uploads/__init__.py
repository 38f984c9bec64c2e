"""Files of rows that merchants upload. They arrive in pieces, a worker reads and imports them, and they are deleted."""
