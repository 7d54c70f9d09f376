from django.db import migrations
from django.utils import timezone

TYPE = "send_report"
LINKS = "alerts_reportplan_channels"
SAME = ("title", "rule", "time_zone", "start_at", "next_at", "version", "query", "owner_id")
STAMPS = ("created_at", "created_by", "updated_at", "updated_by")


def move(apps, schema_editor):
    """Each plan becomes a schedule, with its runs. The old rows stay, off and without channels, for
    deliveries that processes of the release before are about to send."""
    old = apps.get_model("alerts", "OldReportPlan").objects
    if not old.exists():
        return
    _make_type(apps)
    channels = _channels(schema_editor)
    # A sweep of the release before may be about to send one.
    for row in old.select_for_update().order_by("pk"):
        plan = _plan_of(apps, row)
        plan.channels.set(channels.get(row.pk, ()))
        _move_runs(apps, row, plan)
    old.update(enabled=False, next_at=None)
    _execute(schema_editor, f"DELETE FROM {LINKS}")


def _plan_of(apps, row):
    """Of a new schedule, or of the one that it had before a way back."""
    of = {"created_at": row.created_at, "created_by": row.created_by}
    had = apps.get_model("schedules", "Schedule").objects.filter(job_type=TYPE, **of).first()
    plan = apps.get_model("alerts", "ReportPlan")(
        id=had and had.pk,
        schedule_ptr_id=had and had.pk,
        job_type=TYPE,
        status="active" if row.enabled else "paused",
        last_job=had and had.last_job,
        **{name: getattr(row, name) for name in (*SAME, *STAMPS)},
    )
    plan.save()
    return plan


def _make_type(apps):
    """Of the jobs of the schedules."""
    now = timezone.now()
    apps.get_model("jobs", "JobType").objects.update_or_create(
        name=TYPE,
        defaults={"handler": TYPE},
        create_defaults={
            "title": "Reports that are sent",
            "handler": TYPE,
            "lane": "slow",
            "default_priority": 100,
            "max_attempts": 8,
            "retry_delay_seconds": 10,
            "retry_multiplier": 2.7,
            "retry_max_seconds": 3600,
            "lease_seconds": 60,
            "max_processing_seconds": 900,
            "created_at": now,
            "created_by": "alerts",
            "updated_at": now,
            "updated_by": "alerts",
        },
    )


def _channels(schema_editor):
    found = {}
    for plan, channel in _execute(schema_editor, f"SELECT reportplan_id, channel_id FROM {LINKS}"):
        found.setdefault(plan, []).append(channel)
    return found


def _execute(schema_editor, sql):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def _move_runs(apps, row, plan):
    """A run has the job of its first delivery, and the other deliveries that have ended have it,
    too. One that waits keeps its job, and says what it is about."""
    deliveries = apps.get_model("alerts", "Delivery").objects
    for run in apps.get_model("alerts", "ReportRun").objects.filter(plan=row).order_by("pk"):
        sent = list(deliveries.filter(report=run).order_by("pk"))
        job = next((each.job for each in sent if each.job), None)
        if job is None and not run.why:
            continue
        states = {each.state for each in sent}
        outcome = "failed" if "failed" in states else "succeeded"
        if "waiting" in states:
            outcome = ""
        apps.get_model("schedules", "ScheduleRun").objects.get_or_create(
            schedule_id=plan.pk,
            occurrence=run.occurrence,
            defaults={
                "at": run.at,
                "job": job,
                "why": "" if job else run.why,
                "outcome": outcome if job else "refused",
            },
        )
        if job:
            plan.last_job = job
        for each in sent:
            if each.state == "waiting":
                about = {"plan": plan.pk, "at": run.at.isoformat()}
                deliveries.filter(pk=each.pk).update(message={**each.message, **about})
            else:
                deliveries.filter(pk=each.pk).update(job=job)
    plan.save()


def move_back(apps, schema_editor):
    """The plans as they are now go on in the old table. Their schedules stay for their history, as
    deleted ones do."""
    plans = apps.get_model("alerts", "ReportPlan").objects
    old = apps.get_model("alerts", "OldReportPlan").objects
    for plan in plans.order_by("pk"):
        values = {name: getattr(plan, name) for name in (*SAME, *STAMPS)}
        of = {"created_at": plan.created_at, "created_by": plan.created_by}
        if plan.status == "deleted":
            old.filter(**of).delete()
            continue
        values |= {"enabled": plan.status == "active", "title": plan.title[:100]}
        row, _ = old.update_or_create(**of, defaults=values)
        for channel in plan.channels.values_list("pk", flat=True):
            with schema_editor.connection.cursor() as cursor:
                sql = f"INSERT INTO {LINKS} (reportplan_id, channel_id) VALUES (%s, %s)"
                cursor.execute(sql, [row.pk, channel])
    numbers = list(plans.values_list("pk", flat=True))
    for plan in plans.all():
        plan.delete(keep_parents=True)
    gone = apps.get_model("schedules", "Schedule").objects.filter(pk__in=numbers)
    gone.update(status="deleted", next_at=None)
    # Workers of the release before do not start where a type has a handler that they do not know.
    apps.get_model("jobs", "JobType").objects.filter(name=TYPE).update(handler="")


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0008_reports_by_schedules'),
        ('jobs', '0016_words'),
    ]

    # It reads report plans, their runs and their deliveries.
    seconds_per_million = {}

    operations = [
        migrations.RunPython(move, move_back),
        # The tables and the column stay for the release before; the one after this may drop them.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint(model_name='delivery', name='delivery_report_once'),
                migrations.RemoveField(model_name='delivery', name='report'),
                migrations.DeleteModel(name='ReportRun'),
                migrations.DeleteModel(name='OldReportPlan'),
            ],
        ),
    ]
