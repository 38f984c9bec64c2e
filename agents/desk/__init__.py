"""An agent's work: who is called next, what comes of the call, and the two pages on which it happens."""
