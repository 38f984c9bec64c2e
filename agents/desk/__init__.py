"""An agent's day: who is called next, what comes of the call, and the two pages on which that happens."""
