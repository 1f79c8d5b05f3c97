"""Revoking and rotating keys, and the one page that shows a new key.

Invariant owned: a key travels from `workflows.access.api_keys` into the answer to the request that made it, and nowhere
else: no session, message, log entry or cache ever holds it, so that page cannot be had again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, AdminForm
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from workflows.access.api_keys import revoke_key, rotate_key
from workflows.admin.base import StyledAdmin
from workflows.admin.keys.key_forms import RotateForm, propose_expiry
from workflows.admin.markup import show_badge, show_moment, show_relative, show_text
from workflows.admin.tenancy import TenantAdmin, list_rights
from workflows.exceptions import InvalidCall
from workflows.models import ApiKey

#: Keys of one request.
LIMIT = 500
#: The session's note of the last form that made a key: reloading the answer must not make another.
MADE = "holdpoint_key_made"


class KeyActions(TenantAdmin, StyledAdmin):
    """The part of the keys' admin that makes and ends them."""

    actions = ["revoke", "rotate"]

    def has_rotate_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """A rotation makes one key and gives another an end; the new one may do what the old one may."""
        return self.has_add_permission(request) and self.has_change_permission(request, obj)

    def has_revoke_permission(self, request: HttpRequest, obj: ApiKey) -> bool:
        """Ending a key takes no right that the key has."""
        return obj.revoked_at is None and self.has_change_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list; Django would choke on a forged id."""
        for text in request.POST.getlist(ACTION_CHECKBOX_NAME):
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise BadRequest("not the id of a key")
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    # --- revoke -------------------------------------------------------------------------------------

    @admin.action(description=_("Revoke selected API keys…"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Ask, then revoke what was chosen in the list."""
        if request.POST.get("confirmed"):
            # What was agreed to, even if it has left the filtered list meanwhile.
            queryset = self.get_queryset(request).filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
        chosen = list(queryset.order_by("id")[: LIMIT + 1])
        if len(chosen) > LIMIT:
            refusal = gettext("Choose at most %(limit)d keys at a time.") % {"limit": LIMIT}
            self.message_user(request, refusal, messages.ERROR)
            return None
        return self.ask_then_revoke(request, chosen, back=request.get_full_path())

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The button on a key's page: the same question for one."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        row = self.find_row(request, object_id)
        page = self.locate(row)
        return self.ask_then_revoke(request, [row], back=page) or HttpResponseRedirect(page)

    def ask_then_revoke(self, request: HttpRequest, chosen: Sequence[ApiKey], *, back: str) -> HttpResponse | None:
        """The question, until it is answered; None when the keys have been dealt with."""
        if request.method != "POST" or not request.POST.get("confirmed"):
            title = ngettext("Revoke this API key?", "Revoke these API keys?", len(chosen))
            return self.ask(request, "revoke", chosen, back=back, title=title)
        done = 0
        for row in chosen:
            if revoke_key(row):
                done += 1
                self.log_change(request, row, gettext("Revoked."))
        told = ngettext("%(count)d key was revoked.", "%(count)d keys were revoked.", done) % {"count": done}
        if done < len(chosen):
            told += " " + gettext("The others had been before.")
        self.message_user(request, told, messages.SUCCESS if done else messages.WARNING)
        return None

    # --- rotate -------------------------------------------------------------------------------------

    @admin.action(description=_("Rotate selected API key…"), permissions=["rotate"])
    def rotate(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """To the page that asks how; one at a time, because each new key is shown on a page of its own."""
        chosen = list(queryset[:2])
        if len(chosen) == 1:
            return HttpResponseRedirect(self.locate(chosen[0], "rotate"))
        self.message_user(request, gettext("Rotate one key at a time: the new one is shown only once."), messages.ERROR)
        return None

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The button on a key's page: how long the old one stays, then the new one."""
        if not self.has_rotate_permission(request):
            raise PermissionDenied
        row = self.find_row(request, object_id)
        if not set(row.scopes) <= list_rights(request.user):
            raise PermissionDenied
        if (made := self.recall(request)) is not None:
            return made
        if not row.is_usable():
            self.message_user(request, gettext("This key opens nothing any more: make a new one."), messages.ERROR)
            return HttpResponseRedirect(self.locate(row))
        form = RotateForm(request.POST or None, initial={"expires_at": propose_expiry(row)})
        if form.is_valid():
            try:
                return self.rotate_then_show(request, row, form.cleaned_data)
            except InvalidCall as refusal:
                form.add_error(None, str(refusal))
        fields: Any = AdminForm(cast(Any, form), [(None, {"fields": list(form.fields)})], {})
        title = gettext("Rotate this API key?")
        return self.ask(request, "rotate", [row], back=self.locate(row), title=title, form=fields)

    @sensitive_variables("key")
    def rotate_then_show(self, request: HttpRequest, row: ApiKey, options: dict[str, Any]) -> HttpResponse:
        """Replace a key, and keep who did it."""
        with transaction.atomic(using=router.db_for_write(ApiKey)):
            made, key = rotate_key(row, **options, actor=request.user)
            self.log_change(request, row, gettext("Replaced by %(key)s.") % {"key": made})
            self.log_addition(request, made, gettext("Replaces %(key)s.") % {"key": row})
        return self.show_once(request, made, key, replaced=row)

    # --- the pages ----------------------------------------------------------------------------------

    @sensitive_variables("key", "context")
    def show_once(self, request: HttpRequest, row: ApiKey, key: str, *, replaced: ApiKey | None = None) -> HttpResponse:
        """The answer to the request that made a key, with the key in it."""
        request.session[MADE] = [request.POST.get("once"), row.pk]
        context = {
            **self.describe_page(request, gettext("Copy this key now")),
            "key": key,
            "row": row,
            "page": self.locate(row),
            "replaced": replaced,
            "until": replaced and show_moment(replaced.expires_at),
        }
        answer = TemplateResponse(request, "admin/holdpoint/apikey/key.html", context)
        answer["Cache-Control"] = "no-store, private"
        return answer

    def recall(self, request: HttpRequest) -> HttpResponse | None:
        """Where a form leads that has made its key already: sent again, such as by a reload, it makes no other."""
        made, pk = request.session.get(MADE) or (None, None)
        if request.method != "POST" or not made or request.POST.get("once") != made:
            return None
        told = gettext("This form has made its key, which was shown that one time. If it was not copied, rotate it.")
        self.message_user(request, told, messages.WARNING)
        return HttpResponseRedirect(
            reverse("admin:holdpoint_apikey_change", args=[pk], current_app=self.admin_site.name)
        )

    def ask(
        self, request: HttpRequest, what: str, chosen: Sequence[ApiKey], *, title: str, **more: Any
    ) -> HttpResponse:
        """A question about keys, with the keys."""
        context = {
            **self.describe_page(request, title),
            "chosen": [(row, show_text(row.name, 40), show_state(row), show_used(row)) for row in chosen],
            "once": make_once(),
            "checkbox": ACTION_CHECKBOX_NAME,
            **more,
        }
        return TemplateResponse(request, f"admin/holdpoint/apikey/{what}.html", context)

    def describe_page(self, request: HttpRequest, title: str) -> dict[str, Any]:
        """What every page of the admin is handed."""
        request.current_app = self.admin_site.name
        return {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}

    def get_urls(self) -> list[URLPattern]:
        """The addresses of the page, and of its buttons."""
        wrap = self.admin_site.admin_view
        return [
            path("<int:object_id>/revoke/", wrap(self.revoke_view), name="holdpoint_apikey_revoke"),
            path("<int:object_id>/rotate/", wrap(self.rotate_view), name="holdpoint_apikey_rotate"),
            *super().get_urls(),
        ]

    def find_row(self, request: HttpRequest, object_id: object) -> ApiKey:
        """The key of an address, or 404."""
        found: ApiKey | None = self.get_object(request, unquote(str(object_id)))
        if found is None:
            raise Http404(gettext("There is no such API key."))
        return found

    def locate(self, row: ApiKey, page: str = "change") -> str:
        """The address of a page of a key."""
        return reverse(f"admin:holdpoint_apikey_{page}", args=[row.pk], current_app=self.admin_site.name)


def make_once() -> str:
    """What tells one form from another."""
    return secrets.token_urlsafe(12)


def show_state(row: ApiKey) -> str:
    """Whether it opens anything, and until when."""
    now = timezone.now()
    if row.revoked_at is not None:
        return show_badge(_("revoked"), "quiet")
    if row.expires_at is None:
        return show_badge(_("usable"), "good")
    if row.expires_at <= now:
        return show_badge(pgettext("an API key", "expired"), "quiet")
    badge, end = show_badge(_("usable"), "good"), show_relative(row.expires_at, now)
    return format_html('{} <span class="hp-quiet">{} {}</span>', badge, _("ends"), end)


def show_used(row: ApiKey) -> str:
    """When it was last used."""
    if row.last_used_at is None:
        return format_html('<span class="hp-quiet">{}</span>', _("never"))
    return show_relative(row.last_used_at, timezone.now())
