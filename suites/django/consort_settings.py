"""Settings of Django's tests for suites/django.sh: two aliases at the server that the environment names."""

import os


def alias(name):
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": "postgres",
        "HOST": os.environ["DJANGO_HOST"],
        "PORT": os.environ["DJANGO_PORT"],
    }


DATABASES = {"default": alias("django"), "other": alias("django_other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "consort_runner.Runner"
