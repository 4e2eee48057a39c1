"""A Django project with tasks, as the tests of packages/django-weir-tasks and its worker processes use it."""

import django

SECRET_KEY = "of the tests"
USE_TZ = True
BACKPORT = [] if django.VERSION >= (6, 0) else ["django_tasks"]
INSTALLED_APPS = [*BACKPORT, "django_weir_tasks"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}

# The server is that of FAKTORY_URL.
BACKEND = "django_weir_tasks.WeirBackend"
TASKS = {
    "default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"]},
    "retrying": {"BACKEND": BACKEND, "QUEUES": ["retrying"], "OPTIONS": {"RETRY": 2}},
    "untracked": {"BACKEND": BACKEND, "QUEUES": ["untracked"], "OPTIONS": {"TRACK": False}},
    "full": {"BACKEND": BACKEND, "QUEUES": ["full"]},
    "nobody": {"BACKEND": BACKEND, "OPTIONS": {"URL": "tcp://127.0.0.1:1", "TIMEOUT": 1}},
}
