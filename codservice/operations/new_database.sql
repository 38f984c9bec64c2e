-- `make new-database` writes this file (codservice/operations/new_database.py).
SET LOCAL check_function_bodies = false;
CREATE FUNCTION public.agents_part_removed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM agents_callpart;
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_count_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, count(*) FROM added GROUP BY account_id, status;
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_count_moved() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, sum(delta) FROM (
        SELECT account_id, status, 1 AS delta FROM added
        UNION ALL
        SELECT account_id, status, -1 AS delta FROM removed
    ) AS moves GROUP BY account_id, status HAVING sum(delta) <> 0;
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_count_removed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO orders_ordercount (account_id, status, delta)
    SELECT account_id, status, -count(*) FROM removed GROUP BY account_id, status;
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_day_of_call() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_day(OLD.account_id, OLD.created_at);
    PERFORM orders_note_day(OLD.account_id, OLD.callback_at);
    PERFORM orders_note_days(ARRAY[OLD.order_id, NEW.order_id]);
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_day_of_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM orders_note_day(OLD.account_id, OLD.at);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM orders_note_day(NEW.account_id, NEW.at);
    END IF;
    -- An anonymised reason changes its own day alone.
    IF TG_OP <> 'UPDATE' OR (OLD.order_id, OLD.from_status, OLD.to_status, OLD.at, OLD.user_id)
            IS DISTINCT FROM (NEW.order_id, NEW.from_status, NEW.to_status, NEW.at, NEW.user_id) THEN
        PERFORM orders_note_days_of_all(ARRAY[OLD.order_id, NEW.order_id]);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_days_of_calls() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_day(account_id, created_at) FROM touched WHERE created_at < now();
    PERFORM orders_note_day(account_id, callback_at) FROM touched WHERE callback_at < now();
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched WHERE created_at < now()));
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_days_of_edits() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_days(ARRAY(
        SELECT DISTINCT order_id FROM touched WHERE field LIKE 'items.%' AND field NOT LIKE 'items.%.%'
    ));
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_days_of_line() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_days(ARRAY[OLD.order_id]);
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_days_of_lines() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_days(ARRAY(SELECT DISTINCT order_id FROM touched));
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_days_of_order() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM orders_note_days(ARRAY[NEW.id]);
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_note_day(account uuid, at timestamp with time zone) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, (at AT TIME ZONE 'Africa/Algiers')::date FROM (VALUES (account), (NULL)) AS whose(id)
    WHERE (at AT TIME ZONE 'Africa/Algiers')::date <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
        AND (whose.id IS NOT NULL OR NOT EXISTS (SELECT FROM accounts_account twin WHERE twin.id = account AND twin.live_id IS NOT NULL))
