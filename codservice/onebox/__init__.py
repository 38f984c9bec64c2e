"""What `make run` starts besides, on a machine that has nothing: PostgreSQL and Valkey from wheels, and a supervisor.

Production has its own of each, and starts the parts of `codservice.run`.
"""
