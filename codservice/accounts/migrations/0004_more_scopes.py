from django.db import migrations

# What a key could do before it can still do, where a part of it has a scope of its own now.
ADD = """
UPDATE accounts_apikey SET scopes = scopes
    || CASE WHEN 'inventory:read' = ANY (scopes) THEN ARRAY['products:read'] ELSE ARRAY[]::text[] END
    || CASE WHEN 'inventory:write' = ANY (scopes) THEN ARRAY['products:write'] ELSE ARRAY[]::text[] END
    || CASE WHEN 'webhooks:read' = ANY (scopes) THEN ARRAY['events:read'] ELSE ARRAY[]::text[] END
WHERE NOT scopes && ARRAY['products:read', 'products:write', 'events:read']::varchar[]
"""
REMOVE = """
UPDATE accounts_apikey
SET scopes = array_remove(array_remove(array_remove(scopes, 'products:read'), 'products:write'), 'events:read')
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_security_log"),
    ]

    operations = [
        migrations.RunSQL(ADD, REMOVE),
    ]
