"""Running the service for years: recurring duties, retention, backups, and checks that all is well."""
