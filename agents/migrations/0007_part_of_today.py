"""The call center's figures of the day under way are summed up until some minutes ago.

They stand beside those of whole days, which the version before reads alone. It takes what was noted of today as if it
were for nothing, and then removes days, be it none: so whoever does that removes the part of today.
"""

from django.db import migrations, models

CREATE = """
CREATE FUNCTION agents_part_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM agents_callpart;
    RETURN NULL;
END $$;
CREATE TRIGGER agents_part_removed AFTER DELETE ON agents_callday
    FOR EACH STATEMENT EXECUTE FUNCTION agents_part_removed();
"""
DROP = """
DROP TRIGGER agents_part_removed ON agents_callday;
DROP FUNCTION agents_part_removed();
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0006_assignments"), ("orders", "0021_today_of_all")]

    operations = [
        migrations.CreateModel(
            name="CallPart",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
