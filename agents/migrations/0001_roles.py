from django.db import migrations

# What Django names them after `migrate`, when it makes the permissions of all models.
PERMISSIONS = {
    "view_order": "Can view order",
    "work_order": "Can call customers and decide orders",
    "supervise_order": "Can see all orders",
}
GROUPS = {
    "Agents": ["view_order", "work_order"],
    "Supervisors": ["view_order", "work_order", "supervise_order"],
}


def make_groups(apps, schema_editor):
    """On a new database the permissions do not exist yet: Django makes them after all migrations."""
    content_types = apps.get_model("contenttypes", "ContentType").objects
    permissions = apps.get_model("auth", "Permission").objects
    groups = apps.get_model("auth", "Group").objects
    order, _ = content_types.get_or_create(app_label="orders", model="order")
    rows = {
        codename: permissions.get_or_create(content_type=order, codename=codename, defaults={"name": name})[0]
        for codename, name in PERMISSIONS.items()
    }
    for name, codenames in GROUPS.items():
        group, _ = groups.get_or_create(name=name)
        group.permissions.add(*(rows[codename] for codename in codenames))


def remove_groups(apps, schema_editor):
    """The permissions stay: they belong to the model."""
    groups = apps.get_model("auth", "Group").objects
    groups.filter(name__in=GROUPS).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("orders", "0001_initial"),
    ]

    operations = [migrations.RunPython(make_groups, remove_groups)]
