"""Requests of a web application over Django with ATOMIC_REQUESTS: each one is a transaction (suites/applications.sh)."""

import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

import requests_of

address = urlsplit(sys.argv[1])
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="secret",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": address.hostname,
            "PORT": address.port,
            "USER": address.username,
            "NAME": address.path[1:],
            "ATOMIC_REQUESTS": True,
            "CONN_MAX_AGE": None,
        }
    },
)
django.setup()

from django.db import models  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402


class Customer(models.Model):
    id = models.IntegerField(primary_key=True)
    name = models.TextField()
    visits = models.IntegerField()

    class Meta:
        app_label, db_table = "shop", "customer"


class Order(models.Model):
    id = models.IntegerField(primary_key=True)
    customer = models.ForeignKey(Customer, models.CASCADE, related_name="orders")
    amount = models.IntegerField()

    class Meta:
        app_label, db_table, ordering = "shop", "purchase", ["id"]


def view(request, number):
    customer = Customer.objects.get(pk=requests_of.one(number))
    eager = Customer.objects.filter(pk__in=requests_of.two(number)).order_by("pk").prefetch_related("orders")
    eager = [one.orders.all() for one in eager]
    total = customer.orders.aggregate(total=models.Sum("amount"))["total"]
    answer = requests_of.answer(customer, customer.orders.all(), eager, total)
    if number % 10 == 0:
        customer.visits += 1
        customer.save()
        Order.objects.create(id=10_000 + number, customer=customer, amount=number)
    return HttpResponse(answer)


urlpatterns = [path("<int:number>", view)]
client = Client()
requests_of.run(lambda number: client.get(f"/{number}").content.decode())
