"""API clients: callers, their keys and their permissions."""

from __future__ import annotations

import hmac
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.access.directory import directory_of
from apps.access.rules.clients import TERMS, Client, ClientTerms, Rate
from apps.common.fields import KeyField
from apps.common.nouns import noun
from apps.common.shaped import TEXTS, ShapedField, misshapen
from apps.journal.models import Source, Versioned


class State(models.TextChoices):
    LIVE = "live", _("live")  # the key works
    EXPIRED = "expired", _("expired")  # it works again with a later expiry
    REVOKED = "revoked", _("revoked")  # final


class ApiClient(Versioned):
    """One caller and the hashes of its secret. The secret itself is shown once and never stored.

    While a rotation is under way two secrets open: the new one, and the previous one until
    `previous_valid_until`.
    """

    journal_source = Source.ACCESS

    client_id = KeyField(_("key id"), max_length=64, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=100)
    secret_hash = KeyField(max_length=64, editable=False)
    previous_hash = KeyField(max_length=64, blank=True, default="", editable=False)
    previous_valid_until = models.DateTimeField(
        _("previous key valid until"), null=True, editable=False
    )
    scopes = ShapedField(_("scopes"), default=list, shape=TEXTS)
    executors = ShapedField(_("people and groups"), default=list, blank=True, shape=TEXTS)
    job_types = ShapedField(_("job types"), default=list, blank=True, shape=TEXTS)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    rate = models.CharField(_("rate"), max_length=16, blank=True, default="")
    revoked_at = models.DateTimeField(_("revoked at"), null=True, editable=False)
    last_used_at = models.DateTimeField(_("last used at"), null=True, editable=False)
    created_at = models.DateTimeField(_("created at"), editable=False)
    created_by = models.CharField(_("created by"), max_length=160, editable=False)

    class Meta:
        verbose_name = noun(_("API key"))
        verbose_name_plural = noun(_("API keys"))
        # Revoked, never deleted: the journal refers to it.
        default_permissions = ("add", "change", "view")

    def __str__(self) -> str:
        return f"{self.name} ({self.client_id})"

    @property
    def journal_name(self) -> str:
        return self.client_id

    def state(self, now: datetime) -> State:
        if self.revoked_at is not None:
            return State.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return State.EXPIRED
        return State.LIVE

    def opens_with(self, digest: str, now: datetime) -> bool:
        """Whether a secret with this digest is valid now; takes equally long for every answer."""
        is_current = hmac.compare_digest(self.secret_hash, digest)
        is_previous = hmac.compare_digest(self.previous_hash, digest)
        keeps_previous = self.keeps_previous(now)
        return self.state(now) == State.LIVE and (is_current or (is_previous and keeps_previous))

    def keeps_previous(self, now: datetime) -> bool:
        """Whether the secret before the last rotation is still valid."""
        return self.previous_valid_until is not None and now < self.previous_valid_until

    def terms(self) -> ClientTerms:
        return ClientTerms(**{name: getattr(self, name) for name in TERMS})

    def as_client(self) -> Client:
        """What it may do: nothing while SQL has left something that cannot be read, because without
        its bindings it would reach everything."""
        is_readable = not any(misshapen(self))
        try:
            rate = Rate.parse(self.rate) if self.rate else None
        except ValueError:
            rate, is_readable = None, False
        return Client(
            client_id=self.client_id,
            name=self.name,
            scopes=frozenset(self.scopes if is_readable else ()),
            executors=frozenset(self.executors),
            job_types=frozenset(self.job_types),
            rate=rate,
        )


# Where the limits of a person are kept, on the object.
KNOWN_LIMITS = "_known_limits"
# No executor or job type has this name.
_ELSEWHERE = "*"


class Limited(models.Model):
    """A person sees only what scopes name, on one side of the platform.

    The row stays when the last scope goes, because it was removed or what it named was deleted:
    the person then sees nothing there, until somebody lifts the limit.
    """

    class Side(models.TextChoices):
        EXECUTORS = "executors", _("people and groups")
        JOB_TYPES = "job_types", _("job types")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="limits",
        verbose_name=_("person"),
    )
    side = KeyField(_("limited to"), max_length=16, choices=Side.choices)

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        # The permissions on scopes say who may limit operators.
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["person", "side"], name="limited_once"),
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.side}"

    @classmethod
    def begin(cls, person_id: int, side: str) -> None:
        """Limit the person on that side; once is enough."""
        cls.objects.get_or_create(person_id=person_id, side=side)

    @classmethod
    def names_of(cls, person: AbstractBaseUser | AnonymousUser, side: str) -> list[str] | None:
        """The names that the person is limited to; None for no limit, as superusers have."""
        found = cls._rows(person, side)
        own = [name for name in found if name != _ELSEWHERE]
        return [name for name in own if name] if own else None

    @classmethod
    def is_elsewhere(cls, person: AbstractBaseUser | AnonymousUser, side: str) -> bool:
        """Whether the person is limited on another side alone."""
        return {*cls._rows(person, side)} == {_ELSEWHERE}

    @classmethod
    def _rows(cls, person: AbstractBaseUser | AnonymousUser, side: str) -> list[str]:
        """The names in the scopes, "" for a limit on this side, and _ELSEWHERE for one on another.

        Read once for each object of a person, as Django reads permissions: each model of the menu
        asks.
        """
        if getattr(person, "is_superuser", False):
            return []
        known: dict[str, list[str]] = getattr(person, KNOWN_LIMITS, {})
        if side not in known:
            mark = models.Case(
                models.When(side=side, then=models.Value("")),
                default=models.Value(_ELSEWHERE),
                output_field=models.CharField(),
            )
            limit = cls.objects.filter(person_id=person.pk).values_list(mark)
            scopes = directory_of(side).limits(person.pk)
            known[side] = [str(row[0]) for row in scopes.union(limit, all=True)]
            setattr(person, KNOWN_LIMITS, known)
        return known[side]
