"""Running the service for years: what recurs, what is kept for how long, and whether all is well."""
