"""A viewset of somebody else whose changes need an approval, for tests.

Lives here: the viewset, its permission, and trouble that a test puts into its way. What must not: assertions.
"""

from __future__ import annotations

from typing import Any

from rest_framework import permissions, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from approvals.required.api import ApprovalRequiredMixin


class Trouble:
    """What a test puts into a view's way."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.error: Exception | None = None


trouble = Trouble()


class MayTouch(permissions.BasePermission):
    """Logged in; and nobody touches what is frozen."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.user.is_authenticated and request.user.is_active)

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.note != "frozen")


def make_viewset(shop: Any) -> type[Any]:
    class OrderSerializer(serializers.ModelSerializer):
        by = serializers.SerializerMethodField()

        class Meta:
            model = shop.Order
            fields = ("id", "code", "amount", "note", "customer", "api_token", "by")
            extra_kwargs = {"api_token": {"required": False}}

        def get_by(self, obj: Any) -> str:
            return str(self.context["request"].user)

    class Close(serializers.Serializer):
        why = serializers.CharField(max_length=20)

    class Orders(ApprovalRequiredMixin, viewsets.ModelViewSet):
        queryset = shop.Order.objects.all()
        serializer_class = OrderSerializer
        permission_classes = (MayTouch,)
        approval_groups = ["finance"]

        def perform_update(self, serializer: Any) -> None:
            trouble.calls.append((self.request.method, dict(self.request.data)))
            serializer.save()
            if trouble.error is not None:
                raise trouble.error

        @action(detail=True, methods=["post"])
        def archive(self, request: Any, pk: Any = None) -> Response:
            obj = self.get_object()
            obj.note = f"archived {request.query_params.get('how')} by {request.user}"
            obj.save()
            return Response({"note": obj.note})

        @action(detail=True, methods=["post"], serializer_class=Close)
        def close(self, request: Any, pk: Any = None) -> Response:
            serializer = self.get_serializer(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response({"closed": serializer.validated_data["why"]})

    return Orders
