"""Files of rows that merchants upload: they arrive in pieces, are read and taken in by a worker, and are forgotten."""
