"""Users, merchants' accounts and their API keys."""
