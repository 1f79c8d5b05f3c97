"""Votes and comments in the admin: what people decided and said. Read only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from approvals.admin.related_rows import OfReviewAdmin
from approvals.admin.reviews.review_filters import RuledFilter
from approvals.cards.refusal_message import label_outcome
from approvals.display.values import show_text as reveal
from approvals.forms.secret_fields import find_tree, hide_secrets
from approvals.models import Comment, Vote
from approvals.models.vote import COMMENTS
from approvals.rules import load_outcomes
from workflows.admin.markup import NOTHING, VALUE, dump_json, show_badge, show_moment, show_text
from workflows.wording.punctuation import join_list

#: How a vote came.
DOORS = ("page", "api", "link", "admin", "mcp", "python", "time")


class VoteStandingFilter(RuledFilter):
    """By whether it counts."""

    title = gettext_lazy("counts")
    parameter_name = "counts"
    words = {
        "yes": gettext_lazy("Counts"),
        "no": gettext_lazy("Taken back or fallen"),
        "reversal": gettext_lazy("Takes a vote back"),
    }
    rules = {
        "yes": Q(standing=True),
        "no": Q(standing=False, reverses__isnull=True),
        "reversal": Q(reverses__isnull=False),
    }


class DoorFilter(RuledFilter):
    """By how it came."""

    title = gettext_lazy("door")
    parameter_name = "door"
    words = {door: door for door in DOORS}
    rules = {door: Q(door=door) for door in DOORS}


class SpecialFilter(RuledFilter):
    """By what is out of the ordinary."""

    title = gettext_lazy("special")
    parameter_name = "special"
    words = {
        "override": gettext_lazy("Override"),
        "automated": gettext_lazy("By a program"),
        "absence": gettext_lazy("For somebody else"),
    }
    rules = {
        "override": Q(override=True),
        "automated": Q(automated=True),
        "absence": Q(on_behalf_of__isnull=False),
    }


class KindFilter(RuledFilter):
    """By kind."""

    title = gettext_lazy("kind")
    parameter_name = "kind"
    words = dict(COMMENTS)
    rules = {kind: Q(kind=kind) for kind in COMMENTS}


@admin.register(Vote)
class VoteAdmin(OfReviewAdmin):
    """Read only: a vote is never changed, a later row takes it back."""

    list_display = ("at_moment", "who", "answer", "state", "of_review", "came_by")
    list_display_links = ("at_moment",)
    list_filter = (VoteStandingFilter, DoorFilter, SpecialFilter)
    fields = readonly_fields = (
        *("of_review", "at_moment", "who", "whom", "answer", "state", "came_by", "why", "counted_in", "data_json"),
        *("before_json", "put_aside_by", "of_version"),
        *("verdict_json", "shown_digest", "takes_back", "shown_id"),
    )

    @admin.display(description=gettext_lazy("at"))
    def at_moment(self, vote: Vote) -> SafeString:
        return show_moment(vote.at)

    @admin.display(description=gettext_lazy("who"))
    def who(self, vote: Vote) -> SafeString:
        return self.show_user(vote)

    @admin.display(description=gettext_lazy("in place of"))
    def whom(self, vote: Any) -> SafeString:
        if vote.on_behalf_of_id is None:
            return NOTHING
        return show_text(reveal(vote.shown_names[f"user:{vote.on_behalf_of_id}"]), 40)

    @admin.display(description=gettext_lazy("answer"))
    def answer(self, vote: Vote) -> SafeString:
        return show_text(reveal(label_outcome(vote.outcome, load_outcomes(vote.review.outcomes))), 60)

    @admin.display(description=gettext_lazy("counts"))
    def state(self, vote: Vote) -> SafeString:
        """Whether it counts, and what is special about it."""
        if vote.reverses_id is not None:
            badge = show_badge(_("takes a vote back"), "quiet")
        elif vote.standing:
            badge = show_badge(_("counts"), "good")
        else:
            badge = show_badge(_("does not count any more"), "bad")
        marks = [word for word, given in ((_("override"), vote.override), (_("by a program"), vote.automated)) if given]
        return format_html('{} <span class="hp-quiet">{}</span>', badge, join_list(marks))

    @admin.display(description=gettext_lazy("review"))
    def of_review(self, vote: Vote) -> SafeString:
        return self.show_review(vote)

    @admin.display(description=gettext_lazy("door"))
    def came_by(self, vote: Vote) -> SafeString:
        return show_text(vote.door, 20)

    @admin.display(description=gettext_lazy("reason"))
    def why(self, vote: Vote) -> SafeString:
        return show_block_of(vote.reason)

    @admin.display(description=gettext_lazy("groups in which it counts"))
    def counted_in(self, vote: Vote) -> SafeString:
        return show_text(join_list(vote.groups or ()), 200)

    @admin.display(description=gettext_lazy("data"))
    def data_json(self, vote: Vote) -> SafeString:
        return _show_data(vote, vote.data)

    @admin.display(description=gettext_lazy("filled in before"))
    def before_json(self, vote: Vote) -> SafeString:
        return _show_data(vote, (vote.changed_from or {}).get("data"))

    @admin.display(description=gettext_lazy("out of force since"))
    def put_aside_by(self, vote: Vote) -> SafeString:
        return show_text("" if vote.superseded_by_id is None else str(vote.superseded_by_id))

    @admin.display(description=gettext_lazy("version of the request"))
    def of_version(self, vote: Vote) -> SafeString:
        return show_text("" if vote.version is None else str(vote.version))

    @admin.display(description=gettext_lazy("what it was counted against"))
    def verdict_json(self, vote: Vote) -> SafeString:
        return NOTHING if vote.verdict is None else show_block_of(dump_json(vote.verdict))

    @admin.display(description=gettext_lazy("digest of what was shown"))
    def shown_digest(self, vote: Vote) -> SafeString:
        return show_text(vote.digest, 80)

    @admin.display(description=gettext_lazy("takes back"))
    def takes_back(self, vote: Vote) -> SafeString:
        return show_text("" if vote.reverses_id is None else str(vote.reverses_id))

    @admin.display(description=gettext_lazy("id"))
    def shown_id(self, vote: Vote) -> SafeString:
        return format_html("<code>{}</code>", vote.pk)


@admin.register(Comment)
class CommentAdmin(OfReviewAdmin):
    """Read only."""

    list_display = ("at_moment", "who", "shown_kind", "beginning", "of_review")
    list_display_links = ("at_moment",)
    list_filter = (KindFilter,)
    fields = readonly_fields = ("of_review", "at_moment", "who", "shown_kind", "whole", "answers_what", "shown_id")

    @admin.display(description=gettext_lazy("at"))
    def at_moment(self, comment: Comment) -> SafeString:
        return show_moment(comment.at)

    @admin.display(description=gettext_lazy("who"))
    def who(self, comment: Comment) -> SafeString:
        return self.show_user(comment)

    @admin.display(description=gettext_lazy("kind"))
    def shown_kind(self, comment: Comment) -> SafeString:
        return format_html("{}", COMMENTS[comment.kind])

    @admin.display(description=gettext_lazy("text"))
    def beginning(self, comment: Comment) -> SafeString:
        return show_text(reveal(comment.text), 120)

    @admin.display(description=gettext_lazy("text"))
    def whole(self, comment: Comment) -> SafeString:
        return show_block_of(comment.text)

    @admin.display(description=gettext_lazy("review"))
    def of_review(self, comment: Comment) -> SafeString:
        return self.show_review(comment)

    @admin.display(description=gettext_lazy("answers"))
    def answers_what(self, comment: Comment) -> SafeString:
        return show_text("" if comment.answers_id is None else str(comment.answers_id))

    @admin.display(description=gettext_lazy("id"))
    def shown_id(self, comment: Comment) -> SafeString:
        return format_html("<code>{}</code>", comment.pk)


def show_block_of(text: str) -> SafeString:
    """Lines of somebody's, with what has no shape made visible."""
    if not text:
        return NOTHING
    return format_html('<pre class="hp-value" tabindex="0">{}</pre>', reveal(text, VALUE, lines=True))


def _show_data(vote: Vote, data: Any) -> SafeString:
    """What was filled in, without its secrets."""
    if data is None:
        return NOTHING
    return show_block_of(dump_json(hide_secrets(find_tree(vote.review.interaction.schema), data)))
