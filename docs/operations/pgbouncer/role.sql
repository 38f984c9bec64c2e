-- What the service sets in each session when it talks to PostgreSQL itself. Behind PgBouncer in transaction mode a session
-- is shared by all, so the role brings it along.
ALTER ROLE codservice SET lock_timeout = '2s';
ALTER ROLE codservice SET statement_timeout = '30s';
ALTER ROLE codservice SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE codservice SET timezone = 'UTC';
ALTER ROLE codservice SET jit = 'off';
ALTER ROLE codservice SET work_mem = '16MB';
