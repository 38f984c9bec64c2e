"""What `make run` adds on a machine that has nothing: PostgreSQL and Valkey from wheels, and a supervisor.

Production has its own of these, and starts the parts of `codservice.run`.
"""
