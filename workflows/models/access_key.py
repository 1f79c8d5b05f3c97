"""Who may call the API: keys of workspaces.

Invariant owned: no column holds a key, only its SHA-256; whoever reads the table cannot call.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workflows.fields import TextListField
from workflows.models.instance import Workspace


class ApiKey(models.Model):
    """A key of one workspace, and what it may be used for."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, related_name="api_keys", verbose_name=_("workspace"), db_index=False
    )
    name = models.CharField(_("name"), max_length=200)
    #: The first characters of the key: enough to tell it from others, and of no use without the rest.
    prefix = models.CharField(_("begins with"), max_length=20)
    hash = models.BinaryField(unique=True)
    scopes = TextListField(_("scopes"))
    #: NULL: all workflows.
    workflows = TextListField(_("workflows"), null=True)
    #: Such as "600/m"; empty for the site's own (`API_RATE`).
    rate = models.CharField(_("rate"), max_length=20, blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    created_by = models.TextField(_("created by"), default="", blank=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)
    #: Written about once a minute while the key is used.
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True)

    class Meta:
        db_table = "holdpoint_api_key"
        ordering: ClassVar = ["id"]
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        indexes: ClassVar = [models.Index(fields=["workspace", "name"], name="holdpoint_api_key_name")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_usable(self, now: datetime | None = None) -> bool:
        """Whether it opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > (now or timezone.now()))
