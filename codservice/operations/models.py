from django.db import models


class Duty(models.Model):
    """A recurring duty: when it was last done, and until when the worker that took it is presumed alive.

    Rows rather than Redis keys, so that they outlive Redis. Read and written only by `operations.duties`; but `clock`,
    when the database's clock was last seen to be set, is `codservice.retention`'s.
    """

    name = models.CharField(max_length=40, primary_key=True)
    done_at = models.DateTimeField()
    taken_until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "duties"
