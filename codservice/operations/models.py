from django.db import models


class Duty(models.Model):
    """Something that recurs: when it was last done, and until when a worker that is at it is believed to live.

    Rows, and not keys in Redis, so that they outlive it. Read and written by `operations.duties` alone.
    """

    name = models.CharField(max_length=40, primary_key=True)
    done_at = models.DateTimeField()
    taken_until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name
