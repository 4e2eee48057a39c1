"""The app, for INSTALLED_APPS: it has the command weir_worker."""

from django.apps import AppConfig


class DjangoWeirTasksConfig(AppConfig):
    name = "django_weir_tasks"
    verbose_name = "Weir tasks"
