"""Who there is: users, merchants' accounts and their API keys."""
