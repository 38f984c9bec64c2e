"""The people who may call customers: their names, and a form's field to choose one of them."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.forms.models import ModelChoiceIterator
from django.utils.translation import gettext_lazy as _

from codservice import postgresql
from codservice.accounts.models import User
from codservice.form_fields import LongSelect

# With their `display_name`, and the username behind a name that several have.
_WORKERS = """
SELECT id, CASE WHEN count(*) OVER (PARTITION BY name) > 1 THEN name || ' (' || username || ')' ELSE name END
FROM accounts_user u, LATERAL (
    SELECT left(COALESCE(NULLIF(trim(u.first_name || ' ' || u.last_name), ''), u.username), 255) AS name
) named
WHERE u.is_active AND EXISTS (
    SELECT FROM accounts_user_groups m JOIN auth_group_permissions g ON g.group_id = m.group_id
        JOIN auth_permission p ON p.id = g.permission_id
    WHERE m.user_id = u.id AND p.codename = 'work_order'
) ORDER BY u.first_name, u.username
"""


def workers() -> list[tuple[UUID, str]]:
    """The ids and names of the people who may call customers.

    A handwritten statement: Django takes longer to build one, and makes a User of each row.
    """
    return postgresql.rows(_WORKERS)


class _Workers(ModelChoiceIterator):
    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self.field.empty_label is not None:
            yield "", self.field.empty_label
        yield from (row for row in workers() if row[0] != self.field.but)


class WorkerField(forms.ModelChoiceField):
    """A choice of one of `workers()`, except `but`. Rendering it reads only their names."""

    iterator = _Workers
    default_error_messages = {"invalid_choice": _("This person no longer calls customers. Choose somebody else.")}
    but: UUID | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(User.objects.all(), widget=LongSelect, **kwargs)

    def to_python(self, value: Any) -> User | None:
        worker = super().to_python(value)
        if worker is not None and worker.pk not in dict(self.choices):
            raise ValidationError(self.error_messages["invalid_choice"])
        return worker
