-- What the service sets in each session when it talks to PostgreSQL directly. Behind PgBouncer in transaction mode, all
-- share a session, so these settings come with the role.
ALTER ROLE codservice SET lock_timeout = '2s';
ALTER ROLE codservice SET statement_timeout = '30s';
ALTER ROLE codservice SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE codservice SET timezone = 'UTC';
ALTER ROLE codservice SET jit = 'off';
ALTER ROLE codservice SET work_mem = '16MB';
ALTER ROLE codservice SET max_parallel_workers_per_gather = 0;
ALTER ROLE codservice SET default_transaction_isolation = 'read committed';
ALTER ROLE codservice SET datestyle = 'ISO';
ALTER ROLE codservice SET intervalstyle = 'postgres';
ALTER ROLE codservice SET standard_conforming_strings = on;
ALTER ROLE codservice SET extra_float_digits = 1;
ALTER ROLE codservice SET array_nulls = on;
