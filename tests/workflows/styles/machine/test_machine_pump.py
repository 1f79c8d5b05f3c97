"""Machines under real pumps, each with a connection of its own: what `drain()` on one connection cannot show."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from workflows import Machine, action, flow, launch, store, wait_for
from workflows.models import Instance, Interaction
from workflows.testing import assert_done

pytestmark = pytest.mark.django_db(transaction=True)


class Packed(Machine):
    name = "machines.pumped.pack"
    a = action(lambda ctx: ctx.input)


class Pumped(Machine):
    name = "machines.pumped"
    charge = action(lambda ctx: {"written": Group.objects.create(name=ctx.steps.payment._resume_url).pk}, atomic=True)
    payment = wait_for(callback=True, timeout="1h", on_timeout="late", schema={"paid": bool})
    pack = launch(Packed, lambda ctx: {"paid": ctx.steps.payment.paid})
    done = action(lambda ctx: {"launched": ctx.steps.pack.id})
    late = flow(action(lambda ctx: "late"))


def ended(instance: Instance) -> bool:
    return not Instance.objects.live().filter(pk=instance.pk).exists()


def test_many_machines_run_at_once_each_with_its_own_address_and_one_launch() -> None:
    started = workflows.start_many(Pumped, [{} for _ in range(20)])
    with pumping(2):
        asking = Interaction.objects.filter(status="pending", instance__status="awaiting")
        wait_until(asking.count, "all to ask", is_it=lambda count: count == 20)
        for asked in Interaction.objects.all():
            workflows.complete(asked, {"paid": True})
        wait_until(lambda: not Instance.objects.live().exists(), "all to end")
    assert len({group.name for group in Group.objects.all()}) == 20
    launched = {assert_done(one).result["launched"] for one in started}
    assert launched == {str(one.pk) for one in Instance.objects.filter(workflow="machines.pumped.pack")}
    assert len(launched) == 20


def test_a_partner_answers_by_the_address_that_an_action_handed_out(client: Client) -> None:
    instance = workflows.start(Pumped)
    with pumping():
        wait_until(Group.objects.exists, "the address")
        address = Group.objects.get().name
        path = "/" + address.split("/", 3)[3]
        refused = client.post(path, {"data": {"paid": "perhaps"}}, content_type="application/json")
        assert refused.status_code == 422
        taken = client.post(path, {"data": {"paid": True}}, content_type="application/json")
        assert taken.status_code == 200
        wait_until(lambda: ended(instance), "its end")
    assert_done(instance)


def test_a_launch_whose_commit_fails_leaves_no_instance_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class PumpedOnce(Machine):
        name = "machines.pumped.once"
        pack = launch(Packed)
        done = action(lambda ctx: ctx.steps.pack.id)

    real, tries = store.commit_locked, []

    def fail_once(*args: Any, **options: Any) -> Any:
        tries.append(Instance.objects.using("default").filter(workflow=Packed.name).count())
        if len(tries) == 1:
            raise RuntimeError("the connection is lost")
        return real(*args, **options)

    monkeypatch.setattr(store, "commit_locked", fail_once)
    instance = workflows.start(PumpedOnce)
    with pumping():
        wait_until(lambda: ended(instance), "its end")
    assert tries[0] == 1
    assert assert_done(instance).result == str(Instance.objects.get(workflow=Packed.name).pk)