$$;
CREATE FUNCTION public.orders_note_days(changed uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO orders_changedday (account_id, day)
    SELECT whose.id, past.day FROM (
        SELECT account_id, (at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_statuschange WHERE order_id = ANY(changed)
        UNION
        SELECT account_id, (created_at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_callnote WHERE order_id = ANY(changed)
        UNION
        SELECT account_id, (callback_at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
    ) past CROSS JOIN LATERAL (VALUES (past.account_id), (NULL)) AS whose(id)
    WHERE past.day <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
        AND (whose.id IS NOT NULL OR NOT EXISTS (SELECT FROM accounts_account twin WHERE twin.id = past.account_id AND twin.live_id IS NOT NULL))
$$;
CREATE FUNCTION public.orders_note_days_of_all(changed uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO orders_changedday (day)
    SELECT past.day FROM (
        SELECT account_id, (callback_at AT TIME ZONE 'Africa/Algiers')::date AS day
        FROM orders_callnote WHERE order_id = ANY(changed) AND callback_at IS NOT NULL
        UNION
        SELECT account_id, (at AT TIME ZONE 'Africa/Algiers')::date
        FROM orders_statuschange WHERE order_id = ANY(changed) AND to_status IN ('delivered', 'returned')
    ) past WHERE past.day <= (clock_timestamp() AT TIME ZONE 'Africa/Algiers')::date
        AND NOT EXISTS (SELECT FROM accounts_account twin WHERE twin.id = past.account_id AND twin.live_id IS NOT NULL)
$$;
CREATE FUNCTION public.orders_search_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO orders_searchchange (account_id, order_id) VALUES (NEW.account_id, NEW.id);
    RETURN NULL;
END $$;
CREATE FUNCTION public.orders_search_removed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO orders_searchchange (account_id, order_id)
    SELECT account_id, id FROM removed JOIN orders_searchable USING (account_id);
    RETURN NULL;
END $$;
CREATE FUNCTION public.webhooks_feed_base() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    started CONSTANT timestamptz := pg_postmaster_start_time();
    known webhooks_feedera;
BEGIN
    SELECT * INTO known FROM webhooks_feedera;
    IF known.server_started_at = started THEN
        RETURN known.base;
    END IF;
    known.base := greatest(extract(epoch FROM started)::bigint << 30, known.base + (1::bigint << 40));
    IF pg_try_advisory_xact_lock(431298736229) THEN
        INSERT INTO webhooks_feedera (id, server_started_at, base) VALUES (1, started, known.base)
        ON CONFLICT (id) DO UPDATE SET server_started_at = excluded.server_started_at, base = excluded.base
        WHERE webhooks_feedera.server_started_at <> excluded.server_started_at;
    END IF;
    RETURN known.base;
END $$;
CREATE FUNCTION public.webhooks_feed_horizon() RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT webhooks_feed_base() + least(
        pg_snapshot_xmax(snapshot), pg_current_xact_id_if_assigned(),
        (SELECT min(number) FROM pg_snapshot_xip(snapshot) AS number WHERE NOT EXISTS (
            SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND transactionid = number::xid
              AND datname <> current_database()
        ))
    )::text::bigint
    FROM pg_current_snapshot() AS snapshot
$$;
CREATE FUNCTION public.webhooks_feed_position() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN webhooks_feed_base() + greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1);
END $$;
CREATE TABLE public.webhooks_webhook (
    id uuid NOT NULL,
    url character varying(2048) NOT NULL,
    events character varying(32)[] NOT NULL,
    is_active boolean NOT NULL,
    secret bytea NOT NULL,
    secret_hint character varying(11) NOT NULL,
    previous_secret bytea,
    previous_secret_until timestamp with time zone,
    is_failing boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    account_id uuid NOT NULL,
    description character varying(255) DEFAULT ''::character varying NOT NULL,
    failing_since timestamp with time zone,
    is_alarmed boolean DEFAULT false NOT NULL,
    alarmed_at timestamp with time zone
);
CREATE FUNCTION public.webhooks_subscribed(accounts uuid[], kinds text[]) RETURNS SETOF public.webhooks_webhook
    LANGUAGE plpgsql ROWS 2
    AS $$
BEGIN
    RETURN QUERY SELECT * FROM webhooks_webhook
    WHERE account_id = ANY (accounts) AND deleted_at IS NULL AND is_active AND events && kinds::varchar[]
    ORDER BY id FOR KEY SHARE;
END $$;
CREATE TABLE public.accounts_account (
    id uuid NOT NULL,
    name character varying(255) NOT NULL,
    rate_limit integer,
    is_active boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    holder_id uuid,
    live_id uuid,
    CONSTRAINT account_has_holder_or_is_twin CHECK ((((holder_id IS NOT NULL) AND (live_id IS NULL)) OR ((holder_id IS NULL) AND (live_id IS NOT NULL)))),
    CONSTRAINT accounts_account_rate_limit_check CHECK ((rate_limit >= 0))
);
CREATE TABLE public.accounts_apikey (
    id uuid NOT NULL,
    name character varying(100) NOT NULL,
    prefix character varying(12) NOT NULL,
    digest bytea NOT NULL,
    scopes character varying(20)[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    account_id uuid NOT NULL,
    is_end_told boolean DEFAULT false NOT NULL
);
CREATE TABLE public.accounts_invitation (
    id uuid NOT NULL,
    email character varying(254) NOT NULL,
    role character varying(16) NOT NULL,
    digest bytea,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    sent_at timestamp with time zone,
    expires_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL
);
CREATE TABLE public.accounts_membership (
    id uuid NOT NULL,
    role character varying(16) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    account_id uuid NOT NULL,
    user_id uuid NOT NULL
);
CREATE TABLE public.accounts_securityentry (
    id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    action character varying(32) NOT NULL,
    outcome character varying(16) NOT NULL,
    by character varying(16) NOT NULL,
    actor character varying(255) NOT NULL,
    actor_id uuid,
    target character varying(255) NOT NULL,
    target_id uuid,
    address character varying(64) NOT NULL,
    count integer NOT NULL,
    last_at timestamp with time zone,
    hour timestamp with time zone,
    account_id uuid,
    CONSTRAINT accounts_securityentry_count_check CHECK ((count >= 0))
);
CREATE TABLE public.accounts_signin (
    id uuid NOT NULL,
    session_key character varying(40) NOT NULL,
    device character varying(64) NOT NULL,
    address character varying(64) NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    user_id uuid NOT NULL
);
CREATE TABLE public.accounts_user (
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    id uuid NOT NULL,
    has_one_time_password boolean DEFAULT false NOT NULL
);
CREATE TABLE public.accounts_user_groups (
    id bigint NOT NULL,
    user_id uuid NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.accounts_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.accounts_user_user_permissions (
    id bigint NOT NULL,
    user_id uuid NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.accounts_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.agents_assignment (
    agent_id uuid NOT NULL,
    merchants uuid[] NOT NULL,
    languages character varying(2)[] NOT NULL
);
CREATE TABLE public.agents_callday (
    day date NOT NULL
);
CREATE TABLE public.agents_callfigure (
    id bigint NOT NULL,
    day date NOT NULL,
    dimension character varying(10) NOT NULL,
    key character varying(500) NOT NULL,
    calls integer NOT NULL,
    reached integer NOT NULL,
    promises integer NOT NULL,
    kept integer NOT NULL,
    confirmed integer NOT NULL,
    canceled integer NOT NULL,
    delivered integer NOT NULL,
    returned integer NOT NULL,
    confirmed_amount numeric(18,2) NOT NULL,
    canceled_amount numeric(18,2) NOT NULL,
    delivered_amount numeric(18,2) NOT NULL,
    returned_amount numeric(18,2) NOT NULL,
    first_waits bytea NOT NULL,
    decision_waits bytea NOT NULL,
    CONSTRAINT agents_callfigure_calls_check CHECK ((calls >= 0)),
    CONSTRAINT agents_callfigure_canceled_check CHECK ((canceled >= 0)),
    CONSTRAINT agents_callfigure_confirmed_check CHECK ((confirmed >= 0)),
    CONSTRAINT agents_callfigure_delivered_check CHECK ((delivered >= 0)),
    CONSTRAINT agents_callfigure_kept_check CHECK ((kept >= 0)),
    CONSTRAINT agents_callfigure_promises_check CHECK ((promises >= 0)),
    CONSTRAINT agents_callfigure_reached_check CHECK ((reached >= 0)),
    CONSTRAINT agents_callfigure_returned_check CHECK ((returned >= 0))
);
ALTER TABLE public.agents_callfigure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.agents_callfigure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.agents_callingperiod (
    id uuid NOT NULL,
    name character varying(100) NOT NULL,
    first_day date NOT NULL,
    last_day date NOT NULL,
    opens_at time without time zone NOT NULL,
    closes_at time without time zone NOT NULL,
    is_opening boolean NOT NULL,
    account_id uuid,
    break_from time without time zone,
    break_until time without time zone,
    is_closed boolean DEFAULT false NOT NULL,
    CONSTRAINT period_break_within CHECK ((((break_from IS NULL) AND (break_until IS NULL)) OR ((break_from > opens_at) AND (break_from IS NOT NULL) AND (break_until > break_from) AND (break_until IS NOT NULL) AND (break_until < closes_at)))),
    CONSTRAINT period_days_in_order CHECK ((first_day <= last_day)),
    CONSTRAINT period_hours_in_order CHECK ((opens_at < closes_at))
);
CREATE TABLE public.agents_callingrules (
    account_id uuid NOT NULL,
    retry_minutes smallint NOT NULL,
    most_attempts smallint NOT NULL,
    opens_at time without time zone NOT NULL,
    closes_at time without time zone NOT NULL,
    days_off smallint[] NOT NULL,
    keeps_holidays boolean DEFAULT false NOT NULL,
    script_ar character varying(2000) DEFAULT ''::character varying NOT NULL,
    script_fr character varying(2000) DEFAULT ''::character varying NOT NULL,
    break_from time without time zone,
    break_until time without time zone,
    CONSTRAINT agents_callingrules_most_attempts_check CHECK ((most_attempts >= 0)),
    CONSTRAINT agents_callingrules_retry_minutes_check CHECK ((retry_minutes >= 0)),
    CONSTRAINT calling_break_within CHECK ((((break_from IS NULL) AND (break_until IS NULL)) OR ((break_from > opens_at) AND (break_from IS NOT NULL) AND (break_until > break_from) AND (break_until IS NOT NULL) AND (break_until < closes_at)))),
    CONSTRAINT calling_days_left CHECK (((days_off <@ ARRAY[(1)::smallint, (2)::smallint, (3)::smallint, (4)::smallint, (5)::smallint, (6)::smallint, (7)::smallint]) AND (
CASE
    WHEN (days_off IS NULL) THEN NULL::integer
    ELSE COALESCE(array_length(days_off, 1), 0)
END < 7))),
    CONSTRAINT calling_hours_in_order CHECK ((opens_at < closes_at))
);
CREATE TABLE public.agents_callpart (
    day date NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE TABLE public.agents_claim (
    id uuid NOT NULL,
    phone_e164 character varying(16) NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    agent_id uuid NOT NULL
);
CREATE TABLE public.agents_preferences (
    user_id uuid NOT NULL,
    has_keys boolean DEFAULT true NOT NULL
);
CREATE TABLE public.agents_publicholiday (
    day date NOT NULL,
    name character varying(100) NOT NULL
);
CREATE TABLE public.api_idempotencyrecord (
    id bigint NOT NULL,
    key character varying(255) NOT NULL,
    fingerprint bytea NOT NULL,
    status smallint NOT NULL,
    body bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL,
    CONSTRAINT api_idempotencyrecord_status_check CHECK ((status >= 0))
);
ALTER TABLE public.api_idempotencyrecord ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.api_idempotencyrecord_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id uuid NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.inventory_product (
    id uuid NOT NULL,
    sku character varying(64) NOT NULL,
    name character varying(255) NOT NULL,
    price numeric(10,2) NOT NULL,
    stock_quantity integer NOT NULL,
    is_active boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL,
    image_url character varying(2048) DEFAULT ''::character varying NOT NULL,
    script character varying(2000) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT inventory_product_stock_quantity_check CHECK ((stock_quantity >= 0)),
    CONSTRAINT product_price_not_negative CHECK ((price >= (0)::numeric)),
    CONSTRAINT product_stock_in_bounds CHECK (((stock_quantity >= 0) AND (stock_quantity <= 1000000000)))
);
CREATE TABLE public.inventory_stockmovement (
    id bigint NOT NULL,
    old_quantity integer NOT NULL,
    new_quantity integer NOT NULL,
    at timestamp with time zone NOT NULL,
    actor character varying(255) NOT NULL,
    account_id uuid NOT NULL,
    product_id uuid NOT NULL,
    user_id uuid,
    CONSTRAINT inventory_stockmovement_new_quantity_check CHECK ((new_quantity >= 0)),
    CONSTRAINT inventory_stockmovement_old_quantity_check CHECK ((old_quantity >= 0))
);
ALTER TABLE public.inventory_stockmovement ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.inventory_stockmovement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.operations_duty (
    name character varying(40) NOT NULL,
    done_at timestamp with time zone NOT NULL,
    taken_until timestamp with time zone NOT NULL
);
CREATE TABLE public.orders_callnote (
    id uuid NOT NULL,
    outcome character varying(20) NOT NULL,
    note character varying(2000) NOT NULL,
    agent_name character varying(255) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    callback_at timestamp with time zone,
    account_id uuid NOT NULL,
    agent_id uuid,
    order_id uuid NOT NULL
);
CREATE TABLE public.orders_changedday (
    id bigint NOT NULL,
    day date NOT NULL,
    account_id uuid
);
ALTER TABLE public.orders_changedday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_changedday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_dayfigure (
    id bigint NOT NULL,
    day date NOT NULL,
    dimension character varying(10) NOT NULL,
    key character varying(500) NOT NULL,
    new_count integer NOT NULL,
    new_amount numeric(18,2) NOT NULL,
    unit_count bigint NOT NULL,
    confirmed_count integer NOT NULL,
    confirmed_amount numeric(18,2) NOT NULL,
    canceled_count integer NOT NULL,
    canceled_amount numeric(18,2) NOT NULL,
    refused_count integer NOT NULL,
    refused_amount numeric(18,2) NOT NULL,
    shipped_count integer NOT NULL,
    shipped_amount numeric(18,2) NOT NULL,
    delivered_count integer NOT NULL,
    delivered_amount numeric(18,2) NOT NULL,
    returned_count integer NOT NULL,
    returned_amount numeric(18,2) NOT NULL,
    first_call_count integer NOT NULL,
    account_id uuid NOT NULL,
    CONSTRAINT orders_dayfigure_canceled_count_check CHECK ((canceled_count >= 0)),
    CONSTRAINT orders_dayfigure_confirmed_count_check CHECK ((confirmed_count >= 0)),
    CONSTRAINT orders_dayfigure_delivered_count_check CHECK ((delivered_count >= 0)),
    CONSTRAINT orders_dayfigure_first_call_count_check CHECK ((first_call_count >= 0)),
    CONSTRAINT orders_dayfigure_new_count_check CHECK ((new_count >= 0)),
    CONSTRAINT orders_dayfigure_refused_count_check CHECK ((refused_count >= 0)),
    CONSTRAINT orders_dayfigure_returned_count_check CHECK ((returned_count >= 0)),
    CONSTRAINT orders_dayfigure_shipped_count_check CHECK ((shipped_count >= 0)),
    CONSTRAINT orders_dayfigure_unit_count_check CHECK ((unit_count >= 0))
);
ALTER TABLE public.orders_dayfigure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_dayfigure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_erasure (
    id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    actor character varying(255) NOT NULL,
    order_count integer NOT NULL,
    account_id uuid NOT NULL,
    user_id uuid,
    CONSTRAINT orders_erasure_order_count_check CHECK ((order_count >= 0))
);
CREATE TABLE public.orders_order (
    id uuid NOT NULL,
    external_id character varying(64),
    status character varying(20) NOT NULL,
    version integer NOT NULL,
    customer_name character varying(255) NOT NULL,
    customer_phone character varying(40) NOT NULL,
    phone_e164 character varying(16) NOT NULL,
    customer_address character varying(500) NOT NULL,
    customer_wilaya character varying(255) NOT NULL,
    wilaya_code character varying(2) NOT NULL,
    customer_commune character varying(255) NOT NULL,
    commune_code character varying(4),
    total_amount numeric(10,2) NOT NULL,
    shipping_fee numeric(10,2) NOT NULL,
    notes character varying(2000) NOT NULL,
    cancel_reason character varying(500) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    confirmed_at timestamp with time zone,
    canceled_at timestamp with time zone,
    account_id uuid NOT NULL,
    call_state character varying(10) DEFAULT 'new'::character varying NOT NULL,
    call_due_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    call_attempts smallint DEFAULT 0 NOT NULL,
    callback_agent_id uuid,
    anonymised_at timestamp with time zone,
    customer_phone_2 character varying(40),
    phone_2_e164 character varying(16),
    delivery_type character varying(10) DEFAULT 'home'::character varying NOT NULL,
    source character varying(64),
    CONSTRAINT order_shipping_fee_not_negative CHECK ((shipping_fee >= (0)::numeric)),
    CONSTRAINT order_status_known CHECK (((status)::text = ANY ((ARRAY['pending_confirmation'::character varying, 'confirmed'::character varying, 'canceled'::character varying, 'shipped'::character varying, 'delivered'::character varying, 'returned'::character varying])::text[]))),
    CONSTRAINT order_total_not_negative CHECK ((total_amount >= (0)::numeric)),
    CONSTRAINT orders_order_call_attempts_check CHECK ((call_attempts >= 0)),
    CONSTRAINT orders_order_version_check CHECK ((version >= 0))
);
CREATE TABLE public.orders_ordercount (
    id bigint NOT NULL,
    status character varying(20) NOT NULL,
    delta integer NOT NULL,
    account_id uuid NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');
ALTER TABLE public.orders_ordercount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_ordercount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_orderedit (
    id uuid NOT NULL,
    field character varying(40) NOT NULL,
    old character varying(500) NOT NULL,
    new character varying(500) NOT NULL,
    at timestamp with time zone NOT NULL,
    actor character varying(255) NOT NULL,
    account_id uuid NOT NULL,
    order_id uuid NOT NULL,
    user_id uuid
);
CREATE TABLE public.orders_orderitem (
    id uuid NOT NULL,
    "position" smallint NOT NULL,
    product_name character varying(255) NOT NULL,
    sku character varying(64),
    quantity integer NOT NULL,
    unit_price numeric(10,2) NOT NULL,
    attributes jsonb NOT NULL,
    account_id uuid NOT NULL,
    order_id uuid NOT NULL,
    product_id uuid,
    CONSTRAINT item_price_not_negative CHECK ((unit_price >= (0)::numeric)),
    CONSTRAINT item_quantity_positive CHECK ((quantity >= 1)),
    CONSTRAINT orders_orderitem_position_check CHECK (("position" >= 0)),
    CONSTRAINT orders_orderitem_quantity_check CHECK ((quantity >= 0))
);
CREATE TABLE public.orders_ordertrigrams (
    order_id uuid NOT NULL,
    trigrams integer[] NOT NULL,
    account_id uuid NOT NULL
);
CREATE TABLE public.orders_searchable (
    account_id uuid NOT NULL,
    through timestamp with time zone
);
CREATE TABLE public.orders_searchchange (
    id bigint NOT NULL,
    order_id uuid NOT NULL,
    account_id uuid NOT NULL
);
ALTER TABLE public.orders_searchchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_searchchange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_shippingfee (
    id bigint NOT NULL,
    wilaya_code character varying(2) NOT NULL,
    home numeric(10,2),
    desk numeric(10,2),
    account_id uuid NOT NULL,
    CONSTRAINT shipping_fee_desk_not_negative CHECK (((desk IS NULL) OR (desk >= (0)::numeric))),
    CONSTRAINT shipping_fee_home_not_negative CHECK (((home IS NULL) OR (home >= (0)::numeric))),
    CONSTRAINT shipping_fee_says_something CHECK (((home IS NOT NULL) OR (desk IS NOT NULL)))
);
ALTER TABLE public.orders_shippingfee ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_shippingfee_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_statuschange (
    id bigint NOT NULL,
    from_status character varying(20),
    to_status character varying(20) NOT NULL,
    at timestamp with time zone NOT NULL,
    actor character varying(255) NOT NULL,
    reason character varying(500) NOT NULL,
    account_id uuid NOT NULL,
    order_id uuid NOT NULL,
    user_id uuid
);
ALTER TABLE public.orders_statuschange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_statuschange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.orders_summedup (
    account_id uuid NOT NULL,
    until timestamp with time zone
);
CREATE TABLE public.otp_totp_totpdevice (
    id integer NOT NULL,
    name character varying(64) NOT NULL,
    confirmed boolean NOT NULL,
    key character varying(80) NOT NULL,
    step smallint NOT NULL,
    t0 bigint NOT NULL,
    digits smallint NOT NULL,
    tolerance smallint NOT NULL,
    drift smallint NOT NULL,
    last_t bigint NOT NULL,
    user_id uuid NOT NULL,
    throttling_failure_count integer NOT NULL,
    throttling_failure_timestamp timestamp with time zone,
    created_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT otp_totp_totpdevice_digits_check CHECK ((digits >= 0)),
    CONSTRAINT otp_totp_totpdevice_step_check CHECK ((step >= 0)),
    CONSTRAINT otp_totp_totpdevice_throttling_failure_count_check CHECK ((throttling_failure_count >= 0)),
    CONSTRAINT otp_totp_totpdevice_tolerance_check CHECK ((tolerance >= 0))
);
ALTER TABLE public.otp_totp_totpdevice ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.otp_totp_totpdevice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.uploads_block (
    id bigint NOT NULL,
    last_line integer NOT NULL,
    data bytea NOT NULL,
    account_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    CONSTRAINT uploads_block_last_line_check CHECK ((last_line >= 0))
);
ALTER TABLE public.uploads_block ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.uploads_block_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.uploads_piece (
    id bigint NOT NULL,
    number integer NOT NULL,
    data bytea NOT NULL,
    account_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    CONSTRAINT uploads_piece_number_check CHECK ((number >= 0))
);
ALTER TABLE public.uploads_piece ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.uploads_piece_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.uploads_refusedrow (
    id bigint NOT NULL,
    line integer NOT NULL,
    cells text[] NOT NULL,
    faults jsonb NOT NULL,
    account_id uuid NOT NULL,
    upload_id uuid NOT NULL,
    name character varying(64) DEFAULT ''::character varying NOT NULL,
    CONSTRAINT uploads_refusedrow_line_check CHECK ((line >= 0))
);
ALTER TABLE public.uploads_refusedrow ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.uploads_refusedrow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.uploads_upload (
    id uuid NOT NULL,
    kind character varying(16) NOT NULL,
    name character varying(255) NOT NULL,
    size integer NOT NULL,
    status character varying(16) NOT NULL,
    actor character varying(255) NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    problem text NOT NULL,
    digest character varying(64) NOT NULL,
    titles text[] NOT NULL,
    headings character varying(64) NOT NULL,
    row_count integer NOT NULL,
    mapping jsonb NOT NULL,
    "position" integer NOT NULL,
    rows_done integer NOT NULL,
    counts jsonb NOT NULL,
    claim uuid,
    claimed_until timestamp with time zone,
    tries smallint NOT NULL,
    account_id uuid NOT NULL,
    sheet character varying(100) DEFAULT ''::character varying NOT NULL,
    constants jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT uploads_upload_position_check CHECK (("position" >= 0)),
    CONSTRAINT uploads_upload_row_count_check CHECK ((row_count >= 0)),
    CONSTRAINT uploads_upload_rows_done_check CHECK ((rows_done >= 0)),
    CONSTRAINT uploads_upload_size_check CHECK ((size >= 0)),
    CONSTRAINT uploads_upload_tries_check CHECK ((tries >= 0))
);
CREATE TABLE public.webhooks_attempt (
    id bigint NOT NULL,
    number smallint NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    milliseconds integer NOT NULL,
    status_code smallint,
    failure character varying(32) NOT NULL,
    response bytea NOT NULL,
    account_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    CONSTRAINT webhooks_attempt_milliseconds_check CHECK ((milliseconds >= 0)),
    CONSTRAINT webhooks_attempt_number_check CHECK ((number >= 0)),
    CONSTRAINT webhooks_attempt_status_code_check CHECK ((status_code >= 0))
);
ALTER TABLE public.webhooks_attempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhooks_attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.webhooks_claim (
    delivery_id uuid NOT NULL,
    token uuid NOT NULL,
    until timestamp with time zone NOT NULL,
    webhook_id uuid NOT NULL
);
CREATE TABLE public.webhooks_delivery (
    id uuid NOT NULL,
    status character varying(9) NOT NULL,
    attempt_count smallint NOT NULL,
    retries_left smallint NOT NULL,
    next_attempt_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    account_id uuid NOT NULL,
    event_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    CONSTRAINT pending_delivery_has_a_time CHECK (((NOT ((status)::text = 'pending'::text)) OR (next_attempt_at IS NOT NULL))),
    CONSTRAINT webhooks_delivery_attempt_count_check CHECK ((attempt_count >= 0)),
    CONSTRAINT webhooks_delivery_retries_left_check CHECK ((retries_left >= 0))
);
CREATE TABLE public.webhooks_event (
    id uuid NOT NULL,
    kind character varying(32) NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    account_id uuid NOT NULL,
    request_id character varying(128) DEFAULT ''::character varying NOT NULL,
    "position" bigint DEFAULT public.webhooks_feed_position()
);
CREATE TABLE public.webhooks_feedera (
    id smallint NOT NULL,
    server_started_at timestamp with time zone NOT NULL,
    base bigint NOT NULL
);
CREATE TABLE public.webhooks_feedgap (
    id bigint NOT NULL,
    positions int8range NOT NULL,
    backup_at timestamp with time zone NOT NULL
);
ALTER TABLE public.webhooks_feedgap ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhooks_feedgap_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.webhooks_recovery (
    id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    "position" bigint NOT NULL,
    event_id uuid NOT NULL,
    stop_at bigint NOT NULL,
    account_id uuid NOT NULL,
    webhook_id uuid NOT NULL
);
INSERT INTO public.auth_group (id, name) VALUES (1, 'Agents');
INSERT INTO public.auth_group (id, name) VALUES (2, 'Supervisors');
INSERT INTO public.auth_group_permissions (id, group_id, permission_id) VALUES (1, 1, 1);
INSERT INTO public.auth_group_permissions (id, group_id, permission_id) VALUES (2, 1, 2);
INSERT INTO public.auth_group_permissions (id, group_id, permission_id) VALUES (3, 2, 1);
INSERT INTO public.auth_group_permissions (id, group_id, permission_id) VALUES (4, 2, 2);
INSERT INTO public.auth_group_permissions (id, group_id, permission_id) VALUES (5, 2, 3);
INSERT INTO public.auth_permission (id, name, content_type_id, codename) VALUES (1, 'Can view order', 1, 'view_order');
INSERT INTO public.auth_permission (id, name, content_type_id, codename) VALUES (2, 'Can call customers and decide orders', 1, 'work_order');
INSERT INTO public.auth_permission (id, name, content_type_id, codename) VALUES (3, 'Can see all orders', 1, 'supervise_order');
INSERT INTO public.django_content_type (id, app_label, model) VALUES (1, 'orders', 'order');
SELECT pg_catalog.setval('public.accounts_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.accounts_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.agents_callfigure_id_seq', 1, false);
SELECT pg_catalog.setval('public.api_idempotencyrecord_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_id_seq', 2, true);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 5, true);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 3, true);
SELECT pg_catalog.setval('public.django_admin_log_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 1, true);
SELECT pg_catalog.setval('public.inventory_stockmovement_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_changedday_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_dayfigure_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_ordercount_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_searchchange_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_shippingfee_id_seq', 1, false);
SELECT pg_catalog.setval('public.orders_statuschange_id_seq', 1, false);
SELECT pg_catalog.setval('public.otp_totp_totpdevice_id_seq', 1, false);
SELECT pg_catalog.setval('public.uploads_block_id_seq', 1, false);
SELECT pg_catalog.setval('public.uploads_piece_id_seq', 1, false);
SELECT pg_catalog.setval('public.uploads_refusedrow_id_seq', 1, false);
SELECT pg_catalog.setval('public.webhooks_attempt_id_seq', 1, false);
SELECT pg_catalog.setval('public.webhooks_feedgap_id_seq', 1, false);
ALTER TABLE ONLY public.uploads_refusedrow
    ADD CONSTRAINT a_row_is_refused_once UNIQUE (upload_id, line);
ALTER TABLE ONLY public.accounts_account
    ADD CONSTRAINT accounts_account_holder_id_key UNIQUE (holder_id);
ALTER TABLE ONLY public.accounts_account
    ADD CONSTRAINT accounts_account_live_id_key UNIQUE (live_id);
ALTER TABLE ONLY public.accounts_account
    ADD CONSTRAINT accounts_account_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_apikey
    ADD CONSTRAINT accounts_apikey_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.accounts_apikey
    ADD CONSTRAINT accounts_apikey_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_user_id_key UNIQUE (user_id);
ALTER TABLE ONLY public.accounts_securityentry
    ADD CONSTRAINT accounts_securityentry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_signin
    ADD CONSTRAINT accounts_signin_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_signin
    ADD CONSTRAINT accounts_signin_session_key_key UNIQUE (session_key);
ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_group_id_59c0b32f_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permi_user_id_permission_id_2ab516c2_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.agents_assignment
    ADD CONSTRAINT agents_assignment_pkey PRIMARY KEY (agent_id);
ALTER TABLE ONLY public.agents_callday
    ADD CONSTRAINT agents_callday_pkey PRIMARY KEY (day);
ALTER TABLE ONLY public.agents_callfigure
    ADD CONSTRAINT agents_callfigure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.agents_callingperiod
    ADD CONSTRAINT agents_callingperiod_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.agents_callingrules
    ADD CONSTRAINT agents_callingrules_pkey PRIMARY KEY (account_id);
ALTER TABLE ONLY public.agents_callpart
    ADD CONSTRAINT agents_callpart_pkey PRIMARY KEY (day);
ALTER TABLE ONLY public.agents_claim
    ADD CONSTRAINT agents_claim_phone_e164_key UNIQUE (phone_e164);
ALTER TABLE ONLY public.agents_claim
    ADD CONSTRAINT agents_claim_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.agents_preferences
    ADD CONSTRAINT agents_preferences_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.agents_publicholiday
    ADD CONSTRAINT agents_publicholiday_pkey PRIMARY KEY (day);
ALTER TABLE ONLY public.api_idempotencyrecord
    ADD CONSTRAINT api_idempotencyrecord_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.inventory_product
    ADD CONSTRAINT inventory_product_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.inventory_stockmovement
    ADD CONSTRAINT inventory_stockmovement_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.api_idempotencyrecord
    ADD CONSTRAINT one_answer_per_idempotency_key UNIQUE (account_id, key);
ALTER TABLE ONLY public.uploads_block
    ADD CONSTRAINT one_block_up_to_a_line UNIQUE (upload_id, last_line);
ALTER TABLE ONLY public.agents_callfigure
    ADD CONSTRAINT one_call_figure_per_day UNIQUE (dimension, day, key);
ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT one_delivery_per_event_and_webhook UNIQUE (event_id, webhook_id);
ALTER TABLE ONLY public.orders_dayfigure
    ADD CONSTRAINT one_figure_per_day UNIQUE (account_id, dimension, day, key);
ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT one_invitation_per_address UNIQUE (account_id, email);
ALTER TABLE ONLY public.orders_orderitem
    ADD CONSTRAINT one_item_per_position UNIQUE (order_id, "position");
ALTER TABLE ONLY public.uploads_piece
    ADD CONSTRAINT one_piece_of_a_number UNIQUE (upload_id, number);
ALTER TABLE ONLY public.inventory_product
    ADD CONSTRAINT one_product_per_sku UNIQUE (account_id, sku);
ALTER TABLE ONLY public.orders_shippingfee
    ADD CONSTRAINT one_shipping_fee_per_wilaya UNIQUE (account_id, wilaya_code);
ALTER TABLE ONLY public.operations_duty
    ADD CONSTRAINT operations_duty_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.orders_callnote
    ADD CONSTRAINT orders_callnote_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_changedday
    ADD CONSTRAINT orders_changedday_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_dayfigure
    ADD CONSTRAINT orders_dayfigure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_erasure
    ADD CONSTRAINT orders_erasure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_order
    ADD CONSTRAINT orders_order_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_ordercount
    ADD CONSTRAINT orders_ordercount_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_orderedit
    ADD CONSTRAINT orders_orderedit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_orderitem
    ADD CONSTRAINT orders_orderitem_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_ordertrigrams
    ADD CONSTRAINT orders_ordertrigrams_pkey PRIMARY KEY (order_id);
ALTER TABLE ONLY public.orders_searchable
    ADD CONSTRAINT orders_searchable_pkey PRIMARY KEY (account_id);
ALTER TABLE ONLY public.orders_searchchange
    ADD CONSTRAINT orders_searchchange_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_shippingfee
    ADD CONSTRAINT orders_shippingfee_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_statuschange
    ADD CONSTRAINT orders_statuschange_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders_summedup
    ADD CONSTRAINT orders_summedup_pkey PRIMARY KEY (account_id);
ALTER TABLE ONLY public.otp_totp_totpdevice
    ADD CONSTRAINT otp_totp_totpdevice_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.uploads_block
    ADD CONSTRAINT uploads_block_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.uploads_piece
    ADD CONSTRAINT uploads_piece_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.uploads_refusedrow
    ADD CONSTRAINT uploads_refusedrow_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.uploads_upload
    ADD CONSTRAINT uploads_upload_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_attempt
    ADD CONSTRAINT webhooks_attempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_claim
    ADD CONSTRAINT webhooks_claim_pkey PRIMARY KEY (delivery_id);
ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT webhooks_delivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_event
    ADD CONSTRAINT webhooks_event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_feedera
    ADD CONSTRAINT webhooks_feedera_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_feedgap
    ADD CONSTRAINT webhooks_feedgap_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_recovery
    ADD CONSTRAINT webhooks_recovery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks_webhook
    ADD CONSTRAINT webhooks_webhook_pkey PRIMARY KEY (id);
CREATE INDEX accounts_apikey_account_id_4f4d624b ON public.accounts_apikey USING btree (account_id);
CREATE INDEX accounts_membership_account_id_4cff857d ON public.accounts_membership USING btree (account_id);
CREATE INDEX accounts_signin_user_id_700b4e69 ON public.accounts_signin USING btree (user_id);
CREATE INDEX accounts_user_groups_group_id_bd11a704 ON public.accounts_user_groups USING btree (group_id);
CREATE INDEX accounts_user_groups_user_id_52b62117 ON public.accounts_user_groups USING btree (user_id);
CREATE INDEX accounts_user_user_permissions_permission_id_113bb443 ON public.accounts_user_user_permissions USING btree (permission_id);
CREATE INDEX accounts_user_user_permissions_user_id_e4f0a161 ON public.accounts_user_user_permissions USING btree (user_id);
CREATE INDEX accounts_user_username_6088629e_like ON public.accounts_user USING btree (username varchar_pattern_ops);
CREATE INDEX agents_callingperiod_account_id_f7bba5e6 ON public.agents_callingperiod USING btree (account_id);
CREATE INDEX agents_claim_agent_id_7c1af9dc ON public.agents_claim USING btree (agent_id);
CREATE INDEX attempt_of_delivery ON public.webhooks_attempt USING btree (delivery_id, number);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX call_note_by_promise ON public.orders_callnote USING btree (callback_at) WHERE (callback_at IS NOT NULL);
CREATE INDEX call_note_by_time ON public.orders_callnote USING brin (created_at) WITH (autosummarize='on');
CREATE INDEX call_note_of_account ON public.orders_callnote USING btree (account_id, created_at);
CREATE INDEX call_note_of_order ON public.orders_callnote USING btree (order_id, created_at);
CREATE INDEX call_note_wrong_number ON public.orders_callnote USING btree (account_id, created_at) WHERE ((outcome)::text = 'wrong_number'::text);
CREATE INDEX changed_day_of_account ON public.orders_changedday USING btree (account_id, day);
CREATE INDEX delivery_first_attempts ON public.webhooks_delivery USING btree (webhook_id, next_attempt_at) WHERE ((attempt_count = 0) AND ((status)::text = 'pending'::text));
CREATE INDEX delivery_log ON public.webhooks_delivery USING btree (webhook_id, created_at DESC, id DESC);
CREATE INDEX delivery_log_failed ON public.webhooks_delivery USING btree (webhook_id, created_at DESC, id DESC) WHERE ((status)::text = 'failed'::text);
CREATE INDEX delivery_retries ON public.webhooks_delivery USING btree (webhook_id, next_attempt_at) WHERE ((attempt_count > 0) AND ((status)::text = 'pending'::text));
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX erasure_list ON public.orders_erasure USING btree (account_id, created_at DESC, id DESC);
CREATE INDEX event_in_feed ON public.webhooks_event USING btree (account_id, kind, "position", created_at, id);
CREATE INDEX idempotency_created_at ON public.api_idempotencyrecord USING btree (created_at);
CREATE UNIQUE INDEX one_entry_per_refused_login ON public.accounts_securityentry USING btree (hour, target, address) WHERE (hour IS NOT NULL);
CREATE UNIQUE INDEX one_order_per_external_id ON public.orders_order USING btree (account_id, external_id) WHERE (external_id IS NOT NULL);
CREATE UNIQUE INDEX one_user_per_email ON public.accounts_user USING btree (lower((email)::text)) WHERE (NOT ((email)::text = ''::text));
CREATE INDEX operations_duty_name_6ad1f02c_like ON public.operations_duty USING btree (name varchar_pattern_ops);
CREATE INDEX order_by_address ON public.orders_order USING btree (md5(lower((customer_address)::text)), created_at);
CREATE INDEX order_by_folded_name ON public.orders_order USING gin (to_tsvector('simple'::regconfig, translate((customer_name)::text, './@:_&?=<>+-ÀÂÄÇÈÉÊËÎÏÔÖÙÛÜàâäçèéêëîïñôöùûüأإآٱىةؤئـًٌٍَُِّْٰ'::text, '            AAACEEEEIIOOUUUaaaceeeeiinoouuuاااايهوي'::text))) WITH (gin_pending_list_limit='512');
CREATE INDEX order_by_phone ON public.orders_order USING btree (phone_e164, created_at DESC);
CREATE INDEX order_by_phone_end ON public.orders_order USING btree ("right"((phone_e164)::text, 4));
CREATE INDEX order_by_second_phone ON public.orders_order USING btree (phone_2_e164) WHERE (phone_2_e164 IS NOT NULL);
CREATE INDEX order_by_time ON public.orders_order USING brin (created_at) WITH (autosummarize='on');
CREATE INDEX order_by_trigrams ON public.orders_ordertrigrams USING gin (trigrams);
CREATE INDEX order_callback_of_agent ON public.orders_order USING btree (callback_agent_id, call_due_at) WHERE (((call_state)::text = 'callback'::text) AND ((status)::text = 'pending_confirmation'::text));
CREATE INDEX order_console ON public.orders_order USING btree (status, id) WHERE (NOT ((call_state)::text = 'test'::text));
CREATE INDEX order_count_of_account ON public.orders_ordercount USING btree (account_id, status) INCLUDE (delta);
CREATE INDEX order_edit_of_order ON public.orders_orderedit USING btree (order_id, at);
CREATE INDEX order_edit_of_phone ON public.orders_orderedit USING btree (account_id) WHERE ((field)::text = ANY ((ARRAY['customer_phone'::character varying, 'customer_phone_2'::character varying])::text[]));
CREATE INDEX order_list ON public.orders_order USING btree (account_id, created_at DESC, id DESC);
CREATE INDEX order_list_by_status ON public.orders_order USING btree (account_id, status, created_at DESC, id DESC);
CREATE INDEX order_list_by_update ON public.orders_order USING btree (account_id, updated_at DESC, id DESC);
CREATE INDEX order_list_by_wilaya ON public.orders_order USING btree (account_id, wilaya_code, created_at DESC, id DESC) INCLUDE (status);
CREATE INDEX order_of_twin ON public.orders_order USING btree (created_at) WHERE ((call_state)::text = 'test'::text);
CREATE INDEX order_to_anonymise ON public.orders_order USING btree (updated_at) WHERE ((anonymised_at IS NULL) AND ((status)::text = ANY ((ARRAY['canceled'::character varying, 'delivered'::character varying, 'returned'::character varying])::text[])));
CREATE INDEX order_to_call ON public.orders_order USING btree (call_state, call_due_at, id) WHERE ((status)::text = 'pending_confirmation'::text);
CREATE INDEX otp_totp_totpdevice_user_id_0fb18292 ON public.otp_totp_totpdevice USING btree (user_id);
CREATE INDEX refused_rows_by_name ON public.uploads_refusedrow USING btree (account_id, name) WHERE (NOT ((name)::text = ''::text));
CREATE INDEX search_change_of_account ON public.orders_searchchange USING btree (account_id);
CREATE INDEX security_by_action ON public.accounts_securityentry USING btree (action, created_at DESC, id DESC);
CREATE INDEX security_by_time ON public.accounts_securityentry USING btree (created_at DESC, id DESC);
CREATE INDEX security_by_words ON public.accounts_securityentry USING gin (to_tsvector('simple'::regconfig, translate((((((actor)::text || ' '::text) || (target)::text) || ' '::text) || (address)::text), './@:_&?=<>+-→'::text, '             '::text))) WITH (gin_pending_list_limit='512');
CREATE INDEX security_of_account ON public.accounts_securityentry USING btree (account_id, created_at DESC, id DESC) WHERE (account_id IS NOT NULL);
CREATE INDEX security_refused ON public.accounts_securityentry USING btree (created_at DESC, id DESC) WHERE ((outcome)::text = 'refused'::text);
CREATE INDEX status_change_by_time ON public.orders_statuschange USING brin (at) WITH (autosummarize='on');
CREATE INDEX status_change_of_account ON public.orders_statuschange USING btree (account_id, at);
CREATE INDEX status_change_of_order ON public.orders_statuschange USING btree (order_id, at);
CREATE INDEX stock_movement_chain ON public.inventory_stockmovement USING btree (product_id, id);
CREATE INDEX upload_by_time ON public.uploads_upload USING btree (created_at);
CREATE INDEX upload_of_account ON public.uploads_upload USING btree (account_id, kind, created_at DESC, id DESC);
CREATE INDEX upload_to_work_at ON public.uploads_upload USING btree (claimed_until) WHERE ((status)::text = ANY ((ARRAY['reading'::character varying, 'running'::character varying])::text[]));
CREATE INDEX webhook_of_account ON public.webhooks_webhook USING btree (account_id, created_at) WHERE (deleted_at IS NULL);
CREATE TRIGGER agents_part_removed AFTER DELETE ON public.agents_callday FOR EACH STATEMENT EXECUTE FUNCTION public.agents_part_removed();
CREATE TRIGGER orders_call_changed AFTER UPDATE OF order_id, outcome, created_at, agent_id, callback_at ON public.orders_callnote FOR EACH ROW EXECUTE FUNCTION public.orders_day_of_call();
CREATE TRIGGER orders_calls_added AFTER INSERT ON public.orders_callnote REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION public.orders_days_of_calls();
CREATE TRIGGER orders_calls_removed AFTER DELETE ON public.orders_callnote REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION public.orders_days_of_calls();
CREATE TRIGGER orders_count_added AFTER INSERT ON public.orders_order REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.orders_count_added();
CREATE TRIGGER orders_count_moved AFTER UPDATE ON public.orders_order REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.orders_count_moved();
CREATE TRIGGER orders_count_removed AFTER DELETE ON public.orders_order REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.orders_count_removed();
CREATE TRIGGER orders_day_added AFTER INSERT ON public.orders_statuschange FOR EACH ROW WHEN ((new.at < now())) EXECUTE FUNCTION public.orders_day_of_change();
CREATE TRIGGER orders_day_changed AFTER DELETE OR UPDATE ON public.orders_statuschange FOR EACH ROW EXECUTE FUNCTION public.orders_day_of_change();
CREATE TRIGGER orders_days_of_edits AFTER INSERT ON public.orders_orderedit REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION public.orders_days_of_edits();
CREATE TRIGGER orders_days_of_line AFTER UPDATE OF product_id, product_name, quantity, unit_price ON public.orders_orderitem FOR EACH ROW WHEN (((((old.product_id IS DISTINCT FROM new.product_id) OR ((old.product_name)::text IS DISTINCT FROM (new.product_name)::text)) OR (old.quantity IS DISTINCT FROM new.quantity)) OR (old.unit_price IS DISTINCT FROM new.unit_price))) EXECUTE FUNCTION public.orders_days_of_line();
CREATE TRIGGER orders_days_of_lines AFTER DELETE ON public.orders_orderitem REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION public.orders_days_of_lines();
CREATE TRIGGER orders_days_of_order AFTER UPDATE OF wilaya_code, source, total_amount, created_at ON public.orders_order FOR EACH ROW WHEN ((((((old.wilaya_code)::text IS DISTINCT FROM (new.wilaya_code)::text) OR ((old.source)::text IS DISTINCT FROM (new.source)::text)) OR (old.total_amount IS DISTINCT FROM new.total_amount)) OR (old.created_at IS DISTINCT FROM new.created_at))) EXECUTE FUNCTION public.orders_days_of_order();
CREATE TRIGGER orders_search_backdated AFTER INSERT ON public.orders_order FOR EACH ROW WHEN ((new.created_at < now())) EXECUTE FUNCTION public.orders_search_change();
CREATE TRIGGER orders_search_changed AFTER UPDATE OF customer_name, customer_phone, phone_e164, customer_address, created_at ON public.orders_order FOR EACH ROW WHEN (((((((old.customer_name)::text IS DISTINCT FROM (new.customer_name)::text) OR ((old.customer_phone)::text IS DISTINCT FROM (new.customer_phone)::text)) OR ((old.phone_e164)::text IS DISTINCT FROM (new.phone_e164)::text)) OR ((old.customer_address)::text IS DISTINCT FROM (new.customer_address)::text)) OR (old.created_at IS DISTINCT FROM new.created_at))) EXECUTE FUNCTION public.orders_search_change();
CREATE TRIGGER orders_search_removed AFTER DELETE ON public.orders_order REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION public.orders_search_removed();
ALTER TABLE ONLY public.accounts_account
    ADD CONSTRAINT accounts_account_holder_id_2a87e44e_fk_accounts_user_id FOREIGN KEY (holder_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_account
    ADD CONSTRAINT accounts_account_live_id_cdcc0c91_fk_accounts_account_id FOREIGN KEY (live_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_apikey
    ADD CONSTRAINT accounts_apikey_account_id_4f4d624b_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_account_id_8e9dd036_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_account_id_4cff857d_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_user_id_487fb39e_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_securityentry
    ADD CONSTRAINT accounts_securityent_account_id_cbc18ae4_fk_accounts_ FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_signin
    ADD CONSTRAINT accounts_signin_user_id_700b4e69_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_group_id_bd11a704_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_52b62117_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_permission_id_113bb443_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_user_id_e4f0a161_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.agents_assignment
    ADD CONSTRAINT agents_assignment_agent_id_95bf67b4_fk_accounts_user_id FOREIGN KEY (agent_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.agents_callingperiod
    ADD CONSTRAINT agents_callingperiod_account_id_f7bba5e6_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.agents_callingrules
    ADD CONSTRAINT agents_callingrules_account_id_761560c8_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.agents_claim
    ADD CONSTRAINT agents_claim_agent_id_7c1af9dc_fk_accounts_user_id FOREIGN KEY (agent_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.agents_preferences
    ADD CONSTRAINT agents_preferences_user_id_3c52e137_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.api_idempotencyrecord
    ADD CONSTRAINT api_idempotencyrecor_account_id_e90af9fd_fk_accounts_ FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.inventory_product
    ADD CONSTRAINT inventory_product_account_id_94536c85_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.inventory_stockmovement
    ADD CONSTRAINT inventory_stockmovem_product_id_4eccfd0a_fk_inventory FOREIGN KEY (product_id) REFERENCES public.inventory_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.inventory_stockmovement
    ADD CONSTRAINT inventory_stockmovement_user_id_9fe5f98d_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_callnote
    ADD CONSTRAINT orders_callnote_agent_id_5535b812_fk_accounts_user_id FOREIGN KEY (agent_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_callnote
    ADD CONSTRAINT orders_callnote_order_id_4a88f2c2_fk_orders_order_id FOREIGN KEY (order_id) REFERENCES public.orders_order(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_erasure
    ADD CONSTRAINT orders_erasure_account_id_5dd87e1a_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_erasure
    ADD CONSTRAINT orders_erasure_user_id_6a44b920_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_order
    ADD CONSTRAINT orders_order_account_id_cf843c80_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_order
    ADD CONSTRAINT orders_order_callback_agent_id_02bc7cc2_fk_accounts_user_id FOREIGN KEY (callback_agent_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_orderedit
    ADD CONSTRAINT orders_orderedit_order_id_5ac0510a_fk_orders_order_id FOREIGN KEY (order_id) REFERENCES public.orders_order(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_orderedit
    ADD CONSTRAINT orders_orderedit_user_id_f3cee4c4_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_orderitem
    ADD CONSTRAINT orders_orderitem_order_id_fe61a34d_fk_orders_order_id FOREIGN KEY (order_id) REFERENCES public.orders_order(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_orderitem
    ADD CONSTRAINT orders_orderitem_product_id_afe4254a_fk_inventory_product_id FOREIGN KEY (product_id) REFERENCES public.inventory_product(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_searchable
    ADD CONSTRAINT orders_searchable_account_id_a4fb0b67_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_shippingfee
    ADD CONSTRAINT orders_shippingfee_account_id_9fc12978_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_statuschange
    ADD CONSTRAINT orders_statuschange_order_id_e853d80f_fk_orders_order_id FOREIGN KEY (order_id) REFERENCES public.orders_order(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_statuschange
    ADD CONSTRAINT orders_statuschange_user_id_061e06be_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.orders_summedup
    ADD CONSTRAINT orders_summedup_account_id_fbf4d34b_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.otp_totp_totpdevice
    ADD CONSTRAINT otp_totp_totpdevice_user_id_0fb18292_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_block
    ADD CONSTRAINT uploads_block_account_id_71f73d26_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_block
    ADD CONSTRAINT uploads_block_upload_id_c847d1fa_fk_uploads_upload_id FOREIGN KEY (upload_id) REFERENCES public.uploads_upload(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_piece
    ADD CONSTRAINT uploads_piece_account_id_b0aa1d34_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_piece
    ADD CONSTRAINT uploads_piece_upload_id_4aa51e6c_fk_uploads_upload_id FOREIGN KEY (upload_id) REFERENCES public.uploads_upload(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_refusedrow
    ADD CONSTRAINT uploads_refusedrow_account_id_9ee87583_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_refusedrow
    ADD CONSTRAINT uploads_refusedrow_upload_id_042d8c4f_fk_uploads_upload_id FOREIGN KEY (upload_id) REFERENCES public.uploads_upload(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.uploads_upload
    ADD CONSTRAINT uploads_upload_account_id_0f736558_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT webhooks_delivery_event_id_b6f5af91_fk_webhooks_event_id FOREIGN KEY (event_id) REFERENCES public.webhooks_event(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.webhooks_delivery
    ADD CONSTRAINT webhooks_delivery_webhook_id_27345d75_fk_webhooks_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhooks_webhook(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.webhooks_recovery
    ADD CONSTRAINT webhooks_recovery_webhook_id_57741815_fk_webhooks_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhooks_webhook(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.webhooks_webhook
    ADD CONSTRAINT webhooks_webhook_account_id_a7c58302_fk_accounts_account_id FOREIGN KEY (account_id) REFERENCES public.accounts_account(id) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO public.django_migrations (app, name, applied) VALUES
('accounts', '0001_initial', now()),
('accounts', '0002_one_time_passwords', now()),
('accounts', '0003_security_log', now()),
('accounts', '0004_more_scopes', now()),
('accounts', '0005_twins', now()),
('accounts', '0006_check_twins', now()),
('accounts', '0007_team', now()),
('accounts', '0008_operators_pages', now()),
('accounts', '0009_unused_indexes', now()),
('accounts', '0010_key_end_told', now()),
('admin', '0001_initial', now()),
('admin', '0002_logentry_remove_auto_add', now()),
('admin', '0003_logentry_add_action_flag_choices', now()),
('agents', '0001_roles', now()),
('agents', '0002_claims_and_calling_rules', now()),
('agents', '0003_calling_periods', now()),
('agents', '0004_scripts', now()),
('agents', '0005_call_figures', now()),
('agents', '0006_assignments', now()),
('agents', '0007_part_of_today', now()),
('agents', '0008_calling_breaks', now()),
('agents', '0009_closed_days', now()),
('agents', '0010_claims_without_like', now()),
('agents', '0011_holidays_from_file', now()),
('agents', '0012_sums_anew', now()),
('api', '0001_initial', now()),
('auth', '0001_initial', now()),
('auth', '0002_alter_permission_name_max_length', now()),
('auth', '0003_alter_user_email_max_length', now()),
('auth', '0004_alter_user_username_opts', now()),
('auth', '0005_alter_user_last_login_null', now()),
('auth', '0006_require_contenttypes_0002', now()),
('auth', '0007_alter_validators_add_error_messages', now()),
('auth', '0008_alter_user_username_max_length', now()),
('auth', '0009_alter_user_last_name_max_length', now()),
('auth', '0010_alter_group_name_max_length', now()),
('auth', '0011_update_proxy_permissions', now()),
('auth', '0012_alter_user_first_name_max_length', now()),
('contenttypes', '0001_initial', now()),
('contenttypes', '0002_remove_content_type_name', now()),
('inventory', '0001_initial', now()),
('inventory', '0002_stock_movements', now()),
('inventory', '0003_bound_stock', now()),
('inventory', '0004_check_bound_of_stock', now()),
('inventory', '0005_pictures_and_scripts', now()),
('operations', '0001_duties', now()),
('orders', '0001_initial', now()),
('orders', '0002_count_orders', now()),
('orders', '0003_console_list', now()),
('orders', '0004_call_desk', now()),
('orders', '0005_call_desk_indexes', now()),
('orders', '0006_anonymised_orders', now()),
('orders', '0007_orders_to_anonymise', now()),
('orders', '0008_count_older_orders', now()),
('orders', '0009_console_search', now()),
('orders', '0010_delivery_type_source_second_phone', now()),
('orders', '0011_shipping_fees', now()),
('orders', '0012_test_orders', now()),
('orders', '0013_days', now()),
('orders', '0014_day_indexes', now()),
('orders', '0015_erasures', now()),
('orders', '0016_customer_data_indexes', now()),
('orders', '0017_search', now()),
('orders', '0018_days_of_all', now()),
('orders', '0019_order_words', now()),
('orders', '0020_sums_of_today', now()),
('orders', '0021_today_of_all', now()),
('orders', '0022_list_by_wilaya', now()),
('orders', '0023_folded_names', now()),
('orders', '0024_lines_without_product_index', now()),
('orders', '0025_summed_through', now()),
('orders', '0026_days_of_added_lines', now()),
('otp_totp', '0001_initial', now()),
('otp_totp', '0002_auto_20190420_0723', now()),
('otp_totp', '0003_add_timestamps', now()),
('sessions', '0001_initial', now()),
('uploads', '0001_uploads', now()),
('uploads', '0002_sheet', now()),
('uploads', '0003_constants', now()),
('uploads', '0004_fingerprint', now()),
('uploads', '0005_refused_names', now()),
('webhooks', '0001_initial', now()),
('webhooks', '0002_deliveries', now()),
('webhooks', '0003_attempts_without_check', now()),
('webhooks', '0004_event_request_id', now()),
('webhooks', '0005_failed_deliveries', now()),
('webhooks', '0006_feed', now()),
('webhooks', '0007_feed_index', now()),
('webhooks', '0008_mend_webhooks', now()),
('webhooks', '0009_feed_horizon', now()),
('webhooks', '0010_words', now()),
('webhooks', '0011_feed_in_order', now()),
('webhooks', '0012_feed_in_time', now()),
('webhooks', '0013_subscribed', now()),
('webhooks', '0014_feed_gaps', now());
