"""The log of the attempts of jobs, in parts."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import References


class JobLog(models.Model):
    """Lines of one attempt; `rules/job_log.py` says how they are written.

    `hold` names the attempt for ever, `attempt` as people count it. `part` is how many lines it had
    said before, `lines` how many these are; the last `left_out` of them are not in `text`. Bytes in
    `size` count towards the limit. It stays here when its job goes to the archive, and is forgotten
    with it.
    """

    refers_to: ClassVar[References] = {"job": ("jobs.Job",)}

    job = models.BigIntegerField(_("job"))
    hold = models.PositiveIntegerField("hold")
    attempt = models.PositiveIntegerField(_("try"))
    part = models.PositiveBigIntegerField(_("part"))
    lines = models.PositiveBigIntegerField(_("lines"))
    left_out = models.PositiveBigIntegerField(_("left out"), default=0)
    size = models.PositiveIntegerField(_("bytes"))
    text = models.TextField(_("text"))

    class Meta:
        db_table = "jobs_log"
        verbose_name = _("log of a job")
        verbose_name_plural = _("logs of jobs")
        # Who may see the contexts and results of jobs may see their logs.
        default_permissions = ()
        indexes = [
            # The log of a job in its order, on from a part of it.
            models.Index(fields=["job", "hold", "part"], name="job_log_order"),
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.hold}.{self.part}"
